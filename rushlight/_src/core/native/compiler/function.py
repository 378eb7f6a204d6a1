"""Compile one function: its blocks, local variables, references and failures; `expressions` and `statements` fill it
with code.

References. A local variable owns its value, unless every value it ever gets outlives the call anyway. Parameters are
borrowed from the caller. A temporary that is owned is in `live` until it is released or moved into a variable, field,
container or result; code that can fail jumps to a block that releases everything in `live` at that point.
"""

import ast

from . import exceptions, intrinsics, loops, operators  # noqa: F401 - they register their handlers
from .conversions import Conversions
from .expressions import condition, evaluate
from .ir import Code
from .references import References
from .statements import execute
from .types import ARGS, BOOL, F64, I64, NONE, OBJECT, PERMANENT, SCALARS, STORED, Value, argument_types, result_type
from .variables import Variables


MOST_RUNS = 10  # of the first kind; each teaches something in all but contrived functions


class FunctionCompiler(References, Variables, Conversions):
    """One function being compiled.

    Compilation runs until nothing new is learned about the locals: their types, and which of them only ever hold
    permanent references.
    """

    def __init__(self, program, module, declaration, learned, assigned):
        self.program, self.module, self.declaration = program, module, declaration
        self.assigned = assigned  # names that the body gives values
        self.learned = learned  # name -> Type, from the previous run
        self.seen = {}  # name -> set of (Type, permanent), in this run
        self.annotated = {}  # name -> Type
        # doubtful: something was left out, in the hope that the next run knows better
        self.final = self.doubtful = False
        self.locals, self.values = {}, {}
        self.known = set()  # locals that certainly have a value here
        self.live = []
        self.failures = {}
        self.loops, self.finalizers, self.caught = [], [], []
        arguments = [
            f"{kind} %{parameter.name}{'.length' * (position == 1)}"
            for parameter in declaration.parameters for position, kind in enumerate(argument_types(parameter.type))
        ]
        self.result = declaration.result
        attributes = "nounwind alwaysinline" if declaration.inline else "nounwind"
        self.code = Code(declaration.symbol, result_type(self.result), arguments, attributes)
        self.out = self.code.slot(STORED.get(self.result.ir, self.result.ir), "result")
        self.failed = self.code.slot("i1", "failed")
        self.code.entry.append(f"store i1 false, ptr {self.failed}")
        if self.result.is_reference:
            self.code.entry.append(f"store ptr null, ptr {self.out}")
        self.exit, self.handler = self.code.label("exit"), self.code.label("raise")
        self.root = self.handler

    def compile(self, body):
        """The LLVM text of the function, for a list of statements."""
        self._bind_parameters()
        execute(self, body)
        if self.code.open:
            self.leave(self.none())
        self._finish()
        return str(self.code)

    def compile_entry(self, emit):
        """The LLVM text of an exported function whose code `emit` appends and whose result it gives."""
        self.final, self.node, self.code.linkage = True, self.declaration.node, ""
        self._bind_parameters()
        self.leave(emit(self))
        self._finish()
        return str(self.code)

    def _bind_parameters(self):
        for parameter in self.declaration.parameters:
            value = Value(parameter.type, f"%{parameter.name}", PERMANENT)
            if parameter.type is ARGS:
                value.length = f"%{parameter.name}.length"
            value.present = parameter.name == "self" and self.declaration.owner is not None
            if parameter.name in self.assigned and parameter.type is ARGS:
                raise self.unsupported(self.declaration.node, f"assigning to the Args parameter {parameter.name!r}")
            if parameter.name in self.assigned:
                self.variable(parameter.name, parameter.type, owned=parameter.type.is_reference)
                self.assign(parameter.name, value)
            else:
                self.values[parameter.name] = value
            self.known.add(parameter.name)

    def _finish(self):
        code = self.code
        for (live, handler), label in list(self.failures.items()):
            code.start(label)
            for reference in live:
                code.call("void", "@decref_rarely", f"ptr {reference}")
            code.jump(handler)
        code.start(self.root)
        if self.result.is_reference:
            self._drop_slot(self.out)
        code.store("i1", "true", self.failed, None)
        code.jump(self.exit)
        code.start(self.exit)
        for local in self.locals.values():
            if local.owned:
                code.call("void", "@xdecref", f"ptr {code.load('ptr', local.slot, None)}")
        self._return()

    def _return(self):
        code, kind = self.code, result_type(self.result)
        failed = code.load("i1", self.failed, None)
        if self.result is NONE:
            value = code.select(failed, "i8", "2", "0")
        elif self.result is BOOL:
            value = code.select(failed, "i8", "2", code.load("i8", self.out, None))
        elif self.result in SCALARS:
            pair = code.op(f"insertvalue {kind} undef, {self.result.ir} {code.load(self.result.ir, self.out, None)}, 0")
            value = code.op(f"insertvalue {kind} {pair}, i1 {failed}, 1")
        else:
            value = code.load("ptr", self.out, None)
        code.finish(f"ret {kind} {value}")

    def leave(self, value):
        """Return a value, running enclosing `finally` blocks first."""
        if self.result is NONE:
            if value.type is not NONE and value.ir != "null":
                self.discard(value)
        else:
            value = self.convert(value, self.result, "the result")
            if self.result.is_reference:
                self.code.store("ptr", self.take(value), self.out, None)
            elif self.result is BOOL:
                self.code.store("i8", self.code.op(f"zext i1 {value.ir} to i8"), self.out, None)
            else:
                self.code.store(self.result.ir, value.ir, self.out, None)
        self.run_finalizers(0)
        self.code.jump(self.exit)

    def run_finalizers(self, depth):
        """Emit the bodies of the `finally` blocks entered since `depth`, innermost first."""
        saved, handler = self.finalizers, self.handler
        while len(self.finalizers) > depth:
            *rest, (body, outer) = self.finalizers
            self.finalizers, self.handler = rest, outer
            execute(self, body)
        self.finalizers, self.handler = saved, handler

    def unsupported(self, node, what):
        return self.program.unsupported(self.module, node, what)

    def value(self, node):
        """Evaluate an expression."""
        return evaluate(self, node)

    def condition(self, node):
        """Evaluate an expression to an i1."""
        return condition(self, node)


def compile_function(program, module, declaration):
    """The LLVM text of a declared function."""
    body, learned = declaration.node.body, {}
    names = (node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name))
    assigned = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    for _ in range(MOST_RUNS):
        attempt = FunctionCompiler(program, module, declaration, learned, assigned)
        text = attempt.compile(body)
        found = _learn(attempt)
        if found == learned:
            if not attempt.doubtful:
                return text
            break
        learned = found
    last = FunctionCompiler(program, module, declaration, learned, assigned)
    last.final = True
    return last.compile(body)


def _learn(attempt):
    """The facts that a run showed about each local: its type, and whether it only ever holds permanent references."""
    learned = {}
    for name, seen in attempt.seen.items():
        kinds = {type for type, _ in seen} - {NONE}
        if name in attempt.annotated:
            kind = attempt.annotated[name]
        elif not kinds:
            kind = OBJECT
        elif len(kinds) == 1:
            kind = kinds.pop()
        elif kinds <= {I64, F64}:
            kind = F64
        else:
            kind = OBJECT
        learned[name] = (kind, all(permanent for _, permanent in seen))
    return learned

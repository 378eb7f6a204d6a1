"""Compiling one function: its blocks, local variables, references and failures; `expressions` and `statements` fill it with code.

References. A local variable owns what it holds, unless every value it ever gets outlives the call anyway. Parameters are borrowed from the
caller. A temporary that is owned sits in `live` until it is released or moved into a variable, field, container or result; code that
can fail jumps to a block that releases whatever is live at that point.
"""

import ast
from dataclasses import dataclass

from .expressions import condition, evaluate
from .ir import INVARIANT, UNLIKELY, VALUES, Code
from .statements import execute
from .types import (
    ARGS, BOOL, F64, FRAGILE, I64, NONE, OBJECT, OWNED, PERMANENT, SCALARS, SIZED, STABLE, Type, Value,
)

RESULTS = {I64: "{i64, i1}", F64: "{double, i1}", BOOL: "i8", NONE: "i8"}
STORED = {"i1": "i8"}


def result_type(type):
    """The LLVM type in which a compiled function returns: a reference (null: failed), a number with a failure flag, or 0, 1, 2 (failed)."""
    return RESULTS.get(type, "ptr")


def argument_types(type):
    """The LLVM types in which a value is passed."""
    return ["ptr", "i64"] if type is ARGS else [type.ir]


@dataclass
class Local:
    """A local variable: its type and stack slot; `owned` when it holds a reference of its own."""

    type: Type
    slot: str
    owned: bool


class Function:
    """One function being compiled.

    Compilation runs until nothing new is learned about the locals: their types, and which of them only ever hold permanent references.
    """

    def __init__(self, program, module, declaration, learned):
        self.program, self.module, self.declaration = program, module, declaration
        self.learned = learned  # name -> Type, from the previous run
        self.seen = {}  # name -> set of (Type, permanent), in this run
        self.annotated = {}  # name -> Type
        self.final = False
        self.locals, self.values = {}, {}
        self.known = set()  # locals that certainly have a value here
        self.live = []
        self.failures = {}
        self.loops, self.finalizers, self.caught = [], [], []
        arguments = [f"{kind} %{p.name}{'.length' * (k == 1)}" for p in declaration.parameters for k, kind in enumerate(argument_types(p.type))]
        self.result = declaration.result
        attributes = "nounwind alwaysinline" if declaration.inline else "nounwind"
        self.code = Code(declaration.symbol, result_type(self.result), arguments, attributes)
        self.out = self.code.slot(STORED.get(self.result.ir, self.result.ir), "result")
        self.failed = self.code.slot("i1", "failed")
        self.code.slots.append(f"store i1 false, ptr {self.failed}")
        if self.result.is_reference:
            self.code.slots.append(f"store ptr null, ptr {self.out}")
        self.exit, self.handler = self.code.label("exit"), self.code.label("raise")
        self.root = self.handler

    def compile(self, body):
        """The LLVM text of the function, for a list of statements."""
        self._bind_parameters(body)
        execute(self, body)
        if self.code.open:
            self.leave(self.none())
        self._finish()
        return str(self.code)

    def compile_entry(self, emit):
        """The LLVM text of an exported function whose code `emit` appends and whose result it gives."""
        self.final, self.node, self.code.linkage = True, self.declaration.node, ""
        self._bind_parameters([])
        self.leave(emit(self))
        self._finish()
        return str(self.code)

    def _bind_parameters(self, body):
        self.assigned = {node.id for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        for parameter in self.declaration.parameters:
            value = Value(parameter.type, f"%{parameter.name}", PERMANENT)
            if parameter.type is ARGS:
                value.length = f"%{parameter.name}.length"
            value.present = parameter.name == "self" and self.declaration.owner is not None
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

    # -- messages

    def unsupported(self, node, what):
        return self.program.unsupported(self.module, node, what)

    # -- constants

    def object(self, *description, type=OBJECT):
        """A Python object from the table of constants."""
        value = self.code.op(f"load ptr, ptr {self.program.constants.address(*description)}, {INVARIANT}", "constant")
        return Value(type, value, PERMANENT, present=description != ("builtin", "None"))

    def builtin(self, name):
        return self.object("builtin", name)

    def literal(self, value):
        return self.object("literal", repr(value))

    def none(self):
        return Value(NONE, "null", PERMANENT, raw=True)

    # -- failures

    def failure(self):
        """The label of a block that releases what is live and goes to the current handler."""
        key = (tuple(value.ir for value in self.live), self.handler)
        if key not in self.failures:
            self.failures[key] = self.code.label("fail")
        return self.failures[key]

    def fail_if(self, condition):
        """Fail, with an exception already set, when an i1 is true."""
        good = self.code.label("good")
        self.code.branch(condition, self.failure(), good, UNLIKELY)
        self.code.start(good)

    def raise_if(self, condition, helper, *arguments):
        """Set an exception with a runtime helper and fail, when an i1 is true."""
        bad, good = self.code.label("bad"), self.code.label("good")
        self.code.branch(condition, bad, good, UNLIKELY)
        self.code.start(bad)
        self.code.call("void", f"@{helper}", *arguments)
        self.code.jump(self.failure())
        self.code.start(good)

    def new_reference(self, type, ir):
        """An owned value from a call that returns null on failure."""
        self.fail_if(self.code.op(f"icmp eq ptr {ir}, null"))
        return self.own(Value(type, ir, OWNED))

    def check_status(self, ir):
        """Fail when a C function returned a negative int."""
        self.fail_if(self.code.op(f"icmp slt i32 {ir}, 0"))

    def flagged(self, type, ir):
        """The value of a number returned with a failure flag."""
        pair = result_type(type)
        self.fail_if(self.code.op(f"extractvalue {pair} {ir}, 1"))
        return Value(type, self.code.op(f"extractvalue {pair} {ir}, 0"))

    def truth_value(self, ir):
        """The bool in an i8 that is 2 on failure."""
        self.fail_if(self.code.op(f"icmp eq i8 {ir}, 2"))
        return Value(BOOL, self.code.op(f"icmp ne i8 {ir}, 0"))

    # -- references

    def own(self, value):
        """Register a new reference as live."""
        value.hold = OWNED
        self.live.append(value)
        return value

    def release(self, *values):
        """Give up values that are no longer needed."""
        for value in values:
            if value.hold == OWNED:
                self.live.remove(value)
                self.code.call("void", "@decref", f"ptr {value.ir}")

    def take(self, value):
        """A reference to hand over to a new owner."""
        value = self.solid(value)
        if value.hold == OWNED:
            self.live.remove(value)
        else:
            self.code.call("void", "@incref", f"ptr {value.ir}")
        return value.ir

    def keep(self, value):
        """The same value, valid even if other code runs."""
        if value.type.is_reference and value.hold == FRAGILE:
            value = self.solid(value)
            self.code.call("void", "@incref", f"ptr {value.ir}")
            return self.own(value)
        return value

    def solid(self, value):
        """The same value as an object pointer, None included."""
        if not value.raw:
            return value
        none = self.builtin("None").ir
        if value.ir == "null":
            return Value(value.type, none, PERMANENT)
        empty = self.code.op(f"icmp eq ptr {value.ir}, null")
        return Value(value.type, self.code.select(empty, "ptr", none, value.ir), value.hold)

    def is_none(self, value):
        """An i1: whether a reference is None."""
        if value.present:
            return "false"
        if value.raw and value.type is not OBJECT:
            return self.code.op(f"icmp eq ptr {value.ir}, null")
        return self.code.op(f"icmp eq ptr {self.solid(value).ir}, {self.builtin('None').ir}")

    # -- local variables

    def variable(self, name, type, owned):
        """Make room for a local variable."""
        slot = self.code.slot(STORED.get(type.ir, type.ir), name)
        if type.is_reference:
            self.code.slots.append(f"store ptr null, ptr {slot}")
        self.locals[name] = Local(type, slot, owned)
        return self.locals[name]

    def hidden(self, value):
        """Put a value into a local variable that the source does not see, so that it lives through several statements."""
        name = f".{len(self.locals)}"
        self.variable(name, value.type, owned=value.type.is_reference)
        self.assign(name, value)
        return name

    def assign(self, name, value):
        """Store a value in a local variable, taking its reference."""
        if name in self.values:
            raise AssertionError(f"{name} was not seen to be assigned")
        self.seen.setdefault(name, set()).add((value.type, value.type.is_reference and value.hold == PERMANENT))
        local = self.locals.get(name) or self._declare(name, value)
        if not self._fits(value, local.type):
            self.discard(value)
            return
        value = self.convert(value, local.type, name)
        self.known.add(name)
        if local.owned:
            new = self.take(value)
            old = self.code.load("ptr", local.slot, None)
            self.code.store("ptr", new, local.slot, None)
            self.code.call("void", "@xdecref", f"ptr {old}")
        elif local.type is BOOL:
            self.code.store("i8", self.code.op(f"zext i1 {value.ir} to i8"), local.slot, None)
        else:
            self.code.store(local.type.ir, self.solid(value).ir, local.slot, None)

    def _declare(self, name, value):
        type = self.learned.get(name, (None, None))[0] or (OBJECT if value.type is NONE else value.type)
        permanent = self.learned.get(name, (None, False))[1]
        return self.variable(name, type, owned=type.is_reference and not permanent)

    def _fits(self, value, type):
        """False while a first run still has too narrow an idea of a local; the next run knows better."""
        if self.final or value.type in (type, NONE) or type is OBJECT or value.type is OBJECT:
            return True
        return False

    def discard(self, value):
        if value.type.is_reference:
            self.release(value)

    def read(self, node):
        """The value of a local variable or parameter."""
        name = node.id
        if name not in self.known and self.final:
            raise self.unsupported(node, f"reading {name!r} where it may have no value")
        if name in self.values:
            return Value(**vars(self.values[name]))
        local = self.locals[name]
        if local.type is BOOL:
            return Value(BOOL, self.code.op(f"icmp ne i8 {self.code.load('i8', local.slot, None)}, 0"))
        ir = self.code.load(local.type.ir, local.slot, None)
        return Value(local.type, ir, STABLE if local.owned else PERMANENT)

    def drop(self, name):
        """Release a hidden variable before the function ends."""
        self._drop_slot(self.locals[name].slot)

    def _drop_slot(self, slot):
        old = self.code.load("ptr", slot, None)
        self.code.store("ptr", "null", slot, None)
        self.code.call("void", "@xdecref", f"ptr {old}")

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

    # -- conversions

    def convert(self, value, type, what):
        """A value as another type, with a check at run time where the types don't already tell; `what` names it in errors."""
        if value.type is type:
            return value
        if value.type is NONE and type.is_reference:
            return Value(type, value.ir, PERMANENT, raw=True)
        if type in SCALARS:
            return self._to_scalar(value, type, what)
        if value.type in SCALARS:
            if type is not OBJECT:
                raise self.unsupported(self.node, f"storing {value.type} in {what}, which is {type},")
            return self.box(value)
        if value.type is ARGS or type is ARGS:
            return self._to_arguments(value, type, what)
        if type is OBJECT or type is NONE:
            return Value(type, value.ir, value.hold, value.raw, value.present) if value.hold != OWNED else self._retype(value, type)
        if value.type is not OBJECT:
            raise self.unsupported(self.node, f"storing {value.type} in {what}, which is {type},")
        return self._checked(value, type, what)

    def _retype(self, value, type):
        """The same owned value under another type."""
        other = Value(type, value.ir, OWNED, value.raw, value.present)
        self.live[self.live.index(value)] = other
        return other

    def _to_scalar(self, value, type, what):
        if value.type is I64 and type is F64:
            return Value(F64, self.code.op(f"sitofp i64 {value.ir} to double"))
        if value.type is BOOL and type is I64:
            return Value(I64, self.code.op(f"zext i1 {value.ir} to i64"))
        if value.type is BOOL and type is F64:
            return Value(F64, self.code.op(f"uitofp i1 {value.ir} to double"))
        if value.type in SCALARS or value.type is NONE:
            raise self.unsupported(self.node, f"storing {value.type} in {what}, which is {type},")
        return self.unbox(value, type)

    def unbox(self, value, type):
        """A machine number or truth from a Python object."""
        if type is BOOL:
            return self.truth(value)
        value = self.keep(value)  # conversion may call __index__ or __float__
        found = self.code.call(result_type(type), f"@unbox_{type}", f"ptr {self.solid(value).ir}")
        number = self.flagged(type, found)
        self.release(value)
        return number

    def box(self, value):
        """A Python object from a machine number or truth."""
        if value.type is BOOL:
            yes, no = self.builtin("True").ir, self.builtin("False").ir
            return Value(OBJECT, self.code.select(value.ir, "ptr", yes, no), PERMANENT, present=True)
        if value.constant is not None:
            return self.literal(value.constant)
        maker = "PyLong_FromLongLong" if value.type is I64 else "PyFloat_FromDouble"
        return self.new_reference(OBJECT, self.code.call("ptr", f"@{maker}", f"{value.type.ir} {value.ir}"))

    def boxed(self, value):
        """Any value as a Python object."""
        return self.convert(value, OBJECT, "an object")

    def _to_arguments(self, value, type, what):
        if type is ARGS:
            if value.type is OBJECT:
                value = self._checked(value, self.program.static_type(tuple), what)
            value = self.solid(self.keep(value))
            self.require(value, "__len__")
            size = self.code.load("i64", self.code.offset(value.ir, 16))
            return Value(ARGS, self.code.offset(value.ir, 24), STABLE, length=size)
        made = self.new_reference(self.program.static_type(tuple), self.code.call("ptr", "@PyTuple_New", f"i64 {value.length}"))
        index = self.code.slot("i64", "index")
        self.code.store("i64", "0", index, None)
        head, body, done = (self.code.label(hint) for hint in ("head", "copy", "done"))
        self.code.start(head)
        at = self.code.load("i64", index, None)
        self.code.branch(self.code.op(f"icmp slt i64 {at}, {value.length}"), body, done)
        self.code.start(body)
        item = self.code.load("ptr", self.code.item(value.ir, at))
        self.code.call("void", "@incref", f"ptr {item}")
        self.code.store("ptr", item, self.code.item(self.code.offset(made.ir, 24), at))
        self.code.store("i64", self.code.op(f"add i64 {at}, 1"), index, None)
        self.code.jump(head)
        self.code.start(done)
        return made if type is not OBJECT else self._retype(made, OBJECT)

    def _checked(self, value, type, what):
        """An object as an instance of a class, or None; TypeError otherwise."""
        value = self.solid(value)
        none = self.is_none(value)
        look, good = self.code.label("look"), self.code.label("good")
        self.code.branch(none, good, look)
        self.code.start(look)
        right = self.instance_test(value, type)
        self.raise_if(
            self.code.op(f"xor i1 {right}, true"), "raise_wrong_type",
            f"ptr {self.literal(what).ir}", f"ptr {self.literal(type.name).ir}", f"ptr {value.ir}",
        )
        self.code.start(good)
        return self._retype(value, type) if value.hold == OWNED else Value(type, value.ir, value.hold)

    def instance_test(self, value, type):
        """An i1: whether an object that is not None is an instance of a class."""
        if type.cls is None:
            return self.code.call("i1", "@has_flag", f"ptr {value.ir}", f"i64 {type.flag}")
        helper = "@has_type" if type.cls.traits.subclassable else "@is_exactly"
        return self.code.call("i1", helper, f"ptr {value.ir}", f"ptr {self.class_object(type.cls).ir}")

    def class_object(self, declared):
        return self.object("global", declared.module.__name__, declared.name)

    def require(self, value, attribute):
        """Raise AttributeError (TypeError for a special method) where a reference is None."""
        if value.present:
            return
        if attribute.startswith("__"):
            texts = (f"ptr {self.literal(text).ir}" for text in ("the operand", value.type.name))
            self.raise_if(self.is_none(value), "raise_wrong_type", *texts, f"ptr {self.builtin('None').ir}")
        else:
            self.raise_if(self.is_none(value), "raise_no_attribute", f"ptr {self.literal(attribute).ir}")

    def truth(self, value):
        """The truth of a value, releasing it."""
        if value.type is BOOL:
            return value
        if value.type is I64:
            return Value(BOOL, self.code.op(f"icmp ne i64 {value.ir}, 0"))
        if value.type is F64:
            return Value(BOOL, self.code.op(f"fcmp une double {value.ir}, 0.0"))
        if value.type is ARGS:
            return Value(BOOL, self.code.op(f"icmp ne i64 {value.length}, 0"))
        if value.type is NONE:
            return Value(BOOL, "false")
        if value.type.cls is not None and not {"__bool__", "__len__"} & set(value.type.cls.methods):
            answer = Value(BOOL, self.code.op(f"xor i1 {self.is_none(value)}, true"))
        else:
            value = self.keep(value)
            answer = self.truth_value(self.code.call("i8", "@truth", f"ptr {self.solid(value).ir}"))
        self.release(value)
        return answer

    def value(self, node):
        """Evaluate an expression."""
        return evaluate(self, node)

    def condition(self, node):
        """Evaluate an expression to an i1."""
        return condition(self, node)


def compile_function(program, module, declaration, body=None):
    """The LLVM text of a declared function."""
    learned = {}
    body = declaration.node.body if body is None else body
    while True:
        attempt = Function(program, module, declaration, learned)
        attempt.compile(body)
        found = _learn(attempt)
        if found == learned:
            break
        learned = found
    last = Function(program, module, declaration, learned)
    last.final = True
    return last.compile(body)


def _learn(attempt):
    """What a run showed about each local: its type, and whether it only ever holds permanent references."""
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

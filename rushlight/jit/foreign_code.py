"""The code in TorchScript files: a small language in Python's syntax, read as a tree and run by functions of this
module.  Nothing of a file becomes Python code: what is not in the language is refused."""
from __future__ import annotations

import ast
import collections
import re

from .._src.core.native import Tensor
from .foreign_operators import called, prepare, prim
from .foreign_numbers import CodeError, negated, shown, whole
from .foreign_values import device_of, dict_of, key_of

WORD = re.compile(r"\w+|[^\w\s]")
LONGEST = 1 << 20  # characters of one source
DEEPEST = 60  # parts within parts
NOTHING = object()  # what a block gives that does not return
NUMBERS = {"inf": float("inf"), "nan": float("nan"), "infj": complex(0, float("inf")), "True": True, "False": False}


def refuse(node, what):
    raise CodeError(f"the file's code has {what}, which is not TorchScript (line {getattr(node, 'lineno', '?')})")


def words(text: str) -> int:
    """How many words and signs a source has, by which its tree's memory is bounded: some 0.7 KB each.  CodeError for
    one that is too long."""
    if len(text) > LONGEST:
        raise CodeError(f"a source of {len(text)} characters is too long")
    return sum(1 for _ in WORD.finditer(text))


def parsed(text: str) -> ast.Module:
    """The tree of a source, whose ``words`` were counted.  CodeError for what is no source, or nested too deeply."""
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    blanks = max((len(line) - len(line.lstrip(" ")) for line in text.splitlines()), default=0)
    if deepest > DEEPEST or blanks > 2 * DEEPEST:
        raise CodeError(f"the file's code is nested {max(deepest, blanks // 2)} deep, which is too much")
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CodeError(f"the file's code cannot be read: {error}") from None


class Function:
    """A function or method of a file: ``names`` of its parameters, ``defaults`` of the last ones, and its body."""

    def __init__(self, tree: ast.FunctionDef, unit):
        spec = tree.args
        if spec.vararg or spec.kwarg or spec.kwonlyargs or spec.posonlyargs or tree.decorator_list:
            refuse(tree, "parameters of another kind")
        self.name, self.names = tree.name, [a.arg for a in spec.args]
        self.types = [a.annotation for a in spec.args]
        maker = Maker(unit)
        self.defaults = [maker.expression(d) for d in spec.defaults]
        self.body = maker.block(tree.body)

    def __call__(self, *args, **kwargs):
        names = self.names
        if len(args) > len(names):
            raise RuntimeError(f"{self.name}() expected at most {len(names)} argument(s) but received {len(args)}")
        env = dict(zip(names, args))
        for name, value in kwargs.items():
            if name not in names or name in env:
                raise RuntimeError(f"{self.name}(): Unknown keyword argument '{name}'")
            env[name] = value
        for name, default in zip(names[len(names) - len(self.defaults):], self.defaults):
            if name not in env:
                env[name] = default({})
        for name in names:
            if name not in env:
                raise RuntimeError(f"{self.name}() is missing value for argument '{name}'")
        result = self.body(env)
        return None if result is NOTHING else result


def held(owner, name):
    """An attribute of an object of a file; methods are none."""
    if isinstance(owner, Scripted):
        return owner.script_attribute(name)
    if isinstance(owner, tuple):
        names = getattr(type(owner), "_fields", ())
        if name in names:
            return tuple(owner)[names.index(name)]
    raise CodeError(f"the file's code reads .{name} of a {type(owner).__name__}, which has no attributes there")


def method_of(owner, name) -> Function:
    """A method of the class of an object of a file: of all that values have, nothing else is called."""
    method = owner.kind.methods.get(name) if isinstance(owner, Scripted) else None
    if not isinstance(method, Function):
        raise CodeError(f"the file's code calls .{name}, which is no method of a {type(owner).__name__}")
    return method


class Scripted:
    """Base of objects of a file's code: they have a ``kind``, whose ``methods`` can be called."""


class ScriptObject(Scripted):
    """An object of a class of a file that is no module."""

    def __init__(self, kind):
        self.kind, self.values = kind, {}

    def script_attribute(self, name):
        if name in self.values:
            return self.values[name]
        raise CodeError(f"an object of the class {self.kind.name} has no attribute {name!r}")

    def set_script_attribute(self, name, value):
        self.values[name] = value

    def __repr__(self):
        return f"<{self.kind.name} of a TorchScript file>"


class Reference:
    """A function or class of the file that code has as a value: all that can be done with it is to call it."""

    def __init__(self, find):
        self.find = find


class Maker:
    """Makes functions of an environment ({name: value}) of the parts of a source."""

    def __init__(self, unit):
        self.unit = unit

    # --- statements ---------------------------------------------------------------------------------------------------
    def block(self, body):
        steps = tuple(step for step in map(self.statement, body) if step is not None)

        def run(env):
            for step in steps:
                found = step(env)
                if found is not NOTHING:
                    return found
            return NOTHING

        return run

    def statement(self, node):
        make = getattr(self, f"do_{type(node).__name__}", None)
        if make is None:
            refuse(node, f"a statement of the kind {type(node).__name__}")
        return make(node)

    def do_Pass(self, node):
        return None

    def do_Return(self, node):
        if node.value is None:
            return lambda env: None
        return self.expression(node.value)

    def do_Expr(self, node):
        value = self.expression(node.value)

        def run(env):
            value(env)
            return NOTHING

        return run

    def do_Assign(self, node):
        if len(node.targets) != 1:
            refuse(node, "several targets")
        value, assign = self.expression(node.value), self.target(node.targets[0])

        def run(env):
            assign(env, value(env))
            return NOTHING

        return run

    def do_AnnAssign(self, node):
        if node.value is None:
            return None
        value, assign = self.expression(node.value), self.target(node.target)

        def run(env):
            assign(env, value(env))
            return NOTHING

        return run

    def target(self, node):
        if isinstance(node, ast.Name):
            name = node.id

            def assign(env, value):
                env[name] = value
        elif isinstance(node, (ast.Tuple, ast.List)):
            parts = tuple(map(self.target, node.elts))

            def assign(env, value):
                if not isinstance(value, (tuple, list)) or len(value) != len(parts):
                    raise RuntimeError(f"the program takes apart {len(parts)} values, and gets another number of them")
                for part, one in zip(parts, value):
                    part(env, one)
        elif isinstance(node, ast.Attribute):
            owner, name = self.expression(node.value), node.attr

            def assign(env, value):
                found = owner(env)
                if not isinstance(found, Scripted):
                    raise CodeError(f"the file's code sets .{name} of a {type(found).__name__}")
                found.set_script_attribute(name, value)
        else:
            refuse(node, "a target of another kind")
        return assign

    def do_If(self, node):
        test, yes, no = self.expression(node.test), self.block(node.body), self.block(node.orelse)

        def run(env):
            return yes(env) if test(env) else no(env)

        return run

    def do_While(self, node):
        test, body = self.expression(node.test), self.block(node.body)
        if node.orelse:
            refuse(node, "an else of a loop")

        def run(env):
            while test(env):
                found = body(env)
                if found is not NOTHING:
                    return found
            return NOTHING

        return run

    def do_For(self, node):
        assign, items, body = self.target(node.target), self.items(node.iter), self.block(node.body)
        if node.orelse:
            refuse(node, "an else of a loop")

        def run(env):
            for item in items(env):
                assign(env, item)
                found = body(env)
                if found is not NOTHING:
                    return found
            return NOTHING

        return run

    def items(self, node):
        """Return the items that a loop iterates over."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            bounds = tuple(map(self.expression, node.args))
            return lambda env: range(*(bound(env) for bound in bounds))
        value = self.expression(node)

        def found(env):
            items = value(env)
            if not isinstance(items, (list, tuple, str, range)):
                raise CodeError(f"the file's code loops over a {type(items).__name__}")
            return items

        return found

    # --- expressions --------------------------------------------------------------------------------------------------
    def expression(self, node):
        make = getattr(self, f"of_{type(node).__name__}", None)
        if make is None:
            refuse(node, f"an expression of the kind {type(node).__name__}")
        return make(node)

    def of_Constant(self, node):
        value = node.value
        if not isinstance(value, (int, float, complex, str, type(None))):
            refuse(node, f"a constant of the type {type(value).__name__}")
        return lambda env: value

    def of_Name(self, node):
        name = node.id
        if name in NUMBERS:
            return lambda env: NUMBERS[name]

        def find(env):
            if name not in env:
                raise CodeError(f"the file's code reads {name!r}, which nothing has set")
            return env[name]

        return find

    def of_Attribute(self, node):
        name = node.attr
        if isinstance(node.value, ast.Name) and node.value.id == "CONSTANTS":
            constant = self.unit.constant(name)
            return lambda env: constant
        path = dotted(node)
        if path is not None and path[0] == "__torch__":
            reference = Reference(self.unit.named(".".join(path)))
            return lambda env: reference
        owner = self.expression(node.value)
        return lambda env: held(owner(env), name)

    def of_Tuple(self, node):
        parts = tuple(map(self.expression, node.elts))
        return lambda env: tuple([part(env) for part in parts])

    def of_List(self, node):
        parts = tuple(map(self.expression, node.elts))
        return lambda env: [part(env) for part in parts]

    def of_Dict(self, node):
        if None in node.keys:
            refuse(node, "a dict within a dict")
        pairs = tuple((self.expression(k), self.expression(v)) for k, v in zip(node.keys, node.values))
        return lambda env: {key_of(key(env)): value(env) for key, value in pairs}

    def of_IfExp(self, node):
        test, yes, no = map(self.expression, (node.test, node.body, node.orelse))
        return lambda env: yes(env) if test(env) else no(env)

    def of_BoolOp(self, node):
        parts, both = tuple(map(self.expression, node.values)), isinstance(node.op, ast.And)

        def run(env):
            found = both
            for part in parts:
                found = part(env)
                if bool(found) is not both:
                    return found
            return found

        return run

    def of_UnaryOp(self, node):
        value = self.expression(node.operand)
        if isinstance(node.op, ast.USub):
            return lambda env: negated(value(env))
        if isinstance(node.op, ast.Not):
            return lambda env: not value(env)
        refuse(node, "an operator of another kind")

    def of_Subscript(self, node):
        value, key = self.expression(node.value), self.expression(node.slice)

        def run(env):
            found = value(env)
            if not isinstance(found, (list, tuple, dict, str)):
                raise CodeError(f"the file's code takes a part of a {type(found).__name__}")
            return found[key_of(key(env))]

        return run

    def literal(self, node):
        """Evaluate a constant of a class: no calls, and no operators."""
        parts = [node]
        for part in parts:
            annotated = isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "annotate"
            if annotated and len(part.args) == 2:
                parts.append(part.args[1])
            elif isinstance(part, (ast.Tuple, ast.List)):
                parts += part.elts
            elif isinstance(part, ast.Dict):
                parts += [*part.keys, *part.values]
            elif isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub):
                parts.append(part.operand)
            elif not (isinstance(part, ast.Constant) or isinstance(part, ast.Name) and part.id in NUMBERS):
                refuse(node, "a constant that is no literal")
        return self.expression(node)

    # --- calls --------------------------------------------------------------------------------------------------------
    def of_Call(self, node):
        path = dotted(node.func)
        if path is not None and path[0] == "__torch__":
            return self.calling(self.unit.named(".".join(path)), node)
        if path is not None and path[0] in ("torch", "ops"):
            return self.operator(path, node)
        if isinstance(node.func, ast.Name):
            return self.builtin(node.func.id, node)
        if isinstance(node.func, ast.Attribute):
            owner, name = self.expression(node.func.value), node.func.attr
            args, kwargs = self.arguments(node)

            def run(env):
                found = owner(env)
                return method_of(found, name)(found, *[a(env) for a in args], **{k: v(env) for k, v in kwargs})

            return run
        refuse(node, "a call of another kind")

    def arguments(self, node):
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            refuse(node, "arguments that are taken apart")
        return tuple(map(self.expression, node.args)), tuple((k.arg, self.expression(k.value)) for k in node.keywords)

    def calling(self, found, node):
        args, kwargs = self.arguments(node)
        return lambda env: found()(*[a(env) for a in args], **{k: v(env) for k, v in kwargs})

    def operator(self, path, node):
        args, kwargs = self.arguments(node)
        if path[:2] == ("ops", "prim") and len(path) == 3:
            run, name = prim, path[2]
        elif path[0] == "torch" and len(path) == 2 or path[:2] == ("ops", "aten") and len(path) == 3:
            run, name = called, path[-1]
            prepare(name)
        elif path[0] == "ops" and len(path) == 3:
            found = library_operator(path[1], path[2])
            return self.calling(lambda: found, node)
        else:
            refuse(node, f"a call of {'.'.join(path)}")
        return lambda env: run(name, [a(env) for a in args], {k: v(env) for k, v in kwargs})

    def builtin(self, name, node):
        """Evaluate built-ins: ``annotate``, ``int`` and similar ones."""
        if name in ("annotate", "unchecked_cast") and len(node.args) == 2:
            return self.expression(node.args[1])
        if name == "uninitialized":
            return lambda env: None
        if name == "isinstance" and len(node.args) == 2:
            value, kind = self.expression(node.args[0]), type_test(node.args[1])
            return lambda env: kind(value(env))
        if name == "getattr" and len(node.args) == 2 and isinstance(node.args[1], ast.Constant):
            owner, attribute = self.expression(node.args[0]), node.args[1].value
            return lambda env: held(owner(env), attribute)
        convert = CONVERSIONS.get(name)
        args, kwargs = self.arguments(node)
        if convert is None:
            def run(env):
                found = env.get(name)
                if not isinstance(found, Reference):
                    raise CodeError(f"the file's code calls {name}, which is no function of it")
                return found.find()(*[a(env) for a in args], **{k: v(env) for k, v in kwargs})

            return run
        return lambda env: convert(*[a(env) for a in args])


def number(kind):
    def convert(value):
        return kind(value.item()) if isinstance(value, Tensor) else kind(value)
    return convert


CONVERSIONS = {"int": number(whole), "float": number(float), "bool": number(bool), "complex": number(complex),
               "str": shown, "device": device_of, "list": list, "dict": dict_of, "len": len, "sorted": sorted,
               "print": print,
               "ord": ord, "chr": chr, "hash": lambda value: hash(key_of(value))}
TYPES = {"Tensor": Tensor, "int": int, "float": float, "bool": bool, "str": str, "List": list, "Dict": dict,
         "Tuple": tuple, "NoneType": type(None), "complex": complex}


def type_test(node):
    """Return a predicate for values of a type of the language."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return any_of(map(type_test, node.elts))
    if isinstance(node, ast.Constant) and node.value is None:
        return lambda value: value is None
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        parts = list(map(type_test, node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]))
        if node.value.id in ("Optional", "Union"):
            return any_of([*parts, *[lambda value: value is None] * (node.value.id == "Optional")])
        if node.value.id == "Tuple":
            return lambda value: (isinstance(value, tuple) and len(value) == len(parts)
                                  and all(part(one) for part, one in zip(parts, value)))
        if node.value.id in ("List", "Dict") and len(parts) == (1 if node.value.id == "List" else 2):
            return lambda value: isinstance(value, TYPES[node.value.id]) and all_of(value, parts)
    if not isinstance(node, ast.Name) or node.id not in TYPES:
        refuse(node, "a type that is not known")
    kind, number = TYPES[node.id], node.id == "int"
    return lambda value: isinstance(value, kind) and not (number and isinstance(value, bool))


def any_of(tests):
    tests = tuple(tests)
    return lambda value: any(test(value) for test in tests)


def all_of(items, parts) -> bool:
    """Whether all parts of a list or dict are of a type.  CodeError for an empty one: nothing says its type."""
    if not items:
        raise CodeError("the file's code tests the element type of an empty list or dict")
    held = [(key, value) for key, value in items.items()] if isinstance(items, dict) else [(one,) for one in items]
    return all(part(one) for parts_of in held for part, one in zip(parts, parts_of))


def dotted(node):
    """("torch", "add") of ``torch.add``; None for what is no path of names."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id, *reversed(parts)) if isinstance(node, ast.Name) else None


def library_operator(namespace, name):
    """Return a registered operator.  RuntimeError for an unregistered one.  Names of the file are not looked up among
    the attributes of a namespace."""
    from .._ops import OpOverloadPacket, ops
    known = ops.namespaces.get(namespace)
    found = None
    if known is not None and namespace not in ("aten", "prim", "prims", "higher_order", "profiler"):
        found = known.packets.get(name)
    if type(found) is not OpOverloadPacket:
        raise RuntimeError(f"the file calls {namespace}::{name}, which is not registered")
    return found


def named_tuple(tree: ast.ClassDef):
    """The class of tuples that a file defines."""
    names = [part.target.id for part in tree.body if isinstance(part, ast.AnnAssign) and isinstance(part.target,
                                                                                                  ast.Name)]
    try:
        return collections.namedtuple(tree.name, names)
    except ValueError as error:
        raise CodeError(f"the file's class {tree.name} is no tuple: {error}") from None

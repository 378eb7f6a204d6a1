"""Compiling calls: native functions and methods directly, intrinsics in place, everything else through vectorcall."""

import ast

from . import layout
from .fields import read_field
from .types import ARGS, BOOL, DICT, F64, FRAGILE, I64, LIST, NONE, OBJECT, TUPLE, Value

INTRINSICS = {}


def intrinsic(*targets):
    """Register the compilation of a built-in function; a handler that returns None leaves the call to the general
    way."""

    def register(handler):
        INTRINSICS.update((id(target), handler) for target in targets)
        return handler

    return register


SPARE_SLOT = 1 << 63  # permits a callee to overwrite the entry before its arguments


def call_expression(f, node):
    """The value of a call."""
    found = None if _is_local(f, node.func) else f.program.find(f.module, node.func)
    if found is not None:
        return _call_global(f, node, found[0])
    if isinstance(node.func, ast.Attribute):
        return _call_method(f, node)
    return call_object(f, f.keep(f.boxed(f.value(node.func))), node)


def _is_local(f, node):
    while isinstance(node, ast.Attribute):
        node = node.value
    return not isinstance(node, ast.Name) or node.id in f.assigned or node.id in f.values


def _call_global(f, node, target):
    key = id(target)
    if key in f.program.functions and not f.program.functions[key].star:
        return call(f, f.program.functions[key], plain_arguments(f, node))
    if key in f.program.classes and not node.args and not node.keywords:
        made = f.new_reference(f.program.classes[key].type, f.code.call("ptr", f"@new.{f.program.classes[key].symbol}"))
        made.present = True
        return made
    if key in INTRINSICS and not node.keywords:
        result = INTRINSICS[key](f, node)
        if result is not None:
            return result
    return call_object(f, f.value(node.func), node)


def plain_arguments(f, node):
    """The values of positional arguments, valid for the whole call."""
    if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
        raise f.unsupported(node, "a keyword or * argument of a native function")
    return [f.keep(f.value(argument)) for argument in node.args]


def call(f, declared, values):
    """Call a compiled function directly."""
    parameters = declared.parameters
    for parameter in parameters[len(values) :]:
        if not isinstance(parameter.default, ast.Constant):
            raise f.unsupported(f.node, f"{declared.name} without an argument for {parameter.name!r}")
        values = [*values, f.value(parameter.default)]
    if len(values) > len(parameters):
        raise f.unsupported(f.node, f"{len(values)} arguments for {declared.name}")
    values = [
        f.keep(f.convert(value, parameter.type, f"{declared.name}() argument {parameter.name!r}"))
        for value, parameter in zip(values, parameters)
    ]
    result = invoke(f, declared.symbol, declared.result, values)
    f.release(*(value for value in reversed(values) if value.type.is_reference))
    return result


def invoke(f, symbol, result, values):
    """Emit the call of a compiled function on converted values, and the check of its outcome."""
    kinds = {I64: "{i64, i1}", F64: "{double, i1}", BOOL: "i8", NONE: "i8"}
    texts = []
    for value in values:
        texts.append(f"{value.type.ir} {f.solid(value).ir}")
        if value.type is ARGS:
            texts.append(f"i64 {value.length}")
    returned = f.code.call(kinds.get(result, "ptr"), f"@{symbol}", *texts)
    if result in (I64, F64):
        return f.flagged(result, returned)
    if result is BOOL:
        return f.truth_value(returned)
    if result is NONE:
        f.fail_if(f.code.op(f"icmp eq i8 {returned}, 2"))
        return f.none()
    return f.new_reference(result, returned)


def _call_method(f, node):
    base, attr = f.keep(f.value(node.func.value)), node.func.attr
    cls = base.type.cls
    if cls and attr in cls.methods and not cls.methods[attr].is_property:
        f.require(base, attr)
        return call(f, cls.methods[attr], [base, *plain_arguments(f, node)])
    if cls and attr in cls.fields:
        f.require(base, attr)
        return call_object(f, f.keep(f.boxed(read_field(f, base, cls.fields[attr]))), node)
    handler = METHODS.get((base.type, attr, len(node.args)))
    if handler and not node.keywords:
        f.require(base, attr)
        return handler(f, base, *plain_arguments(f, node))
    base = f.keep(f.boxed(base))
    return _vectorcall(f, "@PyObject_VectorcallMethod", f.literal(attr), [base], node, release=[base])


def call_object(f, target, node):
    """Call any Python object."""
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        return _call_starred(f, target, node)
    return _vectorcall(f, "@PyObject_Vectorcall", target, [], node, release=[target])


def _vectorcall(f, helper, target, first, node, release):
    if any(isinstance(argument, ast.Starred) for argument in node.args) or any(keyword.arg is None
                                                                               for keyword in node.keywords):
        raise f.unsupported(node, "* or ** in this call")
    values = [f.keep(f.boxed(f.value(argument)))
              for argument in (*node.args, *(keyword.value for keyword in node.keywords))]
    names = f.literal(tuple(keyword.arg for keyword in node.keywords)).ir if node.keywords else "null"
    array = f.code.slot(f"[{len(first) + len(values) + 1} x ptr]", "arguments")
    start = f.code.offset(array, 8)
    for position, value in enumerate([*first, *values]):
        f.code.store("ptr", f.solid(value).ir, f.code.offset(array, 8 * position + 8), None)
    count = len(first) + len(node.args) - SPARE_SLOT
    returned = f.code.call("ptr", helper, f"ptr {f.solid(target).ir}", f"ptr {start}", f"i64 {count}", f"ptr {names}")
    result = f.new_reference(OBJECT, returned)
    f.release(*reversed(values), *release)
    return result


def _call_starred(f, target, node):
    """`function(*args)`, with nothing else."""
    if len(node.args) != 1 or node.keywords:
        raise f.unsupported(node, "a * argument together with others")
    values = f.keep(f.value(node.args[0].value))
    if values.type is ARGS:
        return forward(f, target, values, "null")
    values = f.convert(values, TUPLE, "the * argument")
    f.require(values, "__iter__")
    result = f.new_reference(OBJECT, f.code.call("ptr", "@PyObject_Call", f"ptr {f.solid(target).ir}",
                                                 f"ptr {values.ir}", "ptr null"))
    f.release(values, target)
    return result


def forward(f, target, values, names):
    positional = values.length
    if names != "null":
        positional = f.code.op(f"sub i64 {values.length}, {_count(f, names)}")
    returned = f.code.call("ptr", "@PyObject_Vectorcall", f"ptr {f.solid(target).ir}", f"ptr {values.ir}",
                           f"i64 {positional}", f"ptr {names}")
    result = f.new_reference(OBJECT, returned)
    f.release(target)
    return result


def _count(f, names):
    """The length of a names tuple that may be null."""
    out, look, done = f.code.slot("i64", "names"), f.code.label("look"), f.code.label("done")
    f.code.store("i64", "0", out, None)
    f.code.fork(f.code.op(f"icmp eq ptr {names}, null"), done, look)
    f.code.start(look)
    f.code.store("i64", f.code.load("i64", f.code.offset(names, layout.SIZE)), out, None)
    f.code.start(done)
    return f.code.load("i64", out, None)


# -- methods of built-in types

def _dict_get(f, base, key, default=None):
    key = f.keep(f.boxed(key))
    default = f.keep(f.boxed(default or f.none()))
    pair = f.code.call("{ptr, i1}", "@dict_get", f"ptr {base.ir}", f"ptr {f.solid(key).ir}",
                       f"ptr {f.solid(default).ir}")
    f.fail_if(f.code.op(f"extractvalue {{ptr, i1}} {pair}, 1"))
    value = f.keep(Value(OBJECT, f.code.op(f"extractvalue {{ptr, i1}} {pair}, 0"), FRAGILE))
    f.release(default, key, base)
    return value


def _list_append(f, base, value):
    value = f.keep(f.boxed(value))
    f.check_status(f.code.call("i32", "@PyList_Append", f"ptr {base.ir}", f"ptr {f.solid(value).ir}"))
    f.release(value, base)
    return f.none()


def _list_pop(f, base):
    value = f.new_reference(OBJECT, f.code.call("ptr", "@list_pop", f"ptr {base.ir}"))
    f.release(base)
    return value


METHODS = {
    (DICT, "get", 1): _dict_get, (DICT, "get", 2): _dict_get,
    (LIST, "append", 1): _list_append, (LIST, "pop", 0): _list_pop,
}

"""Compiling calls: native functions and methods directly, intrinsics in place, everything else through vectorcall."""

import ast

from .. import language, memory
from . import layout
from .types import ARGS, BOOL, DICT, F64, FRAGILE, I64, LIST, NONE, OBJECT, OWNED, PERMANENT, SCALARS, SIZED, STABLE, STR, TUPLE, Value

SPARE_SLOT = 1 << 63  # tells a callee that it may overwrite the entry before its arguments


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
        return call(f, f.program.functions[key], _arguments(f, node))
    if key in f.program.classes and not node.args and not node.keywords:
        made = f.new_reference(f.program.classes[key].type, f.code.call("ptr", f"@new.{f.program.classes[key].symbol}"))
        made.present = True
        return made
    if key in INTRINSICS and not node.keywords:
        result = INTRINSICS[key](f, node)
        if result is not None:
            return result
    return call_object(f, f.value(node.func), node)


def _arguments(f, node):
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
    values = [f.keep(f.convert(value, parameter.type, f"{declared.name}() argument {parameter.name!r}")) for value, parameter in zip(values, parameters)]
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
        return call(f, cls.methods[attr], [base, *_arguments(f, node)])
    if cls and attr in cls.fields:
        from .expressions import read_attribute

        return call_object(f, f.keep(f.boxed(read_attribute(f, base, attr))), node)
    handler = METHODS.get((base.type, attr, len(node.args)))
    if handler and not node.keywords:
        f.require(base, attr)
        return handler(f, base, *_arguments(f, node))
    base = f.keep(f.boxed(base))
    return _vectorcall(f, "@PyObject_VectorcallMethod", f.literal(attr), [base], node, release=[base])


def call_object(f, target, node):
    """Call any Python object."""
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        return _call_starred(f, target, node)
    return _vectorcall(f, "@PyObject_Vectorcall", target, [], node, release=[target])


def _vectorcall(f, helper, target, first, node, release):
    if any(isinstance(argument, ast.Starred) for argument in node.args) or any(keyword.arg is None for keyword in node.keywords):
        raise f.unsupported(node, "* or ** in this call")
    values = [f.keep(f.boxed(f.value(argument))) for argument in (*node.args, *(keyword.value for keyword in node.keywords))]
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
        raise f.unsupported(node, "a * argument beside others")
    values = f.keep(f.value(node.args[0].value))
    if values.type is ARGS:
        return _forward(f, target, values, "null")
    values = f.convert(values, TUPLE, "the * argument")
    f.require(values, "__iter__")
    result = f.new_reference(OBJECT, f.code.call("ptr", "@PyObject_Call", f"ptr {f.solid(target).ir}", f"ptr {values.ir}", "ptr null"))
    f.release(values, target)
    return result


def _forward(f, target, values, names):
    positional = values.length
    if names != "null":
        positional = f.code.op(f"sub i64 {values.length}, {_count(f, names)}")
    returned = f.code.call("ptr", "@PyObject_Vectorcall", f"ptr {f.solid(target).ir}", f"ptr {values.ir}", f"i64 {positional}", f"ptr {names}")
    result = f.new_reference(OBJECT, returned)
    f.release(target)
    return result


def _count(f, names):
    """The length of a names tuple that may be null."""
    out, look, done = f.code.slot("i64", "names"), f.code.label("look"), f.code.label("done")
    f.code.store("i64", "0", out, None)
    f.code.branch(f.code.op(f"icmp eq ptr {names}, null"), done, look)
    f.code.start(look)
    f.code.store("i64", f.code.load("i64", f.code.offset(names, layout.SIZE)), out, None)
    f.code.start(done)
    return f.code.load("i64", out, None)


# -- methods of built-in types

def _dict_get(f, base, key, default=None):
    key = f.keep(f.boxed(key))
    default = f.keep(f.boxed(default or f.none()))
    pair = f.code.call("{ptr, i1}", "@dict_get", f"ptr {base.ir}", f"ptr {f.solid(key).ir}", f"ptr {f.solid(default).ir}")
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


# -- built-in functions and the words of `language` and `memory`

INTRINSICS = {}


def intrinsic(*targets):
    """Register the compilation of a built-in function; a handler that returns None leaves the call to the general way."""

    def register(handler):
        INTRINSICS.update((id(target), handler) for target in targets)
        return handler

    return register


@intrinsic(len)
def _len(f, node):
    (base,) = _arguments(f, node)
    if base.type is ARGS:
        return Value(I64, base.length)
    if base.type in SIZED:
        f.require(base, "__len__")
        size = Value(I64, f.code.load("i64", f.code.offset(base.ir, layout.SIZE)))
    else:
        base = f.boxed(base)
        size = Value(I64, f.code.call("i64", "@PyObject_Size", f"ptr {f.solid(base).ir}"))
        f.fail_if(f.code.op(f"icmp slt i64 {size.ir}, 0"))
    f.release(base)
    return size


@intrinsic(type)
def _type(f, node):
    if len(node.args) != 1:
        return None
    value = f.boxed(f.value(node.args[0]))
    kind = f.code.load("ptr", f.code.offset(f.solid(value).ir, layout.TYPE))
    result = Value(OBJECT, kind, FRAGILE if value.hold == OWNED else value.hold, present=True)
    if value.hold == OWNED:
        result = f.keep(result)
        f.release(value)
    return result


@intrinsic(isinstance)
def _isinstance(f, node):
    found = f.program.find(f.module, node.args[1])
    type = f.program.static_type(found[0]) if found else OBJECT
    value = f.keep(f.boxed(f.value(node.args[0])))
    if type.is_reference and type is not OBJECT:
        answer = Value(BOOL, f.instance_test(f.solid(value), type))
    else:
        kind = f.keep(f.boxed(f.value(node.args[1])))
        status = f.code.call("i32", "@PyObject_IsInstance", f"ptr {f.solid(value).ir}", f"ptr {kind.ir}")
        f.check_status(status)
        f.release(kind)
        answer = Value(BOOL, f.code.op(f"icmp ne i32 {status}, 0"))
    f.release(value)
    return answer


@intrinsic(int)
def _int(f, node):
    if len(node.args) != 1:
        return None
    value = f.keep(f.value(node.args[0]))
    if value.type is F64:
        return Value(I64, f.code.call("i64", "@llvm.fptosi.sat.i64.f64", f"double {value.ir}"))
    if value.type in SCALARS:
        return f.convert(value, I64, "int()")
    return _through(f, value, "@PyNumber_Long", I64)


@intrinsic(float)
def _float(f, node):
    if len(node.args) != 1:
        return None
    value = f.keep(f.value(node.args[0]))
    return f.convert(value, F64, "float()") if value.type in SCALARS else _through(f, value, "@PyNumber_Float", F64)


def _through(f, value, helper, type):
    made = f.new_reference(OBJECT, f.code.call("ptr", helper, f"ptr {f.solid(f.boxed(value)).ir}"))
    number = f.unbox(made, type)
    f.release(value)
    return number


@intrinsic(bool)
def _bool(f, node):
    return Value(BOOL, f.condition(node.args[0])) if len(node.args) == 1 else None


@intrinsic(id, memory.address_of)
def _id(f, node):
    (value,) = _arguments(f, node)
    value = f.boxed(value)
    address = Value(I64, f.code.op(f"ptrtoint ptr {f.solid(value).ir} to i64"))
    f.release(value)
    return address


def _extreme(signed, ordered):
    def handler(f, node):
        if not all(isinstance(argument, (ast.Name, ast.Constant, ast.BinOp, ast.Attribute)) for argument in node.args) or len(node.args) != 2:
            return None
        left, right = _arguments(f, node)
        if left.type is not right.type or left.type not in (I64, F64):
            raise f.unsupported(node, "min or max of anything but two i64 or two f64")
        operation = f"icmp {signed} i64" if left.type is I64 else f"fcmp {ordered} double"
        return Value(left.type, f.code.select(f.code.op(f"{operation} {right.ir}, {left.ir}"), left.type.ir, right.ir, left.ir))

    return handler


intrinsic(min)(_extreme("slt", "olt"))
intrinsic(max)(_extreme("sgt", "ogt"))


@intrinsic(language.cast)
def _cast(f, node):
    found = f.program.find(f.module, node.args[0])
    kind = f.program.annotation(f.module, node.args[0]) if found else OBJECT
    value = f.value(node.args[1])
    if not kind.is_reference or not value.type.is_reference:
        return f.convert(value, kind, "a cast")
    if value.hold == OWNED:
        return f._retype(value, kind)
    return Value(kind, f.solid(value).ir, value.hold)


@intrinsic(language.new_tuple)
def _new_tuple(f, node):
    size = f.convert(f.value(node.args[0]), I64, "a size")
    made = f.new_reference(TUPLE, f.code.call("ptr", "@PyTuple_New", f"i64 {size.ir}"))
    made.present = True
    return made


@intrinsic(language.tuple_set)
def _tuple_set(f, node):
    target, index, value = _arguments(f, node)
    target, index = f.convert(target, TUPLE, "tuple_set()"), f.convert(index, I64, "an index")
    value = f.keep(f.boxed(value))
    f.require(target, "__getitem__")
    size = f.code.load("i64", f.code.offset(target.ir, layout.SIZE))
    f.raise_if(f.code.op(f"icmp uge i64 {index.ir}, {size}"), "raise_index")
    at = f.code.item(f.code.offset(target.ir, layout.TUPLE_ITEMS), index.ir)
    old = f.code.load("ptr", at)
    f.code.store("ptr", f.take(value), at)
    f.code.call("void", "@xdecref", f"ptr {old}")
    f.release(target)
    return f.none()


@intrinsic(language.forward)
def _forward_call(f, node):
    target, values, names = _arguments(f, node)
    result = _forward(f, f.boxed(target), values, _null_if_none(f, names))
    f.release(names)
    return result


@intrinsic(language.forward_with)
def _forward_with(f, node):
    """The arguments are copied behind `first` on the stack."""
    target, first, values, names = _arguments(f, node)
    first = f.keep(f.boxed(first))
    count = f.code.op(f"add i64 {values.length}, 1")
    room = f.code.op(f"alloca ptr, i64 {count}")
    f.code.store("ptr", f.solid(first).ir, room, None)
    size = f.code.op(f"mul i64 {values.length}, 8")
    f.code.call("void", "@llvm.memmove.p0.p0.i64", f"ptr {f.code.offset(room, 8)}", f"ptr {values.ir}", f"i64 {size}", "i1 false")
    result = _forward(f, f.boxed(target), Value(ARGS, room, length=count), _null_if_none(f, names))
    f.release(names, first)
    return result


def _null_if_none(f, names):
    return "null" if names.ir == "null" else f.code.select(f.is_none(names), "ptr", "null", names.ir)


# -- memory

def _numbers(f, node, *types):
    values = [f.convert(f.keep(f.value(argument)), type, "an argument") for argument, type in zip(node.args, types, strict=True)]
    return [value.ir for value in values]


def _pointer(f, address):
    return f.code.op(f"inttoptr i64 {address} to ptr")


def _access(name, type):
    """Register `load_<name>` and `store_<name>`."""
    def place(f, address, index):
        return f.code.item(_pointer(f, address), index, type)

    def load(f, node):
        address, index = _numbers(f, node, I64, I64)
        found = f.code.load(type, place(f, address, index))
        if type in ("double", "float"):
            return Value(F64, found if type == "double" else f.code.op(f"fpext float {found} to double"))
        extend = "zext" if name == "u8" else "sext"
        return Value(I64, found if type == "i64" else f.code.op(f"{extend} {type} {found} to i64"))

    def store(f, node):
        kind = F64 if type in ("double", "float") else I64
        address, index, value = _numbers(f, node, I64, I64, kind)
        if type != kind.ir:
            value = f.code.op(f"{'fptrunc' if kind is F64 else 'trunc'} {kind.ir} {value} to {type}")
        f.code.store(type, value, place(f, address, index))
        return f.none()

    intrinsic(getattr(memory, f"load_{name}"))(load)
    intrinsic(getattr(memory, f"store_{name}"))(store)


for _name, _llvm in {"i64": "i64", "f64": "double", "f32": "float", "i32": "i32", "i16": "i16", "u8": "i8"}.items():
    _access(_name, _llvm)


@intrinsic(memory.stack)
def _stack(f, node):
    (slots,) = _arguments(f, node)
    if slots.constant is not None:
        block, size = f.code.slot(f"[{slots.constant} x i64]", "block"), str(8 * slots.constant)
    else:
        slots = f.convert(slots, I64, "a size")
        block, size = f.code.op(f"alloca i64, i64 {slots.ir}"), f.code.op(f"mul i64 {slots.ir}, 8")
    f.code.call("void", "@llvm.memset.p0.i64", f"ptr {block}", "i8 0", f"i64 {size}", "i1 false")
    return Value(I64, f.code.op(f"ptrtoint ptr {block} to i64"))


@intrinsic(memory.f64_bits)
def _f64_bits(f, node):
    return Value(I64, f.code.op(f"bitcast double {_numbers(f, node, F64)[0]} to i64"))


@intrinsic(memory.f64_from_bits)
def _f64_from_bits(f, node):
    return Value(F64, f.code.op(f"bitcast i64 {_numbers(f, node, I64)[0]} to double"))


@intrinsic(memory.copy_bytes)
def _copy_bytes(f, node):
    target, source, nbytes = _numbers(f, node, I64, I64, I64)
    f.code.call("void", "@llvm.memmove.p0.p0.i64", f"ptr {_pointer(f, target)}", f"ptr {_pointer(f, source)}", f"i64 {nbytes}", "i1 false")
    return f.none()


@intrinsic(memory.fill_bytes)
def _fill_bytes(f, node):
    target, byte, nbytes = _numbers(f, node, I64, I64, I64)
    small = f.code.op(f"trunc i64 {byte} to i8")
    f.code.call("void", "@llvm.memset.p0.i64", f"ptr {_pointer(f, target)}", f"i8 {small}", f"i64 {nbytes}", "i1 false")
    return f.none()


@intrinsic(memory.allocate_pages)
def _allocate_pages(f, node):
    (nbytes,) = _numbers(f, node, I64)
    address = f.code.call("ptr", "@allocate_pages", f"i64 {nbytes}")
    f.fail_if(f.code.op(f"icmp eq ptr {address}, null"))
    return Value(I64, f.code.op(f"ptrtoint ptr {address} to i64"))


@intrinsic(memory.free_pages)
def _free_pages(f, node):
    f.code.call("void", "@free", f"ptr {_pointer(f, _numbers(f, node, I64)[0])}")
    return f.none()


def _run(unlock):
    def handler(f, node):
        code, values = (_pointer(f, address) for address in _numbers(f, node, I64, I64))
        status = f.code.call("i8", "@run_program", f"ptr {code}", f"ptr {values}", f"i1 {unlock}")
        f.fail_if(f.code.op(f"icmp eq i8 {status}, 2"))
        return f.none()

    return handler


intrinsic(memory.run_program)(_run("false"))
intrinsic(memory.run_program_nogil)(_run("true"))


@intrinsic(memory.call_kernel)
def _call_kernel(f, node):
    kernel, arguments, begin, end = _numbers(f, node, I64, I64, I64, I64)
    f.code.call("void", _pointer(f, kernel), f"ptr {_pointer(f, arguments)}", f"i64 {begin}", f"i64 {end}", "i64 0")
    return f.none()


@intrinsic(memory.thread_id)
def _thread_id(f, node):
    return Value(I64, f.code.call("i64", "@PyThreadState_GetID", f"ptr {f.code.call('ptr', '@PyThreadState_Get')}"))

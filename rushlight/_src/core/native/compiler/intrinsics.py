"""Compiling built-in functions and the words of `language` and `memory` in place."""

import ast

from .. import language, memory
from . import layout
from .calls import forward, intrinsic, plain_arguments
from .types import ARGS, BOOL, F64, FRAGILE, I64, OBJECT, OWNED, SCALARS, SIZED, TUPLE, Value

@intrinsic(len)
def _len(f, node):
    (base,) = plain_arguments(f, node)
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
    kind = f.code.load("ptr", f.code.offset(f.solid(value).ir, layout.TYPE))  # lives as long as the value
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
    (value,) = plain_arguments(f, node)
    value = f.boxed(value)
    address = Value(I64, f.code.op(f"ptrtoint ptr {f.solid(value).ir} to i64"))
    f.release(value)
    return address


def _extreme(signed, ordered):
    def handler(f, node):
        if not all(isinstance(argument, (ast.Name, ast.Constant, ast.BinOp, ast.Attribute))
                   for argument in node.args) or len(node.args) != 2:
            return None
        left, right = plain_arguments(f, node)
        if left.type is not right.type or left.type not in (I64, F64):
            raise f.unsupported(node, "min or max of anything but two i64 or two f64")
        operation = f"icmp {signed} i64" if left.type is I64 else f"fcmp {ordered} double"
        return Value(left.type, f.code.select(f.code.op(f"{operation} {right.ir}, {left.ir}"), left.type.ir, right.ir,
                                              left.ir))

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
        return f.retype(value, kind)
    return Value(kind, f.solid(value).ir, value.hold)


@intrinsic(language.new_tuple)
def _new_tuple(f, node):
    size = f.convert(f.value(node.args[0]), I64, "a size")
    made = f.new_reference(TUPLE, f.code.call("ptr", "@PyTuple_New", f"i64 {size.ir}"))
    made.present = True
    return made


@intrinsic(language.filled)
def _filled(f, node):
    (made,) = plain_arguments(f, node)
    return f.convert(made, TUPLE, "filled()")


@intrinsic(language.tuple_set)
def _tuple_set(f, node):
    target, index, value = plain_arguments(f, node)
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
    target, values, names = plain_arguments(f, node)
    result = forward(f, f.boxed(target), values, _null_if_none(f, names))
    f.release(names)
    return result


@intrinsic(language.forward_with)
def _forward_with(f, node):
    """The arguments are copied behind `first` on the stack."""
    target, first, values, names = plain_arguments(f, node)
    first = f.keep(f.boxed(first))
    count = f.code.op(f"add i64 {values.length}, 1")
    room = f.code.op(f"alloca ptr, i64 {count}")
    f.code.store("ptr", f.solid(first).ir, room, None)
    size = f.code.op(f"mul i64 {values.length}, 8")
    f.code.call("void", "@llvm.memmove.p0.p0.i64", f"ptr {f.code.offset(room, 8)}", f"ptr {values.ir}", f"i64 {size}",
                "i1 false")
    result = forward(f, f.boxed(target), Value(ARGS, room, length=count), _null_if_none(f, names))
    f.release(names, first)
    return result


def _null_if_none(f, names):
    return "null" if names.ir == "null" else f.code.select(f.is_none(names), "ptr", "null", names.ir)


# -- memory

def _numbers(f, node, *types):
    values = [f.convert(f.keep(f.value(argument)), type, "an argument")
              for argument, type in zip(node.args, types, strict=True)]
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
    (slots,) = plain_arguments(f, node)
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
    f.code.call("void", "@llvm.memmove.p0.p0.i64", f"ptr {_pointer(f, target)}", f"ptr {_pointer(f, source)}",
                f"i64 {nbytes}", "i1 false")
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
    address, nbytes = _numbers(f, node, I64, I64)
    f.code.call("void", "@free_pages", f"ptr {_pointer(f, address)}", f"i64 {nbytes}")
    return f.none()


@intrinsic(memory.discard_pages)
def _discard_pages(f, node):
    address, nbytes = _numbers(f, node, I64, I64)
    f.code.call("void", "@discard_pages", f"ptr {_pointer(f, address)}", f"i64 {nbytes}")
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

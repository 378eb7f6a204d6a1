"""Calls of a model with DLPack tensors, as LLVM IR: each tensor is checked against what the model takes, and its memory
is used in place."""
from __future__ import annotations

from ..core import dlpack
from ..devices.cpu.llvm.types import i32, i64, ptr
from ..devices.cpu.llvm.values import constant
from .calls import there
from .interface import HOST_DEVICES, MISSING, WRONG_DEVICE, WRONG_DTYPE, WRONG_SHAPE, WRONG_SIZES, WRONG_STRIDES

# a DLTensor, with pointers of 64 bits
DATA, DEVICE, RANK, KIND, SHAPE, STRIDES, OFFSET = (getattr(dlpack.Array, name).offset for name in (
    "data", "device", "ndim", "kind", "shape", "strides", "offset"))


def write_tensors(face):
    """rl_run_dlpack(model, inputs, outputs) of an ``entry.Interface``."""
    write_strides(face.module)
    write_shape(face.module)
    f = face.module.function("rl_run_dlpack", [("model", ptr), ("inputs", ptr), ("outputs", ptr)], i64)
    model, inputs, outputs = f.parameters
    shapes, sizes = (f.alloca(i64, max(1, n)) for n in (face.inputs, face.sizes))
    made = [described(face, f, table, metas, begin)
            for table, metas, begin in ((inputs, face.input_metas, 0), (outputs, face.output_metas, face.inputs))]
    for k, tensor in enumerate(made[0]):
        f.store(f.load(i64, f.offset(tensor, SHAPE)), f.offset(shapes, 8 * k))
    stop(face, f, f.call("sizes_of", [shapes, sizes], i64))
    for k, (tensor, meta) in enumerate(zip(made[0], face.input_metas)):
        strides = constant(ptr, 0)  # row-major, whatever its sizes are
        if not face.dense[k]:
            strides = f.load(ptr, f.offset(f.call("rl_input", [constant(i64, k)], ptr), 32))
        given = f.call("tensor_strides", [tensor, constant(i64, len(meta.shape)), strides], i64)
        face.leave(f, f.compare("!=", given, 0), constant(i64, WRONG_STRIDES - k))
    told = f.alloca(i64, max(1, sum(2 * len(meta.shape) for meta in face.output_metas)))
    stop(face, f, f.call("sizes_outputs", [sizes, told], i64))
    at = 0
    for k, (tensor, meta) in enumerate(zip(made[1], face.output_metas), face.inputs):
        rank = len(meta.shape)
        shape, strides = f.offset(told, 8 * at), f.offset(told, 8 * (at + rank))
        for name, wanted, code in (("shape", shape, WRONG_SHAPE), ("strides", strides, WRONG_STRIDES)):
            given = f.call(f"tensor_{name}", [tensor, constant(i64, rank), wanted], i64)
            face.leave(f, f.compare("!=", given, 0), constant(i64, code - k))
        at += 2 * rank
    tables = [addresses(f, tensors) for tensors in made]
    f.ret(f.call("model_run", [model, *tables, sizes], i64))


def stop(face, f, code):
    """Returns a code that is not 0."""
    face.leave(f, f.compare("!=", code, 0), code)


def described(face, f, table, metas, begin: int) -> list:
    """The tensors of a table, after their dtypes, devices and ranks were looked at.  ``begin``: the number of the first
    one in codes."""
    found = []
    if metas:
        face.leave(f, f.not_(there(f, table)), constant(i64, MISSING))
    for k, meta in enumerate(metas, begin):
        tensor = f.load(ptr, f.offset(table, 8 * (k - begin)))
        face.leave(f, f.not_(there(f, tensor)), constant(i64, MISSING))
        kind, wanted = f.load(i32, f.offset(tensor, KIND)), bytes(dlpack.kind_of(meta.dtype))
        face.leave(f, f.compare("!=", kind, int.from_bytes(wanted, "little")), constant(i64, WRONG_DTYPE - k))
        device = f.load(i32, f.offset(tensor, DEVICE))
        host = constant(i64, 1)
        for one in HOST_DEVICES:
            host = f.and_(host, f.cast("zext", f.compare("!=", device, one), i64))
        face.leave(f, f.compare("!=", host, 0), constant(i64, WRONG_DEVICE - k))
        wrong = WRONG_SHAPE if begin else WRONG_SIZES
        rank = f.load(i32, f.offset(tensor, RANK))
        face.leave(f, f.compare("!=", rank, len(meta.shape)), constant(i64, wrong - k))
        if meta.shape:
            shape = f.load(ptr, f.offset(tensor, SHAPE))
            face.leave(f, f.not_(there(f, shape)), constant(i64, MISSING))
        found.append(tensor)
    return found


def addresses(f, tensors: list):
    """A table of where tensors begin; null where they have no memory."""
    table = f.alloca(i64, max(1, len(tensors)))
    for k, tensor in enumerate(tensors):
        data = f.load(i64, f.offset(tensor, DATA))
        begin = f.add(data, f.load(i64, f.offset(tensor, OFFSET)))
        f.store(f.select(f.compare("==", data, 0), data, begin), f.offset(table, 8 * k))
    return table


def write_shape(module):
    """tensor_shape(tensor, rank, shape): 1 where the tensor has another shape."""
    f = module.function("tensor_shape", [("tensor", ptr), ("rank", i64), ("shape", ptr)], i64, internal=True)
    tensor, rank, shape = f.parameters
    own = f.load(ptr, f.offset(tensor, SHAPE))

    def one(k, wrong):
        other = f.compare("!=", f.load(i64, f.offset(own, k, i64)), f.load(i64, f.offset(shape, k, i64)))
        return [f.or_(wrong[0], f.cast("zext", other, i64))]

    wrong, = f.loop(0, rank, 1, [constant(i64, 0)], one)
    f.ret(wrong)


def write_strides(module):
    """tensor_strides(tensor, rank, strides): 1 if the tensor has other strides.  ``strides``: null for row-major order,
    which a tensor without strides has.  Strides of dimensions of size 1, and of empty tensors, do not matter."""
    f = module.function("tensor_strides", [("tensor", ptr), ("rank", i64), ("strides", ptr)], i64, internal=True)
    tensor, rank, strides = f.parameters
    shape, own = f.load(ptr, f.offset(tensor, SHAPE)), f.load(ptr, f.offset(tensor, STRIDES))

    def one(k, carried):
        dense, wrong = carried
        place = f.sub(f.sub(rank, 1), k)
        size = f.load(i64, f.offset(shape, place, i64))
        found, = f.when(there(f, own), lambda: [f.load(i64, f.offset(own, place, i64))], lambda: [dense])
        wanted, = f.when(there(f, strides), lambda: [f.load(i64, f.offset(strides, place, i64))], lambda: [dense])
        other = f.and_(f.compare("!=", found, wanted), f.compare("!=", size, 1))
        return [f.mul(dense, size), f.or_(wrong, f.cast("zext", other, i64))]

    count, wrong = f.loop(0, rank, 1, [constant(i64, 1), constant(i64, 0)], one)
    f.ret(f.select(f.compare("==", count, 0), constant(i64, 0), wrong))

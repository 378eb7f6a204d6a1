"""Triton's interpreter without torch: kernels run on memory of the process.

It has to be chosen before ``triton`` is imported, so this module chooses it.
"""
import functools
import os

import numpy as np

os.environ["TRITON_INTERPRET"] = "1"

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.runtime import interpreter  # noqa: E402

from rushlight._src.core import dtypes  # noqa: E402
from rushlight._src.compiler.launch import CONSTANT  # noqa: E402
from rushlight._src.devices.triton.step import modules, power_above  # noqa: E402
from rushlight._src.devices.triton.texts import function_of  # noqa: E402

TYPES = {"*i8": tl.int8, "*u8": tl.uint8, "*i16": tl.int16, "*i32": tl.int32, "*i64": tl.int64, "*fp16": tl.float16,
         "*bf16": tl.bfloat16, "*fp32": tl.float32, "*fp64": tl.float64, "i32": tl.int32, "i64": tl.int64}
PROGRAMS = 3  # of a launch whose units are independent: more take the interpreter longer, and show no more
WIDTHS = {"i32": np.int32, "i64": np.int64}


def argument(kind: str, value: int):
    """A number or an address as the interpreter holds it."""
    if kind[0] == "*":
        dtype = tl.pointer_type(TYPES[kind])
        return tl.tensor(interpreter.TensorHandle(np.array([value], np.uint64), dtype), dtype)
    return tl.tensor(interpreter.TensorHandle(np.array([value]).astype(WIDTHS[kind]), TYPES[kind]), TYPES[kind])


def with_floats(handle):
    """bfloat16 as float32: the interpreter has its bits."""
    if handle.dtype.scalar != tl.bfloat16:
        return handle
    return interpreter.TensorHandle((handle.data.astype(np.uint32) << 16).view(np.float32), tl.float32)


def halved(self, given):
    """A reduction by halves, as GPUs do it; the interpreter's goes by single numbers, which have lost their type."""
    axis, function = self.axis, self.combine_fn.fn
    parts = [one.handle.data if axis is not None else one.handle.data.reshape(-1) for one in given]
    parts, kinds = [np.moveaxis(part, axis or 0, 0) for part in parts], [one.dtype.scalar for one in given]
    while len(parts[0]) > 1:
        middle = len(parts[0]) // 2
        sides = [[self.to_tensor(np.ascontiguousarray(part[side]), kind) for part, kind in zip(parts, kinds)]
                 for side in (slice(middle), slice(middle, None))]
        found = function(*sides[0], *sides[1])
        parts = [one.handle.data for one in (found if isinstance(found, tuple) else (found,))]
    return [self.to_tensor(np.expand_dims(part[0], axis) if self.keep_dims else part[0], kind)
            for part, kind in zip(parts, kinds)]


def swept(self, given):
    """A scan in steps of 1, 2, 4 and so on, as GPUs do it; the interpreter's goes by single numbers, too."""
    axis, function, kinds = self.axis, self.combine_fn.fn, [one.dtype.scalar for one in given]
    parts, step = [np.moveaxis(one.handle.data, axis, 0).copy() for one in given], 1
    while step < len(parts[0]):
        before, own = ([self.to_tensor(np.roll(part, by, 0), kind) for part, kind in zip(parts, kinds)]
                       for by in (step, 0))
        found = function(*before, *own)
        for part, one in zip(parts, found if isinstance(found, tuple) else (found,)):
            part[step:] = one.handle.data[step:]
        step *= 2
    return [self.to_tensor(np.ascontiguousarray(np.moveaxis(part, 0, axis)), kind) for part, kind in zip(parts, kinds)]


def rounded(handle):
    """float32 as bfloat16, to the nearest; the interpreter cuts digits off."""
    bits = handle.data.astype(np.float32).view(np.uint32)
    near = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return interpreter.TensorHandle(np.where(nan, (bits >> 16) | 64, near).astype(np.uint16), tl.bfloat16)


def mended():
    """Fix Triton's interpreter, which multiplies the bits of bfloat16: multiply in float32, which is exact."""
    builder = interpreter.InterpreterBuilder
    product, cast = builder.create_dot, builder.cast_impl

    def cast_impl(self, source, kind):
        source = with_floats(source)
        return rounded(source) if kind.scalar == tl.bfloat16 else cast(self, source, kind)

    def create_splat(self, kind, one):  # the handle of a comparison says that it has what was compared
        return interpreter.TensorHandle(np.full(kind.shape, one.data.reshape(-1)[0]), kind.scalar)

    builder.cast_impl, builder.create_splat = cast_impl, create_splat
    builder.create_dot = lambda self, a, b, *rest: product(self, with_floats(a), with_floats(b), *rest)
    interpreter.ReduceOps.generic_reduce = halved
    interpreter.ScanOps.generic_scan = swept


mended()


@functools.cache
def function(module):
    return function_of(module.name, module.text)


@functools.cache
def table(values, name):
    return np.array(values, getattr(dtypes, name).numpy)


def launch(module, units: int, block: int, arguments: list, wide=False):
    """Runs all programs of a launch; ``arguments``: numbers in the order of the signature, without tables."""
    at = len(module.pointers)
    tables = [table(*one).ctypes.data for one in module.tables]
    launched(module, module.programs(units, block), block, [*arguments[:at], *tables, *arguments[at:]], wide)


def launched(module, programs: int, block: int, given: list, wide=False):
    """Runs so many programs; ``given``: all arguments but the constants."""
    kinds, constants = module.signature(wide), module.constants(block)
    names = [name for name in kinds if name not in constants]
    assert len(names) == len(given), (names, given)
    made = {name: argument(kinds[name], value) for name, value in zip(names, given)}
    found = function(module)
    patched = interpreter._patch_lang(found.fn)
    try:
        interpreter.interpreter_builder.set_grid_dim(programs, 1, 1)
        for k in range(programs):
            interpreter.interpreter_builder.set_grid_idx(k, 0, 0)
            with np.errstate(all="ignore"):
                found.fn(**made, **constants)
    finally:
        patched.restore()


def run(launches, values):
    """Runs the records of a program on addresses of the process; the error flag's word is in its place."""
    for one in launches:
        module = modules.made[one.kernel]
        slots = [number if value == CONSTANT else int(values[value]) + number for value, number in one.slots]
        count = len(module.pointers)
        flag = [slots.pop()] if module.flag else []
        block = one.grain if module.form != "thread" else power_above(-(-one.extent // PROGRAMS))
        launch(module, one.extent, block, [*slots[:count], *flag, one.extent, *slots[count:]])

"""Running planned contractions on NumPy arrays."""

import numpy as np

from rushlight._src.compiler.launch import encode
from rushlight._src.devices.cpu.llvm import pool
from rushlight._src.compiler.target import Operand, leaf
from rushlight._src.devices.cpu.templates.expression import expression_epilogue
from rushlight._src.core import dtypes
from rushlight._src.core.expr import apply, convert


def bias_epilogue(dtype, along, output):
    """Adds "bias" in this dtype to the sums: a number for each "column", or for each "row" (channel)."""
    kind = getattr(dtypes, dtype)
    sums = leaf("sums", dtypes.float64 if kind is dtypes.float64 else dtypes.float32)
    value = apply("add", sums, convert(leaf("bias", kind), sums.dtype))
    return expression_epilogue(value, (Operand("bias", kind, along),), (output, kind), given=sums)


class Runner:
    """A contraction bound to arrays: temporaries allocated, program written; call it to run."""

    def __init__(self, plan, **operands):
        names = list(operands) + list(plan.temporaries)
        self.keep = [plan, operands, [np.empty(size + 64, np.uint8) for size in plan.temporaries.values()]]
        addresses = [array if isinstance(array, int) else array.ctypes.data for array in operands.values()]
        addresses += [(buffer.ctypes.data + 63) & ~63 for buffer in self.keep[2]]
        self.values = np.array(addresses, np.int64)
        self.code = np.array(encode(plan.launches({name: k for k, name in enumerate(names)})), np.int64)
        self.arguments = self.code.ctypes.data, self.values.ctypes.data
        self.run = pool.caller("program_run")

    def __call__(self):
        self.run(*self.arguments)

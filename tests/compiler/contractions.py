"""Running planned contractions on NumPy arrays."""

import numpy as np

from rushlight.compiler.llvm import pool


class Runner:
    """A contraction bound to arrays: temporaries allocated, program written; call it to run."""

    def __init__(self, plan, **operands):
        names = list(operands) + list(plan.temporaries)
        self.keep = [plan, operands, [np.empty(size + 64, np.uint8) for size in plan.temporaries.values()]]
        addresses = [array if isinstance(array, int) else array.ctypes.data for array in operands.values()]
        addresses += [(buffer.ctypes.data + 63) & ~63 for buffer in self.keep[2]]
        self.values = np.array(addresses, np.int64)
        self.code = np.array([len(plan.steps), *plan.code({name: k for k, name in enumerate(names)})], np.int64)
        self.arguments = self.code.ctypes.data, self.values.ctypes.data
        self.run = pool.caller("program_run")

    def __call__(self):
        self.run(*self.arguments)

"""The CPU as the compiler's target: kernels by LLVM, templates, and programs as arrays of integers.

Templates are imported when a program is first planned: those that come from disk need none.
"""
from __future__ import annotations

import ctypes
import sys
import zlib
from importlib import import_module

from . import provider
from .code import Code
from ...compiler.launch import HEAD, Launch, Table, encode, starts
from ...compiler.reference import address_of, callback
from ...compiler.target import Target
from ...compiler.tile import arrange, split
from ...core import cache
from ...core.llvm.loaded import Function
from .llvm import jit, pool
from .llvm.features import remembered, targeted
from .step import NativeKernel, with_moderate_angles


def imported(name: str):
    """Import a module of this package.  Return None if it is not loaded and can no longer be imported: nothing can
    while Python ends, and programs planned then do without templates."""
    whole = f"{__package__}.{name}"
    return import_module(whole) if sys.meta_path is not None else sys.modules.get(whole)


class Processor(Target):
    """The CPU: vectors, AMX tiles if there are any, and threads."""

    def parts(self, kernel, scratch):
        return split(arrange(with_moderate_angles(kernel)), scratch)

    def step(self, kernel, scalars):
        return NativeKernel(kernel, scalars)

    def ahead(self):
        return jit.ahead()

    def settle(self):
        jit.settle()

    def pays_with_channels_last(self, dtype, channels, outputs, groups):
        plan = imported("templates.pixels_plan")
        return plan is not None and plan.pays(dtype, channels, outputs, groups)

    def claim(self, node):
        claims = imported("claims")
        found = claims and claims.CLAIMS.get(node.op)
        return found if found is not None and found.suits(node) else None

    def epilogue(self, value, operands, out, further, sums):
        from .templates.contraction import NO_EPILOGUE
        from .templates.expression import expression_epilogue
        return NO_EPILOGUE if value is None else expression_epilogue(value, operands, out, further, sums)

    def prologue(self, value, leaves):
        from .templates.expression import expression_prologue
        return expression_prologue(value, leaves)

    def fallback(self, graph, inputs, outputs):
        kernel = callback(graph, inputs, outputs)
        return address_of(kernel), kernel

    def now(self, launch: Launch):
        words = encode([launch])
        code = (ctypes.c_int64 * len(words))(*words)
        jit.settle()
        pool.caller("program_run")(ctypes.addressof(code), ctypes.addressof(code))

    def code(self, launches, outputs, *, keep=(), callbacks=None, **fields):
        functions = [launch.kernel for launch in launches if launch.kernel not in (callbacks or ())]
        for address in functions:
            if type(address) is not Function:
                raise TypeError(f"the kernel at {address:#x} is given by an int, which does not keep it in memory: a "
                                "program takes the Functions that jit.build returns")
        words = encode(launches)
        tables = {at + HEAD + 2 * k + 1: number.array for at, launch in zip(starts(words), launches)
                  for k, (_, number) in enumerate(launch.slots) if type(number) is Table}
        return Code(words, outputs, keep=(*keep, *functions), callbacks=callbacks, tables=tables, **fields)

    def restored(self, words, *facts):
        return Code(words, *facts)

    def reference(self, kernel: int):
        return jit.origin(kernel)

    def load(self, reference):
        return jit.fetch(*reference)

    def fingerprint(self) -> str:
        return f"{targeted().fingerprint} {targeted().second_cache} {pool.get_num_threads()} {learned()}"


@remembered()
def learned() -> int:
    """A digest of the choices that this machine has measured: plans on disk depend on them."""
    return zlib.crc32(cache.get("choices", jit.kind_and_sources()) or b"")


target = provider.compiler = Processor()

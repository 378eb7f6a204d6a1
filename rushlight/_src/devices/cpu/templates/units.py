"""Kernels that loop over work units, with the code around the loop."""

from ..llvm.builder import Module
from ..llvm.tiles import configured
from ..llvm.types import i64, ptr

KERNEL = [("args", ptr), ("begin", i64), ("end", i64), ("worker", i64)]


class Slots:
    """A kernel's slots by name: pointers or i64s, loaded at each access."""

    def __init__(self, b, args, names, pointers):
        self._builder, self._args, self._pointers = b, args, pointers
        self._index = {name: k for k, name in enumerate(names)}

    def __getattr__(self, name):
        kind = ptr if name in self._pointers else i64
        return self._builder.load(kind, self._builder.offset(self._args, 8 * self._index[name]))


class Units:
    """A kernel under construction: its builder `f`, its slots by name `s`; in a module of its own, or in one with the
    functions that it calls."""

    def __init__(self, name, slots, pointers, module=None):
        self.module, self.slots = Module() if module is None else module, slots
        self.f = self.module.function(name, KERNEL)
        self.args, self.begin, self.end, self.worker = self.f.parameters
        self.s = Slots(self.f, self.args, slots, pointers)

    def loaded(self) -> dict:
        """The slots by name, each loaded once, before any unit."""
        return {name: getattr(self.s, name) for name in self.slots}

    def lanes(self, element) -> int:
        """Number of elements of a vector."""
        return self.module.features.lanes(element.bytes)

    def scratch(self):
        """Address of the scratch memory of the thread that runs the kernel."""
        return self.f.offset(self.s.scratch, self.f.mul(self.worker, self.s.scratch_bytes))

    def text(self, unit, tiles=False, heights=(), widths=()):
        """The source of the module; `unit(number)` emits a work unit, with AMX tiles if `tiles`, of `heights` rows and
        `widths` bytes."""
        def units():
            self.f.loop(self.begin, self.end, 1, [], lambda number, _: unit(number))

        configured(self.f, units, heights, widths) if tiles else units()
        self.f.ret()
        return self.module.text()

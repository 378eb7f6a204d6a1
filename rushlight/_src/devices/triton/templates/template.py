"""Common base of Triton templates: named arguments, and values computed in the block that uses them."""

from __future__ import annotations

from ...shared.writer import Writer
from ..emit import Emitter
from ..scalars import MEMORY, POINTERS
from ..step import Module


class Template(Emitter):
    """Emit one hand-written module, with holes for Exprs.

    ``buffers``: what it reads and writes, in order; those in ``stored`` are written.  ``wholes``: names of its int64
    arguments; ``sizes``: names of the sizes and strides; ``flag``: whether it may report errors.
    """

    def __init__(self, buffers, stored, wholes=(), sizes=(), flag=False):
        Writer.__init__(self)
        self.buffers, self.written, self.tables, self.flag = list(buffers), set(stored), {}, flag
        self.names.update((buffer, f"b{k}") for k, buffer in enumerate(self.buffers))
        self.wholes, self.sizes, self.numbers, self.barriers = tuple(wholes), tuple(sizes), [], False
        self.wide = {"zeros"}

    def home(self, e, x):
        return self.scopes[-1]

    def arguments(self) -> list:
        """The names of the arguments, constants aside."""
        return [*(self.names[b] for b in self.buffers), *self.tables.values(), *(["flag"] if self.flag else []),
                "units", *(f"s{k}" for k in range(len(self.wholes))), *(f"p{k}" for k in range(len(self.sizes)))]

    def called(self):
        """Gives the arguments their names."""
        for k, number in enumerate(self.wholes):
            self.line(f"{number} = s{k}")
        for k, number in enumerate(self.sizes):
            self.line(f"{number} = p{k}")

    def made(self, name: str, blocks: tuple, warps: int, stages: int) -> Module:
        """The module of what was written; ``blocks``: (name, number) of its constants."""
        pointers = tuple(POINTERS[MEMORY[b.dtype.name]] for b in self.buffers)
        return Module(name, self.whole(name), pointers, tuple(self.tables), self.flag, len(self.wholes),
                      len(self.sizes), "group", blocks, warps, stages)

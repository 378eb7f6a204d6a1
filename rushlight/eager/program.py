"""From a program of primitives to code that ``program_run`` executes."""
from __future__ import annotations

import ctypes

from ..compiler.llvm import pool
from ..core.meta import Meta
from ..core.native.memory import set_program_runner
from ..graph.graph import Graph, Store
from .reference import callback

set_program_runner(pool.addresses()["program_run"])


class Code:
    """Native code with what it needs to stay alive.  ``outputs``: Metas of what it writes into fresh memory."""

    def __init__(self, words, outputs, temporaries=(), keep=(), long=False):
        self.block = (ctypes.c_int64 * len(words))(*words)
        self.address = ctypes.addressof(self.block)
        self.outputs, self.temporaries, self.keep, self.long = list(outputs), list(temporaries), keep, long


def assemble(graph: Graph, name: str, outputs: list[Meta]) -> Code:
    """Code for a program whose fresh outputs have these Metas.

    Its values are the inputs, the fresh outputs, temporaries, and the error flag.
    """
    return reference_code(graph, outputs)


def reference_code(graph: Graph, outputs: list[Meta]) -> Code:
    """One step that computes the whole program with NumPy."""
    fresh = iter(outputs)
    described = [o if isinstance(o, Store) else Output(o, next(fresh)) for o in graph.outputs]
    kernel = callback(graph, described)
    given, count = len(graph.inputs), len(outputs)
    sources = range(given + count + 1)
    words = [1, ctypes.cast(kernel, ctypes.c_void_p).value, 1, 1, len(sources)]
    for source in sources:
        words += [source, 0]
    return Code(words, outputs, keep=(kernel,))


class Output:
    """A result with the metadata its memory has."""

    def __init__(self, node, meta):
        self.node, self.meta = node, meta

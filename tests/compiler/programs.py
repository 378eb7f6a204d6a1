"""Small programs of primitives, compiled and run on NumPy arrays."""

import ctypes

import numpy as np

from rushlight._src.compiler.launch import encode
from rushlight._src.devices.cpu.llvm import pool
from rushlight._src.compiler.segment import compile_graph
from rushlight._src.core import dtypes
from rushlight._src.core.kinds import P
from rushlight._src.core.meta import Meta
from rushlight._src.graph.graph import Graph, Node, Store
from rushlight._src.ops import prims  # noqa: F401 - fills P


class Program:
    """A graph being written: ``p.add(x, y)`` appends a primitive."""

    def __init__(self):
        self.inputs, self.nodes = [], []

    def input(self, shape=(), dtype=dtypes.float32, strides=None, weak=False):
        meta = Meta.of(shape, dtype) if strides is None else Meta(tuple(shape), tuple(strides), dtype)
        self.inputs.append(Node(f"x{len(self.inputs)}", None, meta=meta, weak=weak))
        return self.inputs[-1]

    def of(self, array):
        """An input that describes this array."""
        strides = tuple(s // array.itemsize for s in array.strides)
        return self.input(array.shape, dtypes.FROM_NUMPY[array.dtype], strides)

    def __getattr__(self, name):
        op = getattr(P, name)

        def call(*args, **params):
            metas = [a.meta if isinstance(a, Node) else tuple(t.meta for t in a) if isinstance(a, tuple) else a
                     for a in args]
            self.nodes.append(Node(f"t{len(self.nodes)}", op, args, params, op.kind.meta(op, *metas, **params)))
            return self.nodes[-1]

        return call

    def compile(self, *outputs):
        fresh = [Meta.of(o.shape, o.dtype) for o in outputs if not isinstance(o, Store)]
        return compile_graph(Graph(self.inputs, self.nodes, outputs), "test", fresh)

    def run(self, outputs, arrays):
        """The fresh outputs as arrays (16-bit floats as their bits); ``self.flag`` is the error flag, ``self.again()``
        runs once more."""
        program = self.compile(*outputs)
        bound = program.bind()
        results = [np.full(m.shape, 77, m.dtype.numpy) for m in program.output_metas]
        room = [np.empty(n + 64, np.uint8) for n in bound.temporaries]
        flag = np.zeros(1, np.int64)
        values = [slot(n, a) for n, a in zip(self.inputs, arrays)]
        values = np.array(values + [a.ctypes.data for a in (*results, *room, flag)], np.int64)
        code = np.array(encode(bound.launches), np.int64)

        def again(keep=(arrays, room, results)):
            pool.caller("program_run")(code.ctypes.data, values.ctypes.data)

        again()
        self.again, self.program, self.flag = again, program, int(flag[0])
        return results


def slot(node, value):
    """What the program finds in an input's slot: an address, or the bits of a number."""
    if not node.weak:
        return value.ctypes.data
    if node.dtype.is_floating_point:
        return ctypes.c_int64.from_buffer(ctypes.c_double(value)).value
    return int(value)


def compute(build, *arrays):
    """``build(p, *nodes)`` compiled and run; one result, or a list of them."""
    p = Program()
    made = build(p, *(p.of(a) for a in arrays))
    several = isinstance(made, tuple)
    results = p.run(made if several else (made,), arrays)
    return results if several else results[0]

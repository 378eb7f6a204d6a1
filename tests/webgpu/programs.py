"""The programs of ``tests/compiler`` compiled for WebGPU and run on its buffers."""
import functools

import numpy as np

from rushlight._src.compiler.launch import encode
from rushlight._src.compiler.segment import compile_graph
from rushlight._src.devices.webgpu.target import Shaders
from rushlight._src.core.meta import Meta
from rushlight._src.devices.webgpu import board
from rushlight._src.graph.graph import Graph, Store

from ..compiler.programs import slot


@functools.cache
def device():
    """(the first adapter's board, its target), or the reason why there is none."""
    try:
        found = board.adapters()
    except RuntimeError as reason:
        return str(reason)
    if not found:
        return "no adapter of WebGPU"
    made = board.Board(found[0])
    return made, Shaders(made.features, made.limits[board.BINDINGS])


def compile_for_shaders(self, *outputs):
    fresh = [Meta.of(o.shape, o.dtype) for o in outputs if not isinstance(o, Store)]
    return compile_graph(Graph(self.inputs, self.nodes, outputs), "test", fresh, target=device()[1])


def span(array):
    """The first and the last byte of an array beside its address."""
    if not array.size:
        return 0, 0
    steps = [(n - 1) * s for n, s in zip(array.shape, array.strides)]
    return sum(s for s in steps if s < 0), sum(s for s in steps if s > 0) + array.itemsize


def sent(array):
    low, high = span(array)
    address = device()[0].take(high - low)
    device()[0].upload(address, array.ctypes.data + low, high - low)
    return address - low


def brought(array, address):
    low, high = span(array)
    device()[0].download(array.ctypes.data + low, address + low, high - low)


def run_on_shaders(self, outputs, arrays):
    program = self.compile(*outputs)
    bound = program.bind()
    results = [np.full(m.shape, 77, m.dtype.numpy) for m in program.output_metas]
    flag, homes = np.zeros(1, np.int64), [sent(r) for r in results]
    inputs = [None if n.weak else sent(a) for n, a in zip(self.inputs, arrays)]
    room = [device()[0].take(n + 64) for n in bound.temporaries]
    values = [slot(n, a) if n.weak else at for n, a, at in zip(self.inputs, arrays, inputs)]
    values = np.array([*values, *homes, *room, flag.ctypes.data], np.int64)
    code = np.array(encode(bound.launches), np.int64)

    def again():
        device()[0].run(code.ctypes.data, values.ctypes.data)
        for array, address in [*zip(arrays, inputs), *zip(results, homes)]:
            if address is not None:
                brought(array, address)

    again()
    self.again, self.program, self.flag = again, program, int(flag[0])
    return results

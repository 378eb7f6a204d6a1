"""The programs of ``tests/compiler`` written in Triton and run by its interpreter."""
import numpy as np

from rushlight._src.compiler.segment import compile_graph
from rushlight._src.core.meta import Meta
from rushlight._src.devices.triton.target import Blocks
from rushlight._src.graph.graph import Graph, Store

from ..compiler.programs import slot

TARGET = Blocks("cuda")


def compile_for_blocks(self, *outputs):
    fresh = [Meta.of(o.shape, o.dtype) for o in outputs if not isinstance(o, Store)]
    return compile_graph(Graph(self.inputs, self.nodes, outputs), "test", fresh, target=TARGET)


def run_by_interpreter(self, outputs, arrays):
    from .interpreter import run

    program = self.compile(*outputs)
    bound = program.bind()
    results = [np.full(m.shape, 77, m.dtype.numpy) for m in program.output_metas]
    room = [np.empty(n + 64, np.uint8) for n in bound.temporaries]
    flag = np.zeros(1, np.int64)
    values = [slot(n, a) for n, a in zip(self.inputs, arrays)] + [a.ctypes.data for a in (*results, *room, flag)]

    def again(keep=(arrays, room, results)):
        run(bound.launches, values)

    again()
    self.again, self.program, self.flag = again, program, int(flag[0])
    return results

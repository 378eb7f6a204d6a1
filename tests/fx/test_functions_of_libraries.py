"""Operators of ``torch.ops`` that are plain functions, with arguments that answer for themselves."""
import rushlight as torch
from rushlight import fx


def test_a_block_is_left_while_a_program_is_traced():
    def named(x):
        block = torch.ops.profiler._record_function_enter("part")
        y = x.relu()
        torch.ops.profiler._record_function_exit(block)
        return y

    class Tracer(fx.Tracer):
        def trace(self, root, concrete_args=None):
            graph = self.graph = fx.Graph()
            x = fx.Proxy(graph.placeholder("x"), self)
            block = fx.Proxy(graph.call_function(torch.ops.profiler._record_function_enter, ("part",)), self)
            y = x.relu()
            torch.ops.profiler._record_function_exit(block)
            graph.output(y.node)
            return graph

    graph = Tracer().trace(None)
    assert [n.op for n in graph.nodes] == ["placeholder", "call_function", "call_method", "call_function", "output"]
    module = fx.GraphModule({}, graph)
    with torch.profiler.profile() as seen:
        assert module(torch.tensor([-1.0, 2.0])).tolist() == named(torch.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]
    assert [event.count for event in seen.key_averages() if event.key == "part"] == [2]

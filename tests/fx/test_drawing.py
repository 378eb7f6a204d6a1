"""Graphs as pictures: every node and edge is in the text, names are escaped."""
import rushlight as torch
from rushlight.fx.passes.graph_drawer import FxGraphDrawer, quoted
from rushlight.fx.passes.shape_prop import ShapeProp


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        self.scale = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        return torch.relu(self.layer(x)) * self.scale


def test_nodes_and_edges(tmp_path):
    traced = torch.fx.symbolic_trace(Model())
    ShapeProp(traced).propagate(torch.ones(2, 4))
    dot = FxGraphDrawer(traced, "a model").get_dot_graph()
    text = dot.to_string()
    assert text.startswith('digraph "a model" {') and text.count("{") == text.count("}")
    assert text.count("shape=box") == len(list(traced.graph.nodes))
    assert text.count("->") == sum(len(n.all_input_nodes) for n in traced.graph.nodes)
    assert '"layer" -> "relu";' in text and "torch.float32 [2, 3]" in text
    dot.write(tmp_path / "model.dot")
    assert (tmp_path / "model.dot").read_text() == text


def test_attributes_may_be_left_out():
    text = str(FxGraphDrawer(torch.fx.symbolic_trace(Model()), "model", ignore_getattr=True).get_dot_graph())
    assert '"scale"' not in text and '"relu" -> "mul";' in text


def test_names_are_escaped():
    assert quoted('a "b"\n\\') == '"a \\"b\\"\\n\\\\"'

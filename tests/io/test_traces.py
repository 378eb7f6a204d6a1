"""Calls of traced modules and functions: what was recorded runs, with the state that the module has."""
import copy
import pickle
import warnings

import pytest

import rushlight as torch

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit")


class Counted(torch.nn.Module):
    """A module that notes when its Python runs."""

    def __init__(self, calls):
        super().__init__()
        self.__dict__["calls"] = calls
        self.linear, self.norm, self.drop = torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), torch.nn.Dropout(0.5)
        self.table, self.inner = torch.ones(2), torch.nn.Module()
        self.inner.table = torch.full((2,), 2.0)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x, scale=1):
        self.calls.append(1)
        self.count += 1
        return {"y": self.drop(self.norm(self.linear(x))) * self.table + self.inner.table * scale}


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("trains", [False, True])
def test_python_runs_while_it_is_traced_only(rows, trains):
    if trains and rows == 1:
        rows = 2  # batch norms of one row raise
    calls = []
    module = Counted(calls).train(trains)
    traced, again = torch.jit.trace(module, torch.randn(rows, 3), strict=False), copy.deepcopy(module)
    assert calls
    for x in map(lambda n: torch.randn(n, 3), (rows, 4, 7, 100)):
        torch.manual_seed(0)
        wanted, before = again(x)["y"], len(calls)
        torch.manual_seed(0)
        torch.testing.assert_close(traced(x)["y"], wanted)
        assert len(calls) == before
    for one, other in zip(module.buffers(), again.buffers(), strict=True):
        torch.testing.assert_close(one, other)


def test_traces_have_the_state_of_their_module():
    module = Counted([]).eval()
    traced, x = torch.jit.trace(module, torch.randn(4, 3), strict=False), torch.randn(6, 3)
    traced(x)["y"].sum().backward()
    assert module.linear.weight.grad.abs().sum() > 0
    with torch.no_grad():
        module.linear.weight.zero_()
    module.linear.bias = torch.nn.Parameter(torch.ones(2))
    torch.testing.assert_close(traced(x)["y"], module(x)["y"])
    other = copy.deepcopy(traced)
    other.linear.bias.data.zero_()
    assert not torch.equal(other(x)["y"], traced(x)["y"])


def test_functions_keep_what_they_close_over():
    weight, calls = torch.ones(3, requires_grad=True), []

    def scaled(x):
        calls.append(1)
        return x * weight

    traced = torch.jit.trace(scaled, torch.ones(3))
    before = len(calls)
    traced(torch.ones(2, 3)[0]).sum().backward()
    assert len(calls) == before and weight.grad.equal(torch.ones(3))


def test_inputs_beyond_the_record_run_the_python():
    calls = []

    def halves(x):
        calls.append(1)
        return [part.sum() for part in x.split(2)]

    traced = torch.jit.trace(halves, torch.ones(4))
    before = len(calls)
    assert len(traced(torch.ones(4))) == 2 and len(calls) == before
    assert len(traced(torch.ones(6))) == 3 and traced(torch.ones(4, dtype=torch.int32))[0].dtype == torch.int64


def test_what_fits_no_graph_warns_and_runs():
    with pytest.warns(torch.jit.TracerWarning, match="fits no one graph"):
        traced = torch.jit.trace(lambda x: x * 2 if x.sum() > 0 else x, torch.ones(2))
    assert traced(torch.ones(2)).equal(torch.full((2,), 2.0))


def test_graphs_and_code_show_operators():
    x = torch.ones(2, 3)
    for traced in (torch.jit.trace(Counted([]).eval(), x, strict=False),
                   torch.jit.trace(lambda x: torch.nn.functional.linear(x, x), x)):
        assert "aten.linear" in traced.code
        for graph in (traced.graph, traced.inlined_graph, traced.graph_for(x)):
            assert isinstance(graph, torch._C.Graph) and "aten::linear" in str(graph)
            assert "aten::linear" in [node.kind() for node in graph.nodes()]
            assert next(graph.inputs()).type().sizes() == [2, 3]


def test_traces_of_a_forward_are_of_its_module():
    x, net = torch.ones(2, 3), torch.nn.Linear(3, 2)
    traced = torch.jit.trace(net.forward, x)
    assert isinstance(traced, torch.nn.Module) and traced.state_dict()["weight"].equal(net.weight)
    assert traced(x).equal(net(x))


def test_traces_are_pickled():
    traced, x = torch.jit.trace(torch.nn.Linear(3, 2), torch.ones(2, 3)), torch.randn(5, 3)
    back = pickle.loads(pickle.dumps(traced))
    torch.testing.assert_close(back(x), traced(x))


def test_autocast_mode_is_remembered():
    before = torch._C._jit_set_autocast_mode(False)
    try:
        assert before is True and torch._C._jit_set_autocast_mode(True) is False
    finally:
        torch._C._jit_set_autocast_mode(before)


def test_check_inputs_compare_the_record_with_the_python():
    counter = [0.0]

    def counted(x):
        counter[0] += 1
        return x + counter[0]

    with pytest.warns(torch.jit.TracerWarning, match="Output nr 1. of the traced function does not match"):
        torch.jit.trace(counted, torch.ones(3), check_inputs=[(torch.zeros(3),)])
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        torch.jit.trace(counted, torch.ones(3), check_inputs=[torch.zeros(3)], check_trace=False)
        more = [torch.zeros(3), (torch.ones(5)[:3],)]
        torch.jit.trace(lambda x: torch.rand(3) + x.sin(), torch.ones(3), check_inputs=more)

"""Patterns of graphs: how many users the nodes may have."""
import pytest
import rushlight as torch
from rushlight._inductor.pattern_matcher import Arg, CallFunction, ListOf

aten = torch.ops.aten


class Shared(torch.nn.Module):
    def forward(self, x):
        inner = x.neg()
        return inner.abs() + inner.abs(), inner, torch.cat([inner, x])


@pytest.mark.parametrize("users,found", [(1, False), (4, True)])
def test_users_of_inner_nodes_are_counted(users, found):
    graph = torch.export.export(Shared(), (torch.ones(2),)).graph
    node = next(n for n in graph.nodes if n.target is aten.abs.default)
    inner = CallFunction(aten.neg.default, Arg(), _users=users)
    assert len(next(n for n in graph.nodes if n.target is aten.neg.default).users) == 4
    assert (CallFunction(aten.abs.default, inner).match(node) is not None) is found
    assert CallFunction(aten.neg.default, Arg()).match(node.args[0]) is not None, "the outermost may have any"
    cat = next(n for n in graph.nodes if n.target is aten.cat.default)
    assert (CallFunction(aten.cat.default, ListOf(inner, partial=True)).match(cat) is not None) is found

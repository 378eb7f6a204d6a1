"""Nested tensors in compiled functions: as uncompiled, in one graph, which serves other lengths too."""
from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.nn import functional as F

OFFSETS = [[0, 2, 6], [0, 3, 6], [0, 1, 6], [0, 4, 6]]  # of six rows, by lengths
LONGER = [[0, 5, 8], [0, 3, 11], [0, 0, 9]]


def batch(offsets, size=4):
    values = torch.arange(float(offsets[-1] * size)).view(offsets[-1], size).sin()
    return torch.nested.nested_tensor_from_jagged(values, torch.tensor(offsets))


def described(value):
    if isinstance(value, (tuple, list)):
        return list(map(described, value))
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_nested:
        return value.offsets().tolist(), described(value.values())
    return value.detach().double().flatten().tolist(), tuple(value.shape)


def close(found, wanted):
    if isinstance(wanted, (list, tuple)):
        return len(found) == len(wanted) and all(map(close, found, wanted))
    return found == pytest.approx(wanted, rel=1e-5, abs=1e-6, nan_ok=True)


def attended(x):
    q = x.unflatten(-1, [2, -1]).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q, q).transpose(1, 2).flatten(2, 3)


LAYER = torch.nn.Linear(4, 3)
PROGRAMS = {
    "elementwise": lambda x: (x * x + 1).sin(),
    "rows": lambda x: x.values().cos(),
    "offsets": lambda x: x.offsets() + 1,
    "sums of examples": lambda x: x.sum(dim=1),
    "means of examples": lambda x: x.mean(1, keepdim=True),
    "of all": lambda x: (x * 2).sum(),
    "last dimensions": lambda x: torch.softmax(x, -1).sum(-1),
    "a layer": lambda x: LAYER(x).relu(),
    "padded": lambda x: torch.nested.to_padded_tensor(x * 2, 0.5),
    "beside a dense tensor": lambda x: x + torch.ones(x.size(0), 1, 4),
    "attention": attended,
    "sizes": lambda x: (x.size(0), x.dim(), x.is_nested, x.size(-1)),
    "with these offsets": lambda x: torch.nested.nested_tensor_from_jagged(x.values() * 2, x.offsets()),
    "examples": lambda x: [e.sin() * 2 for e in x],
    "one example": lambda x: x[-1] * 2,
    "sizes of examples": lambda x: [e.size(0) for e in x.unbind()],
    "examples end to end": lambda x: torch.cat([LAYER(e) for e in x.unbind()]),
    "a matrix for each example": lambda x: x @ torch.ones(x.size(0), 4, 3),
    "products over rows": lambda x: x.transpose(1, 2) @ x,
    "as it is": lambda x: (x, x.clone()),
    "of the same shape": lambda x: x.unsqueeze(-1).squeeze(-1) + torch.zeros_like(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_what_they_give_uncompiled(name):
    program = PROGRAMS[name]
    compiled = torch.compile(program, fullgraph=True)
    for offsets in (*OFFSETS, *LONGER):
        assert close(described(compiled(batch(offsets))), described(program(batch(offsets)))), offsets


@pytest.mark.parametrize("name", ["elementwise", "a layer", "sums of examples", "attention", "padded"])
def test_graphs_serve_other_lengths(name):
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    compiled = torch.compile(PROGRAMS[name], fullgraph=True, backend=backend)
    for offsets in (*OFFSETS[:1], *LONGER[:2], [0, 4, 13], [0, 9, 15], [0, 1, 17]):
        compiled(batch(offsets))
    assert len(graphs) <= 3


def test_gradients_reach_rows():
    def loss(values, offsets):
        return (attended(torch.nested.nested_tensor_from_jagged(values, offsets)) ** 2).values().sum()

    compiled = torch.compile(loss, fullgraph=True)
    for offsets in ([0, 2, 6], [0, 5, 6], [0, 3, 9]):
        values = torch.arange(offsets[-1] * 4.0).view(-1, 4).cos()
        mine, theirs = (values.clone().requires_grad_() for _ in range(2))
        compiled(mine, torch.tensor(offsets)).backward()
        loss(theirs, torch.tensor(offsets)).backward()
        assert close(described(mine.grad), described(theirs.grad))


def test_gradients_flow_through_examples():
    def loss(x):
        return torch.stack([(e * e).mean() for e in x.unbind()]).sum()

    x, y = (batch([0, 2, 6]).requires_grad_() for _ in range(2))
    loss(x).backward()
    torch.compile(loss, fullgraph=True)(y).backward()
    assert close(described(y.grad), described(x.grad))


def test_a_nested_result_has_the_history_of_its_rows():
    x = batch([0, 2, 6]).requires_grad_()
    found = torch.compile(lambda x: x.sin() * 2, fullgraph=True)(x)
    found.values().sum().backward()
    assert close(described(x.values().grad), described((x.values().cos() * 2).detach()))


def test_results_keep_the_ragged_dimension():
    x = batch([0, 2, 6])
    found, other, same = torch.compile(lambda x: (x * 2, x.cos(), x), fullgraph=True)(x)
    assert same is x and found.size(1) is x.size(1) and (found + other + x).values().shape == (6, 4)


def test_gaps_and_written_offsets_are_seen():
    values = torch.ones(6, 2)
    gaps = torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, 2, 6]), torch.tensor([1, 3]))
    short = torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, 2, 5]))
    compiled = torch.compile(lambda x: x.sum(1))
    for x in (batch([0, 2, 6], 2), gaps, short):
        assert close(described(compiled(x)), described(x.sum(1)))
    offsets = torch.tensor([0, 2, 6])
    made = torch.compile(lambda v, o: torch.nested.nested_tensor_from_jagged(v, o).sum(1))
    assert made(values, offsets).tolist() == [[2, 2], [4, 4]]
    offsets[1] = 5
    assert made(values, offsets).tolist() == [[5, 5], [1, 1]]
    offsets[2] = 5
    assert made(values, offsets).tolist() == [[5, 5], [0, 0]]
    offsets[2] = 7
    with pytest.raises(RuntimeError, match="offsets end at 7"):
        made(values, offsets)


def test_two_of_different_offsets_run_uncompiled():
    x, y = batch([0, 2, 6]), batch([0, 2, 6])
    assert close(described(torch.compile(lambda x, y: x + y)(x, y)), described(x + y))
    with pytest.raises(torch._dynamo.exc.Unsupported, match="RB015"):
        torch.compile(lambda x, y: x + y, fullgraph=True)(x, y)


def test_two_of_the_same_offsets_fit():
    offsets, rows = torch.tensor([0, 2, 6]), torch.arange(12.0).view(6, 2)
    x, y = (torch.nested.nested_tensor_from_jagged(r, offsets) for r in (rows, rows.cos()))
    found = torch.compile(lambda x, y: x * y, fullgraph=True)(x, y)
    assert close(described(found), described(x * y))
    other = torch.nested.nested_tensor_from_jagged(rows, torch.tensor([0, 3, 6]))
    with pytest.raises(RuntimeError):
        torch.compile(lambda x, y: x * y)(x, other)


def test_offsets_written_in_the_graph():
    def program(values, offsets):
        offsets[1] = 5
        return torch.nested.nested_tensor_from_jagged(values, offsets).sum(1)

    values = torch.ones(6, 2)
    assert torch.compile(program)(values, torch.tensor([0, 2, 6])).tolist() == [[5, 5], [1, 1]]


@pytest.mark.parametrize("name", ["padded", "sums of examples", "means of examples", "attention"])
def test_offsets_written_before_they_tell(name):
    def program(x):
        before = PROGRAMS[name](x)
        x.offsets()[1] = 0
        return before, PROGRAMS[name](x)

    assert close(described(torch.compile(program)(batch([0, 4, 6]))), described(program(batch([0, 4, 6]))))


def test_offsets_written_through_another_view():
    def program(x, offsets):
        offsets[1] = 0
        return x.to_padded_tensor(0.0)

    def run(function, apart):
        offsets = torch.tensor([0, 4, 6])
        x = torch.nested.nested_tensor_from_jagged(torch.arange(12.0).view(6, 2), offsets)
        return described(function(x, offsets[:2].clone() if apart else offsets[:2]))

    for order in ((True, False), (False, True)):
        compiled = torch.compile(program)
        for apart in order:
            assert run(compiled, apart) == run(program, apart)

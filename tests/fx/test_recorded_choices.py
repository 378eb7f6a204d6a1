"""``cond`` and ``while_loop`` in functions that make_fx traces: they stay data-dependent in the graph."""
import pytest

import rushlight as torch
from rushlight import cond, while_loop
from rushlight.fx.experimental.proxy_tensor import make_fx

W = torch.tensor([2.0, 3.0, 4.0])


def simple(x):
    return cond(x.sum() > 0, lambda x: x.cos(), lambda x: x.sin(), (x,))


def reads_around(x):
    y, z = x * 3, x + 1
    return cond(x.sum() > 0, lambda x: (x + y, {"a": W * 2}), lambda x: (x * z, {"a": W * y}), (x,))


def nested(x):
    y = x.sin()
    return cond(x.sum() > 0, lambda x: x + 1,
                lambda x: cond(y.sum() > 0.5, lambda x: x * y, lambda x: x - W, (x,)), (x,))


def gives_its_operand(x):
    return cond(x.sum() > 0, lambda x: x, lambda x: x * 2, (x,))


@pytest.mark.parametrize("function", [simple, reads_around, nested, gives_its_operand])
@pytest.mark.parametrize("traced_with", [1.0, -1.0])
def test_data_choose_when_the_graph_runs(function, traced_with):
    graph = make_fx(function)(torch.full((3,), traced_with))
    assert [n for n in graph.graph.nodes if n.target is torch.ops.higher_order.cond]
    for value in (1.0, -1.0, -4.0, 7.0, 0.0):
        x = torch.full((3,), value)
        assert str(graph(x)) == str(function(x)), value


def test_gradients_flow_through_the_graph():
    graph = make_fx(simple)(torch.ones(3, requires_grad=True))
    x = torch.full((3,), -2.0, requires_grad=True)
    assert torch.allclose(torch.autograd.grad(graph(x).sum(), x)[0], x.detach().cos())


def counted(x):
    step = x.abs() + 1
    return while_loop(lambda n, x: n < 4, lambda n, x: (n + 1, x * 2 + step - W), (x.sum().long(), x))


def chosen_in_a_loop(x):
    def body(n, x, w):
        return n + 1, cond(x.sum() > 0, lambda x: x - w, lambda x: x + n, (x,))
    return while_loop(lambda n, x, w: n < 5, body, (torch.tensor(0), x), (W,))


@pytest.mark.parametrize("function", [counted, chosen_in_a_loop])
@pytest.mark.parametrize("traced_with", [1.0, 9.0])
def test_data_end_loops_when_the_graph_runs(function, traced_with):
    graph = make_fx(function)(torch.full((3,), traced_with))
    assert [n for n in graph.graph.nodes if n.target is torch.ops.higher_order.while_loop]
    for value in (1.0, -1.0, -4.0, 7.0, 0.0):
        x = torch.full((3,), value)
        assert str(graph(x)) == str(function(x)), value


def slope(x):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(simple(x).sum(), x)[0]


@pytest.mark.parametrize("function, error", [
    (lambda x: cond(x.sum() > 0, lambda x: x.add_(1), lambda x: x.cos(), (x,)), RuntimeError),
    (lambda x: cond(x.sum() > 0, lambda x: x[:1], lambda x: x.cos(), (x,)), RuntimeError),
    (lambda x: cond(x.sum() > 0, lambda x: [x + 1], lambda x: x.cos(), (x,)), RuntimeError),
    (lambda x: while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * 2), (0, x)), RuntimeError),
    (slope, NotImplementedError)], ids=["write", "shapes", "trees", "numbers", "gradient"])
def test_what_cannot_be_written_down_is_refused(function, error):
    with pytest.raises(error):
        make_fx(function)(torch.ones(3))


def written_before(x):
    y = x.clone()
    y.add_(1)
    y[0].mul_(2)
    return cond((x > 0).all(), lambda a: a * y, lambda a: a.clone().add_(1) - y + W, (x,))


def one_choice_for_all(x):
    above = x.sum() > 0
    return torch.vmap(lambda a: cond(above, lambda b: b * a + W, lambda b: torch.zeros(3), (a,)))(x)


@pytest.mark.parametrize("function", [simple, written_before, one_choice_for_all, counted])
@pytest.mark.parametrize("within", [lambda f: f, torch.func.functionalize,
                                    lambda f: torch.func.functionalize(torch.func.functionalize(f))])
def test_transforms_write_choices_down(function, within):
    graph = make_fx(within(function))(torch.ones(3))
    targets = {n.target for n in graph.graph.nodes}
    assert targets & {torch.ops.higher_order.cond, torch.ops.higher_order.while_loop}
    for x in (torch.ones(3), -torch.ones(3), torch.tensor([2.0, -1.0, 0.0])):
        assert str(graph(x)) == str(function(x))
    again = make_fx(within(graph))(torch.ones(3))
    assert str(again(-torch.ones(3))) == str(function(-torch.ones(3)))


def test_each_example_chooses_for_itself():
    f = torch.vmap(lambda a: cond(a > 0, lambda b: b * 3, lambda b: b - 1, (a,)))
    x = torch.tensor([2.0, -1.0, 0.0])
    assert torch.equal(make_fx(f)(torch.ones(3))(x), f(x))


def looped(x):
    return while_loop(lambda n, y: n < 4, lambda n, y: (n + 1, y * 2), (torch.tensor(0), x))[1]


@pytest.mark.parametrize("transformed", [
    torch.func.grad(lambda x: simple(x).sum()), torch.func.grad(lambda x: looped(x).sum()), torch.vmap(looped),
    lambda x: torch.func.jvp(simple, (x,), (x,))])
def test_transforms_that_are_not_written_down_are_refused(transformed):
    with pytest.raises(NotImplementedError, match="transform the graph"):
        make_fx(transformed)(torch.ones(3))

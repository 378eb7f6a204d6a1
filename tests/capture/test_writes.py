"""Compiled functions that write into their arguments, which may share memory or have a history."""
import pytest

import rushlight as rl


def scaled(a, b):
    a.add_(1)
    return a * b + b.flip(0)


def both(a, b):
    a.add_(1)
    b.mul_(2)
    return a + b


def same(x):
    return x, x


def apart(x):
    return x, x.clone()


def views(x):
    return x, x[:]


def halves(x):
    return x[:2], x[2:]


def shifted(x):
    return x[:-1], x[1:]


@pytest.mark.parametrize("arguments", [same, apart, views, halves, shifted])
@pytest.mark.parametrize("function", [scaled, both])
def test_shared_memory(function, arguments):
    wanted, got = rl.arange(4.0), rl.arange(4.0)
    result = function(*arguments(wanted))
    compiled = rl.compile(function)
    assert compiled(*arguments(rl.zeros(4))) is not None
    assert compiled(*arguments(got)).tolist() == result.tolist()
    assert got.tolist() == wanted.tolist()


def test_an_argument_with_a_history():
    x = rl.zeros(4, requires_grad=True)
    made = x * 1
    rl.compile(scaled)(made, rl.ones(4)).sum().backward()
    assert made.tolist() == [1.0] * 4 and x.grad.tolist() == [1.0] * 4
    with pytest.raises(RuntimeError, match="leaf"):
        rl.compile(scaled)(x, rl.ones(4))


def test_a_buffer_that_takes_part_in_the_derivative():
    x, buffer = rl.zeros(4, requires_grad=True), rl.zeros(4)
    rl.compile(lambda x, buffer: buffer.add_(x) * 2)(x, buffer).sum().backward()
    assert buffer.requires_grad and x.grad.tolist() == [2.0] * 4


@pytest.mark.parametrize("wanted", [False, True])
def test_memory_of_an_earlier_graph_is_written_and_read_by_the_backward(wanted):
    weight = rl.tensor([[1.0, 2.0, 3.0], [0.5, 1.0, 1.5], [1.0, 0.0, 2.0]], requires_grad=True)

    def scattered(x, places, cut):
        out = rl.full((6, 3), 0.5)
        if cut:
            rl._dynamo.graph_break()
        before = (out * 2).sum()
        out[places] = x * 2
        return (out[:4].view(2, 2, 3) @ weight).pow(2) * before

    def gradients(function):
        x = rl.arange(6.0).reshape(2, 3).requires_grad_(wanted)
        loss = function(x, rl.tensor([1, 2]), True).sum()
        first = rl.autograd.grad(loss, [weight, *[x] * wanted], create_graph=True)
        return [g.detach() for g in (*first, *rl.autograd.grad(first[0].pow(2).sum(), [weight, *[x] * wanted]))]

    for expected, found in zip(gradients(scattered), gradients(rl.compile(scattered))):
        rl.testing.assert_close(found, expected)


def test_a_repeated_number_can_be_written():
    def f(x, places):
        out = rl.tensor(0.0).repeat([6, 3])
        out[places] = x * 2
        return out

    x = rl.ones(2, 3, requires_grad=True)
    found = rl.compile(f, fullgraph=True)(x, rl.tensor([1, 2]))
    found.sum().backward()
    assert found.sum().item() == 12 and x.grad.tolist() == [[2.0] * 3] * 2


def two(x):
    y = x * 2
    return y, y.view(2, 2), y[1:], y[:3]


def parts(x):
    y = x * 2
    return y[:3], y[1:]


def split(x):
    return (x * 2).chunk(2)


def detached(x):
    y = x * 2
    return y, y.detach()


def kept_in_containers(x):
    y = x * 2
    return {"all": [y], "rows": y.view(2, 2).unbind(0)}


def of_half_the_size(x):
    y = x * 2
    return y, y[:x.shape[0] // 2]


@pytest.mark.parametrize("function", [two, parts, split, detached, kept_in_containers, of_half_the_size])
@pytest.mark.parametrize("dynamic", [False, True])
def test_results_share_memory_as_they_do_uncompiled(function, dynamic):
    compiled = rl.compile(function, fullgraph=True, dynamic=dynamic)
    for grad in (False, True):
        found = []
        for run in (function, compiled):
            x = rl.arange(1.0, 5.0, requires_grad=grad)
            results = rl.utils._pytree.tree_leaves(run(x))
            if grad:
                sum((r * r).sum() for r in results).backward()
            with rl.no_grad():
                results[0].mul_(-1)
            found.append(([r.tolist() for r in results], [r.requires_grad for r in results],
                          None if x.grad is None else x.grad.tolist()))
        assert found[0] == found[1]


def test_values_that_live_past_a_break_share_memory():
    def f(x):
        y = x * 2
        v = y.view(2, 2)
        rl._dynamo.graph_break()
        v.add_(1)
        return y, v

    for got, wanted in zip(rl.compile(f)(rl.ones(4)), f(rl.ones(4))):
        assert rl.equal(got, wanted)


def test_writing_a_result_reaches_the_gradient_of_its_views():
    def f(x):
        y = x * 2
        return y, y.view(2, 2)

    x = rl.arange(1.0, 5.0, requires_grad=True)
    y, shown = rl.compile(f)(x)
    y.mul_(3)
    (shown ** 2).sum().backward()
    assert shown._base is y and rl.equal(x.grad, 72 * x.detach())


def test_detached_in_place():
    def f(x):
        y = x * 2
        y.detach_()
        return y * x, y

    x = rl.ones(3, requires_grad=True)
    product, y = rl.compile(f, fullgraph=True)(x)
    product.sum().backward()
    assert not y.requires_grad and rl.equal(x.grad, rl.full((3,), 2.0))

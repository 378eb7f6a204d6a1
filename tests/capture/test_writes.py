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

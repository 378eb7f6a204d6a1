"""Operators that PyTorch computes in several steps round at each of them, and say what they return."""
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("dim", [0, 1])
def test_differences_are_rounded_each_time(dtype, dim):
    data = [[((7 * i + 3 * j * j) % 23) * 0.7123 - 8 for j in range(7)] for i in range(6)]
    for n in range(5):
        for ends in ({}, {"prepend": True}, {"append": True}):
            found = []
            for t in (rl, torch):
                x = t.tensor(data).to(getattr(t, dtype))
                ends_of = {name: x.narrow(dim, 0, 2) for name in ends}
                found.append(t.diff(x, n, dim, **ends_of).float().tolist())
            assert found[0] == found[1]


def test_differences_of_bools_and_their_gradient():
    for n in (1, 2, 9):
        assert rl.tensor([True, False, False]).diff(n).tolist() == torch.tensor([True, False, False]).diff(n).tolist()
    slopes = []
    for t in (rl, torch):
        x = t.arange(6.0).requires_grad_()
        (t.diff(x, 2, append=x[:1]) ** 2).sum().backward()
        slopes.append(x.grad.tolist())
    assert slopes[0] == slopes[1]


def test_norms_refuse_a_dimension_twice():
    for t in (rl, torch):
        for run in (lambda t=t: t.linalg.vector_norm(t.ones(2, 2), dim=(0, -2)),
                    lambda t=t: t.linalg.norm(t.ones(2, 2), 1, dim=(1, 1))):
            with pytest.raises(RuntimeError):
                run()


def test_float_power_writes_doubles_alone():
    for t in (rl, torch):
        with pytest.raises(RuntimeError, match="(?i)dtype"):
            t.float_power(t.ones(2), 2, out=t.ones(2))
        assert t.float_power(t.ones(2), 2, out=t.ones(2).double()).dtype == t.float64


def test_none_is_no_wish_for_stability():
    for t in (rl, torch):
        assert t.tensor([2, 1]).sort(stable=None).values.tolist() == [1, 2]
        with pytest.raises(TypeError, match="expected 'shape' to be int or sequence"):
            t.unravel_index(t.tensor([1]), t.tensor([2]))

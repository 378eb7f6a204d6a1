"""Tensors that share memory with what is written: refused where PyTorch refuses, right where it allows."""
import numpy as np
import pytest
import torch

import rushlight as rl

from .test_arguments import both


def square(t):
    return t.arange(16.0).reshape(4, 4)


def with_self(call):
    return lambda t: call(t, square(t))


def put(key, value):
    """Assigns what is computed from a tensor to a part of it."""
    def call(t):
        a = square(t)
        a[key(t, a)] = value(t, a)
        return a
    return call


def rows(t, a):
    return t.tensor([2, 0, 1, 3])


CASES = {
    "itself at rows": put(rows, lambda t, a: a),
    "a row at rows": put(rows, lambda t, a: a[0]),
    "an element at rows": put(rows, lambda t, a: a[1, 1]),
    "a memory of its own at rows": put(rows, lambda t, a: a[rows(t, a)] + a[0]),
    "another row at places of a row": put(lambda t, a: (0, rows(t, a)), lambda t, a: a[1]),
    "rows at places of the same rows": put(lambda t, a: (slice(0, 1), rows(t, a)), lambda t, a: a[:1]),
    "rows under a mask": put(lambda t, a: t.tensor([True, False, True, False]), lambda t, a: a[:2]),
    "an element under a mask of rows": put(lambda t, a: t.tensor([True, False, True, False]), lambda t, a: a[1, 1]),
    "an element under a mask": put(lambda t, a: a > 3, lambda t, a: a[0, 1]),
    "elements at places that are written": lambda t: (lambda i: i.__setitem__(i[:2], 7))(t.arange(4)) or t.ones(1),
    "a mask under itself": lambda t: (lambda m: (m.__setitem__(m, m[0]), m)[1])(t.arange(4) > 1),
    "masked_fill_ with an element": with_self(lambda t, a: a.masked_fill_(a > 3, a[0, 1])),
    "masked_fill_ with an element by name": with_self(lambda t, a: a.masked_fill_(mask=a > 3, value=a[3, 3])),
    "masked_fill_ of a mask by itself": lambda t: (lambda m: m.masked_fill_(m, m[0]))(t.arange(4) > 1),
    "index_fill_ with an element": with_self(lambda t, a: a.index_fill_(0, t.tensor([3, 1]), a[0, 1])),
    "index_put_ of an element under a mask": with_self(lambda t, a: a.index_put_((a > 3,), a[0, 1])),
    "add_ of a shifted part": with_self(lambda t, a: a[1:].add_(a[:-1])),
    "add_ of the transpose": with_self(lambda t, a: a.add_(a.t())),
    "add_ of a row": with_self(lambda t, a: a.add_(a[0])),
    "copy_ of a shifted part": with_self(lambda t, a: a[1:].copy_(a[:-1])),
    "fill_ with its first": with_self(lambda t, a: a.fill_(a[0, 0])),
    "fill_ of a part with its last": with_self(lambda t, a: (a[1:].fill_(a[3, 3]), a)[1]),
    "copy_ of itself": with_self(lambda t, a: a.copy_(a)),
    "copy_ of the transpose": with_self(lambda t, a: a.copy_(a.t())),
    "mul_ by itself": with_self(lambda t, a: a.mul_(a)),
    "add into a shifted part": with_self(lambda t, a: t.add(a[:-1], 1, out=a[1:])),
    "add into an operand": with_self(lambda t, a: t.add(a, a, out=a)),
    "cumsum into its input": with_self(lambda t, a: t.cumsum(a, 0, out=a)),
    "where into an operand": with_self(lambda t, a: t.where(a > 3, a, a.t(), out=a)),
    "index_select into its input": with_self(lambda t, a: t.index_select(a, 0, t.arange(4), out=a)),
    "gather into its input": with_self(lambda t, a: t.gather(a, 0, t.zeros(4, 4).long(), out=a)),
    "take into its input": with_self(lambda t, a: t.take(a, t.zeros(4, 4).long(), out=a)),
    "masked_select into its input": with_self(lambda t, a: t.masked_select(a, a > 3, out=a)),
    "kthvalue into its input": with_self(lambda t, a: t.kthvalue(a[0], 2, out=(a[0], t.zeros(()).long()))),
    "cat into an item": with_self(lambda t, a: t.cat([a, a], out=a[:2])),
    "scatter_ of itself": with_self(lambda t, a: a.scatter_(0, t.zeros(4, 4).long(), a)),
    "index_add_ of itself": with_self(lambda t, a: a.index_add_(0, t.arange(4), a)),
    "index_copy_ of itself": with_self(lambda t, a: a.index_copy_(0, t.arange(4), a)),
    "add_ to an expanded tensor": lambda t: t.zeros(1, 3).expand(2, 3).add_(1),
    "copy_ to an expanded tensor": lambda t: t.zeros(1, 3).expand(2, 3).copy_(t.ones(2, 3)),
    "fill_ of an expanded tensor": lambda t: t.zeros(1, 3).expand(2, 3).fill_(1),
    "zero_ of an expanded tensor": lambda t: t.zeros(1, 3).expand(2, 3).zero_(),
    "add into an expanded tensor": lambda t: t.add(t.ones(2, 3), 1, out=t.zeros(1, 3).expand(2, 3)),
    "clamp_ of an expanded tensor": lambda t: t.zeros(1, 3).expand(2, 3).clamp_(0),
    "scatter_ to an expanded tensor": lambda t: t.zeros(1, 3).expand(2, 3).scatter_(0, t.zeros(1, 3).long(), 1.0),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_as_by_pytorch(name):
    theirs, ours = both(CASES[name])
    assert ours is theirs or (ours and theirs and issubclass(ours, theirs)), f"{ours} where PyTorch raises {theirs}"
    if theirs is None:
        np.testing.assert_array_equal(CASES[name](rl).numpy(), CASES[name](torch).numpy())


def test_interleaved_views_compute_from_what_was_there():
    a = rl.arange(10.0)
    a[1::2].add_(a[::2])
    assert a.tolist() == [0, 1, 2, 5, 4, 9, 6, 13, 8, 17]
    b = rl.arange(12.0).reshape(3, 4)
    b[:, 1:].mul_(b[:, :-1])  # the same rows, shifted: each reads what the others had before
    assert b.tolist() == [[0, 0, 2, 6], [4, 20, 30, 42], [8, 72, 90, 110]]


def test_products_into_an_operand_compute_from_what_was_there():
    a, b = rl.randn(5, 5), rl.randn(5, 5)
    wanted = a @ b
    assert rl.mm(a, b, out=a) is a
    np.testing.assert_allclose(a.numpy(), wanted.numpy(), rtol=1e-6)
    c = rl.randn(5, 5)
    wanted = (c + c @ c).numpy()
    np.testing.assert_allclose(c.addmm_(c, c).numpy(), wanted, rtol=1e-5)


def test_memory_shared_through_numpy():
    array = np.arange(6, dtype=np.float32)
    with pytest.raises(RuntimeError, match="single memory location"):
        rl.from_numpy(array[1:]).add_(rl.from_numpy(array[:-1]))


def test_out_gets_the_shape_and_keeps_its_identity():
    out = rl.empty(0)
    assert rl.add(rl.ones(2, 3), 1, out=out) is out and tuple(out.shape) == (2, 3)
    with pytest.warns(UserWarning, match="resized"):
        rl.add(rl.ones(4), 1, out=out)
    assert out.tolist() == [2.0] * 4


def test_out_refuses_gradients_and_narrower_dtypes():
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        rl.add(rl.ones(2, requires_grad=True), 1, out=rl.empty(2))
    with pytest.raises(RuntimeError, match="can't be cast"):
        rl.add(rl.ones(2), 1, out=rl.empty(2, dtype=rl.int64))


def test_memory_behind_an_output_that_is_too_small_is_not_its_own():
    """Whatever lies there: the output gets memory of its own when it grows."""
    made = [rl.full((8,), float(k), dtype=rl.float64) for k in range(64)]
    at = {tensor.data_ptr(): tensor for tensor in made}
    out, behind = next((tensor, at[place + 64]) for place, tensor in at.items() if place + 64 in at)
    with pytest.warns(UserWarning, match="resized"):
        rl.where(rl.ones(16, dtype=rl.bool), behind[:1], 0.0, out=out)
    assert out.tolist() == [behind[0].item()] * 16


def test_an_output_that_grows_within_its_memory():
    """Also where NumPy's views show it: whatever the operator reads there would be overwritten."""
    ours, arrays = rl.arange(3), np.arange(3)
    for source, index, out in ((ours, ours[1:], ours[:1]),
                               (rl.from_numpy(arrays), rl.from_numpy(arrays[1:]), rl.from_numpy(arrays[:1]))):
        with pytest.raises(RuntimeError, match="unsupported operation"):
            rl.gather(source, 0, index, out=out)

"""Programs that write into tensors, and results that share memory with arguments."""
import numpy as np
import pytest

import rushlight as torch
from rushlight._src.compiler.pipeline import code_of
from rushlight._src.eager import programs
from rushlight.nn import functional as F

from ..whole import whole


def same(function, *shapes, writes=()):
    """Runs a function as it is and as one program, on equal tensors; compares results and arguments, and returns both
    results."""
    torch.manual_seed(0)
    given = [torch.randn(*shape) for shape in shapes]
    other = [x.clone() for x in given]
    versions = [x._version for x in other]
    expected, found = function(*given), whole(function)(*other)
    for a, b in zip(expected if isinstance(expected, tuple) else (expected,), found if isinstance(found, tuple)
                    else (found,)):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-5, atol=1e-6)
    for k, (a, b) in enumerate(zip(given, other)):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-5, atol=1e-6)
        assert (b._version > versions[k]) == (k in writes)
    return found, other


def test_an_argument_is_written():
    found, (x, y) = same(lambda x, y: x.add_(y).mul_(2).sum(), (3, 4), (4,), writes=[0])


def test_intermediate_values_are_written():
    def body(x):
        y = x * 2
        y[1:3].fill_(1.0)
        y[:, 0] += x[:, 1]
        z = y.view(-1)
        z[::2] = 5.0
        y.t()[1] *= 3
        return y, z.sum()

    same(body, (4, 6))


def test_views_taken_before_a_write_show_it():
    def body(x):
        y = x + 1
        row, column = y[0], y[:, 1]
        y.mul_(2)
        before = row.sum()
        column.zero_()
        return before, row, y

    same(body, (3, 4))


def test_a_cache_is_written_through_a_view():
    def body(cache, new):
        cache[:, 2:4].copy_(new)
        return cache.sum(0)

    same(body, (3, 6), (3, 2), writes=[0])


def test_the_old_value_is_read_before_it_is_overwritten():
    def body(x, y):
        old = x * 3
        x.copy_(y @ y)
        return old + x, old @ x

    same(body, (4, 4), (4, 4), writes=[0])


def test_two_arguments_are_exchanged():
    def body(x, y):
        z = x.clone()
        x.copy_(y)
        y.copy_(z)
        return x + 2 * y

    same(body, (5,), (5,), writes=[0, 1])


def test_results_that_are_arguments_or_views_of_them():
    def body(x, y):
        x.add_(1)
        return x, y, y[1:], x.view(-1), x * y

    (a, b, c, d, _), (x, y) = same(body, (3, 4), (3, 4), writes=[0])
    assert a is x and b is y
    for shown, owner in ((c, y), (d, x)):
        assert shown.untyped_storage().data_ptr() == owner.untyped_storage().data_ptr()


def test_a_written_argument_without_gradient_beside_one_with():
    running = torch.zeros(4)

    def body(x, w, running):
        out = torch.relu(x @ w)
        running.mul_(0.9).add_(out.detach().mean(0), alpha=0.1)
        return out.sum()

    x, w = torch.randn(3, 2), torch.randn(2, 4, requires_grad=True)
    whole(body)(x, w, running).backward()
    found, w.grad = w.grad, None
    other = torch.zeros(4)
    body(x, w, other).backward()
    np.testing.assert_allclose(found.numpy(), w.grad.numpy(), rtol=1e-5)
    np.testing.assert_allclose(running.numpy(), other.numpy(), rtol=1e-5)


def test_what_the_backward_reads_of_an_overwritten_argument_is_its_old_value():
    def body(x, w):
        out = (x * w).sum()
        x.zero_()
        return out

    x, w = torch.randn(5), torch.randn(5, requires_grad=True)
    before = x.numpy().copy()
    whole(body)(x, w).backward()
    np.testing.assert_allclose(w.grad.numpy(), before)
    assert not x.any()


def test_writes_that_belong_to_the_derivative():
    def body(x, w):
        return x.copy_(w * 2).sum() + (x * 3).sum()

    x, w = torch.zeros(3), torch.randn(3, requires_grad=True)
    whole(body)(x, w).backward()
    np.testing.assert_allclose(w.grad.numpy(), [8, 8, 8])
    assert x.requires_grad


def test_writes_that_eager_mode_refuses():
    with pytest.raises(RuntimeError, match="in-place"):
        whole(lambda w: w.mul_(2))(torch.randn(3, requires_grad=True))
    with pytest.raises(RuntimeError, match="clone"):
        whole(lambda x: x.unsqueeze(0).expand(4, 3).add_(1))(torch.zeros(3))


def test_values_under_no_grad_are_constants():
    def body(w):
        with torch.no_grad():
            scale = w.abs().sum()
        return (w / scale).sum() + (w.detach() * w).sum()

    w = torch.randn(4, requires_grad=True)
    whole(body)(w).backward()
    found, w.grad = w.grad, None
    body(w).backward()
    np.testing.assert_allclose(found.numpy(), w.grad.numpy(), rtol=1e-5)


def test_each_call_draws_from_the_stream_as_eager_mode_does():
    def body(x):
        return F.dropout(x, 0.5) + F.dropout(x, 0.3) * torch.rand(6)

    x, operator = torch.ones(6, 6), whole(body)
    torch.manual_seed(3)
    found = [operator(x).numpy() for _ in range(3)]
    torch.manual_seed(3)
    expected = [body(x).numpy() for _ in range(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert not np.array_equal(found[0], found[1])


def test_masks_are_those_of_the_forward():
    w, operator = torch.ones(1000, requires_grad=True), whole(lambda w: F.dropout(w, 0.5))
    torch.manual_seed(1)
    y = operator(w)
    torch.rand(10)  # the stream goes on before the backward runs
    y.sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), y.detach().numpy())


def test_a_cache_is_updated_where_it_lies(monkeypatch):
    """New keys go into their places; nothing of the cache's size is copied."""
    def body(cache, new, at, query):
        cache.index_copy_(1, at, new)
        return torch.softmax(query @ cache.transpose(1, 2), -1) @ cache

    cache, new, query = torch.randn(2, 50, 4), torch.randn(2, 1, 4), torch.randn(2, 1, 4)
    other, at, operator = cache.clone(), torch.tensor([7]), whole(body)
    outlines, outlined = [], programs.outlined

    def recorded(made):
        outline = outlined(made)
        if made.name == "program":
            outlines.append(outline)
        return outline

    monkeypatch.setattr(programs, "outlined", recorded)
    for k in range(3):
        np.testing.assert_allclose(operator(other, new + k, at + k, query).numpy(),
                                   body(cache, new + k, at + k, query).numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(other.numpy(), cache.numpy())
    outline, = outlines
    # the update alone
    assert sum("nodes" in label and "[2, 50, 4]" in label for label in code_of(outline).labels) == 1


def test_an_old_cache_that_is_read_later_is_copied_first():
    def body(cache, new, at):
        before = cache.sum() + cache[0, 0]
        cache.index_add_(0, at, new)
        return before, cache * 2

    cache, new = torch.randn(5, 3), torch.randn(2, 3)
    other, at = cache.clone(), torch.tensor([3, 1])
    for a, b in zip(whole(body)(other, new, at), body(cache, new, at)):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)
    np.testing.assert_allclose(other.numpy(), cache.numpy(), rtol=1e-6)

"""Masked tensors beside PyTorch's: values where the mask holds, masks of results, gradients, what is refused."""
import warnings

import pytest
import torch

import rushlight

LIBRARIES = (rushlight, torch)
X, MASK = [[0.5, 1.0, 2.0], [3.0, 4.0, 5.0]], [[True, False, True], [False, True, False]]

CALLS = {
    "sum of two": lambda t, a, b: a + b, "with a number": lambda t, a, b: 1 / (a * 2 - 7),
    "with a plain tensor": lambda t, a, b: a + t.ones(2, 3),
    "functions": lambda t, a, b: t.log(a.sin().abs() + 1), "comparison": lambda t, a, b: a == b,
    "minimum": lambda t, a, b: t.minimum(a, b), "isnan": lambda t, a, b: a.isnan(),
    "transposed": lambda t, a, b: a.t(), "row": lambda t, a, b: a[1], "reshaped": lambda t, a, b: a.reshape(3, 2),
    "expanded": lambda t, a, b: a.unsqueeze(0).expand(2, 2, 3),
    "joined": lambda t, a, b: t.cat([a, b], 1), "stacked": lambda t, a, b: t.stack([a, b]),
    "where": lambda t, a, b: t.where(t.tensor(MASK), a, b),
    "sum": lambda t, a, b: a.sum(), "sum of columns": lambda t, a, b: a.sum(0), "mean": lambda t, a, b: a.mean(1),
    "extremes": lambda t, a, b: a.amax(0) - a.amin(0),
    "product": lambda t, a, b: a.prod(1), "position": lambda t, a, b: a.argmax(1),
    "softmax": lambda t, a, b: a.softmax(0), "std": lambda t, a, b: a.std(), "all": lambda t, a, b: (a > 0).all(),
    "in place": lambda t, a, b: a.add_(1), "ones": lambda t, a, b: t.ones_like(a), "clone": lambda t, a, b: a.clone(),
    "double": lambda t, a, b: a.to(t.float64) * 2}


def pair(library, requires_grad=False):
    x, mask = library.tensor(X), library.tensor(MASK)
    return [library.masked.masked_tensor(v, mask, requires_grad) for v in (x, x * 3)]


@pytest.mark.parametrize("name", CALLS)
def test_results(name):
    seen = []
    for library in LIBRARIES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = CALLS[name](library, *pair(library))
            assert isinstance(found, library.masked.MaskedTensor)
            mask = found.get_mask()
            kept = [v for v, m in zip(found.get_data().reshape(-1).tolist(), mask.reshape(-1).tolist()) if m]
        seen.append((tuple(found.shape), str(found.dtype), mask.tolist(), pytest.approx(kept, rel=1e-6)))
    assert seen[0][:3] == seen[1][:3]
    assert seen[0][3].expected == seen[1][3]


def test_printed_as_in_pytorch():
    for function in (lambda t, a, b: a, lambda t, a, b: a[0], lambda t, a, b: a.sum(), lambda t, a, b: a > b,
                     lambda t, a, b: t.stack([a, b])):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours, theirs = (repr(function(library, *pair(library))) for library in LIBRARIES)
        assert ours.split() == theirs.split()


def test_gradients_stop_at_the_mask():
    a, b = pair(rushlight, True)
    ((a * b).sum(0) * 2).sum().backward()
    assert isinstance(a.grad, rushlight.masked.MaskedTensor)
    assert a.grad.to_tensor(0).tolist() == [[3.0, 0, 12.0], [0, 24.0, 0]]
    x = rushlight.tensor(X, requires_grad=True)
    rushlight.masked.as_masked_tensor(x, rushlight.tensor(MASK)).exp().sum().backward()
    assert (x.grad != 0).tolist() == MASK
    x.grad = None
    (rushlight.masked.as_masked_tensor(x, rushlight.tensor(MASK)) * 2).to_tensor(0.0).sum().backward()
    assert x.grad.tolist() == [[2.0 * m for m in row] for row in MASK]


def test_refusals():
    a, b = pair(rushlight)
    x = rushlight.tensor(X)
    other = rushlight.masked.masked_tensor(x, ~rushlight.tensor(MASK))
    for error, call in ((ValueError, lambda: a + other), (TypeError, lambda: a @ b.t()), (TypeError, lambda: a.sort()),
                        (RuntimeError, lambda: a.tolist()),
                        (TypeError, lambda: rushlight.masked.masked_tensor(x, x)),
                        (ValueError, lambda: rushlight.masked.masked_tensor(x, rushlight.tensor([True] * 3))),
                        (TypeError, lambda: rushlight.masked.masked_tensor(a, a)),
                        (TypeError, lambda: rushlight.masked.masked_tensor(x.to_sparse(), x > 0)),
                        (TypeError, lambda: a.median())):
        with pytest.raises(error):
            call()

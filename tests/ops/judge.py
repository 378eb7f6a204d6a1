"""The same call by both libraries, on the same arrays: values and gradients compared."""
import numpy as np
import torch

import rushlight


def arrays(*shapes, seed=0, dtype=np.float64):
    """Normally distributed arrays."""
    generator = np.random.default_rng(seed)
    out = [generator.standard_normal(shape) for shape in shapes]
    if np.dtype(dtype).kind == "c":
        out = [x + 1j * generator.standard_normal(x.shape) for x in out]
    return [x.astype(dtype) for x in out]


def leaves(values):
    for v in values if isinstance(values, (list, tuple)) else [values]:
        if isinstance(v, (list, tuple)):
            yield from leaves(v)
        elif hasattr(v, "requires_grad"):
            yield v


def energy(x):
    return (x * x.conj()).real.sum() if x.is_complex() else (x * x).sum()


def numbers(x):
    x = x.detach()
    return (x.resolve_conj() if hasattr(x, "resolve_conj") else x).numpy()


def same(call, *values, gradients=True, rtol=1e-7, atol=1e-9):
    """Asserts that ``call(library, *tensors)`` gives the same for rushlight and torch, with the same gradients."""
    results = []
    for library in (rushlight, torch):
        inputs = [library.tensor(v) if isinstance(v, np.ndarray) else v for v in values]
        for x in inputs:
            if gradients and hasattr(x, "requires_grad") and (x.is_floating_point() or x.is_complex()):
                x.requires_grad_(True)
        outputs = list(leaves(call(library, *inputs)))
        tracked = [y for y in outputs if y.requires_grad]
        if tracked:
            sum(energy(y) for y in tracked).backward()
        results.append((outputs, [x.grad for x in inputs if hasattr(x, "grad")]))
    (ours, our_slopes), (theirs, their_slopes) = results
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        assert tuple(a.shape) == tuple(b.shape) and str(a.dtype) == str(b.dtype)
        np.testing.assert_allclose(numbers(a), numbers(b), rtol=rtol, atol=atol)
    for a, b in zip(our_slopes, their_slopes):
        if a is None or b is None:  # no gradient on one side: the other has none that matters
            assert a is b or not (b if a is None else a).abs().max()
        else:
            np.testing.assert_allclose(numbers(a), numbers(b), rtol=rtol * 10, atol=atol * 10)

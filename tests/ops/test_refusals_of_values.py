"""What PyTorch refuses by looking at values and sizes, and what is slow if it is done term by term."""
import time

import numpy as np
import pytest
import torch

import rushlight

LIBRARIES = (torch, rushlight)


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
def test_refused(library):
    packed, _ = library.linalg.lu_factor(library.tensor([[4.0, 3.0], [6.0, 3.0]]))
    for pivots in ([0, 1], [1, 9], [-1, 2], [3, 3]):
        pivots = library.tensor(pivots, dtype=library.int32)
        for call in (lambda: library.linalg.lu_solve(packed, pivots, library.ones(2, 1)),
                     lambda: library.lu_unpack(packed, pivots)):
            with pytest.raises(RuntimeError, match="[pP]ivots"):
                call()
    nothing, first, one = library.ones(0), library.tensor([0]), library.ones(1)
    for call in (lambda: nothing.scatter(0, first, one), lambda: nothing.scatter(0, first, 1.0),
                 lambda: nothing.scatter_add(0, first, one), lambda: nothing.scatter_reduce(0, first, one, "sum")):
        with pytest.raises(RuntimeError, match="out of bounds"):
            call()
    for first in (library.ones(3), library.ones(1, 1), library.ones(3, dtype=library.int64)):
        for more in ({"prepend": first}, {"append": first}):
            with pytest.raises(RuntimeError, match="prepend or append"):
                library.ones(2, 3).diff(dim=0, **more)
    for call in (lambda: library.ones(2).tensor_split(1 << 40), lambda: library.ones(2).mul(1e9).mvlgamma(1 << 40)):
        with pytest.raises(RuntimeError):
            call()


@pytest.mark.parametrize("of", ["float32", "int64", "bool", "float64"])
@pytest.mark.parametrize("with_", ["float32", "int64", "bool", "float64"])
def test_differences_meet_in_one_dtype(of, with_):
    seen, wanted = (library.diff(library.tensor([1, 0, 1], dtype=getattr(library, of)),
                                 prepend=library.tensor([1], dtype=getattr(library, with_)))
                    for library in (rushlight, torch))
    assert str(seen.dtype) == str(wanted.dtype) and seen.tolist() == wanted.tolist()


def test_differences_alone():
    for shape, dim in (((5,), 0), ((3, 4), 0), ((3, 4), 1), ((1, 4), -1)):
        for n in (0, 1, 2):
            seen, wanted = (library.arange(12).float()[:shape[0] * (shape[1:] or (1,))[0]].square().reshape(shape)
                            .diff(n, dim).tolist() for library in (rushlight, torch))
            assert seen == wanted


def test_many_terms():
    x = rushlight.tensor([3e4, 1e5], dtype=rushlight.float64)
    began = time.process_time()
    seen = x.mvlgamma(5000)
    assert time.process_time() - began < 60
    rushlight.testing.assert_close(seen, rushlight.tensor(torch.tensor([3e4, 1e5], dtype=torch.float64).mvlgamma(5000)
                                                          .tolist(), dtype=rushlight.float64), rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", ["leaky_relu", "elu", "celu", "selu", "softplus", "hardshrink", "softshrink", "silu",
                                  "mish", "hardswish", "hardsigmoid", "logsigmoid", "gelu", "huber_loss",
                                  "smooth_l1_loss"])
def test_whole_numbers_have_no_such_function(name):
    for library in LIBRARIES:
        function = getattr(library.nn.functional, name)
        for dtype in (library.int64, library.bool, library.uint8):
            x = library.ones(3, dtype=dtype)
            with pytest.raises(RuntimeError):
                function(x, x) if name.endswith("_loss") else function(x)


WRONG_VALUES = {
    **{f"quantile at {q}": lambda t, q=q: (lambda x: x.quantile(q), t.arange(4.0)) for q in (1.5, -0.1, float("nan"))},
    "quantile at a tensor": lambda t: (t.quantile, t.arange(4.0), t.tensor([0.5, 2.0])),
    "nanquantile": lambda t: (lambda x: x.nanquantile(7.0), t.arange(4.0)),
    "one_hot": lambda t: (lambda x: t.nn.functional.one_hot(x, 3), t.tensor([0, 3])),
    "one_hot below": lambda t: (lambda x: t.nn.functional.one_hot(x, 3), t.tensor([0, -1])),
    "embedding_bag": lambda t: (t.nn.functional.embedding_bag, t.tensor([0, 1]), t.ones(3, 2), t.tensor([0, 9])),
    "embedding_bag from 1": lambda t: (t.nn.functional.embedding_bag, t.tensor([0, 1]), t.ones(3, 2), t.tensor([1])),
    "binary_cross_entropy": lambda t: (t.nn.functional.binary_cross_entropy, t.tensor([2.0]), t.tensor([1.0])),
    "gaussian_nll_loss": lambda t: (t.nn.functional.gaussian_nll_loss, t.ones(2), t.ones(2), -t.ones(2)),
    "bernoulli": lambda t: (t.bernoulli, t.tensor([1.5])),
    "multinomial": lambda t: (lambda p: t.multinomial(p, 1), t.tensor([-1.0, 2.0])),
    "multinomial of nothing": lambda t: (lambda p: t.multinomial(p, 1), t.zeros(2)),
    "poisson": lambda t: (t.poisson, t.tensor([-1.0])),
    "normal": lambda t: (t.normal, t.zeros(2), -t.ones(2)),
    "ctc_loss": lambda t: (lambda x, y: t.nn.functional.ctc_loss(x, y, t.tensor([9]), t.tensor([1])),
                           t.zeros(4, 1, 3), t.tensor([[1]])),
    "ctc_loss of long targets": lambda t: (lambda x, y: t.nn.functional.ctc_loss(x, y, t.tensor([4]), t.tensor([7])),
                                           t.zeros(4, 1, 3), t.tensor([[1]])),
}


def refused(call, *args):
    with pytest.raises((RuntimeError, IndexError, ValueError)) as found:
        call(*args)
    return next(kind for kind in (IndexError, ValueError, RuntimeError) if isinstance(found.value, kind))


@pytest.mark.parametrize("name", WRONG_VALUES)
def test_compiled_functions_refuse_alike(name):
    call, *args = WRONG_VALUES[name](rushlight)
    theirs, *given = WRONG_VALUES[name](torch)
    assert refused(rushlight.compile(call), *args) is refused(call, *args) is refused(theirs, *given)


@pytest.mark.parametrize("eps", [0.0, -0.25, 1e-5])
@pytest.mark.parametrize("training", [True, False])
def test_norms_that_take_any_eps(eps, training):
    def outcomes(t, values):
        x, running = t.tensor(values), (t.zeros(3), t.ones(3))
        calls = (lambda: t.batch_norm(x, None, None, *running, training, 0.1, eps, False),
                 lambda: t.nn.functional.batch_norm(x, *running, None, None, training, 0.1, eps),
                 lambda: t.native_batch_norm(x, None, None, *running, training, 0.1, eps)[0],
                 lambda: t.nn.functional.instance_norm(x[None], eps=eps))
        for call in calls:
            try:
                yield call().tolist()
            except ValueError as error:
                yield str(error).split(",")[0]
        yield from (r.tolist() for r in running)

    for values in ([[0.0, 2.0, 2.0], [3.0, 4.0, 2.0]], [[0.0, 1.0, 2.0]]):
        for mine, theirs in zip(outcomes(rushlight, values), outcomes(torch, values)):
            assert mine == theirs if isinstance(theirs, str) else np.allclose(
                mine, theirs, atol=1e-6, equal_nan=True)


def test_equal_values_and_an_eps_of_0_have_no_gradient():
    def gradient(t):
        x = t.tensor([[1.0, 2.0], [1.0, 4.0]], requires_grad=True)
        (t.batch_norm(x, None, None, None, None, True, 0.1, 0.0, False) * t.tensor([[1.0, 2.0], [3.0, 5.0]])).sum(
        ).backward()
        return x.grad.tolist()
    assert np.allclose(gradient(rushlight), gradient(torch), atol=1e-6)

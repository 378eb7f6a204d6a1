"""What PyTorch refuses by looking at values and sizes, and what is slow if it is done term by term."""
import time

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

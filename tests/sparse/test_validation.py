"""Checks of what sparse tensors are made of: what PyTorch refuses is refused, and so are dense dimensions of other
sizes than those of the values, which its check passes by."""
import itertools

import pytest
import torch as judge

import rushlight as torch

KINDS = ["csr", "csc", "bsr", "bsc"]


def parts(kind, batch):
    """(starts, places, values, size) of a valid tensor, as lists and a shape of values."""
    starts, places, size = [0, 2, 3], [0, 2, 1], (2, 3) if kind in ("csr", "bsr") else (3, 2)
    block = (2, 3) if kind in ("bsr", "bsc") else ()
    if block:
        size = size[0] * block[0], size[1] * block[1]
    return ([starts] * batch or starts), ([places] * batch or places), ((batch,) if batch else ()) + (3, *block), (
        (batch,) if batch else ()) + size


def refused(library, kind, starts, places, values, size, dtypes=("int64", "int64")):
    given = (library.tensor(starts, dtype=getattr(library, dtypes[0])),
             library.tensor(places, dtype=getattr(library, dtypes[1])), library.ones(values), size)
    try:
        getattr(library, f"_validate_sparse_{kind}_tensor_args")(*given)
        library._validate_sparse_compressed_tensor_args(*given, getattr(library, f"sparse_{kind}"))
    except RuntimeError:
        return True
    return False


def changes(kind, batch):
    """Arguments, most of them wrong in one way."""
    starts, places, values, size = parts(kind, batch)
    yield starts, places, values, size
    for wrong in ([1, 2, 3], [0, 3, 2], [0, 2, 2], [0, 2, 3, 3], [0, 3], [0, 4, 3], [0, 1, 3]):
        yield ([wrong] * batch or wrong), places, values, size
    for wrong in ([0, 3, 1], [0, -1, 1], [2, 0, 1], [1, 1, 1], [0, 1], [0, 1, 2]):
        yield starts, ([wrong] * batch or wrong), values, size
    yield starts, places, values[:-1], size
    yield starts, places, (*values, 2), size
    yield starts, places, (*values, 2), (*size, 2)
    yield starts, places, (*values, 2), (*size, 3)
    yield starts, places, values, size[1:]
    yield starts, places, values, (*size[:-1], size[-1] + 1)
    yield starts, places, values, (*size[:-2], size[-2] * 2, size[-1])


@pytest.mark.parametrize("batch", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_compressed(kind, batch):
    assert not refused(torch, kind, *parts(kind, batch))
    for given in changes(kind, batch):
        assert refused(torch, kind, *given) or not refused(judge, kind, *given), given
    for dtypes in itertools.product(("int32", "int64", "float32"), repeat=2):
        assert refused(torch, kind, *parts(kind, batch), dtypes) is refused(judge, kind, *parts(kind, batch), dtypes)


@pytest.mark.parametrize("indices, values, size", [
    ([[0, 2], [1, 0]], (2,), (3, 2)), ([[0, 2], [1, 0]], (2, 4), (3, 2, 4)), ([[0, 2], [1, 0]], (2, 4), (3, 2, 5)),
    ([[0, 2], [1, 0]], (3,), (3, 2)), ([[0, 3], [1, 0]], (2,), (3, 2)), ([[0, -1], [1, 0]], (2,), (3, 2)),
    ([[0, 2], [1, 0]], (2,), (3,)), ([0, 2], (2,), (3,)), ([[], []], (0,), (3, 2))])
def test_by_coordinates(indices, values, size):
    def raises(library):
        try:
            library._validate_sparse_coo_tensor_args(library.tensor(indices, dtype=library.int64),
                                                     library.ones(values), size)
        except RuntimeError:
            return True
        return False

    assert raises(torch) or not raises(judge)


def test_what_is_valid_is_taken():
    for values, size in (((2,), (3, 2)), ((2, 4), (3, 2, 4))):
        torch._validate_sparse_coo_tensor_args(torch.tensor([[0, 2], [1, 0]]), torch.ones(values), size)

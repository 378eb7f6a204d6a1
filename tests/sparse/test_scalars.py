"""Multiplication of sparse tensors by scalars of other dtypes, against torch."""
import itertools

import pytest

import rushlight

torch = pytest.importorskip("torch")

DTYPES = ("bool", "uint8", "int64", "float32", "float64", "complex64")


@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_dtypes_of_products_with_sparse_scalars(shape):
    def run(lib):
        found = []
        for one, other in itertools.product(DTYPES, DTYPES):
            x = lib.ones(shape, dtype=getattr(lib, one)).to_sparse()
            y = lib.tensor(3).to(getattr(lib, other)).to_sparse()
            found += [(str(r.dtype), r.to_dense().tolist()) for r in (x * y, y * x)]
        return found

    assert run(rushlight) == run(torch)

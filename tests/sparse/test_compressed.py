"""Matrices compressed by columns and in blocks, beside torch."""
import io
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

from .test_sparse import TALL, both, draw  # noqa: E402

warnings.filterwarnings("ignore")
WHOLE = np.where(draw.random((4, 6)) < 0.4, draw.standard_normal((4, 6)), 0.0)
WAYS = {
    "csc": lambda t, x: x.to_sparse_csc(), "bsr": lambda t, x: x.to_sparse_bsr((2, 3)),
    "bsc": lambda t, x: x.to_sparse_bsc((2, 2)),
    "csc by layout": lambda t, x: x.to_sparse(layout=t.sparse_csc),
    "bsr by layout": lambda t, x: x.to_sparse(layout=t.sparse_bsr, blocksize=(2, 2)),
    "csr to csc": lambda t, x: x.to_sparse_csr().to_sparse_csc()}


@pytest.mark.parametrize("way", WAYS)
def test_there_and_back(way):
    both(WAYS[way], WHOLE)


@pytest.mark.parametrize("way", WAYS)
def test_parts(way):
    ours, theirs = (WAYS[way](t, t.tensor(WHOLE)) for t in (rushlight, torch))
    names = ("crow_indices", "col_indices") if way.startswith("bsr") else ("ccol_indices", "row_indices")
    for name in (*names, "values"):
        assert getattr(ours, name)().tolist() == getattr(theirs, name)().tolist()
    assert (tuple(ours.shape), ours._nnz(), str(ours.dtype), ours.is_sparse,
            ours.is_sparse_csr) == (tuple(theirs.shape), theirs._nnz(), str(theirs.dtype), False, False)
    with pytest.raises(RuntimeError):
        getattr(ours, "ccol_indices" if way.startswith("bsr") else "crow_indices")()


@pytest.mark.parametrize("way", ["csc", "bsr"])
def test_printing(way):
    shown = [repr(WAYS[way](t, t.tensor([[1.0, 0, 2, 0, 0, 0], [0, 0, 0, 0, 0, 3.0]]))) for t in (rushlight, torch)]
    assert shown[0].split() == shown[1].split()


def test_products_and_functions_of_columns():
    both(lambda t, x, y: x.to_sparse_csc() @ y, WHOLE, TALL, gradients=False)
    both(lambda t, x: (x.to_sparse_csc() * 3.0).sin(), WHOLE, gradients=False)
    x = rushlight.tensor(WHOLE, requires_grad=True)
    (x.to_sparse_csc() @ rushlight.tensor(TALL)).sum().backward()
    assert x.grad.tolist() == np.where(WHOLE != 0, TALL.sum(1), 0.0).tolist()


def test_made_of_parts():
    for t in (rushlight, torch):
        csc = t.sparse_csc_tensor([0, 1, 2, 2], [0, 1], [3.0, 4.0], (2, 3))
        assert csc.to_dense().tolist() == [[3, 0, 0], [0, 4, 0]] and csc.layout == t.sparse_csc
        bsr = t.sparse_bsr_tensor([0, 1, 2], [1, 0], [[[1.0, 2]], [[3.0, 4]]], (2, 4))
        assert bsr.to_dense().tolist() == [[0, 0, 1, 2], [3, 4, 0, 0]]
        same = t.sparse_compressed_tensor(t.tensor([0, 1, 2]), t.tensor([1, 0]), t.tensor([[[1.0], [2]], [[3.0], [4]]]),
                                          (4, 2), layout=t.sparse_bsr)
        assert same.to_dense().tolist() == [[0, 1], [0, 2], [3, 0], [4, 0]]


@pytest.mark.parametrize("wrong", [
    lambda t: t.sparse_csc_tensor([0, 1, 3], [0, 1], [3.0, 4.0], (2, 2)), lambda t: t.ones(3, 4).to_sparse_bsr((2, 2)),
    lambda t: t.ones(3).to_sparse_csc(),
    lambda t: t.sparse_bsr_tensor([0, 1], [0], [1.0], (1, 1))])
def test_wrong_parts(wrong):
    with pytest.raises(RuntimeError):
        wrong(rushlight)


@pytest.mark.parametrize("way", ["csc", "bsr", "bsc"])
def test_files_both_ways(way):
    for writer, reader in ((rushlight, torch), (torch, rushlight)):
        file = io.BytesIO()
        writer.save(WAYS[way](writer, writer.tensor(WHOLE)), file)
        file.seek(0)
        found = reader.load(file)
        assert str(found.layout) == f"torch.sparse_{way}" and found.to_dense().tolist() == WHOLE.tolist()


@pytest.mark.parametrize("name, arguments", [("to_sparse_csr", ()), ("to_sparse_csc", ()), ("to_sparse_bsr", ((1, 1),)),
                                             ("to_sparse_bsc", ((1, 1),))])
def test_conversions_keep_dense_dimensions(name, arguments):
    x = rushlight.eye(2)
    assert getattr(x, name)(*arguments, dense_dim=0).to_dense().tolist() == x.tolist()
    for given in (x, x.to_sparse(), x.to_sparse_csr()):
        with pytest.raises(RuntimeError, match="dense"):
            getattr(given, name)(*arguments, dense_dim=1)


def test_a_place_for_sampled_products_is_refused():
    x = rushlight.eye(2).to_sparse_csr()
    with pytest.raises(NotImplementedError, match="out"):
        rushlight.sparse.sampled_addmm(x, rushlight.eye(2), rushlight.eye(2), out=x)

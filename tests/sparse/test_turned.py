"""Matrices whose dimensions are exchanged: values, and layouts, beside torch."""
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

MADE = {"coo": lambda t: t.eye(3).mul(2).to_sparse(),
        "batch": lambda t: t.arange(12.).view(2, 2, 3).to_sparse(),
        "complex": lambda t: (t.eye(3).to_sparse() * (1 + 2j)).coalesce(),
        "csr": lambda t: t.eye(3).to_sparse_csr(), "csc": lambda t: t.eye(3).to_sparse_csc()}
TURNS = {"mT": lambda x: x.mT, "mH": lambda x: x.mH, "T": lambda x: x.T, "H": lambda x: x.H, "t": lambda x: x.t(),
         "adjoint": lambda x: x.adjoint(), "transpose": lambda x: x.transpose(-1, -2),
         "itself": lambda x: x.transpose(-1, -1)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("which", MADE)
def test_exchanged_dimensions_as_in_torch(which, turn):
    try:
        wanted = TURNS[turn](MADE[which](torch))
        values = wanted.to_dense().tolist()
    except (RuntimeError, NotImplementedError):
        return
    found = TURNS[turn](MADE[which](rushlight))
    assert str(found.layout) == str(wanted.layout)
    assert found.to_dense().tolist() == values


@pytest.mark.parametrize("rows,columns,options", [([0, 2, 2, 3], [1, 2, 0], {}), ([0, 2, 2, 3], [1, 2, 0],
                                                                                   {"out_int32": True}),
                                                  ([[0, 1, 2], [0, 2, 2]], [[0, 1], [0, 1]], {}),
                                                  ([0, 0], [], {"transpose": True})])
def test_places_of_compressed_rows(rows, columns, options):
    found = [t._convert_indices_from_csr_to_coo(t.tensor(rows), t.tensor(columns, dtype=t.int64), **options)
             for t in (torch, rushlight)]
    assert found[0].tolist() == found[1].tolist() and str(found[0].dtype) == str(found[1].dtype)
    starts = [t._convert_indices_from_coo_to_csr(t.tensor([0, 0, 2]), 4) for t in (torch, rushlight)]
    assert starts[0].tolist() == starts[1].tolist()

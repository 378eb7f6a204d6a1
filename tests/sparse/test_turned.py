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

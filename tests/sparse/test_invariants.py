"""Tensors that are checked as they are made, beside torch."""
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

MADE = {"columns that fall": lambda t, **how: t.sparse_csr_tensor(t.tensor([0, 2]), t.tensor([1, 0]), t.ones(2), (1, 2),
                                                                  **how),
        "rows in order": lambda t, **how: t.sparse_csr_tensor(t.tensor([0, 2]), t.tensor([0, 1]), t.ones(2), (1, 2),
                                                              **how),
        "a place twice": lambda t, **how: t.sparse_coo_tensor(t.tensor([[0, 0]]), t.ones(2), (1,), is_coalesced=True,
                                                              **how),
        "a place twice, not coalesced": lambda t, **how: t.sparse_coo_tensor(t.tensor([[0, 0]]), t.ones(2), (1,),
                                                                             **how),
        "columns": lambda t, **how: t.sparse_csc_tensor(t.tensor([0, 2]), t.tensor([1, 0]), t.ones(2), (2, 1), **how)}


def refused(library, which, how):
    try:
        if how == "block":
            with library.sparse.check_sparse_tensor_invariants():
                MADE[which](library)
        else:
            MADE[which](library, check_invariants=how)
    except RuntimeError:
        return True
    return False


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", [True, False, "block"])
@pytest.mark.parametrize("which", MADE)
def test_refused_as_by_torch(which, how):
    assert refused(rushlight, which, how) is refused(torch, which, how)

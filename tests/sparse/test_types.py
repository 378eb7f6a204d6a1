"""Types of sparse tensors by dtype."""
import pytest
import torch as judge

import rushlight as torch
from rushlight.sparse import types


@pytest.mark.parametrize("name", types.NAMES)
def test_a_type_makes_tensors_of_its_dtype(name):
    found = {}
    for library in (judge, torch):
        kind = getattr(library.sparse, name)
        values = library.tensor([1, 2]).to(getattr(library, name).dtype)
        at = library.tensor([[0, 1], [1, 0]])
        made = [kind(at, values), kind(at, values, library.Size([2, 3])), kind(at, values.to(library.int32)),
                kind(2, 3), kind(library.Size([2, 3])), kind()]
        found[library] = [(str(x.dtype), tuple(x.shape), x.is_sparse, x.to_dense().float().tolist()) for x in made]
        assert isinstance(made[0], kind) and not isinstance(made[0].to_dense(),
                                                            kind) and not isinstance(made[0], library.sparse.IntTensor
                                                                                     if name != "IntTensor"
                                                                                     else library.sparse.LongTensor)
    assert found[torch] == found[judge]

"""How results of indexing lie in memory, beside torch: programs take views of them."""
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

SHOWN = {"as it is": lambda x: x, "permuted": lambda x: x.permute(2, 0, 1), "turned": lambda x: x.permute(1, 2, 0),
         "transposed": lambda x: x.transpose(0, 1), "reversed": lambda x: x.permute(2, 1, 0),
         "expanded": lambda x: x[:1].expand(3, 4, 5), "expanded within": lambda x: x[:, :1].expand(3, 4, 5),
         "expanded, reversed": lambda x: x[:1].expand(3, 4, 5).permute(2, 1, 0),
         "expanded, permuted": lambda x: x[:, :, :1].expand(3, 4, 5).permute(0, 2, 1),
         "in steps": lambda x: x[::2, ::2].permute(2, 0, 1), "of size one": lambda x: x[:, :1].permute(2, 0, 1)}
INDICES = {"vector": lambda t, n: t.tensor([0, 0, n - 1]), "mask": lambda t, n: t.arange(n) % 2 == 0,
           "matrix": lambda t, n: t.tensor([[0, n - 1], [n - 1, 0]]), "one": lambda t, n: t.tensor([0])}


@pytest.mark.parametrize("kind", INDICES)
@pytest.mark.parametrize("shown", SHOWN)
def test_strides_are_those_of_torch(shown, kind):
    found = []
    for library in (torch, rushlight):
        x = SHOWN[shown](library.arange(60.).view(3, 4, 5))
        results = []
        for dim in range(3):
            index = [slice(None)] * 3
            index[dim] = INDICES[kind](library, x.shape[dim])
            results.append(x[tuple(index)])
        results += [x + 1, x * x, x > 2, x + library.ones(x.shape)]
        found.append([(tuple(r.shape), r.stride(), r.tolist()) for r in results])
    assert found[0] == found[1]

"""Parts of tensors by integers and slices are those of PyTorch: sizes, strides, offsets, versions, histories, errors.
"""

import itertools

import pytest

import rushlight

torch = pytest.importorskip("torch")

KEYS = [None, ..., 0, -1, slice(None), slice(1, None), slice(None, None, 2), slice(5, 9), slice(2, 1), slice(-2, None),
        slice(-9, 2, 3)]
LAYOUTS = {"dense": lambda t: t, "turned": lambda t: t.transpose(0, 2), "part": lambda t: t[:, 1:, ::2],
           "expanded": lambda t: t[:1].expand(2, 3, 5)}


def seen(library, layout, key):
    part = LAYOUTS[layout](library.arange(30).reshape(2, 3, 5))[key]
    return tuple(part.shape), part.stride(), part.storage_offset(), part.tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parts_lie_where_they_lie_in_pytorch(layout):
    for count in (1, 2, 3):
        for key in itertools.product(KEYS, repeat=count):
            if sum(k is ... for k in key) > 1 or sum(isinstance(k, (int, slice)) for k in key) > 3:
                continue
            assert seen(rushlight, layout, key) == seen(torch, layout, key), key


def test_a_part_shares_memory_and_its_version():
    x = rushlight.zeros(4, 4)
    part = x[1:3, ::2]
    part.fill_(2.0)
    assert x.sum().item() == 8 and x._version == part._version == 1 and part._base is x
    assert x[1:][0]._base is x


@pytest.mark.parametrize("key", [5, -6, (0, 0, 0), slice(None, None, -1), slice(None, None, 0), 1.5, slice("a", None)])
def test_what_is_no_part_raises_what_pytorch_raises(key):
    with pytest.raises(Exception) as theirs:
        torch.zeros(5, 2)[key]
    with pytest.raises(theirs.type):
        rushlight.zeros(5, 2)[key]


def test_parts_of_tensors_with_histories_have_histories():
    x = rushlight.arange(6.0).reshape(2, 3).requires_grad_()
    (x[1, 1:] * rushlight.tensor([2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [[0, 0, 0], [0, 2, 3]]
    with rushlight.no_grad():
        assert not x[0].requires_grad
    base = rushlight.zeros(3)
    early = base[1:]
    base.mul_(rushlight.ones(3).requires_grad_())
    assert early[0].requires_grad and base[0].requires_grad


def test_writes_reach_parts():
    x = rushlight.zeros(3, 4)
    x[1] = 2.0
    x[:, 0] = True
    x[-1, 1:3] = rushlight.tensor([5.0, 6.0])
    assert x.tolist() == [[1, 0, 0, 0], [1, 2, 2, 2], [1, 5, 6, 0]]
    leaf = rushlight.zeros(3).requires_grad_()
    with pytest.raises(RuntimeError):
        leaf[0] = 1.0


def test_each_number_needs_no_plan_of_its_own():
    from rushlight._src.core.op import OPS

    x, before = rushlight.arange(3000), len(OPS["index_basic"].plans)
    assert sum(x[k].item() for k in range(3000)) == 2999 * 1500
    assert len(OPS["index_basic"].plans) == before

"""Where masks hold, and what is chosen by them, as PyTorch has it."""

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")

SHAPES = [(0,), (1,), (7,), (8,), (1003,), (3, 0), (0, 3), (5, 9), (1, 17), (4, 3, 5), (2, 1, 3, 2)]


def flags(shape, share=0.5):
    return np.random.default_rng(0).random(shape) < share


def same(theirs, ours):
    assert type(theirs) is not tuple or len(theirs) == len(ours)
    for a, b in zip(theirs, ours) if type(theirs) is tuple else [(theirs, ours)]:
        assert tuple(a.shape) == tuple(b.shape) and a.stride() == b.stride() and str(a.dtype) == str(
            b.dtype) and a.tolist() == b.tolist()


@pytest.mark.parametrize("shape", SHAPES)
def test_places(shape):
    for share in (0.0, 0.5, 1.0):
        mask = flags(shape, share)
        theirs, ours = torch.from_numpy(mask), rushlight.from_numpy(mask)
        same(theirs.nonzero(as_tuple=True), ours.nonzero(as_tuple=True))
        assert theirs.nonzero().tolist() == ours.nonzero().tolist() and theirs.nonzero().shape == ours.nonzero().shape
        assert theirs.t().nonzero().tolist() == ours.t().nonzero().tolist() if len(shape) == 2 else True
        assert (theirs * 1.5).nonzero().tolist() == (ours * 1.5).nonzero().tolist()
        assert theirs[1:].nonzero().tolist() == ours[1:].nonzero().tolist()


@pytest.mark.parametrize("value", [0.0, 2.0, True, float("nan")])
def test_places_in_a_number(value):
    theirs, ours = torch.tensor(value), rushlight.tensor(value)
    assert theirs.nonzero().shape == ours.nonzero().shape
    same(theirs.nonzero(as_tuple=True), ours.nonzero(as_tuple=True))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "float32", "float64", "complex128", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_chosen(shape, dtype):
    mask, values = flags(shape), (flags((*shape, 3), 0.7) * 5).astype(np.float32)
    for library_mask, x in ((mask, values[..., 0]), (mask, values), (mask[1:], values[1:]),
                            (mask[:, 1:] if mask.ndim > 1 else mask, values[:, 1:] if mask.ndim > 1 else values)):
        found = [library.from_numpy(np.ascontiguousarray(x))
                 .to(getattr(library, dtype))[library.from_numpy(library_mask)] for library in (torch, rushlight)]
        same(*found)
    same(*(library.from_numpy(mask).to(getattr(library, dtype)).masked_select(library.from_numpy(mask))
           for library in (torch, rushlight)))


def test_chosen_elements_have_histories_and_versions():
    x = rushlight.arange(6.0).reshape(2, 3).requires_grad_()
    (x[x > 2] * rushlight.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [[0, 0, 0], [1, 2, 3]]
    with rushlight.inference_mode():
        assert x[x > 2].is_inference()
    with pytest.raises(IndexError):
        x[rushlight.ones(3, 3) > 0]


def test_choices_of_every_size_need_no_plan_of_their_own():
    from rushlight._src.core.op import OPS

    x, before = rushlight.arange(300), [len(OPS[name].plans) for name in ("_index", "nonzero")]
    assert [len(x[x < k]) for k in range(300)] == list(range(300))
    assert [len(OPS[name].plans) for name in ("_index", "nonzero")] == before


@pytest.mark.parametrize("n", [1, 9, 1001])
def test_truth_values_of_any_byte(n):
    """Memory that was written as numbers and is looked at as truth values."""
    bytes_ = np.random.default_rng(n).integers(0, 3, n).astype(np.uint8) * 127
    mask = rushlight.from_numpy(bytes_.view(bool))
    assert mask.nonzero().flatten().tolist() == np.flatnonzero(bytes_).tolist()
    for dtype in (np.float64, np.float32, np.int16, np.int8):
        values = np.arange(n).astype(dtype)
        assert rushlight.from_numpy(values)[mask].tolist() == values[bytes_ != 0].tolist()


def test_no_data():
    x = rushlight.empty(3, 4, device="meta")
    for call in (lambda: x[x > 0], lambda: (x > 0).nonzero(), lambda: rushlight.ones(3, 4)[x > 0],
                 lambda: rushlight.argwhere(x)):
        with pytest.raises((NotImplementedError, RuntimeError, TypeError)):
            call()
    assert x[rushlight.ones(3, 4) > 0].shape == (12,)  # the mask has data

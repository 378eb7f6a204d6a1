"""What indices, what is assigned through them, and views as other types must keep to: the errors of both libraries, by
their type and the number that helps."""
import re

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402


def grid(t):
    return t.arange(100).view(2, 5, 10)


def assigned(t, size, values):
    x = t.arange(size)
    x[x > -1] = t.tensor(values)
    return x


WRONG = {  # name -> (program, what both messages say)
    **{f"beyond {at}": (lambda t, at=at: grid(t)[at], rf"index {entry} is out of bounds for dimension {dim} with size")
       for at, entry, dim in [
        ((0, 5), 5, 1), ((4, 5), 4, 0), ((0, 1, 15), 15, 2), ((slice(None), slice(None), 12), 12, 2),
        ((1, -6), -6, 1)]},
    "of a number": (lambda t: t.tensor(3)[0], "invalid index of a 0-dim tensor"),
    "several of a number": (lambda t: t.tensor(3)[0, 0], "too many indices for tensor of dimension 0"),
    "nothing assigned": (lambda t: assigned(t, 4, []), "shape mismatch"),
    "another dtype assigned": (lambda t: assigned(t, 4, [1.0, 2.0, 3.0, 4.0]), "Index put requires"),
    "too few assigned": (lambda t: assigned(t, 4, [1, 2, 3]), "shape mismatch"),
    "too many assigned": (lambda t: assigned(t, 1, [1, 2, 3]), "shape mismatch"),
    "too many put": (lambda t: t.arange(4).index_put((t.tensor([0, 1]),), t.tensor([1, 2, 3])), "shape mismatch"),
    "put nowhere": (lambda t: t.rand([]).index_put([], t.tensor([1.0]), True), ""),
    "positions that are floats": (lambda t: t.unravel_index(t.tensor(0.5), (2, 2)), "expected 'indices' to be integer"),
    "sizes in a tensor": (lambda t: t.unravel_index(t.tensor([1]), t.tensor([1, 2, 3])), "'shape'"),
    "sizes that are floats": (lambda t: t.unravel_index(t.tensor([1]), (1, 2, 2.0)), "'shape'"),
    "bytes of a number": (lambda t: t.tensor(3.0).view(t.uint8), "self.dim() cannot be 0"),
    "bytes apart": (lambda t: t.zeros(4, 4).t().view(t.uint8), "self.stride(-1) must be 1"),
    "a size that does not divide": (lambda t: t.zeros(4, 3).view(t.float64), "self.size(-1) must be divisible by 2"),
    "an offset that does not divide": (lambda t: t.zeros(4, 3)[:, 1:].view(t.float64),
                                       "self.storage_offset() must be divisible by 2"),
    "a stride that does not divide": (lambda t: t.zeros(8).as_strided((4, 2), (1, 1)).view(t.float64),
                                      "self.stride(0) must be divisible by 2"),
    "a number as a complex one": (lambda t: t.view_as_complex(t.tensor(1.0)),
                                  "Input tensor must have one or more dimensions"),
    "sizes below 0": (lambda t: t.unravel_index(t.tensor(0), (2, -3)), "'shape' cannot have negative values"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_as_torch(name):
    program, said = WRONG[name]
    with pytest.raises(Exception, match=re.escape(said)) as theirs:
        program(torch)
    with pytest.raises(theirs.type, match=re.escape(said)):
        program(rushlight)


READERS = {
    "index_select": lambda t, x, dim, at: x.index_select(dim, at),
    "gather": lambda t, x, dim, at: x.gather(dim, at.reshape([-1 if k == dim else 1 for k in range(x.dim())]).expand(
        [at.numel() if k == dim else n for k, n in enumerate(x.shape)])), "take": lambda t, x, dim, at: x.take(at),
    "by a tensor": lambda t, x, dim, at: x[(slice(None),) * dim + (at,)],
    "embedding": lambda t, x, dim, at: t.nn.functional.embedding(at, x),
    "embedding_bag": lambda t, x, dim, at: t.nn.functional.embedding_bag(at, x, t.tensor([0])),
}


def read(t, name, shape, dim, at):
    try:
        return tuple(READERS[name](t, t.zeros(shape), dim, t.tensor(at, dtype=t.int64)).shape)
    except (IndexError, RuntimeError):
        return "refused"


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
@pytest.mark.parametrize("mask", [[1, 0], 1, 0, [[0, 1, 0], [1, 1, 0]]])
@pytest.mark.parametrize("value", [7, [7]])
def test_masks_of_bytes_are_written_where_they_hold(mask, value):
    x, y = rushlight.arange(6).reshape(2, 3), torch.arange(6).reshape(2, 3)
    x[rushlight.tensor(mask, dtype=rushlight.uint8)] = rushlight.tensor(value)
    y[torch.tensor(mask, dtype=torch.bool)] = 7  # torch refuses bytes for one number
    assert x.tolist() == y.tolist()


@pytest.mark.parametrize("t", [rushlight, torch], ids=["here", "torch"])
@pytest.mark.parametrize("name", ["amax", "amin"])
def test_reductions_of_nothing(t, name):
    for dim, error, told in ((0, IndexError, "reduction dim 0 to have"),
                             ((0, 1), IndexError, "reduction dim 0 to have"),
                             ((), RuntimeError, "reduction dim to be specified")):
        with pytest.raises(error, match=told):
            getattr(t, name)(t.ones(0, 3), dim)


@pytest.mark.parametrize("t", [rushlight, torch], ids=["here", "torch"])
def test_positions_in_nothing(t):
    with pytest.raises(IndexError, match="is out of bounds for dimension with size 0"):
        t.ones(0)[t.tensor([0])]


@pytest.mark.parametrize("name", READERS)
def test_results_without_elements_hide_no_wrong_position(name):
    shapes = [(0, 3), (3, 0), (0, 0)] + [(0,), (2, 0, 3)] * (not name.startswith("embedding"))
    for shape in shapes:
        for dim in range(len(shape)):
            for at in ([5], [-5], [-1], [0, 7], [0], []):
                assert read(rushlight, name, shape, dim, at) == read(torch, name, shape, dim, at), (shape, dim, at)
                compiled = rushlight.compile(lambda x, i: READERS[name](rushlight, x, dim, i))
                if not name.startswith("embedding_bag") and read(torch, name, shape, dim, at) == "refused":
                    with pytest.raises((IndexError, RuntimeError)):
                        compiled(rushlight.zeros(shape), rushlight.tensor(at, dtype=rushlight.int64))


def test_positions_in_a_dimension_without_elements():
    for t in (rushlight, torch):
        with pytest.raises(RuntimeError, match="self indexing axis dim should be positive"):
            t.ones(0, 3).index_select(0, t.tensor([0, 1]))
        assert t.ones(0, 3).index_select(0, t.tensor([], dtype=t.int64)).shape == (0, 3)
        assert t.ones(0, 3).index_select(1, t.tensor([0, 2])).shape == (0, 2)
        for dtype in (t.float32, t.uint8, t.bool):
            with pytest.raises(RuntimeError, match="complex Scalar"):
                t.ones(2, 2, dtype=dtype).index_fill_(1, t.tensor([0]), 1 + 1j)

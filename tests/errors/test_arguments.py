"""Invalid arguments raise the type that PyTorch raises."""
import warnings

import pytest
import torch

import rushlight as rl


def both(call):
    """What PyTorch and Rushlight raise (None: nothing)."""
    raised = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for package in (torch, rl):
            try:
                call(package)
                raised.append(None)
            except Exception as error:  # noqa: BLE001 - the type is what is compared
                raised.append(type(error))
    return raised


INVALID = {
    "arange: step rounds to zero": lambda t: t.arange(0, 64, 0.5, out=t.empty(0, dtype=t.int64)),
    "arange: step 0": lambda t: t.arange(0, 3, 0),
    "linspace: steps a float": lambda t: t.linspace(0, 3, 1.0),
    "logspace: steps a float": lambda t: t.logspace(0, 3, 1.0),
    "complex: two dtypes": lambda t: t.complex(t.zeros(2), t.zeros(2, dtype=t.float64)),
    "complex: integers": lambda t: t.complex(t.zeros(2), t.zeros(2, dtype=t.int32)),
    "complex: a number": lambda t: t.complex(t.zeros(2), 2),
    "polar: a number": lambda t: t.polar(2, t.zeros(2)),
    "masked_fill: complex number": lambda t: t.zeros(2).masked_fill(t.tensor(True), 1j),
    "masked_fill: complex tensor": lambda t: t.zeros(2, dtype=t.int64).masked_fill(t.tensor(True), t.tensor(1j)),
    "masked_scatter: mask of bytes": lambda t: t.zeros(3).masked_scatter(t.ones(3, dtype=t.uint8), t.ones(3)),
    "as_strided: beyond the storage": lambda t: t.zeros(4).as_strided((2, 2), (200, 200)),
    "as_strided: before the storage": lambda t: t.zeros(4).as_strided((2,), (1,), -1),
    "as_strided: negative size": lambda t: t.zeros(4).as_strided((-2,), (1,)),
    "as_strided: negative stride": lambda t: t.zeros(4).as_strided((2,), (-1,)),
    "adaptive_avg_pool1d: negative": lambda t: t.nn.functional.adaptive_avg_pool1d(t.zeros(1, 1, 1), [-1]),
    "adaptive_avg_pool2d: too few dims": lambda t: t.nn.functional.adaptive_avg_pool2d(t.zeros(2, 2), [2, 2]),
    "adaptive_max_pool1d: no size": lambda t: t.nn.functional.adaptive_max_pool1d(t.zeros(1, 2, 3), []),
    "adaptive_max_pool3d: too few dims": lambda t: t.nn.functional.adaptive_max_pool3d(t.zeros(2, 2, 2), [2, 2, 2]),
    "rms_norm: weight of another shape": lambda t: t.nn.functional.rms_norm(t.zeros(1, 2, 3), (1, 2, 3), t.zeros(1, 2)),
    "multi_margin_loss: reduction": lambda t: t.nn.functional.multi_margin_loss(t.zeros(5, 4), t.zeros(5),
                                                                                reduction="abc"),
    "multi_margin_loss: weight": lambda t: t.nn.functional.multi_margin_loss(t.zeros(5, 4), t.zeros(5).long(),
                                                                             weight=t.zeros(())),
    "max_pool1d: dilation 0": lambda t: t.nn.functional.max_pool1d(t.zeros(3, 3, 3), 1, 1, 0, 0),
    "max_unpool2d: indices of another shape": lambda t: t.nn.functional.max_unpool2d(t.zeros(1, 1, 4, 4),
                                                                                     t.zeros(1, 1, 4, 1).long(), 3, 2),
    "prelu: channels of a 0-dim tensor": lambda t: t.nn.functional.prelu(t.zeros(()), t.zeros(2)),
    "narrow: start a bool tensor": lambda t: t.zeros(5).narrow(0, t.tensor(True), 2),
    "index_add: source of another shape": lambda t: t.zeros(3, 2).index_add(0, t.tensor([0, 1]), t.zeros(2)),
    "empty_permuted: order too long": lambda t: t.empty_permuted([2], [0, 1]),
    "_chunk_cat into no chunks": lambda t: t._chunk_cat([t.zeros(2), t.zeros(3)], 0, 0),
    "as_strided_scatter beyond input": lambda t: t.as_strided_scatter(t.zeros(4, 4), t.zeros(2, 2), [2, 2], [200, 200]),
    "linear_cross_entropy: one sample of several losses": lambda t: t.nn.functional.linear_cross_entropy(
        t.zeros(3), t.zeros(2, 4, 3), t.zeros(2, 4)),
    "signal.windows.hann: sparse": lambda t: t.signal.windows.hann(3, layout=t.sparse_coo),
    "hstack of nothing": lambda t: t.hstack([]),
    "vstack of nothing": lambda t: t.vstack([]),
    "dstack of nothing": lambda t: t.dstack([]),
    "cat of nothing": lambda t: t.cat([]),
    "cat of a tensor": lambda t: t.cat(t.zeros(2, 2)),
    "cat with None": lambda t: t.cat([t.zeros(2), None]),
    "stack of a number": lambda t: t.stack([t.zeros(2), 1.0]),
    "unbind of a 0-dim tensor": lambda t: t.unbind(t.zeros(()), 0),
    "reflected and of a number": lambda t: t.Tensor.__rand__(2, t.tensor([1])),
    "scatter_: beyond the end": lambda t: t.zeros(3).scatter_(0, t.tensor([5]), 1.0),
    "index: a float": lambda t: t.zeros(3)[1.0],
    "index: a set": lambda t: t.zeros(3)[{1}],
    "slice: a float": lambda t: t.zeros(3)[slice(0.5)],
    "setitem: a list": lambda t: t.zeros(2, 2).__setitem__(0, [1, 2]),
    "setitem: None": lambda t: t.zeros(2).__setitem__(0, None),
    "where: condition of floats": lambda t: t.where(t.ones(2), 1, 2),
    "where: one side": lambda t: t.where(t.ones(2) > 0, t.ones(2)),
    "shift of floats": lambda t: t.ones(2) << 1,
    "bernoulli: beyond 1": lambda t: t.bernoulli(t.tensor([2.0])),
    "bernoulli: nan": lambda t: t.bernoulli(t.tensor([float("nan")])),
    "normal: negative std": lambda t: t.normal(0.0, -1.0, (2,)),
    "bce with logits: integers": lambda t: t.nn.functional.binary_cross_entropy_with_logits(
        t.zeros(3), t.tensor([1, 0, 1])),
    "cross entropy: classes as floats": lambda t: t.nn.functional.cross_entropy(t.zeros(3, 4), t.zeros(3)),
    "einsum: an operand too few": lambda t: t.einsum("ij,jk", t.ones(2, 3)),
    "add: with and without data": lambda t: t.ones(2, device="meta") + t.ones(2),
    "linear: with and without data": lambda t: t.nn.Linear(2, 2, device="meta")(t.ones(1, 2)),
    "less than a complex number": lambda t: t.ones(2) < 1j,
    "order of complex numbers": lambda t: t.tensor([1 + 1j]) >= 0,
    "bincount of bools": lambda t: t.bincount(t.tensor([True])),
    "bincount of complex numbers": lambda t: t.bincount(t.tensor([1 + 1j])),
    "bincount of floats": lambda t: t.bincount(t.tensor([1.5])),
    "tensor of a text": lambda t: t.tensor(["a"]),
    "tensor of None": lambda t: t.tensor([1, None]),
    "int of several": lambda t: int(t.ones(2)),
    "float of several": lambda t: float(t.ones(2)),
    "float of an imaginary part": lambda t: float(t.tensor(1 + 2j)),
    "gather: out of another dtype": lambda t: t.gather(t.zeros(2, 2), 1, t.zeros(2, 2).long(),
                                                       out=t.zeros(2, 2, dtype=t.float64)),
}


@pytest.mark.parametrize("name", INVALID)
def test_raises_the_type_that_pytorch_raises(name):
    theirs, ours = both(INVALID[name])
    assert theirs is not None, "PyTorch accepts this"
    assert ours is not None, f"accepted; PyTorch raises {theirs.__name__}"
    assert issubclass(ours, theirs), f"{ours.__name__} where PyTorch raises {theirs.__name__}"


def test_wrong_index_tells_what_was_given():
    with pytest.raises(IndexError, match=r"from 0 to 9, where the tensor has the shape \[3, 2\]"):
        rl.ones(3, 2)[rl.tensor([0, 9])]
    with pytest.raises(
            IndexError, match=r"embedding: an index is out of range: from 5 to 5, where the tensor has the shape \[5, "
                              r"3\]"):
        rl.nn.functional.embedding(rl.tensor([5]), rl.ones(5, 3))


def test_where_with_a_condition_alone_tells_places():
    x = rl.tensor([[1.0, -1.0], [2.0, 0.0]])
    assert [p.tolist() for p in rl.where(x > 0)] == [[0, 1], [0, 0]]
    assert [p.tolist() for p in rl.compile(lambda x: rl.where(x > 0))(x)] == [[0, 1], [0, 0]]

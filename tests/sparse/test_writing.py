"""Sparse tensors that are written: in place, as ``out``, with other sizes; and members that make new ones."""
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

warnings.filterwarnings("ignore")
AT, VALUES = [[0, 1, 1], [2, 0, 1]], [3.0, -4.0, 5.5]


def coo(t):
    return t.sparse_coo_tensor(AT, VALUES, (2, 3)).coalesce()


def csr(t):
    return t.sparse_csr_tensor([0, 1, 3], [2, 0, 1], VALUES, (2, 3))


def bsr(t):
    return t.tensor([[0.0, 1.0, 2.0, 3.0], [0.0, 0.0, 4.0, 5.0]]).to_sparse_bsr((1, 2))


def described(x):
    """What may be compared: layout, dtype, sizes, elements."""
    if isinstance(x, (list, tuple)) and not hasattr(x, "numel"):
        return [described(v) for v in x]
    if not hasattr(x, "layout"):
        return x
    dims = (x.sparse_dim(), x.dense_dim()) if str(x.layout) != "torch.strided" else None
    return str(x.layout), str(x.dtype), tuple(x.shape), dims, np.asarray(x.to_dense().tolist(), float).round(5).tolist()


UNARY = ("neg", "abs", "sin", "tanh", "floor", "ceil", "round", "sign", "expm1", "asinh", "sgn", "trunc")
WRITES = {
    **{f"{name}_": lambda t, x, name=name: [getattr(x, f"{name}_")() is x, x] for name in UNARY},
    "mul_": lambda t, x: x.mul_(2), "zero_": lambda t, x: x.zero_(), "in place twice": lambda t, x: x.neg_().mul_(-3),
    "elements are shared": lambda t, x: [v := x.values(), x.neg_(), v][2],
    "through a number": lambda t, x: x.__imul__(0.5),
    "without recording": lambda t, x: t.no_grad()(lambda: x.requires_grad_().neg_())(),
}
COORDINATES = {
    "add_": lambda t, x: x.add_(coo(t), alpha=2),
    "sub_": lambda t, x: x.sub_(t.sparse_coo_tensor([[0], [0]], [1.0], (2, 3))),
    "mul_ sparse": lambda t, x: x.mul_(x.clone()),
    "div_": lambda t, x: x.div_(2), "copy_": lambda t, x: t.zeros_like(x).copy_(x),
    "augmented": lambda t, x: [x.__iadd__(x.clone()), x][1],
    "added to a dense one": lambda t, x: t.ones(2, 3).add_(x, alpha=2),
    "out": lambda t, x: [o := t.sparse_coo_tensor((1, 1)), t.sin(x, out=o) is o, o],
    "out of another dtype": lambda t, x: [o := t.sparse_coo_tensor((1, 1), dtype=t.float64), t.neg(x, out=o)],
    "out of zeros": lambda t, x: [t.zeros((4, 2), out=x), t.zeros((4, 2), out=x.long())],
    "dense out": lambda t, x: [o := t.zeros(2, 2), t.mm(x, t.ones(3, 2), out=o), o],
    "grown": lambda t, x: x.sparse_resize_((4, 5), 2, 0),
    "emptied": lambda t, x: x.sparse_resize_and_clear_((4, 5, 2), 2, 1),
    "sizes of another": lambda t, x: t.sparse_coo_tensor((1, 1)).resize_as_(x),
    "dense dimensions grown": lambda t, x: t.sparse_coo_tensor([[1]], [[1.0, 2.0]],
                                                               (2, 2)).sparse_resize_((3, 4), 1, 1).shape,
    "dimensions": lambda t, x: [x._dimI(), x._dimV()], "new": lambda t, x: [x.new(2, 2), x.new()],
    "new_empty": lambda t, x: x.new_empty((2, 2), dtype=t.int64), "new_zeros": lambda t, x: x.new_zeros(2, 2),
    "empty_like": lambda t, x: [t.empty_like(x), t.empty_like(x, dtype=t.int64)],
    "dense zeros": lambda t, x: t.zeros_like(x, layout=t.strided),
    "unsqueezed": lambda t, x: [x.unsqueeze(0), x.unsqueeze(-1), t.eye(2).to_sparse(1).unsqueeze(-1)],
    "stacked": lambda t, x: t.stack([x, x * 2], 1),
    "norms": lambda t, x: [x.norm(), x.norm(1)], "any": lambda t, x: [x.any(), t.zeros_like(x).any()],
    "narrow_copy": lambda t, x: [x.narrow_copy(1, 1, 2), x.narrow_copy(0, 1, 1)],
    "types": lambda t, x: [x.type(), x.type(t.float64), x.bool().dtype is t.bool],
    "a number": lambda t, x: [t.tensor(3.0).to_sparse(), t.tensor(0.0).to_sparse()],
    "relu": lambda t, x: t.nn.functional.relu(x), "infinite": lambda t, x: t.isinf(x.to(t.complex64)),
    "permuted by name": lambda t, x: t.permute(x, dims=(1, 0)),
    "chosen from the end": lambda t, x: x.index_select(1, t.tensor([-1, 0, -3])),
    "chosen of dense dimensions": lambda t, x: t.tensor([[1.0, 2.0, 3.0]]).to_sparse(1)
    .index_select(1, t.tensor([2, 0])),
    "sizes of what it was made from change": lambda t, x: [i := t.tensor([[0], [1]]), v := t.tensor([[3.0, 4.0, 5.0]]),
                                                           s := t.sparse_coo_tensor(i, v, (1, 2, 3)), i.resize_(2, 3),
                                                           v.resize_(4, 5), s][2],
    "gradients through writes": lambda t, x: [v := t.tensor(VALUES, requires_grad=True),
                                              y := t.sparse_coo_tensor(t.tensor(AT), v, (2, 3)).coalesce() * 1,
                                              y.mul_(3), t.sparse.sum(y).backward(), v.grad][-1],
}


@pytest.mark.parametrize("make", [coo, csr])
@pytest.mark.parametrize("name", WRITES)
def test_writes_as_torch(name, make):
    assert described(WRITES[name](rushlight, make(rushlight))) == described(WRITES[name](torch, make(torch)))


@pytest.mark.parametrize("name", COORDINATES)
def test_as_torch(name):
    assert described(COORDINATES[name](rushlight, coo(rushlight))) == described(COORDINATES[name](torch, coo(torch)))


@pytest.mark.parametrize("make", [csr, bsr])
def test_other_layouts_keep_theirs(make):
    x = make(rushlight)
    assert (x + x).layout is x.layout or make is bsr
    assert x.clone().copy_(x * 2).to_dense().equal(x.to_dense()
                                                   * 2) and rushlight.zeros_like(
                                                       x).layout is x.layout and rushlight.zeros_like(
                                                           x).shape == x.shape


ERRORS = {
    "dense into sparse": lambda t: coo(t).copy_(t.ones(2, 3)),
    "sparse into dense": lambda t: t.ones(2, 3).copy_(coo(t)),
    "dense added in place": lambda t: coo(t).add_(t.ones(2, 3)),
    "another size": lambda t: coo(t).add_(t.eye(2).to_sparse()), "a leaf": lambda t: coo(t).requires_grad_().neg_(),
    "floats into integers": lambda t: coo(t).long().sin_(),
    "zero does not stay": lambda t: coo(t).cos_(), "shrunk": lambda t: coo(t).sparse_resize_((1, 3), 2, 0),
    "other dimensions": lambda t: coo(t).sparse_resize_((2, 3, 1), 3, 0),
    "dimensions that do not add up": lambda t: coo(t).sparse_resize_((2, 3), 2, 1),
    "an index beyond": lambda t: coo(t).index_select(0, t.tensor([2])),
    "slices beyond": lambda t: coo(t).narrow_copy(1, 2, 2),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_as_torch(name):
    with pytest.raises((RuntimeError, IndexError)) as theirs:
        ERRORS[name](torch)
    with pytest.raises(theirs.type if theirs.type is IndexError else RuntimeError):
        ERRORS[name](rushlight)


@pytest.mark.parametrize("places", [[[0, 0, 1], [1, 1, 0]], [[1, 0, 0], [0, 1, 0]]])
def test_the_gradient_of_an_uncoalesced_leaf_has_each_place_once(places):
    def found(t):
        leaf = t.sparse_coo_tensor(t.tensor(places), t.tensor([1.0, 2.0, 3.0]), (2, 2)).requires_grad_()
        weight = t.arange(1.0, 5.0).view(2, 2)
        (leaf.to_dense() * weight).sum().backward()
        (leaf.to_dense() * weight).sum().backward()
        direct, = t.autograd.grad((leaf.to_dense() ** 2 * weight).sum(), leaf)
        leaf.grad = leaf.grad
        return [(direct.to_dense() if direct.is_sparse else direct).tolist(), leaf.grad.coalesce().indices().tolist(),
                leaf.grad.coalesce().values().tolist()]

    assert found(rushlight) == found(torch)

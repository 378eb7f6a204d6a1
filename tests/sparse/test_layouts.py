"""Operators of sparse tensors in every layout, over drawn patterns: values, layouts and numbers of elements beside
PyTorch's; gradients of values beside those of a dense computation."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")
BLOCK = (2, 3)


class Pattern:
    """Indices and values of a matrix of whole blocks: values of stored elements, zeros among them."""

    def __init__(self, seed, rows, columns, share, duplicates=False, full_row=False):
        draw = np.random.default_rng(seed)
        hit = draw.random((rows, columns)) < share
        hit[1::3] = False  # rows without elements
        hit[:1] |= full_row
        self.shape, self.duplicates = (rows, columns), duplicates
        self.rows, self.columns = np.nonzero(hit)
        if duplicates and len(self.rows):
            again = draw.integers(0, len(self.rows), 4)
            order = draw.permutation(len(self.rows) + 4)
            self.rows, self.columns = (np.concatenate([x, x[again]])[order] for x in (self.rows, self.columns))
        self.values = draw.integers(-4, 5, len(self.rows)).astype(np.float64)  # some of them 0

    def parts(self, layout):
        """(starts or indices, indices, where each value of a layout is among those of this pattern)."""
        count = len(self.values)
        if layout == "coo":
            return np.stack([self.rows, self.columns]), None, np.arange(count)
        by_rows = layout in ("csr", "bsr")
        height, width = BLOCK if layout in ("bsr", "bsc") else (1, 1)
        run, across = (self.rows // height, self.columns // width)[::1 if by_rows else -1]
        runs = (self.shape[0] // height, self.shape[1] // width)[not by_rows]
        keys = sorted(set(zip(run.tolist(), across.tolist())))
        starts = np.searchsorted([k[0] for k in keys], np.arange(runs + 1))
        if layout in ("csr", "csc"):
            return starts, np.array([k[1] for k in keys], np.int64), np.lexsort((across, run))
        at = {key: k for k, key in enumerate(keys)}
        block = np.array([at[key] for key in zip(run.tolist(), across.tolist())], np.int64)
        source = np.full((len(keys), height, width), count)  # the zero behind the values
        source[block, self.rows % height, self.columns % width] = np.arange(count)
        return starts, np.array([k[1] for k in keys], np.int64), source

    def sparse(self, lib, layout, values):
        """The matrix in a layout, from a vector of values."""
        first, second, source = self.parts(layout)
        if layout == "coo":
            return lib.sparse_coo_tensor(lib.tensor(first), values, self.shape, is_coalesced=not self.duplicates)
        padded = lib.cat([values, lib.zeros(1, dtype=values.dtype)])
        kind = getattr(lib, f"sparse_{layout}_tensor")
        elements = padded[lib.tensor(source.reshape(-1), dtype=lib.int64)].reshape(source.shape)
        return kind(lib.tensor(first), lib.tensor(second), elements, self.shape)

    def dense(self, values):
        """The matrix as a dense tensor of PyTorch."""
        rows, columns = torch.tensor(self.rows), torch.tensor(self.columns)
        return torch.zeros(self.shape, dtype=values.dtype).index_put((rows, columns), values, accumulate=True)


PATTERNS = {
    "wide": Pattern(0, 4, 9, 0.5), "tall": Pattern(1, 10, 6, 0.3), "a full row": Pattern(2, 6, 6, 0.2, full_row=True),
    "no element": Pattern(3, 4, 6, 0.0), "no row": Pattern(4, 0, 6, 0.5), "no column": Pattern(5, 4, 0, 0.5),
    "duplicates": Pattern(6, 6, 9, 0.3, duplicates=True),
}

CONVERSIONS = {
    "coo": lambda t, a: a.to_sparse_coo(), "csr": lambda t, a: a.to_sparse_csr(), "csc": lambda t, a: a.to_sparse_csc(),
    "bsr": lambda t, a: a.to_sparse_bsr(BLOCK), "bsc": lambda t, a: a.to_sparse_bsc(BLOCK),
    "dense": lambda t, a: a.to_dense(), "other blocks": lambda t, a: a.to_sparse_bsr((1, 3)),
    "there and back": lambda t, a: a.to_sparse_csc().to_sparse_csr(),
}
SHAPES = {
    "t": lambda t, a: a.t(), "mT": lambda t, a: a.mT, "transpose": lambda t, a: a.transpose(0, 1),
    "adjoint": lambda t, a: a.adjoint(), "twice": lambda t, a: a.t().t(), "clone": lambda t, a: a.clone(),
    "row": lambda t, a: a[0], "column": lambda t, a: a[:, -1], "select": lambda t, a: a.select(1, 0),
    "index_select": lambda t, a: a.index_select(0, t.tensor([1, 0, 1])), "unbind": lambda t, a: a.unbind()[-1],
    "index_select of columns": lambda t, a: a.index_select(1, t.tensor([2, 0])),
    "narrow_copy": lambda t, a: a.narrow_copy(0, 1, 2), "unsqueeze": lambda t, a: a.unsqueeze(0),
    "None": lambda t, a: a[:, None], "cat": lambda t, a: t.cat([a, a]), "cat of columns": lambda t, a: t.cat([a, a], 1),
    "stack": lambda t, a: t.stack([a, a]),
}
ELEMENTS = {
    "times a number": lambda t, a: a * 3, "divided": lambda t, a: a / 2, "neg": lambda t, a: -a,
    "relu": lambda t, a: t.relu(a), "abs": lambda t, a: a.abs(), "sin": lambda t, a: a.sin(),
    "square": lambda t, a: a ** 2, "plus itself": lambda t, a: a + a, "minus itself": lambda t, a: a - a * 2,
    "times itself": lambda t, a: a * a, "times a scalar": lambda t, a: a * t.tensor(2.0, dtype=t.float64),
}
SUMS = {
    "sum": lambda t, a: a.sum(), "sum of columns": lambda t, a: a.sum(0), "sum of rows": lambda t, a: a.sum(1),
    "sum of both": lambda t, a: a.sum((0, 1)), "sum of rows, kept": lambda t, a: a.sum(1, keepdim=True),
    "sum of columns, kept": lambda t, a: a.sum(0, keepdim=True),
}
ALONE = {**CONVERSIONS, **SHAPES, **ELEMENTS, **SUMS}
PRODUCTS = {
    "mm": lambda t, a, x: t.mm(a, x(a.shape[1], 2)), "matmul": lambda t, a, x: a @ x(a.shape[1], 3),
    "mv": lambda t, a, x: t.mv(a, x(a.shape[1])), "t @ matrix": lambda t, a, x: a.t() @ x(a.shape[0], 2),
    "t @ vector": lambda t, a, x: a.t() @ x(a.shape[0]), "matrix @": lambda t, a, x: x(2, a.shape[0]) @ a,
    "vector @": lambda t, a, x: x(a.shape[0]) @ a, "matrix @ t": lambda t, a, x: x(2, a.shape[1]) @ a.t(),
    "batch @": lambda t, a, x: x(2, 3, a.shape[0]) @ a, "@ batch": lambda t, a, x: a @ x(2, a.shape[1], 3),
    "addmm": lambda t, a, x: t.addmm(x(a.shape[0], 2), a, x(a.shape[1], 2), beta=2, alpha=3),
    "addmm of t": lambda t, a, x: t.addmm(x(a.shape[1], 2), a.t(), x(a.shape[0], 2)),
    "addmm of a column": lambda t, a, x: t.addmm(x(a.shape[0], 1), a, x(a.shape[1], 2)),
    "sparse.addmm": lambda t, a, x: t.sparse.addmm(x(a.shape[0], 2), a, x(a.shape[1], 2), beta=0.5),
    "addmv": lambda t, a, x: t.addmv(x(a.shape[0]), a, x(a.shape[1])),
    "linear": lambda t, a, x: t.nn.functional.linear(x(3, a.shape[1]), a),
    "@ t": lambda t, a, x: a @ a.t(), "t @": lambda t, a, x: a.t() @ a,
    "times a matrix": lambda t, a, x: a * x(*a.shape), "times a row": lambda t, a, x: a * x(a.shape[1]),
    "times a column": lambda t, a, x: a * x(a.shape[0], 1), "plus a matrix": lambda t, a, x: x(*a.shape) + a,
}


def leaves(lib):
    """Leaves of drawn values, made on demand, and the list of those that were made."""
    draw, made = np.random.default_rng(9), []

    def leaf(*sizes):
        made.append(lib.tensor(draw.integers(-3, 4, sizes).astype(np.float64), requires_grad=True))
        return made[-1]
    return leaf, made


def is_sparse(x):
    return str(x.layout) != "torch.strided"


def weighted(x):
    """A scalar through which each element has a gradient of its own."""
    x = x.to_dense() if is_sparse(x) else x
    weights = np.arange(1.0, x.numel() + 1).reshape(tuple(x.shape))
    lib = rushlight if isinstance(x, rushlight.Tensor) else torch
    return (x * lib.tensor(weights)).sum()


def attempt(call):
    """(result, None), or (None, error)."""
    try:
        return call(), None
    except (RuntimeError, NotImplementedError, IndexError, ValueError) as error:
        return None, error


def compare(pattern, layout, call, converts=False):
    leaf, made = leaves(rushlight)
    values = rushlight.tensor(pattern.values, requires_grad=True)
    found, error = attempt(lambda: call(rushlight, pattern.sparse(rushlight, layout, values), leaf))
    theirs, refused = attempt(lambda: call(torch, pattern.sparse(torch, layout, torch.tensor(pattern.values)),
                                           leaves(torch)[0]))
    if error is not None:
        assert refused is not None, f"PyTorch gives {theirs}, here: {error}"
        return
    if theirs is not None:
        assert str(found.layout) == str(theirs.layout)
        whole = theirs.to_dense() if is_sparse(theirs) else theirs
        np.testing.assert_allclose((found.to_dense() if is_sparse(found) else found).detach().numpy(),
                                   whole.detach().numpy())
        if is_sparse(found):
            assert found._nnz() == theirs._nnz()
    known = torch.tensor(pattern.values, requires_grad=True)
    other, others = leaves(torch)
    whole = pattern.dense(known)
    wanted, missing = (whole, None) if converts else attempt(lambda: call(torch, whole, other))
    if missing is not None:
        return
    wanted = wanted.to_dense() if is_sparse(wanted) else wanted
    whole = found.to_dense() if is_sparse(found) else found
    np.testing.assert_allclose(whole.detach().numpy(), wanted.detach().numpy())
    if not wanted.requires_grad or not pattern.values.size and not whole.requires_grad:
        return
    weighted(whole).backward()
    weighted(wanted).backward()
    for a, b in ((values, known), *zip(made, others)):
        gradient = np.zeros(tuple(a.shape)) if a.grad is None else a.grad.numpy()
        np.testing.assert_allclose(gradient, np.zeros(tuple(b.shape)) if b.grad is None else b.grad.numpy())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_operators_beside_torch(pattern, layout):
    pattern, wrong = PATTERNS[pattern], []
    if pattern.duplicates and layout != "coo":
        return
    for name, call in {**ALONE, **PRODUCTS}.items():
        try:
            compare(pattern, layout, call if name in PRODUCTS else lambda t, a, x: call(t, a), name in CONVERSIONS)
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__} {error}")
    assert not wrong, "\n\n".join(wrong)


ROWS = [[[1.0, 0, 2], [0, 3, 0]], [[0, 1, 2], [5, 0, 0]]]  # as many elements in each matrix of the batch


def batch(t):
    return t.sparse_csr_tensor(t.tensor([[0, 2, 3], [0, 2, 3]]), t.tensor([[0, 2, 1], [1, 2, 0]]),
                               t.tensor([[1.0, 2, 0], [1, 2, 5]]), size=(2, 2, 3))


def hybrid(t, sparse_dim=1):
    return t.arange(72.0).reshape(4, 6, 3).to_sparse(sparse_dim)


def hybrid_rows(t):
    return t.arange(72.0).reshape(4, 6, 3).to_sparse_csr(dense_dim=1)


FURTHER = {
    "batch": (batch, {
        "dense": lambda t, a: a.to_dense(), "mT": lambda t, a: a.mT, "mT.mT": lambda t, a: a.mT.mT,
        "coo": lambda t, a: a.to_sparse_coo(), "csc": lambda t, a: a.to_sparse_csc(), "sum": lambda t, a: a.sum(),
        "back": lambda t, a: a.to_sparse_csc().to_sparse_csr(), "times": lambda t, a: a * 2, "plus": lambda t, a: a + a,
        "one": lambda t, a: a[0], "row": lambda t, a: a[1, 0], "clone": lambda t, a: a.clone(),
        "relu": lambda t, a: t.relu(a), "zeros_like": lambda t, a: t.zeros_like(a), "values": lambda t, a: a.values(),
        "from dense": lambda t, a: t.tensor(ROWS).to_sparse_csr(), "wrong": lambda t, a: a.transpose(0, 1),
        "csc from dense": lambda t, a: t.tensor(ROWS).to_sparse_csc(),
        "bsr from dense": lambda t, a: t.tensor(ROWS).to_sparse_bsr((2, 3)).mT,
        "uneven": lambda t, a: t.tensor([[[1.0, 1]], [[1, 0]]]).to_sparse_csr(),
        "bmm": lambda t, a: t.bmm(t.tensor(ROWS).to_sparse(), t.ones(2, 3, 4)),
        "three dimensions": lambda t, a: t.tensor(ROWS).to_sparse().to_sparse_csr(),
    }),
    "hybrid": (hybrid, {
        "plus": lambda t, a: a + a, "times": lambda t, a: a * a, "times dense": lambda t, a: a * t.ones(4, 6, 3),
        "times inner": lambda t, a: a * t.arange(3.0), "sum 0": lambda t, a: a.sum(0), "sum 1": lambda t, a: a.sum(1),
        "sum 0 and 1": lambda t, a: a.sum((0, 1)), "sum 1, kept": lambda t, a: a.sum(1, keepdim=True),
        "first": lambda t, a: a[0], "inner": lambda t, a: a[0, 0], "select": lambda t, a: a.select(1, 2),
        "index_select": lambda t, a: a.index_select(1, t.tensor([0, 0])), "cat": lambda t, a: t.cat([a, a], 2),
        "softmax": lambda t, a: t.sparse.softmax(a, 1), "softmax 0": lambda t, a: t.sparse.softmax(a, 0),
        "narrow": lambda t, a: a.narrow_copy(1, 1, 2), "unsqueeze": lambda t, a: a.unsqueeze(1),
        "unsqueeze inside": lambda t, a: a.unsqueeze(2), "mask": lambda t, a: a.sparse_mask(a),
        "csr": lambda t, a: hybrid(t, 2).to_sparse_csr(), "wrong product": lambda t, a: a @ t.ones(3, 2),
        "wrong sum": lambda t, a: a + hybrid(t, 3), "wrong rows": lambda t, a: a.to_sparse_csr(),
    }),
    "hybrid rows": (hybrid_rows, {
        "coo": lambda t, a: a.to_sparse_coo(), "csc": lambda t, a: a.to_sparse_csc(), "times": lambda t, a: a * 2,
        "bsr": lambda t, a: a.to_sparse_bsr((2, 2)), "plus": lambda t, a: a + a, "first": lambda t, a: a[0],
        "values": lambda t, a: a.values(), "squared": lambda t, a: a * a, "sum": lambda t, a: a.sum(),
        "dense": lambda t, a: a.to_dense(), "zeros_like": lambda t, a: t.zeros_like(a),
        "from dense": lambda t, a: t.ones(4, 6, 3).to_sparse_bsr((2, 2), dense_dim=1),
        "product": lambda t, a: a @ t.ones(6, 2),
    }),
}
DTYPES = ("int64", "int32", "uint8", "bool", "float16", "bfloat16", "complex64")
OF_DTYPES = {
    "@ dense": lambda t, a, x: a @ x, "dense @": lambda t, a, x: x @ a, "@": lambda t, a, x: a @ a,
    "plus": lambda t, a, x: a + a, "squared": lambda t, a, x: a * a, "times": lambda t, a, x: a * 2,
    "times a float": lambda t, a, x: a * 2.5, "sum": lambda t, a, x: a.sum(), "sum 0": lambda t, a, x: a.sum(0),
    "sqrt": lambda t, a, x: a.sqrt(), "t": lambda t, a, x: a.t(), "csc": lambda t, a, x: a.to_sparse_csc(),
    "bsr": lambda t, a, x: a.to_sparse_bsr((2, 2)), "mv": lambda t, a, x: a @ x[0], "real": lambda t, a, x: a.real,
    "addmm": lambda t, a, x: t.addmm(x, a, x), "adjoint": lambda t, a, x: a.adjoint(), "abs": lambda t, a, x: a.abs(),
    "duplicates": lambda t, a, x: t.sparse_coo_tensor([[0, 0], [1, 1]], x[1], (2, 2)).coalesce(),
}


def check_alike(calls):
    """Calls that take the library give the same layout, dtype, number of elements and values as PyTorch where PyTorch
    has them, and errors are of its types."""
    wrong = []
    for name, call in calls.items():
        (found, error), (theirs, refused) = (attempt(lambda lib=lib: call(lib)) for lib in (rushlight, torch))
        if error is not None:
            if refused is None:
                wrong.append(f"{name}: {error}")
            continue
        if refused is not None:
            continue
        shown = []
        for x in (found, theirs):
            whole = x.to_dense() if is_sparse(x) else x
            shown.append((str(x.layout), str(x.dtype), tuple(x.shape), x._nnz() if is_sparse(x) else None,
                          np.round(np.array(whole.tolist()) + 0.0, 2).tolist()))
        if shown[0] != shown[1]:
            wrong.append(f"{name}: {shown[0]} here, {shown[1]} in PyTorch")
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("kind", FURTHER)
def test_batches_and_dense_dimensions(kind):
    make, calls = FURTHER[kind]
    check_alike({name: lambda t, call=call: call(t, make(t)) for name, call in calls.items()})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_of_other_dtypes(layout, dtype):
    def make(t):
        x = t.tensor([[1, 0], [3, 2]]).to(getattr(t, dtype))
        return x.to_sparse(layout=getattr(t, f"sparse_{layout}"), blocksize=(1, 2) if layout in ("bsr", "bsc") else None
                           ), x
    check_alike({name: lambda t, call=call: call(t, *make(t)) for name, call in OF_DTYPES.items()})


def test_a_gradient_takes_no_product_of_sizes():
    """A broadcast dense operand has a gradient of its own size, summed over elements."""
    at, n = rushlight.tensor([[0, 1, 1], [2, 0, 2]]), 3
    for sizes in ((n,), (n, 1), (1, n), (n, n)):
        x = rushlight.ones(*sizes, dtype=rushlight.float64, requires_grad=True)
        assert rushlight.autograd.gradcheck(
            lambda x: (rushlight.sparse_coo_tensor(at, x.new_ones(3) * 2, (n, n)) * x).to_dense(), (x,))


def test_products_of_other_dtypes_are_refused():
    for lib in (rushlight, torch):
        with pytest.raises(RuntimeError):
            lib.eye(2).to_sparse() @ lib.ones(2, 2, dtype=lib.float64)


def uncoalesced(t, *shape):
    """A COO tensor with each element twice."""
    x = t.arange(1.0, 1 + int(np.prod(shape))).reshape(shape).to_sparse(max(len(shape) // 2, min(len(shape), 1)))
    return t.sparse_coo_tensor(t.cat([x.indices(), x.indices()], 1), t.cat([x.values(), x.values() * 2]), shape)


DRAWN = [((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (2, 3, 1)), ((2, 3, 4), (2, 1, 4)), ((2, 3), ()), ((), (3,)), ((), ())]


@pytest.mark.parametrize("pair", DRAWN)
def test_sparse_tensors_broadcast_in_dense_dimensions(pair):
    first, second = pair
    calls = {}
    for one, other in itertools.product((uncoalesced, lambda t, *shape: uncoalesced(t, *shape).coalesce()), repeat=2):
        calls[f"{len(calls)}"] = lambda t, one=one, other=other: one(t, *first) * other(t, *second)
    check_alike(calls)


@pytest.mark.parametrize("sizes", [((3,), (2, 3)), ((1, 3), (4, 3)), ((3, 4), (2, 3, 4)), ((2, 1, 4), (2, 3, 4)),
                                   ((2, 3, 1), (2, 3, 4)), ((2, 3, 4), (3, 4)), ((2,), (0, 2)), ((0, 2), (2,))])
def test_sparse_and_dense_factors_broadcast(sizes):
    first, second = sizes
    for make in (uncoalesced, lambda t, *shape: uncoalesced(t, *shape).coalesce()):
        x, dense = make(rushlight, *first), rushlight.arange(1.0, 1 + int(np.prod(second))).reshape(second)
        for found in (x * dense, dense * x):
            assert found.layout is rushlight.sparse_coo and found.to_dense().equal(x.to_dense() * dense)
            assert not found.is_coalesced() or found._nnz() < 2 or bool((found.flat().diff() > 0).all())


DIAGONALS = {
    "none": lambda t: ((0, 3), [], (3, 3)), "one": lambda t: ((1, 5), [0], (5, 5)),
    "three": lambda t: ((3, 3), [-1, 0, 1], (4, 4)), "a vector": lambda t: ((3,), [1], (4, 4)),
    "a scalar offset": lambda t: ((1, 3), 2, (4, 4)), "beyond": lambda t: ((1, 3), [3], (3, 3)),
    "below": lambda t: ((1, 3), [-3], (3, 3)), "no rows": lambda t: ((2, 3), [0, 1], (0, 3)),
    "csr": lambda t: ((3, 3), [-1, 0, 1], (4, 4), t.sparse_csr),
    "no diagonals in csc": lambda t: ((0, 3), [], (3, 3), t.sparse_csc),
    "three sizes": lambda t: ((1, 3), [0], (3, 2, 3)),
    "offsets of two dimensions": lambda t: ((2, 3), [[1, 2]], (3, 3)),
    "a cube": lambda t: ((3, 2, 3), [0, 1, 2], (4, 4)), "fewer offsets": lambda t: ((3, 3), [-1, 0], (3, 3)),
    "a strided result": lambda t: ((2, 2), [-1, 0], (2, 3), t.strided), "twice": lambda t: ((2, 5), [0, 0], (5, 5)),
}


def test_matrices_of_diagonals():
    for name, arguments in DIAGONALS.items():
        outcomes = []
        for t in (rushlight, torch):
            sizes, offsets, *more = arguments(t)
            values = t.arange(1.0, 1 + int(np.prod(sizes))).reshape(sizes)
            outcomes.append(attempt(lambda: t.sparse.spdiags(values, t.tensor(offsets, dtype=t.int64), *more)))
        (found, error), (theirs, refused) = outcomes
        if refused is not None:
            assert type(error) is type(refused) and str(error).startswith(str(refused).split(",")[0][:30]), name
            continue
        assert error is None, (name, error)
        assert str(found.layout) == str(theirs.layout), name
        np.testing.assert_array_equal(found.to_dense().numpy(), theirs.to_dense().numpy(), name)


def test_views_in_place_and_indices_without_elements():
    for change in (lambda x: x.t_(), lambda x: x.transpose_(0, 1), lambda x: x.transpose_(0, 0)):
        for t in (rushlight, torch):
            x = t.sparse_coo_tensor([[0, 1], [2, 0]], [1.0, 2.0], (2, 3)).coalesce()
            wanted = change(x.to_dense())
            assert change(x) is x and tuple(x.shape) == tuple(wanted.shape) and x.to_dense().equal(wanted)
            empty = t.sparse_coo_tensor([[], []], [], (2, 3))
            assert change(empty)._nnz() == 0 and tuple(empty.shape) == tuple(wanted.shape)
            assert empty._indices().dtype is t.int64
    assert rushlight.sparse_coo_tensor(rushlight.tensor([[], []]), [], (2, 3))._indices().dtype is rushlight.int64


def spelled(t, kind, dtype, count):
    """The text of a sparse tensor with ``count`` elements, of one that wants a gradient, and of a result."""
    values = t.ones(count, dtype=getattr(t, dtype))
    if kind == "coo":
        x = t.sparse_coo_tensor(t.tensor([[0, 1], [2, 0]])[:, :count], values, (2, 3))
    else:
        places = t.tensor([0, 1, 2] if count else [0, 0, 0]), t.tensor([2, 0])[:count]
        x = getattr(t, f"sparse_{kind}_tensor")(*places, values, (2, 3) if kind == "csr" else (3, 2))
    found = [str(x)]
    if values.is_floating_point() and kind == "coo":
        leaf = x.detach().requires_grad_()
        found += [str(leaf), str(leaf * 2)]
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "complex64", "bool"])
@pytest.mark.parametrize("kind", ["coo", "csr", "csc"])
def test_texts_of_sparse_tensors(kind, dtype):
    """Dtypes that differ from the usual ones stand once, after the size."""
    for count in (0, 2):
        assert spelled(rushlight, kind, dtype, count) == spelled(torch, kind, dtype, count)


def test_inner_values_have_no_history():
    for t in (rushlight, torch):
        leaf = t.eye(2).to_sparse().requires_grad_()
        assert not leaf._values().requires_grad and not (leaf * 2)._values().requires_grad
        assert leaf.coalesce().values().requires_grad
        assert leaf._values().data_ptr() == leaf.detach()._values().data_ptr()


def test_dimensions_are_permuted_once_each():
    for t in (rushlight, torch):
        with pytest.raises(RuntimeError, match="duplicate dims"):
            t.rand(3, 3, 3).to_sparse().permute(dims=(1, -2, 0))

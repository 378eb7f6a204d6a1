"""Sparse tensors beside torch's: values, gradients, layouts, errors."""
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

warnings.filterwarnings("ignore")
draw = np.random.default_rng(0)
WHOLE = np.where(draw.random((5, 6)) < 0.4, draw.standard_normal((5, 6)), 0.0)
OTHER = np.where(draw.random((5, 6)) < 0.4, draw.standard_normal((5, 6)), 0.0)
TALL, SQUARE = draw.standard_normal((6, 3)), np.where(draw.random((6, 6)) < 0.4, draw.standard_normal((6, 6)), 0.0)


def dense(x):
    x = x.to_dense() if str(x.layout) != "torch.strided" else x
    return x.detach().numpy()


def both(call, *arrays, gradients=True):
    """The same in both libraries: results, and gradients of the arrays."""
    found = []
    for lib in (rushlight, torch):
        leaves = [lib.tensor(a, requires_grad=gradients) for a in arrays]
        result = call(lib, *leaves)
        if gradients:
            whole = result.to_dense() if str(result.layout) != "torch.strided" else result
            (whole * whole).sum().backward()
        found.append((dense(result), str(result.layout), [None if x.grad is None else dense(x.grad) for x in leaves]))
    ours, theirs = found
    assert ours[1] == theirs[1]
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-9, atol=1e-12)
    for a, b in zip(ours[2], theirs[2]) if gradients else ():
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


CALLS = {
    "there and back": lambda t, x: x.to_sparse(),
    "mm": lambda t, x, y: t.sparse.mm(x.to_sparse(), y),
    "addmm": lambda t, x, y: t.sparse.addmm(y[:5], x.to_sparse(), y, beta=0.5, alpha=2.0),
    "times a number": lambda t, x: x.to_sparse() * 3.0,
    "divided": lambda t, x: x.to_sparse() / 4.0,
    "negative": lambda t, x: -x.to_sparse(),
    "transpose": lambda t, x: x.to_sparse().t(),
    "sum": lambda t, x: t.sparse.sum(x.to_sparse()),
    "sum of rows": lambda t, x: t.sparse.sum(x.to_sparse(), 1),
    "sum of columns": lambda t, x: t.sparse.sum(x.to_sparse(), 0),
    "softmax": lambda t, x: t.sparse.softmax(x.to_sparse(), 1),
    "log softmax of columns": lambda t, x: t.sparse.log_softmax(x.to_sparse(), 0),
    "rows kept whole": lambda t, x: x.to_sparse(1),
}


@pytest.mark.parametrize("name", CALLS)
def test_as_torch(name):
    both(CALLS[name], *([WHOLE, TALL] if CALLS[name].__code__.co_argcount == 3 else [WHOLE]))


PLAIN = {
    "sparse + sparse": lambda t, x, y: x.to_sparse() + y.to_sparse(),
    "sparse - sparse": lambda t, x, y: x.to_sparse() - y.to_sparse(),
    "dense + sparse": lambda t, x, y: x + y.to_sparse(),
    "sparse * sparse": lambda t, x, y: x.to_sparse() * y.to_sparse(),
    "sparse * dense": lambda t, x, y: x.to_sparse() * y,
    "sparse @ sparse": lambda t, x, y: t.sparse.mm(x.to_sparse(), y.t().to_sparse()),
    "matmul": lambda t, x, y: x.to_sparse() @ y.t(),
    "mv": lambda t, x, y: x.to_sparse() @ y[0],
    "rows": lambda t, x, y: x.to_sparse().to_sparse_csr(),
    "rows @ dense": lambda t, x, y: x.to_sparse_csr() @ y.t(),
    "rows times a number": lambda t, x, y: x.to_sparse_csr() * 2.0,
    "cat": lambda t, x, y: t.cat([x.to_sparse(), y.to_sparse()], 1),
    "index_select": lambda t, x, y: x.to_sparse().index_select(0, t.tensor([3, 0, 3])),
    "select": lambda t, x, y: x.to_sparse()[2],
    "sparse_mask": lambda t, x, y: x.sparse_mask(y.to_sparse()),
    "permute": lambda t, x, y: x.reshape(5, 2, 3).to_sparse().permute(2, 0, 1),
    "zeros_like": lambda t, x, y: t.zeros_like(x.to_sparse()),
    "to": lambda t, x, y: x.to_sparse().to(t.float32),
    **{name: lambda t, x, y, name=name: getattr(x.to_sparse(), name)()
       for name in ("sin", "tanh", "sqrt", "abs", "expm1", "floor", "sign", "relu", "asin", "log1p", "square")},
}


@pytest.mark.parametrize("name", PLAIN)
def test_values_as_torch(name):
    both(PLAIN[name], np.abs(WHOLE) if name in ("sqrt", "log1p") else WHOLE, OTHER, gradients=False)


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_products_combined(reduce):
    both(lambda t, x, y: t.sparse.mm(x.to_sparse_csr(), y, reduce), WHOLE, TALL, gradients=False)
    ours = rushlight.tensor(TALL, requires_grad=True)
    rows = rushlight.tensor(WHOLE).to_sparse_csr().requires_grad_()
    rushlight.autograd.gradcheck(lambda y: rushlight.sparse.mm(rows.detach(), y, reduce), (ours,))


def test_sampled_products():
    a, b = draw.standard_normal((5, 4)), draw.standard_normal((4, 6))
    both(lambda t, x, y: t.sparse.sampled_addmm(t.tensor(WHOLE).to_sparse_csr(), x, y, beta=0.5, alpha=2.0), a, b,
         gradients=False)
    rows = rushlight.tensor(WHOLE).to_sparse_csr()
    leaves = [rushlight.tensor(v, requires_grad=True) for v in (a, b)]
    assert rushlight.autograd.gradcheck(lambda x, y: rushlight.sparse.sampled_addmm(rows, x, y).values(), leaves)


def test_several_at_one_place_count_together():
    for lib in (rushlight, torch):
        x = lib.sparse_coo_tensor([[0, 1, 0], [2, 1, 2]], [1.0, 2.0, 3.0], (2, 3))
        assert not x.is_coalesced() and x._nnz() == 3
        with pytest.raises(RuntimeError, match="coalesce"):
            x.indices()
        one = x.coalesce()
        assert one.indices().tolist() == [[0, 1], [2, 1]] and one.values().tolist() == [4.0, 2.0] and one.is_coalesced()
        assert x.to_dense().tolist() == [[0.0, 0.0, 4.0], [0.0, 2.0, 0.0]]


def test_gradient_of_a_sparse_leaf_is_sparse():
    for lib in (rushlight, torch):
        x = lib.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2), requires_grad=True)
        lib.sparse.mm(x, lib.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
        assert x.grad.layout is lib.sparse_coo and x.is_leaf and x.requires_grad
        assert x.grad.to_dense().tolist() == [[0.0, 7.0], [3.0, 0.0]]


def test_facts_and_text():
    for lib in (rushlight, torch):
        x = lib.tensor(WHOLE).to_sparse()
        assert tuple(x.shape) == (
            5, 6) and x.dim() == 2 and x.sparse_dim() == 2 and x.dense_dim() == 0 and x.numel() == 30
        assert x.is_sparse and not x.is_sparse_csr and x.layout is lib.sparse_coo and str(x.dtype) == "torch.float64"
        rows = x.to_sparse_csr()
        assert rows.crow_indices().tolist() == [0, *np.cumsum((WHOLE != 0).sum(1))
                                                .tolist()] and rows.is_sparse_csr and rows._nnz() == x._nnz()
    ours, theirs = ([lib.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2)), lib.eye(2).to_sparse_csr()]
                    for lib in (rushlight, torch))
    assert [repr(x) for x in ours] == [repr(x) for x in theirs]


WRONG = {
    "as many values as indices": lambda t: t.sparse_coo_tensor([[0, 1]], [1.0, 2.0, 3.0], (2,), check_invariants=True),
    "a negative index": lambda t: t.sparse_coo_tensor([[0, -1]], [1.0, 2.0], (2,), check_invariants=True),
    "an index beyond": lambda t: t.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (2,), check_invariants=True),
    "inner sizes": lambda t: t.sparse.mm(t.ones(2, 3).to_sparse(), t.ones(2, 3)),
    "rows wanted": lambda t: t.sparse.sampled_addmm(t.eye(2).to_sparse(), t.ones(2, 2), t.ones(2, 2)),
    "no zero stays": lambda t: t.eye(2).to_sparse().cos(),
    "starts of rows": lambda t: t.sparse_csr_tensor([0, 3, 2], [0, 1], [1.0, 2.0], (2, 2), check_invariants=True),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_as_torch(name):
    for lib in (torch, rushlight):
        with pytest.raises((RuntimeError, NotImplementedError)):
            WRONG[name](lib)


def test_a_sparse_tensor_is_never_read_as_a_dense_one():
    x = rushlight.tensor(WHOLE).to_sparse()
    for call in (lambda: x.numpy(), lambda: rushlight.linalg.inv(x), lambda: x.reshape(30),
                 lambda: rushlight.fft.fft(x), lambda: x.cumsum(0), lambda: x[0, 1:3], lambda: x.mean(),
                 lambda: x.view(30), lambda: rushlight.ones(5, 6).copy_(x), lambda: x.tolist()):
        with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
            call()


@pytest.mark.parametrize("make", [lambda lib, x: x.to_sparse(), lambda lib, x: x.to_sparse_csr(),
                                  lambda lib, x: lib.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2))],
                         ids=["coo", "csr", "uncoalesced"])
def test_files_are_read_by_both_libraries(make):
    import io

    for writer, reader in ((rushlight, rushlight), (rushlight, torch), (torch, rushlight)):
        file, sparse = io.BytesIO(), make(writer, writer.tensor(WHOLE))
        writer.save({"x": sparse}, file)
        file.seek(0)
        found = reader.load(file)["x"]
        assert str(found.layout) == str(sparse.layout) and found.shape == sparse.shape
        np.testing.assert_array_equal(dense(found), dense(sparse))
        if str(found.layout) == "torch.sparse_coo":
            assert found.is_coalesced() == sparse.is_coalesced()


@pytest.mark.parametrize("optimizer", ["SparseAdam", "SGD", "Adagrad"])
def test_sparse_gradients_of_tables(optimizer):
    """Two backward passes accumulate, then the optimizer changes the rows that were read."""
    found = []
    for lib in (rushlight, torch):
        table = lib.nn.Embedding(10, 3, padding_idx=2, sparse=True)
        with lib.no_grad():
            table.weight.copy_(lib.arange(30.0).reshape(10, 3) / 10)
        made = getattr(lib.optim, optimizer)(table.parameters(), lr=0.1)
        steps = []
        for k in range(3):
            made.zero_grad()
            for ids in ([[1, 2, 4], [4, k + 5, 9]], [[1, 1, 3]]):
                table(lib.tensor(ids)).square().sum().backward()
            gradient = table.weight.grad
            assert gradient.is_sparse and gradient.coalesce().indices().tolist()[0] == sorted({1, 3, 4, k + 5, 9})
            made.step()
            steps += [gradient.to_dense().numpy(), table.weight.detach().numpy().copy()]
        found.append(steps)
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_optimizers_that_take_no_sparse_gradients():
    for lib in (rushlight, torch):
        table = lib.nn.Embedding(4, 2, sparse=True)
        table(lib.tensor([1])).sum().backward()
        with pytest.raises(RuntimeError, match="does not support sparse gradients"):
            lib.optim.Adam(table.parameters()).step()
        dense = lib.nn.Linear(2, 2)
        dense(lib.ones(2)).sum().backward()
        with pytest.raises(RuntimeError, match="does not support dense gradients"):
            lib.optim.SparseAdam(dense.parameters()).step()


@pytest.mark.parametrize("make", [lambda: rushlight.nn.Embedding(10, 3, sparse=True),
                                  lambda: rushlight.nn.EmbeddingBag(10, 3, sparse=True)])
def test_compiled_tables_have_sparse_gradients(make):
    table, at = make(), rushlight.tensor([[1, 2, 2], [4, 1, 0]])
    (table(at) * 2).exp().sum().backward()
    wanted, table.weight.grad = table.weight.grad, None
    loss = rushlight.compile(lambda at: (table(at) * 2).exp().sum())(at)
    loss.backward()
    assert table.weight.grad.is_sparse and rushlight.allclose(table.weight.grad.to_dense(), wanted.to_dense(),
                                                              rtol=1e-4)
    with rushlight.no_grad():
        assert rushlight._dynamo.explain(lambda at: table(at) * 2)(at).graph_break_count == 0


@pytest.mark.parametrize("layout", ["to_sparse_csr", "to_sparse_coo"])
def test_a_linear_layer_with_a_sparse_factor(layout):
    x, w, b = rushlight.randn(2, 5, 3), rushlight.tensor([[1.0, 0, 2], [0, 3, 0]]), rushlight.randn(2)
    sparse = getattr(w, layout)()
    assert rushlight.allclose(rushlight.nn.functional.linear(x, sparse, b), rushlight.nn.functional.linear(x, w, b))
    assert rushlight.allclose(rushlight.nn.functional.linear(getattr(x[0], layout)(), w),
                              rushlight.nn.functional.linear(x[0], w))


def test_what_is_said_of_order():
    s = rushlight.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,))
    assert not s.is_coalesced() and s._coalesced_(True) is s and s.is_coalesced() and s.values().tolist() == [1, 2]


LAYOUTS = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_dense_dimensions_of_conversions(layout):
    """``to_sparse`` of a strided tensor with each number of dense dimensions."""
    options = {"blocksize": (2, 3)} if layout in ("sparse_bsr", "sparse_bsc") else {}
    pattern = np.abs(draw.standard_normal((4, 6, 3, 2))) * (draw.random((4, 6, 1, 1)) < 0.4)

    def found(lib, dense_dim):
        try:
            x = lib.tensor(pattern).to_sparse(layout=getattr(lib, layout), dense_dim=dense_dim, **options)
        except (RuntimeError, IndexError):  # PyTorch asks for the size of a dimension that is not there
            return None
        assert np.array_equal(dense(x), pattern)
        return x.dense_dim(), x._nnz(), tuple(x.values().shape)

    for dense_dim in (-1, 1, 2, 3, 4, 5):
        assert found(rushlight, dense_dim) == found(torch, dense_dim), dense_dim
    assert found(rushlight, 2)[0] == 2


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sparse_tensors_keep_their_dense_dimensions(layout):
    options = {"blocksize": (1, 3)} if layout in ("sparse_bsr", "sparse_bsc") else {}
    x = rushlight.ones(2, 3, 2).to_sparse(2)
    for dense_dim in (0, 2):
        with pytest.raises(RuntimeError, match="dense_dim"):
            x.to_sparse(layout=getattr(rushlight, layout), dense_dim=dense_dim, **options)
    with pytest.raises(RuntimeError, match="dense_dim"):
        torch.ones(2, 3, 2).to_sparse(2).to_sparse(layout=getattr(torch, layout), dense_dim=0, **options)


@pytest.mark.parametrize("layout", LAYOUTS[:3])
def test_sizes_of_blocks_are_refused_by_layouts_without_blocks(layout):
    for lib in (rushlight, torch):
        for x in (lib.eye(4), lib.eye(4).to_sparse(), lib.eye(4).to_sparse_csr()):
            with pytest.raises(RuntimeError, match="blocksize argument given is not supported"):
                x.to_sparse(layout=getattr(lib, layout), blocksize=(2, 2))


@pytest.mark.parametrize("count", [0, 1, 2])
def test_at_most_one_element_is_coalesced(count):
    calls = {
        "made": lambda t, x: x, "cat": lambda t, x: t.cat([x, x]), "select": lambda t, x: x.select(1, 0),
        "index_select": lambda t, x: x.index_select(0, t.tensor([1])), "neg": lambda t, x: -x, "add": lambda t, x:
        x + x, "hspmm": lambda t, x: t.hspmm(x, t.ones(3, 2)), "dense": lambda t, x: x.to_sparse_coo(),
    }

    def found(lib, call, **options):
        at = lib.tensor([[1, 1][:count], [2, 1][:count]], dtype=lib.int64)
        return call(lib, lib.sparse_coo_tensor(at, lib.ones(count), (3, 3), **options)).is_coalesced()

    for name, call in calls.items():
        assert found(rushlight, call) == found(torch, call), name
    for said in (True, False):
        assert found(rushlight, calls["made"], is_coalesced=said) is said

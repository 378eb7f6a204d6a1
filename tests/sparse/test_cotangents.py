"""Gradients that backward passes begin with: sparse ones count by where their elements lie, however these are
ordered."""
import warnings

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

WAYS = {"dense": lambda x: x.to_dense(), "coo": lambda x: x.to_sparse(), "csr": lambda x: x.to_sparse_csr(),
        "csc": lambda x: x.to_sparse_csc(), "bsr": lambda x: x.to_sparse_bsr((2, 2)),
        "bsc": lambda x: x.to_sparse_bsc((2, 2))}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("onward", WAYS)
def test_conversions(way, onward):
    """The gradient of a conversion is the conversion back."""
    whole, weights = (rushlight.arange(*span, dtype=rushlight.float64).reshape(4, 4)
                      for span in ((1.0, 17.0), (16.0, 0.0, -1.0)))
    x = WAYS[way](whole).requires_grad_()
    found, = rushlight.autograd.grad(WAYS[onward](x), x, WAYS[onward](weights))
    assert found.layout is x.layout and found.to_dense().tolist() == weights.tolist()


def orders(t):
    """A tensor with its places out of order, and a gradient with places in order, out of order, missing, and whole."""
    x = t.sparse_coo_tensor(t.tensor([[1, 0, 1], [0, 1, 1]]), t.tensor([1.0, 2.0, 3.0]), (2, 2)).requires_grad_()
    ordered = t.sparse_coo_tensor(t.tensor([[0, 1, 1], [1, 0, 1]]), t.tensor([10.0, 20.0, 30.0]), (2, 2)).coalesce()
    turned = t.sparse_coo_tensor(t.tensor([[1, 0, 1], [1, 1, 0]]), t.tensor([30.0, 10.0, 20.0]), (2, 2))
    fewer = t.sparse_coo_tensor(t.tensor([[1, 1], [1, 1]]), t.tensor([30.0, 1.0]), (2, 2))
    return x, (ordered, turned, fewer, turned.to_dense(),
               t.sparse_coo_tensor(t.zeros(2, 0, dtype=t.int64), t.zeros(0), (2, 2)))


PROGRAMS = {
    "grad": lambda t, x, g: t.autograd.grad(x * 2, x, g)[0],
    "in order": lambda t, x, g: (lambda y: t.autograd.grad(y * 2, y, g)[0])(x.detach().coalesce().requires_grad_()),
    "method": lambda t, x, g: ((x * 2).backward(g), x.grad)[1],
    "function": lambda t, x, g: (t.autograd.backward([x * 2, x], [g, g]), x.grad)[1],
    "of a dense result": lambda t, x, g: (x.to_dense().backward(g), x.grad)[1],
    "elements": lambda t, x, g: (lambda v: t.autograd.grad(t.sparse_coo_tensor(x.detach()._indices(), v, (2, 2)), v,
                                                           g)[0])(x.detach()._values().clone().requires_grad_()),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_orders(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(5):
            found, wanted = (PROGRAMS[name](t, orders(t)[0], orders(t)[1][k]) for t in (rushlight, torch))
            assert found.to_dense().tolist() == wanted.to_dense().tolist(), k

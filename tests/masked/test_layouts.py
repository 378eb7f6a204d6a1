"""Masked operators of sparse tensors and with sparse masks, and the masks of results, beside PyTorch."""
import itertools

import pytest
import torch as judge

import rushlight as torch

REDUCTIONS = ("sum", "prod", "amax", "amin", "mean", "norm", "var", "std", "argmax", "argmin")
BOTH = (judge, torch)


def data(t, dtype="float32"):
    x = t.tensor([[1, 0, -3, 0, 2], [0, 0, 4, 5, 0], [7, 2, 0, 0, -1], [0, 0, 0, 0, 0]], dtype=getattr(t, dtype))
    mask = t.tensor([[1, 0, 1, 0, 0], [1, 1, 1, 1, 0], [0, 1, 0, 1, 0], [0, 0, 0, 0, 0]], dtype=t.bool)
    return x, mask


def called(t, name, x, *args, **kwargs):
    before = (2.0,) if name in ("norm", "normalize") else ()
    return getattr(t.masked, name)(x, *before, *args, **kwargs)


def known(t, name, x, mask, dims, keepdim, out):
    """The result where its mask holds, 0 elsewhere."""
    before = (2.0,) if name == "norm" else ()
    where = t.masked._output_mask(getattr(t.masked, name), x, *before, dims, keepdim=keepdim, mask=mask)
    out = out if out.layout is t.strided else out.to_dense()
    return t.where(where, out, 0).double().tolist(), where.tolist()


@pytest.mark.parametrize("name, dims", list(itertools.product(REDUCTIONS, (0, 1, None))))
def test_reductions_with_masks_of_every_layout(name, dims):
    x, mask = data(judge)
    wanted = known(judge, name, x, mask, dims, True, called(judge, name, x, dims, keepdim=True, mask=mask))
    x, mask = data(torch)
    for held in (mask, mask.to_sparse(), mask.to_sparse_csr()):
        got = known(torch, name, x, mask, dims, True, called(torch, name, x, dims, keepdim=True, mask=held))
        assert got[1] == wanted[1] and torch.allclose(torch.tensor(got[0]), torch.tensor(wanted[0]), equal_nan=True)
    if name not in ("argmax", "argmin"):
        for made in (x.to_sparse(), x.to_sparse_csr()):
            out = called(torch, name, made, dims, keepdim=True, mask=mask)
            got = known(torch, name, x, mask, dims, True, out)
            assert out.layout is made.layout
            assert torch.allclose(torch.tensor(got[0]), torch.tensor(wanted[0]), equal_nan=True)


@pytest.mark.parametrize("name, dim", list(itertools.product(("sum", "prod", "amax", "amin"), (0, 1))))
def test_sparse_without_a_mask(name, dim):
    def found(t):
        try:
            return called(t, name, data(t)[0].to_sparse(), dim).to_dense().tolist()
        except ValueError as error:
            return "explicit mask" in str(error)
    assert found(torch) == found(judge)


@pytest.mark.parametrize("kind, fill", list(itertools.product(("coo", "hybrid", "csr", "strided"), (0.0, 9.0))))
def test_where(kind, fill):
    def found(t):
        def laid(x):
            return {"coo": x.to_sparse, "hybrid": lambda: x.to_sparse(1), "csr": x.to_sparse_csr,
                    "strided": lambda: x}[kind]()
        x, mask = data(t)
        out = t.masked._where(laid(mask), laid(x), t.tensor(fill))
        return str(out.layout), out.to_dense().tolist(), out.values().tolist() if kind == "csr" else None
    assert found(torch) == found(judge)


def test_dimensions_and_errors():
    for t in BOTH:
        assert [tuple(t.masked._canonical_dim(d, 3)) for d in (None, (), -1, (2, 0), 1)] == [
            (0, 1, 2), (0, 1, 2), (2,), (0, 2), (1,)]
        with pytest.raises(RuntimeError, match="multiple times"):
            t.masked._canonical_dim((0, 0), 2)
        with pytest.raises(IndexError):
            t.masked._canonical_dim(2, 2)
        with pytest.raises(ValueError, match="explicit mask"):
            t.masked._input_mask(t.ones(2))
        with pytest.raises(RuntimeError, match="keepdim=False"):
            t.masked.prod(data(t)[0].to_sparse_csr(), 0, mask=data(t)[1].to_sparse_csr())


ALL = (*REDUCTIONS, "logsumexp", "median", "softmax", "log_softmax", "softmin", "normalize", "cumsum", "cumprod")


@pytest.mark.parametrize("name", ALL)
def test_sparse_tensors_give_what_dense_ones_do(name):
    """Values where the mask of the result holds, and gradients, for masks of each layout, groups of many lengths."""
    generator = torch.Generator().manual_seed(0)
    whole = torch.rand(9, 17, dtype=torch.float64, generator=generator) + 0.5
    mask = torch.rand(9, 17, generator=generator) < torch.linspace(0, 1, 9).unsqueeze(1)
    mask[3:, 5] = True
    for dim in (0, 1, *((None, (0, 1)) if name in REDUCTIONS and not name.startswith("arg") else ())):
        x = whole.clone().requires_grad_()
        options = {"keepdim": True} if name in (*REDUCTIONS, "logsumexp", "median") else {}
        wanted = called(torch, name, x, dim, mask=mask, **options)
        before = (2.0,) if name in ("norm", "normalize") else ()
        where = torch.masked._output_mask(getattr(torch.masked, name), x, *before, dim, mask=mask, **options)
        wanted = torch.where(where, wanted, 0)
        for held in (mask, mask.to_sparse(), mask.to_sparse_csr()):
            for layout in (torch.sparse_coo, torch.sparse_csr):
                y = whole.clone().requires_grad_()
                found = called(torch, name, y.to_sparse(layout=layout), dim, mask=held, **options)
                assert found.layout is layout and found._nnz() == int(where.sum())
                assert torch.allclose(found.to_dense(), wanted, equal_nan=True)
                if wanted.requires_grad and not wanted.isnan().any():
                    gradients = [torch.autograd.grad((out * out.detach()).sum(), leaf)[0]
                                 for out, leaf in ((found.to_dense(), y), (torch.where(where, called(
                                     torch, name, x, dim, mask=mask, **options), 0), x))]
                    assert torch.allclose(*(torch.where(mask, g, 0) for g in gradients))


def test_masks_without_an_element():
    x, none = torch.eye(3), torch.zeros(3, 3, dtype=torch.bool)
    for name in ("sum", "softmax", "argmax"):
        found = called(torch, name, x.to_sparse(), 1, mask=none.to_sparse())
        assert found._nnz() == 0 and tuple(found.shape) == ((3, 3) if name == "softmax" else (3,))

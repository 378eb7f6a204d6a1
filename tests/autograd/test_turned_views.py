"""Views that conjugate or negate, and writes through them: each view with each write, as PyTorch does it, with and
without history, and compiled."""
import copy
import io
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402
from rushlight.utils.safetensors import load_file, save_file  # noqa: E402

pytestmark = pytest.mark.sampled  # all cases with `-m long`

START = (np.arange(9).reshape(3, 3) * 0.3 + 1) + 1j * np.arange(9, 0, -1).reshape(3, 3) * 0.2
VIEWS = {
    "conj": lambda t, x: x.conj(), "conj.t": lambda t, x: x.conj().t(), "mH": lambda t, x: x.mH,
    "t.conj": lambda t, x: x.t().conj(), "conj.row": lambda t, x: x.conj()[1],
    "conj.columns": lambda t, x: x.conj()[:, ::2], "conj.imag": lambda t, x: x.conj().imag,
    "conj.real": lambda t, x: x.conj().real, "conj.row.imag": lambda t, x: x.conj()[0].imag,
    "neg": lambda t, x: t._neg_view(x), "neg.conj": lambda t, x: t._neg_view(x).conj(),
    "neg.imag": lambda t, x: t._neg_view(x).imag,
    "conj.neg.imag": lambda t, x: t._neg_view(x.conj()).imag, "conj.conj": lambda t, x: x.conj().conj(),
    "conj.diagonal": lambda t, x: x.conj().diagonal(),
    "conj.view": lambda t, x: x.conj().reshape(-1)[:4].view(2, 2), "real.neg": lambda t, x: t._neg_view(x.real),
    "neg.pairs": lambda t, x: t.view_as_real(t._neg_view(x)),
    "pairs.neg.complex.conj": lambda t, x: t.view_as_complex(t._neg_view(t.view_as_real(x))).conj(),
    "conj.as_strided": lambda t, x: x.conj().as_strided((2,), (2,), 1),
    "conj.detach": lambda t, x: x.conj().detach(), "conj.select": lambda t, x: x.conj().select(1, 1),
    "conj.narrow": lambda t, x: x.conj().narrow(1, 1, 2),
}
WRITES = {
    "fill_": lambda t, v, a: v.fill_(2.0),
    "fill_ complex": lambda t, v, a: v.fill_(2.0 + 3j if v.is_complex() else -1.0), "zero_": lambda t, v, a: v.zero_(),
    "copy_": lambda t, v, a: v.copy_(a), "copy_ conj": lambda t, v, a: v.copy_(a.conj()),
    "mul_": lambda t, v, a: v.mul_(a), "add_": lambda t, v, a: v.add_(a, alpha=2),
    "mul_ itself": lambda t, v, a: v.mul_(v), "sub_ its conj": lambda t, v, a: v.sub_(v.conj()),
    "item": lambda t, v, a: v.__setitem__(0, 5.0),
    "slice": lambda t, v, a: v.__setitem__((Ellipsis, slice(1, None)), a[..., 1:]),
    "masked_fill_": lambda t, v, a: v.masked_fill_(a.real > 0, 7.0),
    "addcmul_": lambda t, v, a: v.addcmul_(a, a), "exp_": lambda t, v, a: v.exp_(),
    "index_put_": lambda t, v, a: v.index_put_((t.tensor([1]),), a[:1]),
    "index_add_": lambda t, v, a: v.index_add_(0, t.tensor([1]), a[:1]),
    "scatter_": lambda t, v, a: v.scatter_(0, t.zeros(tuple(v.shape), dtype=t.int64)[:1], a),
    "real": lambda t, v, a: v.real.mul_(3.0), "imag": lambda t, v, a: (v.imag if v.is_complex() else v).add_(2.0),
    "conj": lambda t, v, a: v.conj().mul_(a),
    "clone": lambda t, v, a: v.clone().mul_(2.0), "resolved": lambda t, v, a: v.resolve_conj().resolve_neg().mul_(2.0),
    "contiguous": lambda t, v, a: v.contiguous().mul_(2.0),
    "reshape": lambda t, v, a: v.reshape(-1).mul_(2.0), "where": lambda t, v, a: v.copy_(t.where(a.real > 0, v, a)),
    "cumsum_": lambda t, v, a: v.cumsum_(0),
    "out": lambda t, v, a: t.mul(a, v, out=v),
}
COMPILED = ("fill_ complex", "mul_", "sub_ its conj", "slice", "imag", "conj", "contiguous")


def tensor(package, array, **how):
    return package.tensor(array.tolist(), dtype=package.complex128 if np.iscomplexobj(array) else package.float64,
                          **how)


def values_for(package, view):
    """A tensor of complex or real numbers, of a view's shape."""
    parts = np.random.RandomState(3).standard_normal((2, *view.shape))
    return tensor(package, parts[0] + 1j * parts[1] if view.is_complex() else parts[0])


def numbers(value):
    return np.array(value.detach().resolve_conj().resolve_neg().tolist())


def written(package, view, write, graded=False, through=lambda f: f):
    """What a write through a view leaves, as numbers and as bits; the type of the error where it is refused."""
    leaf = tensor(package, START, requires_grad=graded)
    base = leaf * 1 if graded else leaf
    values = values_for(package, VIEWS[view](package, base))

    def body(x, a):
        v = VIEWS[view](package, x)
        WRITES[write](package, v, a)
        return v

    try:
        shown = through(body)(base, values)
        found = [numbers(base), numbers(shown)]
        if graded:
            ((base * tensor(package, START.T * 0.5j + 1)).real.sum()
             + ((shown * shown).real.sum() if shown.requires_grad else 0)).backward()
            found.append(numbers(leaf.grad))
    except RuntimeError:
        return RuntimeError
    return found, (shown.is_conj(), shown.is_neg(), shown._is_view(),
                   shown.untyped_storage().data_ptr() == base.untyped_storage().data_ptr())


def alike(found, expected):
    if RuntimeError in (found, expected):
        assert found is expected
        return
    assert found[1] == expected[1]
    for a, b in zip(found[0], expected[0], strict=True):
        np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("graded", [False, True], ids=["plain", "history"])
@pytest.mark.parametrize("view", VIEWS)
def test_writes(view, graded):
    for write in WRITES:
        alike(written(rl, view, write, graded), written(torch, view, write, graded))


@pytest.mark.parametrize("view", VIEWS)
def test_compiled_writes(view):
    for write in COMPILED if "detach" not in view else ():  # of which a program makes a view of what is cut off
        alike(written(rl, view, write, through=rl.compile), written(torch, view, write))


def test_compiled_writes_with_history():
    def gradient(package, through):
        leaf = tensor(package, START, requires_grad=True)

        def body(x):
            y = x * 1
            c = y.conj()
            c.mul_(2 + 1j)
            c.imag.add_(x.real)
            return (y * y.conj()).real.sum() + (y * 3j).imag.sum() + c.abs().sum()

        through(body)(leaf).backward()
        return numbers(leaf.grad)

    np.testing.assert_allclose(gradient(rl, rl.compile), gradient(torch, lambda f: f))


PROGRAMS = {
    "arguments": lambda t, x: [x * 2, x.imag, x.mH @ x, x.conj().sin()],
    "what they are": lambda t, x: [x.is_conj(), x.imag.is_neg(), x.conj().is_conj(), x.mH.is_conj(), (x * 2).is_conj(),
                                   x.clone().is_conj(), x.detach().is_conj(), x[0].is_conj(),
                                   x.resolve_conj().is_conj(), x.contiguous().is_conj(), x.reshape(9).is_conj(),
                                   x.t().reshape(9).is_conj(), x._conj_physical().is_conj(),
                                   t.zeros_like(x).is_conj(), x.to(t.complex64).is_conj(), x.imag.clone().is_neg(),
                                   t._neg_view(x).is_neg()],
}


@pytest.mark.parametrize("through", [lambda f: f, rl.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_arguments(program, through):
    found = through(lambda x: PROGRAMS[program](rl, x))(tensor(rl, START).conj())
    for a, b in zip(found, PROGRAMS[program](torch, tensor(torch, START).conj()), strict=True):
        np.testing.assert_allclose(numbers(a) if isinstance(a, rl.Tensor) else a,
                                   numbers(b) if isinstance(b, torch.Tensor) else b)


TRANSFORMS = {
    "vmap": lambda t, x: t.func.vmap(lambda z: (z.conj() * 2).imag)(x),
    "vmap of a write": lambda t, x: t.func.vmap(lambda z: doubled(z * 1))(x),
    "grad": lambda t, x: t.func.grad(lambda z: (z.conj() * z * z).real.sum())(x),
    "grad of a write": lambda t, x: t.func.grad(lambda z: (doubled(z * 1) * z).abs().sum())(x),
    "jvp": lambda t, x: t.func.jvp(lambda z: z.conj() * z, (x * 1,), (x * 1j + 2,))[1],
    "vjp": lambda t, x: t.func.vjp(lambda z: z.conj() * z, x)[1](x.conj())[0],
    "functionalize": lambda t, x: t.func.functionalize(lambda z: doubled(z.clone()))(x),
}


def doubled(z):
    z.conj().mul_(2j)
    return z


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name, turned):
    found, expected = (TRANSFORMS[name](t, x.conj() if turned else x)
                       for t, x in ((t, tensor(t, START)) for t in (rl, torch)))
    np.testing.assert_allclose(numbers(found), numbers(expected), atol=1e-12)


def test_all_sizes():
    """Plans for many sizes keep the bits."""
    for n in range(2, 14):
        z = rl.full((n, n + 1), 1 + 2j, dtype=rl.complex128)
        z.mH.imag.fill_(3.0)
        assert z.mH.is_conj() and z.mH.imag.is_neg() and set(z.reshape(-1).tolist()) == {1 - 3j}
        leaf = z.conj().requires_grad_()
        (leaf * leaf).sum().real.backward()
        assert set((leaf.conj() * 2 + z).reshape(-1).tolist()) == {3 - 9j} and set(leaf.grad.resolve_conj().reshape(-1)
                                                                                   .tolist()) == {2 - 6j}


def test_what_reads_memory():
    z = tensor(rl, START)
    c, n = z.conj(), z.conj().imag
    assert c.tolist() == START.conj().tolist() and n.tolist() == START.conj().imag.tolist() and n[
        0, 0].item() == -START[0, 0].imag and complex(c[1, 1]) == START[1, 1].conjugate()
    assert "1.0000-1.8000j" in repr(c) and "-1.8000" in repr(n)
    assert c.numpy(
        force=True).tolist() == START.conj().tolist() and c.data_ptr() == z.data_ptr() and c._base is z and n._base is z
    for refused, text in ((c, "conjugate bit"), (n, "negative bit")):
        for read in (refused.numpy, lambda x=refused: np.asarray(x)):
            with pytest.raises(RuntimeError, match=text):
                read()
        with pytest.raises(BufferError, match="bit set"):
            refused.__dlpack__()
    for refused in (lambda: rl.view_as_real(c), lambda: c.view(rl.float64), lambda: n.view(rl.int64)):
        with pytest.raises(RuntimeError, match="conjugate|negative"):
            refused()
    assert rl._neg_view(rl.arange(3)).nonzero().tolist() == [[1], [2]] and c[z.real > 3].tolist() == START.conj()[
        START.real > 3].tolist()
    assert z.real.clone().conj().is_conj() is False and (
        r := z.real.clone()).conj() is r and z.resolve_conj() is z and z.resolve_neg() is z


def test_files_and_copies(tmp_path):
    z = tensor(rl, START)
    c, n = z.conj(), rl._neg_view(z).conj()
    for written_by, read_by in ((rl, rl), (rl, torch), (torch, rl)):
        x = tensor(written_by, START).conj()
        file = io.BytesIO()
        written_by.save([x, x[0], written_by._neg_view(x)], file)
        file.seek(0)
        found = read_by.load(file)
        assert [(y.is_conj(), y.is_neg()) for y in found] == [(True, False), (True, False),
                                                              (True, True)] and found[
                                                                  0].tolist() == START.conj().tolist()
        found[1].fill_(2j)
        assert found[0][0].tolist() == [2j] * 3
    save_file({"n": z.conj().imag}, tmp_path / "n.safetensors")
    assert load_file(tmp_path / "n.safetensors")["n"].tolist() == START.conj().imag.tolist()
    again = pickle.loads(pickle.dumps(n))
    assert again.is_conj() and again.is_neg() and again.tolist() == n.tolist()
    assert not copy.deepcopy(c).is_conj() and copy.deepcopy(c).tolist() == c.tolist() and copy.copy(c).is_conj()
    assert not rl.empty(0, dtype=rl.complex128).set_(c).is_conj()


def test_parameters():
    """A parameter that is conjugated in memory learns as one that is not."""
    def learned(parameter, kind):
        optimizer = kind([parameter], 0.1)
        (parameter * parameter).sum().abs().backward()
        optimizer.step()
        return numbers(parameter)

    for kind in (rl.optim.SGD, rl.optim.Adam):
        np.testing.assert_allclose(learned(rl.nn.Parameter(tensor(rl, START.conj()).conj()), kind),
                                   learned(rl.nn.Parameter(tensor(rl, START)), kind))

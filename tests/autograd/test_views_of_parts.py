"""Views that show part of a number or a place that a tensor tells, and writes through them, beside torch's."""
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def parts(t):
    z = t.zeros(3, dtype=t.complex64)
    z.real.fill_(1)
    z.imag[1] = 2
    z[1:].imag.add_(1)
    y = t.tensor([1 + 2j, 3 - 1j])
    y.real, y.imag = t.tensor([5.0, 6.0]), 0
    return z.tolist(), z[1:].imag.storage_offset(), z.real.stride(), z.real._is_view(), y.tolist()


def parts_with_history(t):
    w = t.tensor([1.0, 2.0], requires_grad=True)
    z = t.zeros(2, dtype=t.complex64)
    z.real.copy_(w)
    z.imag.mul_(2).add_(w * 3)
    (z * z.conj()).real.sum().backward()
    return w.grad.tolist()


def pairs(t):
    x = t.view_as_complex(t.arange(18.0).reshape(3, 3, 2)).clone().requires_grad_()
    y = x.clone()
    t.view_as_real(y).transpose(0, 1).mul_(2)
    y.mul_(2)
    t.view_as_real(y).sum().backward()
    return x.grad.tolist()


def complex_of_pairs(t):
    x = t.arange(8.0, requires_grad=True)
    y = (x * 1).view(4, 2)
    t.view_as_complex(y).mul_(1j)
    (y * y * t.arange(8.0).view(4, 2)).sum().backward()
    return x.grad.tolist()


def places(t):
    a = t.zeros(3, 4)
    for k in t.arange(3):
        a[k].fill_(k)
        a[k, k] = 7
    i = t.tensor(1)
    b = t.arange(24.0).view(2, 3, 4)
    w = t.arange(6.0, requires_grad=True)
    y = (w * 1).view(2, 3)
    y[i].mul_(3)
    y.sum().backward()
    return a.tolist(), b[i].data_ptr() - b.data_ptr(), b[:, i].stride(), b[[0, 1], i].tolist(), b[
        t.tensor([True, False]), i].tolist(), w.grad.tolist()


def mapped_places(t):
    return (t.func.vmap(lambda x, i: x[i], in_dims=(None, 0))(t.arange(4.0), t.tensor([2, 0])).tolist(),
            t.func.vmap(lambda x, i: x[i, i])(t.arange(8.0).view(2, 2, 2), t.tensor([1, 0])).tolist())


def without_recording(t):
    p = t.ones(4, requires_grad=True)
    with t.no_grad():
        v = p.view(-1)
        return v.requires_grad, v.is_leaf, v.grad_fn, p.numpy().tolist(), v.numpy().tolist()


PROGRAMS = [parts, parts_with_history, pairs, complex_of_pairs, places, mapped_places, without_recording]


@pytest.mark.parametrize("program", PROGRAMS)
def test_as_torch(program):
    assert program(rl) == program(torch)


@pytest.mark.parametrize("base", [lambda t: t.zeros(2, 2, requires_grad=True),
                                  lambda t: t.zeros(2, 2, requires_grad=True).clone()])
def test_a_view_that_was_not_recorded_is_written(base):
    for t in (torch, rl):
        whole = base(t)
        with t.no_grad():
            view = whole[0]
            view.add_(1)
        for write in (lambda: view.add_(1), lambda: view.view_as(view).mul_(2)):
            with pytest.raises(RuntimeError):
                write()
        view.detach().add_(1)
        assert whole.tolist() == [[2, 2], [0, 0]]


@pytest.mark.parametrize("program", [lambda z, i: (z.real.mul_(2), z.imag, z),
                                     lambda z, i: (z[i].mul_(2), z[i] + 0, z[i, i])[1:],
                                     lambda z, i: (z.real[i].add_(1), z * 2)[1]])
def test_compiled(program):
    results = []
    for t, run in ((torch, program), (rl, rl.compile(program))):
        z = (t.arange(12.0) * (1 + 1j)).view(3, 4)[1:]
        found = run(z, t.tensor(1))
        found = found if isinstance(found, tuple) else (found,)
        results.append(([r.tolist() for r in found], z.tolist(),
                        [r.untyped_storage().data_ptr() == z.untyped_storage().data_ptr()
                         and r.data_ptr() - z.data_ptr() for r in found if r.dim() > 1]))
    assert results[0] == results[1]


def test_pairs_that_are_no_complex_numbers_are_refused():
    for make in (lambda t: t.view_as_complex(t.arange(6.0)[1:5].view(2, 2)),
                 lambda t: t.view_as_complex(t.arange(6.0)[::3]),
                 lambda t: t.view_as_complex(t.arange(6.0).view(2, 3)[:, :2])):
        for t in (rl, torch):
            with pytest.raises(RuntimeError):
                make(t)


def test_what_was_zeroed_may_be_written_again():
    for write in (lambda a: a.zero_(), lambda a: a.fill_(0.0), lambda a: a.mul_(0)):
        grads = []
        for t in (torch, rl):
            x = t.arange(16.0).requires_grad_()
            a = (x * 1).view(4, 4)
            write(a)
            a[0].add_(1)
            a[..., 1].mul_(2)
            (a * a).sum().backward()
            grads.append(x.grad.tolist())
        assert grads[0] == grads[1]

"""Versions: which writes a tensor hears of, where ``.data`` and ``set_`` let tensors show other memory; compared with
PyTorch."""
import copy
import io

import pytest
import torch as judge

import rushlight


def seen(library, make):
    """The versions that a program ends with, or the error it raises."""
    try:
        return [t._version if hasattr(t, "_version") else t for t in make(library)]
    except RuntimeError as error:
        return str(error)[:24]


def written(t, times=1):
    for _ in range(times):
        t.add_(1)
    return t


def given(torch):
    x, y = written(torch.zeros(3), 2), written(torch.zeros(3), 1)
    x.data = y
    yield from (x._version, y._version)
    x.add_(1)
    yield from (x._version, y._version)
    y.add_(1)
    yield from (x, y)


def taken(torch):
    x = written(torch.zeros(4, requires_grad=True).exp().detach(), 2)
    y = x.data
    part = y[1:]
    part.add_(1)
    yield from (x, y, part, x.detach(), y.detach())


def placed(torch):
    x, y = torch.zeros(3), torch.zeros(3)
    x.set_(y)
    x.add_(1)
    yield from (x, y)
    x.resize_(7)
    yield x
    x.resize_(7)
    yield x
    z = torch.zeros(2, 3).t().resize_(3, 2)
    yield from (z, *z.stride())


def backward(torch):
    """The leaf was given other memory that had been written: what was saved of it counts as before."""
    x = torch.zeros(3, requires_grad=True)
    z = x * x
    x.data = written(torch.ones(3), 2)
    z.sum().backward()
    yield from x.grad.tolist()


def stale(torch):
    x = torch.zeros(3, requires_grad=True)
    z = x * x
    with torch.no_grad():
        x.add_(1)
    x.data = torch.ones(3)
    z.sum().backward()
    yield 0


def parameters(torch):
    x = torch.zeros(3)
    data = x.data
    p = torch.nn.Parameter(data)
    data.add_(1)
    yield from (x, data, p)
    torch.utils.swap_tensors(p, q := written(torch.ones(2), 3))
    yield from (p, q)


def preserved(torch):
    x = torch.zeros(3)
    y = x.data
    with torch.autograd.grad_mode._unsafe_preserve_version_counter((x, y)):
        x.add_(1)
        y.add_(1)
    yield from (x, y)


def views_before(torch):
    """What counted with a tensor does so on where the tensor was given other memory; what counts with that does not."""
    x, y = written(torch.zeros(4), 3), written(torch.ones(4), 2)
    view, other, detached = x[1:], y[1:], x.detach()
    x.data = y
    for target in (x, view, other, y, detached, x[0:2], x.detach()):
        written(target)
        yield from (t._version for t in (x, view, y, other, detached))
    x.data = torch.zeros(4)
    for target in (x, view, x.data):
        written(target)
        yield from (t._version for t in (x, view, y, other, detached, target))


def views_of_data(torch):
    x = written(torch.zeros(4))
    data = x.data
    view = data[1:]
    data.data = torch.ones(4)
    for target in (view, data, x):
        written(target)
        yield from (x._version, data._version, view._version)


def views_given(torch):
    x = torch.zeros(4)
    view = x[1:]
    view.data = torch.ones(2)
    for target in (view, x):
        written(target)
        yield from (x._version, view._version, view._is_view())
    yield from (*x.tolist(), *view.tolist())


def views_placed(torch):
    x = torch.zeros(4)
    view = x[1:]
    x.set_(written(torch.ones(4), 2))
    for target in (x, view):
        written(target)
        yield from (x._version, view._version)


def stale_by_a_view(torch):
    x = torch.zeros(4, requires_grad=True)
    result, view = x * x, x.view(2, 2)
    with torch.no_grad():
        x.data = torch.ones(4)
        view.add_(1)
    result.sum().backward()
    yield from x.grad.tolist()


@pytest.mark.parametrize("make", [given, taken, placed, backward, stale, parameters, preserved, views_before,
                                  views_of_data, views_given, views_placed, stale_by_a_view])
def test_versions_are_those_of_pytorch(make):
    assert seen(rushlight, make) == seen(judge, make)


def test_data_shows_the_same_storage():
    x = rushlight.zeros(3)
    y = x.data
    assert x.untyped_storage()._cdata == y.untyped_storage()._cdata
    y.share_memory_()
    x.add_(1)
    assert x.is_shared() and y.tolist() == [1, 1, 1]
    for pair in (copy.deepcopy([x, y]), through_a_file([x, y])):
        pair[0].add_(1)
        assert pair[1].tolist() == [2, 2, 2]
    x = rushlight.zeros(3)
    x.data.untyped_storage().resize_(0)
    assert x.untyped_storage().nbytes() == 0


def through_a_file(value):
    file = io.BytesIO()
    rushlight.save(value, file)
    file.seek(0)
    return rushlight.load(file)


def test_views_see_what_a_larger_storage_holds():
    x = rushlight.arange(4.0)
    part = x[1:3]
    x.resize_(1000)
    part.fill_(7)
    assert x[:4].tolist() == [0, 7, 7, 3]
    import numpy as np
    with pytest.raises(RuntimeError, match="not resizable"):
        rushlight.from_numpy(np.zeros(3)).resize_(100)


@pytest.mark.parametrize("make", [lambda x: x.long(), lambda x: x.detach().to_sparse()])
def test_data_that_cannot_be(make):
    x = rushlight.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="data set to a tensor|incompatible tensor type"):
        x.data = make(x)

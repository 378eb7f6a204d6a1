"""Views of what is written in place, and writes through expanded views, beside torch's."""
import re
import warnings

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def late_view(t):
    x = t.zeros(4)
    v, w = x[:2], t.ones(4, requires_grad=True)
    x.add_(w * 2)
    assert v.requires_grad and v.grad_fn is not None
    (v * 3).sum().backward()
    return w.grad


def sibling(t):
    x = t.zeros(4)
    v, u, w = x[:2], x[1:3], t.ones(2, requires_grad=True)
    v.mul_(0).add_(w * 2)
    (u * 3).sum().backward()
    return w.grad


def in_a_list(t):
    x = t.zeros(4)
    v, w = x[:2].view(2, 1), t.ones(4, requires_grad=True)
    x.add_(w * 2)
    t.cat([v, v * 2]).sum().backward()
    return w.grad


def detached(t):
    x = t.zeros(4)
    d, w = x.detach(), t.ones(4, requires_grad=True)
    x.add_(w)
    return t.tensor(float(d.requires_grad))


def backward_at_once(t):
    x = t.zeros(1)
    v, w = x.view(()), t.ones(1, requires_grad=True)
    x.add_(w * 5)
    v.backward()
    return w.grad


@pytest.mark.parametrize("program", [late_view, sibling, in_a_list, detached, backward_at_once])
def test_a_view_gains_the_history_of_its_base(program):
    assert program(rl).tolist() == program(torch).tolist()


def expanded(t):
    return t.zeros(3, 1).expand(3, 4)


def mask(t):
    found = t.zeros(3, 4, dtype=t.bool)
    found[1, 2] = True
    return found


WRITES = {"masked_fill_": lambda t, x: x.masked_fill_(mask(t), 5.0), "number": lambda t, x: x.__setitem__(mask(t), 5.0),
          "tensor": lambda t, x: x.__setitem__(mask(t), t.tensor([7.0])),
          "rows": lambda t, x: x.__setitem__(t.tensor([1]), 5.0),
          "index_fill_": lambda t, x: x.index_fill_(0, t.tensor([1]), 4.0),
          "all": lambda t, x: x.masked_fill_(t.ones(3, 4, dtype=t.bool), t.tensor(3.0)),
          "index_put_": lambda t, x: x.index_put_((t.tensor([0]), t.tensor([1])), t.tensor(3.0))}


@pytest.mark.parametrize("name", WRITES)
def test_some_elements_of_an_expanded_tensor(name):
    results = []
    for t in (rl, torch):
        x = expanded(t)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            with pytest.warns(UserWarning, match="expanded tensors"):
                WRITES[name](t, x)
        results.append(x.tolist())
    assert results[0] == results[1]


def test_whole_writes_are_refused_still():
    for t in (rl, torch):
        with pytest.raises(RuntimeError, match="single memory location"):
            expanded(t).add_(t.ones(3, 4))


def test_a_view_of_a_view_made_where_nothing_is_recorded_says_so():
    for package in (rl, torch):
        with package.no_grad():
            view = package.zeros(2).view(2)
        again = view.requires_grad_().view(2)
        with pytest.raises(RuntimeError, match="Output 0 of .* is a view of a view which was created in no_grad mode "
                                               "and is being modified inplace .* inside the no_grad block"):
            again.div_(2)


@pytest.mark.parametrize("dtype", ["bool", "int64", "uint8"])
def test_dtypes_without_gradients_gain_no_history_by_writes(dtype):
    """Whole, by a view, by an index: what is written may want a gradient, the target cannot."""
    def wanted(t):
        found, value = [], t.ones(2, requires_grad=True)
        writes = (lambda v: v.copy_(value), lambda v: v[0].copy_(value[0]), lambda v: v[:1].copy_(value[:1]),
                  lambda v: v.__setitem__(0, value[0]), lambda v: v.t().copy_(value),
                  lambda v: v.view(1, 2).copy_(value))
        for write in writes:
            target = t.zeros(2, dtype=getattr(t, dtype))
            write(target)
            found.append((target.requires_grad, target[0].requires_grad, target.grad_fn is None, target.tolist()))
        return found
    assert wanted(rl) == wanted(torch)


VIEWS = {"reshape": lambda t: t.arange(6.).reshape(2, 3), "slice": lambda t: t.arange(6.)[1:],
         "view": lambda t: t.zeros(6).view(3, 2), "no view": lambda t: t.ones(4)}


@pytest.mark.parametrize("made", VIEWS)
def test_views_of_leaves_that_are_views_are_not_written(made):
    """The leaf lies between the view and the tensor whose memory it shares, which wants no gradient."""
    for t in (rl, torch):
        for write in (lambda v: v.mul_(3), lambda v: v.add_(t.ones(())), lambda v: v.zero_()):
            for part in (lambda x: x[:1], lambda x: x[1:][:1]):
                with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used"):
                    write(part(VIEWS[made](t).requires_grad_()))


MADE_IN = {"no_grad": "no_grad mode", "inference_mode": "inference mode"}


@pytest.mark.parametrize("mode", MADE_IN)
@pytest.mark.parametrize("again", [False, True])
def test_refusals_name_the_mode_that_a_view_was_made_in(mode, again):
    """Of the view itself, of a view of it that was recorded, and after a write to its base."""
    for t in (rl, torch):
        leaf = t.ones(2, 2, requires_grad=True)
        for write, of in ((lambda v, b: v.add_(1), "is being modified inplace"),
                          (lambda v, b: (b.add_(1), v.grad_fn), "its base or another view of its base has been mod")):
            base = leaf.clone()
            with getattr(t, mode)():
                view = base.view(-1)
            view = view.view(4, 1) if again else view
            with pytest.raises(RuntimeError, match=f"created in {MADE_IN[mode]} and {of}.*(?s:.)*{mode} block"):
                write(view, base)


def test_texts_of_views_whose_history_cannot_follow():
    """Written where nothing is recorded they say so; unwritten, or recorded, they do not."""
    def shown(t):
        found = []
        for recorded in (False, True):
            leaf = t.ones(2, requires_grad=True)
            base = leaf * 1 if recorded else leaf
            with t.no_grad():
                view = base[:1]
                found.append(repr(view))
                view *= 2
            found += [repr(view), repr(base), repr(base[1:])]
        return [re.sub(r"<\w+Backward0>", "<node>", text) for text in found]
    assert shown(rl) == shown(torch)

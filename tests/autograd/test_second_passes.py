"""Second backward passes through graphs whose first pass freed what they saved: as in PyTorch, operators whose
derivatives save no tensor let them through."""
import pytest
import torch as judge
import torch.nn.functional  # noqa: F401

import rushlight

RESAMPLED = [(mode, shape, size, more) for mode, shape, size in (
    ("nearest", (1, 2, 5), 7), ("nearest", (1, 2, 4, 4), (8, 8)), ("nearest-exact", (1, 2, 5, 5), (7, 7)),
    ("linear", (1, 2, 5), 7), ("bilinear", (1, 2, 5, 5), (3, 8)), ("bicubic", (1, 2, 4, 4), (8, 3)),
    ("trilinear", (1, 1, 3, 3, 3), (5, 2, 5)))
    for more in ({}, {"align_corners": True}, {"antialias": True})
    if not more or mode in ("bilinear", "bicubic") or mode.endswith("linear") and "align_corners" in more]


def passes(t, function, shape):
    """Whether a second backward pass runs, and the gradient of the first."""
    count = 1
    for size in shape:
        count *= size
    x = (t.arange(count, dtype=t.float32) - count / 2).reshape(shape).requires_grad_()
    total = function(t, x).sum()
    total.backward()
    first = x.grad.clone()
    try:
        total.backward()
    except RuntimeError as error:
        assert "a second time" in str(error)
        return False, first.tolist()
    assert t.allclose(x.grad, 2 * first)
    return True, first.tolist()


@pytest.mark.parametrize("mode,shape,size,more", RESAMPLED)
def test_resampled_images_take_a_second_pass(mode, shape, size, more):
    def function(t, x):
        return t.nn.functional.interpolate(x, size, mode=mode, **more)
    own, wanted = passes(rushlight, function, shape), passes(judge, function, shape)
    assert own[0] == wanted[0]
    assert judge.allclose(judge.tensor(own[1]), judge.tensor(wanted[1]), atol=1e-5)


def test_second_passes_of_gradients_and_under_hooks():
    """With ``create_graph`` and with hooks on saved tensors, too."""
    for t in (rushlight, judge):
        with t.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
            x = t.ones(1, 1, 4, 4, requires_grad=True)
            total = t.nn.functional.interpolate(x, (8, 8), mode="bicubic").sum()
        total.backward()
        total.backward()
        found = t.autograd.grad(t.nn.functional.interpolate(x, (8, 8), mode="bicubic").pow(2).sum(), x,
                                create_graph=True)[0]
        assert found.requires_grad and x.grad.sum().item() == pytest.approx(128, rel=1e-5)


SHARED = {"unbind": lambda x: x.unbind(0), "unbind of columns": lambda x: x.unbind(-1), "split": lambda x: x.split(2),
          "sizes": lambda x: x.split([1, 0, 3], 1), "chunk": lambda x: x.chunk(3, 1), "iteration": list}


@pytest.mark.parametrize("made", SHARED)
def test_several_views_have_one_node(made):
    """Its hooks get None for views that no gradient reaches, and double backward runs through it."""
    def outcome(t):
        x = t.arange(12., requires_grad=True).reshape(3, 4)
        leaf = x * 1.0
        views, seen = SHARED[made](leaf), []
        views[0].register_hook(lambda g: seen.append(g if g is None else g.tolist()))
        names = {v.grad_fn.name() for v in views}, len({v.grad_fn for v in views})
        for view in (views[-1], views[0]):
            view.sum().backward(retain_graph=True)
        first, = t.autograd.grad((views[0].sum() * views[-1].pow(2)).sum(), leaf, create_graph=True)
        second, = t.autograd.grad(first.pow(2).sum(), leaf)
        return names, seen, first.tolist(), second.tolist(), [tuple(e[0].name() for e in v.grad_fn.next_functions)
                                                              for v in views]
    assert outcome(rushlight) == outcome(judge)


WRITES = {"mul_": lambda t, v: v.mul_(2), "zero_": lambda t, v: v.zero_(), "copy_": lambda t, v: v.copy_(t.ones(2)),
          "add_": lambda t, v: v.add_(t.ones(2, requires_grad=True)), "item": lambda t, v: v.__setitem__(0, 5.0),
          "part": lambda t, v: v[:1].mul_(3)}


@pytest.mark.parametrize("write", WRITES)
def test_hooks_of_a_view_are_for_its_value_before_a_write(write):
    """The view's, another view's, and the node's; what was computed before the write still calls them."""
    def outcome(t, used):
        leaf, seen = t.ones(2, requires_grad=True), []
        base = leaf.clone()
        view, other = base[:], base.view(2)
        before = view * 3 if used else None
        for k, one in enumerate((view, other, base)):
            one.register_hook(lambda g, k=k: seen.append((k, g.tolist())))
        view.grad_fn.register_hook(lambda *g: seen.append("node"))
        WRITES[write](t, view)
        total = (view + other).sum()
        (total if before is None else total + before.sum()).backward()
        return seen, leaf.grad.tolist()
    for used in (False, True):
        assert outcome(rushlight, used) == outcome(judge, used)

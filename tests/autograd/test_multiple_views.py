"""Views that nobody may write, and what is computed from views that were made without a history: as in PyTorch."""
import contextlib

import pytest
import torch as judge

import rushlight

MADE = {"unbind": lambda x: x.unbind(0), "split": lambda x: x.split(1), "sizes": lambda x: x.split([1, 2]),
        "split_with_sizes": lambda x: x.split_with_sizes([1, 2]), "chunk": lambda x: x.chunk(2),
        "iteration": lambda x: list(x), "one": lambda x: x.split(5), "tensor_split": lambda x: x.tensor_split(2),
        "vsplit": lambda x: x.vsplit([1]), "index": lambda x: (x[0], x[1]), "parts of parts": lambda x: x.chunk(2)[0:1],
        "unsafe_split": lambda x: [p for p in x.unsafe_split(1)], "unsafe_chunk": lambda x: x.unsafe_chunk(2)}
SOURCES = {"leaf": lambda t: t.ones(3, 4, requires_grad=True), "plain": lambda t: t.ones(3, 4),
           "result": lambda t: t.ones(3, 4, requires_grad=True) * 2,
           "view": lambda t: (t.ones(3, 8, requires_grad=True) * 2)[:, ::2],
           "detached": lambda t: (t.ones(3, 4, requires_grad=True) * 2).detach()}
MODES = {"grad": lambda t: contextlib.nullcontext(), "no_grad": lambda t: t.no_grad(),
         "inference": lambda t: t.inference_mode()}


def item(v):
    v[0] = 5.0
    return v


def unrecorded(t, v):
    with t.no_grad():
        return v.mul_(2)


USED = {"written": lambda t, v: v.mul_(2), "with a gradient": lambda t, v: v.mul_(t.ones((), requires_grad=True)),
        "a view written": lambda t, v: v[0:1].mul_(2), "an item": lambda t, v: item(v), "no_grad": unrecorded,
        "detached": lambda t, v: v.detach().mul_(2), "data": lambda t, v: v.data.mul_(2),
        "cloned": lambda t, v: v.clone().mul_(2), "filled": lambda t, v: v.zero_(), "read": lambda t, v: v * 3,
        "copied": lambda t, v: v.copy_(t.ones_like(v)), "again": lambda t, v: unrecorded(t, v) * 2}


def outcome(t, made, source, mode, use, before):
    """What using the first view gives: who wants gradients and has a history, and versions; or that it is refused."""
    try:
        x = SOURCES[source](t)
        with MODES[mode](t):
            views = MADE[made](x)
        if before:
            unrecorded(t, x)
        result = USED[use](t, views[0])
        return (result.requires_grad, result.grad_fn is None, result.is_inference(), result._version, x._version,
                x.requires_grad, x.grad_fn is None, views[-1].requires_grad, views[-1].grad_fn is None)
    except RuntimeError:
        return "refused"


CASES = [(made, mode) for made in MADE for mode in MODES if not (made.startswith("unsafe") and mode == "inference")]


@pytest.mark.parametrize("made,mode", CASES)
def test_what_is_refused_and_what_has_a_history(made, mode):
    wrong = [(source, use, before, theirs, own) for source in SOURCES for use in USED for before in (False, True)
             if (own := outcome(rushlight, made, source, mode, use, before))
             != (theirs := outcome(judge, made, source, mode, use, before))]
    assert not wrong


def test_the_message_names_the_operator():
    x = rushlight.ones(3, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="^Output 0 of .*Backward0 is a view and is being modified inplace"):
        x.unbind()[0].mul_(2)
    views = x.unbind()
    x.mul_(2)
    with pytest.raises(RuntimeError, match="is a view and its base or another view of its base has been modified"):
        views[1] * 2


@pytest.mark.parametrize("mode", ["no_grad", "inference"])
def test_gradients_pass_by_views_without_a_history(mode):
    def gradients(t):
        x, w = t.ones(3, requires_grad=True), t.ones(2, requires_grad=True)
        with MODES[mode](t):
            v = x[1:]
        (v * w).sum().backward()
        (v * 2).sum().backward()
        return x.grad, w.grad.tolist()
    assert gradients(rushlight) == gradients(judge)

"""Blocks that hooks and functions enter in a backward pass and never leave, beside PyTorch: they end with the pass."""
import threading

import pytest
import torch as judge

import rushlight

WAYS = ("unpack", "tensor", "leaf", "accumulated", "node", "prehook", "function")
BLOCKS = {
    "no_grad": lambda t, packed: t.no_grad(),
    "inference_mode": lambda t, packed: t.inference_mode(),
    "autocast": lambda t, packed: t.autocast("cpu", dtype=t.bfloat16),
    "saved tensor hooks": lambda t, packed: t.autograd.graph.saved_tensors_hooks(
        lambda x: [packed.append(x), x][1], lambda x: x),
    "tangents": lambda t, packed: t.autograd.forward_ad._set_fwd_grad_enabled(False),
}


def run_pass(t, way, enter):
    """Run a backward pass in which ``enter`` is called."""
    x = t.ones(3, requires_grad=True)
    y = x.sin()
    call = lambda *_: enter()
    if way == "unpack":
        with t.autograd.graph.saved_tensors_hooks(lambda v: v, lambda v: [enter(), v][1]):
            y = x.cos()
    elif way == "tensor":
        y.register_hook(call)
    elif way == "leaf":
        x.register_hook(call)
    elif way == "accumulated":
        x.register_post_accumulate_grad_hook(call)
    elif way == "node":
        y.grad_fn.register_hook(call)
    elif way == "prehook":
        y.grad_fn.register_prehook(call)
    else:
        class Doubled(t.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, gradient):
                enter()
                return gradient * 2

        y = Doubled.apply(y)
    y.sum().backward()


def left(t, way, block):
    """What the calling thread's state is after the pass, in a thread of its own."""
    found = []

    def run():
        kept, packed = [], []

        def enter():
            kept.append(BLOCKS[block](t, packed))
            kept[-1].__enter__()

        run_pass(t, way, enter)
        packed.clear()
        t.ones(2).requires_grad_().sin()
        found.extend((len(kept), t.is_grad_enabled(), t.is_inference_mode_enabled(), t.is_autocast_enabled("cpu"),
                      t.autograd.forward_ad._is_fwd_grad_enabled(), len(packed)))
        if block == "inference_mode":  # PyTorch's sets the state of the thread that frees it
            kept.pop().__exit__(None, None, None)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("block", BLOCKS)
def test_blocks_end_with_the_pass(block, way):
    found = left(rushlight, way, block)
    assert found == left(judge, way, block) and found[1:] == [True, False, False, True, 0]

"""What optimizers of others take from ``torch.optim.optimizer``: one of them runs alike in both."""
import importlib

import pytest
import torch as judge

import rushlight as torch


def descent(lib):
    """A class as libraries write them."""
    names = importlib.import_module(f"{lib.__name__}.optim.optimizer")

    class Descent(lib.optim.Optimizer):
        __doc__ = ("Down.\n" + names._params_doc + names._foreach_doc + names._maximize_doc + names._capturable_doc
                   + names._differentiable_doc + names._fused_doc)

        def __init__(self, params, lr=0.1, differentiable=False):
            super().__init__(params, dict(lr=lr, differentiable=differentiable))

        @names._use_grad_for_differentiable
        def step(self, closure=None):
            for group in self.param_groups:
                grads = [p.grad for p in group["params"]]
                assert names._default_to_fused_or_foreach(group["params"], group["differentiable"]) == (False, False)
                params = list(group["params"])
                names._view_as_real(params, grads)
                for p, g in zip(params, grads):
                    p.add_(g * -names._get_value(names._to_scalar(lib.tensor([group["lr"]]))))

    return Descent


def test_a_class_of_others():
    results = []
    for lib in (torch, judge):
        real, pairs = lib.tensor([1.0, 2.0], requires_grad=True), lib.tensor([1 + 2j], requires_grad=True)
        real.grad, pairs.grad = lib.tensor([0.5, 1.0]), lib.tensor([1 - 1j])
        descent(lib)([real, pairs]).step()
        results.append([real.detach().numpy(), pairs.detach().numpy()])
    judge.testing.assert_close(*results)


def test_hooks_of_all_optimizers():
    seen = []
    from rushlight.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
    handles = register_optimizer_step_pre_hook(lambda o, a, k: seen.append(
        "before")), register_optimizer_step_post_hook(lambda o, a, k: seen.append("after"))
    p = torch.ones(2, requires_grad=True)
    p.grad = torch.ones(2)
    torch.optim.SGD([p]).step()
    for handle in handles:
        handle.remove()
    torch.optim.SGD([p]).step()
    assert seen == ["before", "after"]


@pytest.mark.parametrize("mask", [None, "causal", "none hidden"])
def test_masks_of_transformers(mask):
    results = []
    for lib in (torch, judge):
        module = importlib.import_module(f"{lib.__name__}.nn.modules.transformer")
        given = None if mask is None else module._generate_square_subsequent_mask(4) if mask == "causal" else lib.zeros(
            4, 4)
        results.append((module._detect_is_causal_mask(given), module._get_seq_len(lib.ones(2, 3, 4), True),
                        module._get_seq_len(lib.ones(2, 3), True)))
    assert results[0] == results[1]

"""Hooks on intermediate values, and tensors made inside that want gradients."""
import rushlight as torch
from rushlight.compiler import graph_break

from .table import case


def leaf():
    return (torch.arange(4.0).requires_grad_(),)


@case(given=leaf)
def hook_on_result(x, w):
    y = w * 2
    y.register_hook(lambda g: g * 10)
    return y.sum()


@case(given=leaf)
def hooks_in_order_on_all_uses(x, w):
    h = w * x
    y = h * 3
    h.register_hook(lambda g: g + 1)
    h.register_hook(lambda g: torch.clamp(g * 10, max=35))
    return (h * 2 + y).sum()


@case(given=leaf)
def hook_that_reads_another_value(x, w):
    s = x + 1
    h = (w * x).sin()
    h.register_hook(lambda g: g * s)
    return h.sum()


@case(given=leaf)
def hook_then_backward(x, w):
    h = w * x
    h.register_hook(lambda g: g * 10)
    (h * 2).sum().backward()
    return w.grad + 1


@case(given=leaf)
def hook_that_keeps(x, w):
    seen = []
    h = w * x
    h.register_hook(lambda g: seen.append(g.shape))
    h.sum().backward()
    return seen


@case(given=leaf)
def hooks_with_effects(x, w):
    count, seen = 0, []

    def hook(g):
        nonlocal count
        for _ in range(2):
            count += 1

    h = w * x
    h.register_hook(hook)
    y = h.sin()
    y.register_hook(lambda g: seen.append(g.sum()))
    h.register_hook(lambda g: print("gradient of", tuple(g.shape)))
    (y * 2).sum().backward(retain_graph=True)
    y.sum().backward()
    return count, seen, w.grad


@case(given=leaf)
def gradients_of_intermediate_values(x, w):
    h = w * x
    h.retain_grad()
    y = h * 2
    y.retain_grad()
    before = h.grad, h.retains_grad, w.retains_grad
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return before, h.grad, y.grad, w.grad


@case(2, "RB011", given=leaf)
def hook_called_later(x, w):
    seen = []
    h = w * x
    h.register_hook(lambda g: seen.append(g.shape))
    return h.sum(), seen


@case(2, "RB011", given=leaf)
def gradient_kept_later(x, w):
    h = w * x
    h.retain_grad()
    return h


@case(2, "RB011", given=leaf)
def hook_with_effects_that_changes(x, w):
    seen = []

    def double(g):
        seen.append(1)
        return g * 2

    h = w * x
    h.register_hook(double)
    h.sum().backward()
    return seen, w.grad


@case(2, ("RB001", "RB004", "RB011"), given=leaf)
def hook_removed(x, w):
    h = w * x
    handle = h.register_hook(lambda g: g * 5)
    handle.remove()
    return h.sum()


@case(2, "RB011", given=leaf)
def hook_on_a_view(x, w):
    h = w[1:]
    h.register_hook(lambda g: g * 5)
    return (h * 2).sum()


@case(given=leaf)
def leaves_and_not(x, w):
    h, p = w * x, torch.ones(2).requires_grad_()
    return h.is_leaf, h.requires_grad, p.is_leaf, p.requires_grad, w.is_leaf, (x * 2).is_leaf, p.grad


@case(given=leaf)
def fast_gradient_sign(x, w):
    a = x.clone().detach().requires_grad_(True)
    (g,) = torch.autograd.grad(((a * w) ** 2).sum(), a)
    return (a + 0.1 * g.sign()).detach()


@case()
def projected_descent(x):
    d = torch.zeros_like(x, requires_grad=True)
    for _ in range(3):
        ((x + d) ** 2).sum().backward()
        with torch.no_grad():
            d.add_(d.grad.sign() * 0.1)
            d.grad = None
    return (x + d).detach(), d.is_leaf, d.grad


@case()
def leaf_that_is_returned(x):
    p = torch.ones(4, requires_grad=True)
    (p * x).sum().backward()
    return p, p.grad, x * 2


@case(1, "RB011")
def leaf_that_lives_on_with_its_use(x):
    p = torch.ones(4, requires_grad=True)
    return (p * x).sum(), p


@case(2, "RB011")
def leaf_that_shares_memory(x):
    y = x + 1
    p = y.detach().requires_grad_()
    (p * x).sum().backward()
    y.mul_(2)
    return p.grad, p.detach()


@case(2, "RB006")
def leaf_across_a_break(x):
    p = torch.ones(4, requires_grad=True)
    (p * x).sum().backward()
    graph_break()
    return p.grad * 2


@case()
def flag_set_by_assignment(x, w):
    p = torch.ones(4)
    p.requires_grad = True
    (p * x[:4].sum()).sum().backward()
    return p.grad, p.requires_grad

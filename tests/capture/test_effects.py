"""Aliases, writes, hooks and gradients as effects of compiled functions: results, arguments, gradients and errors as
uncompiled."""
import math
import types

import pytest

import rushlight as torch
import rushlight.nn as nn

from .compare import shown


def leaf(*shape):
    return values(*shape).requires_grad_()


def values(*shape):
    return torch.linspace(0.1, 1, max(1, math.prod(shape))).reshape(shape)


def outcome(function, make, after, compiled):
    """What two calls give, leave in their arguments and in gradients, or the error."""
    arguments = make()
    run = torch.compile(function) if compiled else function
    try:
        for _ in range(2):
            result = run(*arguments)
            if after:
                after(result, arguments)
    except Exception as error:
        return type(error).__name__, str(error)
    return shown(result), [shown(x) for x in arguments], [shown(x.grad) if x.is_leaf and x.grad is not None else None
                                                          for x in arguments]


def one():
    return leaf(3),


def two():
    return leaf(3), leaf(3)


def summed(result, arguments):
    result.sum().backward()


def same_twice():
    x = values(4)
    return x, x


def overlapping():
    x = values(4)
    return x[:3], x[1:]


def leaf_twice():
    x = leaf(3)
    return x, x


def written(x, y):
    x.add_(1)
    return x + y


def written_result(x, y):
    x = x * 1
    x.mul_(2)
    return x + y


def written_by_gradients(x, w):
    x.mul_(w)
    return x.sum()


def second(result, arguments):
    slope, = torch.autograd.grad(result, arguments[0], create_graph=True)
    (slope * slope).sum().backward()


def both_views(result, arguments):
    (result[0].sum() + result[1].sum()).backward()


def product(x, y):
    z = (x * y).sum()
    z.backward()
    return z.detach()


def retained(x):
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    return y.grad


def hooked(x):
    y = x * 2
    y.register_hook(lambda g: g * 10)
    (y * y).sum().backward()
    return x.grad


def edited(x, y):
    x.grad = None
    (x * y).sum().backward()
    x.grad.mul_(3)
    return x.grad * 1


def asked(x, y):
    a, b = torch.autograd.grad((x * y).sum(), (x, y))
    return a + b


def unused(x, y):
    return torch.autograd.grad((x * 2).sum(), (x, y), allow_unused=True)[1] is None


def unused_refused(x, y):
    return torch.autograd.grad((x * 2).sum(), (x, y))


def not_scalar(x):
    (x * 2).backward()


def weighted(x):
    y = x * 2
    y.backward(torch.ones(3))
    return x.grad * 1


def written_inside(x, w):
    y = x.clone()
    y[0] = w[0] * 2
    y.mul_(w)
    (y * y).sum().backward()
    return y.detach()


def two_losses(x):
    a = (x * x).sum()
    a.backward()
    b = (x * x * x).sum()
    b.backward()
    return a + b


def updated(x):
    (x * x).sum().backward()
    with torch.no_grad():
        x -= 0.1 * x.grad
    x.grad = None
    (x * x).sum().backward()
    return x.grad * 1


def stale(x):
    y = x.exp()
    z = y.sum()
    y.detach().zero_()
    z.backward()


def stale_leaf(x):
    z = (x * x).sum()
    with torch.no_grad():
        x.zero_()
    z.backward()
    return x.grad


def wrong_gradient(x):
    x.grad = torch.ones(4)
    return x


def given_gradient(x):
    x.grad = torch.ones(3) * 2
    return x.grad + 1


CASES = [(lambda x: x.add_(1), one, None), (written_result, two, summed),
         (written_by_gradients, lambda: (values(3), leaf(3)), None), (written, same_twice, None),
         (written, overlapping, None), (lambda x: (x[1:], x.view(2, 2), x, x + 0), lambda: (values(4),), None),
         (lambda x: (x[1:], x.view(2, 2)), lambda: (leaf(4),), both_views),
         (lambda x: (x.sin() * x).sum(), lambda: (leaf(4),), second), (product, leaf_twice, None),
         (retained, one, None), (hooked, one, None), (edited, two, None), (asked, two, None),
         (unused, two, None), (unused_refused, two, None), (not_scalar, one, None), (weighted, one, None),
         (written_inside, lambda: (values(3), leaf(3)), None), (two_losses, one, None),
         (updated, one, None), (stale_leaf, one, None), (wrong_gradient, one, None), (given_gradient, one, None)]


@pytest.mark.parametrize("function,make,after", CASES, ids=[f"{k} {c[0].__name__}" for k, c in enumerate(CASES)])
def test_effects_are_the_same(function, make, after):
    assert outcome(function, make, after, True) == outcome(function, make, after, False)


def test_values_changed_meanwhile_are_used_as_they_were():
    x = leaf(3)
    torch.compile(stale)(x)  # the engine would refuse
    assert torch.allclose(x.grad, x.detach().exp())


def test_backward_hooks_of_modules():
    model, seen = nn.Sequential(nn.Linear(3, 3), nn.Tanh()), []
    model[0].register_full_backward_hook(lambda module, given, taken: seen.append(len(taken)) or (given[0] * 2,))
    results = [outcome(lambda x: model(x).sum(), lambda: (leaf(2, 3),), lambda r, a: r.backward(), compiled)
               for compiled in (False, True)]
    assert results[0] == results[1] and seen == [1] * 4


def test_a_step_between_two_backward_passes_breaks_nothing():
    x = leaf(3)
    run = torch.compile(updated)
    run(x)
    assert not run.owner.stats.breaks


def test_globals_that_functions_of_another_module_set():
    other = types.ModuleType("other_of_globals")
    exec("count = 0\ndef step(x):\n    global count\n    count += 1\n    return x + count", vars(other))

    def f(x):
        x = other.step(x)
        return other.step(x) * other.count, other.count

    results = []
    for function in (f, torch.compile(f, backend="eager", fullgraph=True)):
        other.count = 0
        results.append([(y.item(), n) for y, n in (function(torch.ones(1)) for _ in range(3))])
    assert results[0] == results[1] and other.count == 6

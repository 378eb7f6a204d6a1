"""What breaks a graph: around it, also in nested calls, loops and blocks, everything is still compiled."""
import functools
import importlib.metadata
import importlib.util

import numpy as np

import rushlight as torch
from rushlight.compiler import disable, graph_break

from .table import case


@disable
def opaque(x):
    return x * 2


class Managed:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")

    def __exit__(self, *error):
        self.log.append("exit")


@case(2, "RB006")
def asked_for(x):
    y = x + 1
    graph_break()
    return y * 2


@case(2, "RB006")
def disabled_function(x):
    return opaque(x + 1) + 3


@case(3, "RB006")
def in_nested_calls(x):
    def inner(v):
        v = v + 1
        graph_break()
        return v * 2

    def outer(v):
        return inner(v) + inner(v * 2)

    return outer(x) - 1


@case(4, "RB006")
def in_a_loop(x):
    for k in range(3):
        x = x + k + 1
        graph_break()
        x = x * 2
    return x


@case(2, "RB006")
def in_a_with_block(x):
    log = []
    with Managed(log):
        x = x + 1
        graph_break()
        x = x * 2
    return x, log


@case(2, "RB006")
def in_no_grad(x):
    with torch.no_grad():
        y = x + 1
        graph_break()
        y = y * 2
    return y + 1, torch.is_grad_enabled()


@case(2, "RB006")
def in_a_try(x):
    try:
        x = x + 1
        graph_break()
        x = x * 2
    except ValueError:
        x = x * 0
    finally:
        x = x + 5
    return x


@case(2, "RB006")
def raise_after_a_break(x):
    try:
        x = x + 1
        graph_break()
        raise ValueError("after")
    except ValueError as error:
        return x * 2, str(error)


@case(2, "RB006")
def in_an_except(x):
    try:
        raise ValueError("v")
    except ValueError as error:
        y = x + 1
        graph_break()
        return y * 2, str(error)


@case(2, "RB006")
def in_a_finally(x):
    try:
        y = x + 1
    finally:
        graph_break()
        y = y * 2
    return y


@case(3, "RB006")
def in_a_comprehension(x):
    return [opaque(v) + 1 for v in (x + 1, x + 2)]


@case(2, "RB006")
def in_a_loop_over_a_list_that_was_changed(x, items=[0]):
    """The iterator is made before the list has its items again."""
    items[:] = [0]
    opaque(x)
    items[1:] = [1, 2]
    found = []
    for v in items:
        if v == 2:
            found.append(opaque(x) + v)
    return found, items


@case(2, ("RB010", "RB004"))
def in_a_generator(x):
    def steps():
        yield x + 1
        graph_break()
        yield x + 2

    return [v * 2 for v in steps()]


@case(2, "RB006")
def in_a_method(x):
    class_ = Managed([])
    x = x + 1
    graph_break()
    class_.log.append(1)
    return x * 2, class_.log


@case(2, "RB006")
def in_a_lambda(x):
    return (lambda v: (graph_break(), v * 2)[1])(x + 1)


@case(2, "RB006")
def in_arguments(x):
    def f(a, b, *, c):
        return a + b * c

    return f(x + 1, opaque(x + 2), c=3)


@case(2, "RB006")
def in_a_condition(x):
    y = x + 1
    return y * 2 if opaque(3) == 6 else y


@case(2, "RB006")
def in_a_closure(x):
    n = 1

    def bump():
        nonlocal n
        n += 1
        graph_break()
        n += 1
        return n

    return (x + 1) * bump() + n


@case(2, "RB006", given=lambda: ([1],))
def mutation_around_a_break(x, items):
    items.append(2)
    y = x + len(items)
    graph_break()
    items.append(3)
    return y * len(items)


@case(2, "RB006")
def object_across_a_break(x):
    m = Managed([x + 1])
    graph_break()
    m.extra = m.log[0] * 2
    return m.extra


@case(2, "RB006")
def in_place_across_a_break(x):
    v = x.view(2, 2)
    v.add_(1)
    graph_break()
    v[0].mul_(2)
    return x, v


@case(2, ("RB006", "RB004"))
def iterator_across_a_break(x):
    out = []
    it = iter([1, 2, 3])
    for k in it:
        out.append(x + k)
        if k == 1:
            graph_break()
            out.append(next(it))
    return out


@case(3, "RB006")
def dict_iterator_across_a_break(x):
    out = []
    for k, v in {"a": x, "b": x + 1}.items():
        if k == "a":
            graph_break()
        out.append(v * 2)
    return out


@case(2, "RB006")
def unpacking_across_a_break(x):
    a, (b, c) = x + 1, (opaque(x), 3)
    return a * b + c


@case(2, "RB006")
def gradient_across_a_break(x):
    w = torch.ones(4, requires_grad=True) * x
    graph_break()
    return (w * 2).requires_grad, w.sum()


@case(2, "RB006")
def while_across_breaks(x):
    n = 0
    while n < 3:
        x = x + 1
        if n == 1:
            graph_break()
        n += 1
    return x


@disable
def boom():
    raise KeyError("inside")


@case(2, "RB006")
def raised_by_disabled(x):
    y = x + 1
    try:
        boom()
    except KeyError as error:
        return y * 2, str(error)


@case(1, "RB006")
def raised_by_disabled_uncaught(x):
    y = x + 1
    boom()
    return y


@case(1, "RB013")
def deep_recursion(x):
    def go(n, v):
        return v if n == 0 else go(n - 1, v + 1)

    return go(150, x)


@case(breaks="RB006", given=lambda: ({"a": 1}, [1, 2]))
def displays_across_breaks(x, table, items):
    def broken(v):
        graph_break()
        return v

    return {**table, "b": broken(2), **table}, [*items, broken(3), *items], {*items, broken(4),
                                                                             *items}, (*items, broken(5))


def scores(n):
    """Nothing of tensors: it runs as it is, at one break."""
    found = np.zeros(n)
    for k in range(n):
        found[k] = np.sqrt(float(k)) if k % 2 else np.abs(-k)
    return [float(v) for v in np.unique(found)]


@case(2, "RB001")
def function_without_tensors(x):
    y = x * 2
    values = scores(4)
    return y + torch.tensor(values).sum()


class Made(dict):
    def __getitem__(self, key):
        return super().__getitem__(key)()


KINDS = Made(relu=torch.nn.ReLU, tanh=torch.nn.Tanh)


@functools.lru_cache
def installed(name):
    return importlib.util.find_spec(name) is not None and importlib.metadata.version(name) > "0"


@case()
def what_is_installed(x):
    return KINDS["relu"](x) if installed("numpy") and not importlib.util.find_spec("no_such_module") else x

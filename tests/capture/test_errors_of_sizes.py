"""Errors of sizes that other calls of a compiled function meet: raised where the program raises them uncompiled."""
import contextlib
import types

import pytest

import rushlight as torch
from rushlight.nn import functional as F

ERRORS = RuntimeError, IndexError, ValueError
# name: (operator, shapes of its arguments in turn, some of which do not fit)
OPERATORS = {
    "mm": (torch.mm, [((2, 2), (2, 3)), ((2, 2), (3, 2)), ((2, 3), (3, 4)), ((2, 3), (2, 3))]),
    "mul": (torch.mul, [((2, 2), (2, 2)), ((2, 2), (3, 2)), ((2, 3), (3, 4)), ((2, 3), (2, 3))]),
    "cat": (lambda x, y: torch.cat([x, y]), [((2, 2), (3, 2)), ((2, 2), (3, 3)), ((4, 5), (2, 5)), ((4, 5), (2, 7))]),
    "linear": (F.linear, [((2, 2), (3, 2)), ((2, 2), (3, 3)), ((4, 5), (2, 5)), ((4, 5), (2, 7))]),
    "in place": (lambda x, y: x.clone().add_(y), [((2, 2), (2, 2)), ((2, 2), (3, 2)), ((3, 4), (3, 4))]),
    "gather": (lambda x, y: x.gather(0, y.long()), [((2, 2), (2, 2)), ((2, 2), (2, 3)), ((3, 4), (3, 4))]),
    "conv": (lambda x, y: F.conv1d(x[None], y[None]), [((2, 7), (2, 3)), ((3, 7), (2, 3)), ((2, 2), (2, 3))]),
    "select": (lambda x, y: x[2] + y.sum(), [((3, 2), (2, 2)), ((2, 2), (2, 2)), ((4, 2), (2, 2))]),
    "narrow": (lambda x, y: x.narrow(0, 1, 2) * y.sum(), [((3, 2), (2, 2)), ((2, 2), (2, 2)), ((4, 2), (2, 2))]),
    "view": (lambda x, y: x.view(-1, 4) * y.sum(), [((4, 2), (2, 2)), ((3, 2), (2, 2)), ((6, 2), (2, 2))]),
    "where": (lambda x, y: torch.where(x > 0, x, y), [((2, 2), (2, 2)), ((2, 2), (3, 2)), ((3, 4), (3, 4))]),
}


@contextlib.contextmanager
def noting(seen):
    try:
        yield
    except ERRORS as error:
        seen.append(type(error).__name__)


def caught(op, x, y, seen):
    try:
        z = op(x, y)
    except ERRORS:
        z = x * 0
    return z.sum()


def suppressed(op, x, y, seen):
    z = x * 0
    with torch.no_grad(), contextlib.suppress(*ERRORS):
        z = op(x, y)
    return z.sum()


def noted(op, x, y, seen):
    z = x * 0
    with noting(seen):
        z = op(x, y)
    return z.sum()


def left(op, x, y, seen):
    seen.state = 1
    z = op(x, y)
    seen.state = 2
    return z.sum()


def finished(op, x, y, seen):
    z, done = x, False
    try:
        z = op(x, y)
        done = True
    finally:
        seen.state = done
    return z.sum()


class Seen(types.SimpleNamespace):
    """What a program leaves outside."""

    state = None

    def append(self, value):
        self.state = value


def outcomes(function, op, shapes):
    found = []
    for a, b in shapes:
        seen = Seen()
        try:
            found.append(function(op, torch.ones(a), torch.ones(b), seen).item())
        except ERRORS as error:
            found.append(type(error))
        found.append(seen.state)
    return found


@pytest.mark.parametrize("form", [caught, suppressed, noted, left, finished])
@pytest.mark.parametrize("name", OPERATORS)
def test_errors_of_sizes_meet_the_program(name, form):
    op, shapes = OPERATORS[name]
    for order in (shapes, shapes[::-1]):
        torch._dynamo.reset()
        plain = outcomes(form, op, order)
        assert outcomes(torch.compile(form, backend="eager"), op, order) == plain
    assert len(set(plain)) > 1


@pytest.mark.parametrize("block, most", [(torch.no_grad, 1), (lambda: torch.autocast("cpu", enabled=False), 1),
                                         (lambda: contextlib.suppress(KeyError), 2)])
def test_captures_for_several_sizes(block, most):
    """Blocks of the framework pass errors on, so that sizes need not be known in them."""
    graphs = []

    def backend(graph, examples):
        graphs.append(graph)
        return graph

    def function(x, y):
        with block():
            return x * y
    compiled = torch.compile(function, backend=backend)
    for n in (2, 3, 4, 5, 6):
        assert compiled(torch.ones(n), torch.ones(n)).tolist() == [1.0] * n
    assert len(graphs) == most

"""Runs a function plainly and compiled, several times, and holds results, errors and output against each other."""
import cmath
import collections
import contextlib
import io

import rushlight as torch


class Near(complex):
    """A number that equals numbers within a relative error of 1e-5 (1e-6 around 0), and NaN where the other is NaN."""

    def __eq__(self, other):
        return cmath.isclose(self, other, rel_tol=1e-5, abs_tol=1e-6) or cmath.isnan(self) and cmath.isnan(other)

    __hash__ = None

    def __repr__(self):
        return repr(complex(self) if self.imag else self.real)


def shown(value, seen=()):
    """A value in a form that compares by content: tensors with their gradients, containers, objects by their
    attributes."""
    if isinstance(value, torch.Tensor):
        grad = None if value.grad_fn is not None or value.grad is None else shown(value.grad)
        return "tensor", tuple(value.shape), str(value.dtype), bool(value.requires_grad), numbers(value.detach()
                                                                                                  .tolist()), grad
    if id(value) in seen:
        return "again", type(value).__name__
    seen = (*seen, id(value))
    if isinstance(value, (list, tuple, collections.deque)):
        return type(value).__name__, [shown(v, seen) for v in value]
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(map(repr, value))  # equal sets may iterate in different orders
    if isinstance(value, dict):
        return type(value).__name__, [(k, shown(v, seen)) for k, v in value.items()]
    if isinstance(value, torch.nn.Module):
        return type(value).__name__, shown(dict(value.named_parameters()), seen), shown(dict(value.named_buffers()),
                                                                                        seen), attributes(value, seen)
    if callable(value) and not isinstance(value, type):
        return "callable"
    return attributes(value, seen) if type(value).__repr__ is object.__repr__ else repr(value)


def numbers(value):
    """Nested lists with Near in the place of floats and complex numbers."""
    return [numbers(v) for v in value] if isinstance(value, list) else Near(value) if isinstance(
        value, (float, complex)) else value


def attributes(value, seen):
    return type(value).__name__, {k: shown(v, seen) for k, v in getattr(value, "__dict__", {}).items()
                                  if not k.startswith("_")}


def outcome(function, args):
    """What a call gives or raises, and what it prints."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        try:
            result = "returned", shown(function(*args))
        except Exception as error:
            result = "raised", type(error).__name__, str(error)
    return result, text.getvalue()


def fresh(args):
    return tuple(a.detach().clone().requires_grad_(a.requires_grad) if isinstance(a, torch.Tensor) else a for a in args)


def same(function, *args, times=3, setup=None, backend="rushlight", **options):
    """Asserts that ``function`` does the same compiled; the Stats of the capture."""
    outcomes = []
    compiled = torch.compile(function, backend=backend, **options)
    for run in (function, compiled):
        if setup:
            setup()
        outcomes.append([outcome(run, fresh(args)) for _ in range(times)])
    for plain, got in zip(*outcomes):
        assert got == plain, f"plain {plain}\ncompiled {got}\nbreaks {[str(b) for b in compiled.owner.stats.breaks]}"
    return compiled.owner.stats

"""Runs a function plainly and compiled, several times, and holds results, errors and output against each other."""
import contextlib
import io

import rushlight as torch


def shown(value):
    """A value in a form that compares by content."""
    if isinstance(value, torch.Tensor):
        return "tensor", tuple(value.shape), str(value.dtype), bool(value.requires_grad), [round(v, 4) if isinstance(v, float) else v for v in value.detach().flatten().tolist()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [shown(v) for v in value]
    if isinstance(value, dict):
        return type(value).__name__, {k: shown(v) for k, v in value.items()}
    return "callable" if callable(value) and not isinstance(value, type) else repr(value)


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

"""Context managers: by classes, by generators, nested, swallowing errors, left by return and in loops."""
import contextlib

from .table import case


class Managed:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, trace):
        self.log.append(kind.__name__ if kind else None)
        return self.swallow


@contextlib.contextmanager
def scaled_by(log, k):
    log.append("in")
    try:
        yield k
    finally:
        log.append("out")


@case()
def context_manager(x):
    log = []
    with Managed(log) as m:
        x = x + 1
    return x, log, m.log is log


@case()
def context_manager_swallows(x):
    log = []
    with Managed(log, True):
        x = x + 1
        raise ValueError("gone")
    return x, log


@case()
def context_manager_passes_on(x):
    log = []
    try:
        with Managed(log):
            raise KeyError("k")
    except KeyError as error:
        return x, log, error.args


@case()
def context_managers_nested(x):
    log = []
    with Managed(log), Managed(log, True):
        raise ValueError
    return log, x


@case()
def context_manager_return_inside(x):
    log = []

    def run():
        with Managed(log):
            return x * 2

    return run(), log


@case()
def context_manager_in_loop(x):
    log = []
    for k in range(3):
        with Managed(log):
            if k == 1:
                continue
            x = x + k
            if k == 2:
                break
    return x, log


@case()
def generator_context_manager(x):
    log = []
    with scaled_by(log, 3) as k:
        x = x * k
    return x, log


@case()
def generator_context_manager_error(x):
    log = []
    try:
        with scaled_by(log, 3):
            raise ValueError("v")
    except ValueError:
        log.append("caught")
    return x, log


@case()
def null_context_and_suppress(x):
    with contextlib.nullcontext(5) as k:
        x = x + k
    with contextlib.suppress(KeyError):
        {}["a"]
    return x


@case()
def exit_stack(x):
    log = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(Managed(log))
        stack.callback(log.append, "callback")
        x = x + 1
    return x, log

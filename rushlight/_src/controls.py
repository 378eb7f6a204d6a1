"""Further controls of compiled code: the default backend, guard filters, substitutes of functions, functions that
graphs must not contain."""
from __future__ import annotations

import contextlib
import inspect

from .capture import marks
from .core.native import Tensor


# --- backends ---------------------------------------------------------------------------------------------------------
def set_default_backend(backend):
    """Set the default backend of ``compile``: a name, a function, or None for Rushlight's.  ValueError for an unknown
    name.

    >>> import rushlight as torch
    >>> torch.compiler.set_default_backend("eager"); torch.compiler.get_default_backend()
    'eager'
    >>> torch.compiler.set_default_backend(None)
    """
    from .capture.backends import Default, find
    if backend is not None:
        find(backend)
    Default.backend = "rushlight" if backend is None else backend


def get_default_backend():
    """Default backend of ``compile``."""
    from .capture.backends import Default
    return Default.backend


# --- substitutes of functions -----------------------------------------------------------------------------------------
def substitute_in_graph(original_fn, *, can_constant_fold_through=False, skip_signature_check=False,
                        is_embedded_type=False):
    """Return a decorator: compiled code traces the decorated Python function at calls of ``original_fn``, which is
    usually written in C.

    TypeError for anything but a function, or if the parameters of the two differ; ValueError if it already has a
    substitute.

    >>> import rushlight as torch, operator
    >>> @torch.compiler.substitute_in_graph(operator.indexOf)
    ... def index_of(a, b, /):
    ...     for k, one in enumerate(a):
    ...         if one is b or one == b:
    ...             return k
    ...     raise ValueError("sequence.index(x): x not in sequence")
    >>> torch.compile(operator.indexOf, fullgraph=True)([1, 2, 3], 3)
    2
    """
    if not callable(original_fn):
        raise TypeError(f"substitute_in_graph() expects a function, not {type(original_fn).__name__}")

    def decorate(function):
        if not inspect.isfunction(function):
            raise TypeError(f"substitute_in_graph() decorates a Python function, not {type(function).__name__}")
        if isinstance(marks.of(original_fn), marks.Compiled):
            raise ValueError(f"function {original_fn} already has a substitute in compiled code")
        if not skip_signature_check:
            check_parameters(original_fn, function)
        marks.put(original_fn, marks.Compiled(function))
        return function

    return decorate


def check_parameters(original, function):
    """TypeError if two functions have parameters of different names or kinds."""
    try:
        wanted = inspect.signature(original)
    except ValueError:
        return
    shape = [[(p.name, p.kind) for p in signature.parameters.values()]
             for signature in (wanted, inspect.signature(function))]
    if shape[0] != shape[1]:
        raise TypeError(
            f"the signature {inspect.signature(function)} of the substitute of {original} is not {wanted}: use the "
            "same parameters, or skip_signature_check=True")


def disallow_in_graph(fn):
    """Make a function (or a list of them) always break the graph."""
    return each(fn, "disallowed")


def forbid_in_graph(fn):
    """Forbid a function (or a list of them) in compiled code: capturing a call raises."""
    return each(fn, "forbidden")


def each(functions, mark):
    if isinstance(functions, (list, tuple)):
        return [marks.put(f, mark) for f in functions]
    return marks.put(functions, mark)


def wrap_numpy(fn):
    """Make a function of tensors from one of arrays.  It runs in NumPy, between graphs; RuntimeError for tensors that
    require a gradient.

    >>> import rushlight as torch
    >>> torch.compiler.wrap_numpy(lambda a: (a * a).sum())(torch.arange(3))
    tensor(5)
    """
    import functools

    import numpy as np

    from .compiling import disable
    from .core.exchange import as_tensor
    from .core.pytree import tree_map

    @functools.wraps(fn)
    def run(*args, **kwargs):
        args, kwargs = tree_map(lambda v: v.numpy() if isinstance(v, Tensor) else v, (args, kwargs))
        return tree_map(lambda v: as_tensor(np.asarray(v)) if isinstance(v, (np.ndarray, np.generic)) else v,
                        fn(*args, **kwargs))

    return disable(run)


# --- guards -----------------------------------------------------------------------------------------------------------
def skip_guard_on_globals_unsafe(guard_entries):
    """For ``options={"guard_filter_fn": ...}``: drop guards on globals.  Results are wrong if they change."""
    return [not entry.is_global for entry in guard_entries]


def skip_guard_on_all_nn_modules_unsafe(guard_entries):
    """For ``guard_filter_fn``: drop guards on modules."""
    return [not entry.is_module for entry in guard_entries]


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries):
    """For ``guard_filter_fn``: same as ``skip_guard_on_all_nn_modules_unsafe``: one comparison guards all modules,
    Rushlight's and users'."""
    return skip_guard_on_all_nn_modules_unsafe(guard_entries)


def keep_tensor_guards_unsafe(guard_entries, keep_parameters=False):
    """Filter for ``guard_filter_fn`` that keeps guards on tensors only; those of modules are optional."""
    return [entry.guard_type == "TENSOR_MATCH" and (keep_parameters or not entry.is_module) for entry in guard_entries]


def skip_all_guards_unsafe(guard_entries):
    """For ``guard_filter_fn``: drop all guards."""
    return [False for _ in guard_entries]


# --- breaks and captures ----------------------------------------------------------------------------------------------
def skip_frame(msg=""):
    """Run the rest of this function uncompiled; no effect in uncompiled code."""


def step_unsupported(msg=""):
    """Like ``skip_frame``."""


for _function in (skip_frame, step_unsupported):
    marks.put(_function, "skipped")


class error_on_graph_break(contextlib.ContextDecorator):
    """Make graph breaks an error or not, for a block or the calls of a decorated function; ``fullgraph=True`` does so
    for one compiled function."""

    def __init__(self, error_on_graph_break):
        self.wanted, self.before = bool(error_on_graph_break), []

    def __enter__(self):
        from .capture.stance import Stance
        self.before.append(Stance.break_is_error)
        Stance.break_is_error = self.wanted
        return self

    def __exit__(self, *exception):
        from .capture.stance import Stance
        Stance.break_is_error = self.before.pop()


def run(fn=None):
    """Return a function in which compiled functions are not captured again: without a matching graph they run
    uncompiled."""
    from .compiling import set_stance
    return run if fn is None else set_stance("eager_on_recompile")(fn)


def mark_static_address(t, guard=False):
    """Do nothing on CPUs: addresses are arguments.  TypeError for anything but a tensor."""
    if not isinstance(t, Tensor):
        raise TypeError(f"mark_static_address expects a tensor but received {type(t).__name__}")

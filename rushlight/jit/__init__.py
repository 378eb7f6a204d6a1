"""``torch.jit``: programs stay Python here.  ``script`` and ``trace`` give something that runs, saves and loads;
decorators mean "leave as it is"."""
from __future__ import annotations

import typing

from .._src.compat.absent import absent
from .script import (RecursiveScriptModule, ScriptFunction, ScriptModule, TracedModule, TopLevelTracedModule,
                     script)  # noqa: F401
from .errors import Error  # noqa: F401
from .frozen import freeze, optimize_for_inference  # noqa: F401
from .kinds import TracerWarning  # noqa: F401
from .storage import load, save  # noqa: F401
from .tracing import _get_trace_graph, trace, trace_module  # noqa: F401

Final = typing.Final
globals().update(absent("torch.jit", "programs are not turned into TorchScript graphs",
                        "export_opnames last_executed_optimized_graph"))


class Attribute(typing.NamedTuple):
    """A value and its type."""

    value: object
    type: object


def leave(function=None, **options):
    """A decorator, with or without arguments, that leaves what it decorates as it is."""
    return (lambda later: later) if function is None or isinstance_of_str(function) else function


def isinstance_of_str(value) -> bool:
    return type(value) in (str, bool)


ignore = unused = export = script_method = interface = script_if_tracing = leave
_overload = _overload_method = _script_if_tracing = leave


def annotate(the_type, the_value):
    """The value: the type is for a compiler."""
    return the_value


def isinstance(obj, target_type) -> bool:
    """Whether an object is of a type, which may be one of ``typing``: its outer class is compared."""
    origin = typing.get_origin(target_type)
    return type(obj) is origin if origin else type.__instancecheck__(target_type, obj)


def is_scripting() -> bool:
    return False


def is_tracing() -> bool:
    return False


def run_frozen_optimizations(mod, optimize_numerics=True, preserved_methods=None):
    """Nothing to do: compile the module instead."""


def set_fusion_strategy(strategy):
    """Keeps nothing: there is no TorchScript executor."""
    return []


def optimized_execution(should_optimize):
    """A block in which nothing changes."""
    import contextlib
    return contextlib.nullcontext()


fuser = strict_fusion = optimized_execution


class Fusion:
    """The argument of ``enable_onednn_fusion``."""

    enabled = False


def enable_onednn_fusion(enabled: bool):
    """Store the flag for ``onednn_fusion_enabled``: frozen modules are compiled with or without it."""
    Fusion.enabled = bool(enabled)


def onednn_fusion_enabled() -> bool:
    """Return the last argument of ``enable_onednn_fusion``; False at first."""
    return Fusion.enabled


def fork(func, *args, **kwargs):
    """Runs a function now; its value waits in a Future."""
    from ..futures import Future
    made = Future()
    made.set_result(func(*args, **kwargs))
    return made


def wait(future):
    """The value of a Future."""
    return future.wait()

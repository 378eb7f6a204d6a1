"""``torch.jit``: programs stay Python here.  ``script`` and ``trace`` give something that runs, saves and loads;
decorators mean "leave as it is"."""
from __future__ import annotations

import typing

from .._src.compat.absent import absent
from .script import (RecursiveScriptModule, ScriptFunction, ScriptModule, TracedModule, TopLevelTracedModule, script,
                     trace, trace_module)
from .storage import load, save

__all__ = ["Attribute", "Error", "Final", "ScriptFunction", "ScriptModule", "annotate", "enable_onednn_fusion",
           "export", "export_opnames", "fork", "freeze", "ignore",
           "interface", "is_scripting", "is_tracing", "isinstance", "last_executed_optimized_graph", "load",
           "onednn_fusion_enabled", "optimize_for_inference",
           "optimized_execution", "save", "script", "script_if_tracing", "script_method", "set_fusion_strategy",
           "strict_fusion", "trace", "trace_module", "unused", "wait"]
Final = typing.Final
Error = RuntimeError
globals().update(absent("torch.jit", "programs are not turned into TorchScript graphs",
                        "export_opnames last_executed_optimized_graph _get_trace_graph"))


class TracerWarning(Warning):
    """What tracing would warn of; nothing is traced."""

    @staticmethod
    def ignore_lib_warnings():
        """Nothing to ignore."""


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


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """The module, which has to be in eval mode (RuntimeError)."""
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module "
            "before freezing.")
    return mod


def optimize_for_inference(mod, other_methods=None):
    return mod


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


def enable_onednn_fusion(enabled):
    """Changes nothing: oneDNN is not used."""


def onednn_fusion_enabled() -> bool:
    return False


def fork(func, *args, **kwargs):
    """Runs a function now; its value waits in a Future."""
    from ..futures import Future
    made = Future()
    made.set_result(func(*args, **kwargs))
    return made


def wait(future):
    """The value of a Future."""
    return future.wait()

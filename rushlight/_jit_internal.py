"""Private names of scripting that other libraries reach for."""
from __future__ import annotations

from typing import Any, Callable, Dict, Final, List, Optional, Tuple, Union

from .futures import Future
from .jit import _overload, _overload_method, export, ignore, is_scripting, unused

BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = List
__all__ = ["Any", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Callable", "Dict", "Final", "Future",
           "List", "Optional", "Tuple", "Union", "_overload",
           "_overload_method", "_copy_to_script_wrapper", "boolean_dispatch", "export", "ignore", "is_scripting",
           "unused"]


def _copy_to_script_wrapper(function):
    """Marks a method as one that scripted modules keep: they keep all."""
    return function


def boolean_dispatch(arg_name, arg_index, default, if_true, if_false, module_name, func_name):
    """A function that calls one of two by a boolean argument."""
    def run(*args, **kwargs):
        chosen = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if chosen else if_false)(*args, **kwargs)

    run.__name__, run.__module__, run.__doc__ = func_name, module_name, if_true.__doc__ or if_false.__doc__
    return run

"""Hooks of all modules: on calls, on gradients, and on what is added to a module; handles that remove hooks."""
from __future__ import annotations

import warnings
from collections import OrderedDict

from ..._src.autograd.node import NO_HOOK, Handle
from ..._src.core.epoch import Epoch


class RemovableHandle(Handle):
    """Removes a hook, and its options kept beside it.

    Example:
        >>> hooks = {}
        >>> handle = RemovableHandle(hooks)
        >>> hooks[handle.id] = print
        >>> handle.remove()
        >>> hooks
        {}
    """

    def __init__(self, hooks_dict, hook=NO_HOOK, *beside, extra_dict=None, prepend=False):
        super().__init__(hooks_dict, hook)
        Epoch.value += 1
        further = extra_dict if isinstance(extra_dict, (list, tuple)) else () if extra_dict is None else (extra_dict,)
        self.beside = (*beside, *further)
        if prepend:
            hooks_dict.move_to_end(self.id, last=False)

    def remove(self):
        super().remove()
        Epoch.value += 1
        for options in self.beside:
            options.pop(self.id, None)


GLOBAL_HOOKS = {kind: OrderedDict() for kind in ("forward_pre", "forward", "backward", "backward_pre", "parameter",
                                                 "buffer", "module")}
# ids of global hooks: with these options, and of all that calls must look for
WITH_KWARGS, ALWAYS_CALLED, AROUND_CALLS = {}, {}, {}


def global_handle(kind, hook):
    """A hook of all modules."""
    handle = RemovableHandle(GLOBAL_HOOKS[kind], hook, WITH_KWARGS, ALWAYS_CALLED, AROUND_CALLS)
    if kind in ("forward_pre", "forward", "backward", "backward_pre"):
        AROUND_CALLS[handle.id] = True
    return handle


def register_module_forward_pre_hook(hook):
    """Calls ``hook(module, inputs)`` before the forward of every module."""
    return global_handle("forward_pre", hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """Calls ``hook(module, inputs, output)`` after the forward of every module."""
    handle = global_handle("forward", hook)
    if with_kwargs:
        WITH_KWARGS[handle.id] = True
    if always_call:
        ALWAYS_CALLED[handle.id] = True
    return handle


def register_module_full_backward_hook(hook):
    """Calls ``hook(module, grad_input, grad_output)`` after the backward of every module."""
    return global_handle("backward", hook)


def register_module_full_backward_pre_hook(hook):
    """Calls ``hook(module, grad_output)`` before the backward of every module."""
    return global_handle("backward_pre", hook)


def register_module_parameter_registration_hook(hook):
    """Calls ``hook(module, name, parameter)`` when a parameter is added to any module; what it returns is added
    instead."""
    return global_handle("parameter", hook)


def register_module_buffer_registration_hook(hook):
    """Calls ``hook(module, name, buffer)`` when a buffer is added to any module; what it returns is added instead."""
    return global_handle("buffer", hook)


def register_module_module_registration_hook(hook):
    """Calls ``hook(module, name, submodule)`` when a module is added to any module; what it returns is added
    instead."""
    return global_handle("module", hook)


def registered(kind, module, name, value):
    """What is added to a module, as the hooks on registration have it."""
    for hook in GLOBAL_HOOKS[kind].values():
        changed = hook(module, name, value)
        value = value if changed is None else changed
    return value


def as_arguments(changed, args):
    """The arguments after a pre-hook's answer."""
    return args if changed is None else changed if isinstance(changed, tuple) else (changed,)


def call_silently(module, hook, seen):
    """A hook on the way out of an error, which an error of the hook must not hide."""
    try:
        hook(module, *seen)
    except Exception as error:  # noqa: BLE001 - said as a warning: the first error is on its way
        warnings.warn(
            "module forward hook with ``always_call=True`` raised an exception that was silenced as another "
            f"error was raised in forward: {error}", stacklevel=4)

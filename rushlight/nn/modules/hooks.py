"""Hooks of all modules: on calls, on gradients, and on what is added to a module; handles that remove hooks."""
from __future__ import annotations

import sys
import warnings
from collections import OrderedDict

from ..._src.autograd.node import NO_HOOK, Handle
from ..._src.core.epoch import Epoch


class RemovableHandle(Handle):
    """Removes a hook, and its options.

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


HOME = f"{__package__}.module"  # the module that has the hooks of all modules, by PyTorch's names
AROUND = ("forward_pre", "forward", "backward", "backward_pre")
NAMES = {kind: f"_global_{kind}_hooks" for kind in AROUND} | {
    kind: f"_global_{kind}_registration_hooks" for kind in ("parameter", "buffer", "module")}
OPTIONS = {option: f"_global_forward_hooks_{option}" for option in ("with_kwargs", "always_called")}
FULL = "_global_is_full_backward_hook"  # the name that says whether the backward hooks of all modules are full ones


def global_hooks(kind) -> dict:
    """Return the global hooks of a kind, or the ids of those with an option; assigning the name in
    ``nn.modules.module`` replaces them."""
    return vars(sys.modules[HOME])[NAMES.get(kind) or OPTIONS[kind]]


def _has_any_global_hook() -> bool:
    """Whether there are hooks of all modules around their calls."""
    return any(map(global_hooks, AROUND))


def global_handle(kind, hook):
    """A hook of all modules."""
    return RemovableHandle(global_hooks(kind), hook, *map(global_hooks, OPTIONS))


def backward_handle(hook, full: bool):
    home = vars(sys.modules[HOME])
    if home[FULL] is (not full) and global_hooks("backward"):
        raise RuntimeError("Cannot use both regular backward hooks and full backward hooks as a global Module hook. "
                           "Please use only one of them.")
    home[FULL] = full
    return global_handle("backward", hook)


def register_module_forward_pre_hook(hook):
    """Calls ``hook(module, inputs)`` before the forward of every module."""
    return global_handle("forward_pre", hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """Calls ``hook(module, inputs, output)`` after the forward of every module."""
    handle = global_handle("forward", hook)
    for option, wanted in (("with_kwargs", with_kwargs), ("always_called", always_call)):
        if wanted:
            global_hooks(option)[handle.id] = True
    return handle


def register_module_full_backward_hook(hook):
    """Calls ``hook(module, grad_input, grad_output)`` after the backward of every module."""
    return backward_handle(hook, True)


def register_module_backward_hook(hook):
    """``register_module_full_backward_hook`` by its old name; RuntimeError where there are hooks by both names."""
    return backward_handle(hook, False)


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
    """Return the addition to a module after its registration hooks."""
    for hook in global_hooks(kind).values():
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

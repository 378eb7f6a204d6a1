"""Modules whose activations are computed again in backward."""
from __future__ import annotations

import enum
import functools

from ..nn.modules.module import Module
from ..utils.checkpoint import checkpoint

PREFIX = "_checkpoint_wrapped_module"
CheckpointImpl = enum.Enum("CheckpointImpl", "REENTRANT NO_REENTRANT", module=__name__)


class ActivationWrapper(Module):
    """A module around another, whose names and attributes are those of the inner one."""

    def __init__(self, mod):
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(self._post_state_dict_hook)
        self.register_load_state_dict_pre_hook(self._pre_load_state_dict_hook)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key):
        return self._checkpoint_wrapped_module[key]

    def named_parameters(self, *args, **kwargs):
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(f"{PREFIX}.", ""), parameter

    @staticmethod
    def _post_state_dict_hook(module, state_dict, prefix, *args):
        for key in [key for key in state_dict if key.startswith(f"{prefix}{PREFIX}.")]:
            state_dict[prefix + key.removeprefix(f"{prefix}{PREFIX}.")] = state_dict.pop(key)
        return state_dict

    @staticmethod
    def _pre_load_state_dict_hook(module, state_dict, prefix, *args):
        for key in [key for key in state_dict if key.startswith(prefix) and not key.startswith(f"{prefix}{PREFIX}.")]:
            state_dict[f"{prefix}{PREFIX}.{key.removeprefix(prefix)}"] = state_dict.pop(key)


class CheckpointWrapper(ActivationWrapper):
    """A module that keeps its arguments alone, and runs again in backward."""

    def __init__(self, mod, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs):
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        reentrant = checkpoint_impl is CheckpointImpl.REENTRANT
        self.checkpoint_fn = functools.partial(
            checkpoint_fn or functools.partial(checkpoint, use_reentrant=reentrant), **checkpoint_fn_kwargs)

    def forward(self, *args, **kwargs):
        return self.checkpoint_fn(self._checkpoint_wrapped_module, *args, **kwargs)


def checkpoint_wrapper(module, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs):
    """A module that runs again in backward, with another's names and state.

    >>> import rushlight as torch
    >>> from rushlight.distributed.activations import checkpoint_wrapper
    >>> list(checkpoint_wrapper(torch.nn.Linear(2, 1)).state_dict())
    ['weight', 'bias']
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(model, checkpoint_wrapper_fn=checkpoint_wrapper, check_fn=lambda _: True,
                                   auto_wrap_policy=None):
    """Wraps the modules within a model for which ``check_fn`` holds, innermost first."""
    if auto_wrap_policy is not None:
        check_fn = lambda module: auto_wrap_policy(module=module, recurse=False, nonwrapped_numel=-1)  # noqa: E731
    for name, child in list(model.named_children()):
        if isinstance(child, ActivationWrapper):
            continue
        apply_activation_checkpointing(child, checkpoint_wrapper_fn, check_fn)
        if check_fn(child):
            setattr(model, name, checkpoint_wrapper_fn(child))

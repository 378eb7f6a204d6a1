"""Policies that select the modules of a model to wrap, and blocks in which ``wrap`` wraps."""
from __future__ import annotations

import contextlib
import functools
import threading

import rushlight as torch

__all__ = ["always_wrap_policy", "lambda_auto_wrap_policy", "transformer_auto_wrap_policy",
           "size_based_auto_wrap_policy", "enable_wrap", "wrap", "CustomPolicy", "ModuleWrapPolicy"]


def always_wrap_policy(*args, **kwargs) -> bool:
    """Every module."""
    return True


def lambda_auto_wrap_policy(module, recurse: bool, nonwrapped_numel: int, lambda_fn) -> bool:
    """Select modules for which ``lambda_fn`` is true."""
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: set) -> bool:
    """Modules of some classes."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


_module_wrap_policy = transformer_auto_wrap_policy


def size_based_auto_wrap_policy(module, recurse: bool, nonwrapped_numel: int, min_num_params: int = int(1e8),
                                force_leaf_modules: set | None = None, exclude_wrap_modules: set | None = None) -> bool:
    """Select modules with at least ``min_num_params`` parameters that are not wrapped further below."""
    leaves = size_based_auto_wrap_policy.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules
    never = size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES if exclude_wrap_modules is None else exclude_wrap_modules
    large = nonwrapped_numel >= min_num_params
    return large and not isinstance(module, tuple(leaves if recurse else never))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {torch.nn.ModuleList, torch.nn.ModuleDict}
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {torch.nn.MultiheadAttention}


def _or_policy(module, recurse: bool, nonwrapped_numel: int, policies) -> bool:
    """Modules that any of several policies wraps."""
    return any(policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for policy in policies)


class _Policy:
    """A policy that selects all modules and their arguments at once."""

    def _run_policy(self, root_module, ignored_modules, root_kwargs) -> dict:
        raise NotImplementedError

    def __call__(self, module, recurse: bool, *args, **kwargs) -> bool:
        return recurse or bool(self.chosen(module))

    def chosen(self, module):
        raise NotImplementedError


class ModuleWrapPolicy(_Policy):
    """Modules of some classes.

    >>> import rushlight as torch
    >>> policy = ModuleWrapPolicy({torch.nn.Linear})
    >>> policy(torch.nn.Linear(1, 1), recurse=False), policy(torch.nn.ReLU(), recurse=False)
    (True, False)
    """

    def __init__(self, module_classes):
        self._module_classes = set(module_classes)
        self._module_classes_str = str(self._module_classes)

    def chosen(self, module):
        return isinstance(module, tuple(self._module_classes))

    def __repr__(self):
        return f"{type(self).__name__}({self._module_classes_str})"


class CustomPolicy(_Policy):
    """Selects modules by ``lambda_fn(module)``: a bool, or a dict of keyword arguments that replace the defaults."""

    def __init__(self, lambda_fn):
        self._lambda_fn = lambda_fn

    def chosen(self, module):
        found = self._lambda_fn(module)
        if not isinstance(found, (dict, bool)):
            raise ValueError(f"The lambda_fn passed to CustomPolicy should return False/True or a kwarg dict, but it "
                             f"returned {found}")
        return found


def numel(module, ignored) -> int:
    return sum(p.numel() for p in module.parameters() if p not in ignored)


def wrap_below(module, policy, wrapper, ignored_modules=(), ignored_params=()) -> int:
    """Wrap modules below one, inner ones first: ``wrapper(module, **policy arguments)``; return the number of wrapped
    parameters."""
    if isinstance(policy, _Policy):
        decide = functools.partial(by_choice, policy)
    else:
        decide = functools.partial(by_size, policy)
    return decide(module, wrapper, set(ignored_modules), set(ignored_params), {})


def by_choice(policy, module, wrapper, ignored_modules, ignored_params, known) -> int:
    """Wrap modules by a policy that judges each by itself."""
    for name, child in module.named_children():
        if child in ignored_modules:
            continue
        if child in known:  # a module with two names
            setattr(module, name, known[child])
            continue
        by_choice(policy, child, wrapper, ignored_modules, ignored_params, known)
        found = policy.chosen(child)
        if found is not False:
            known[child] = wrapper(child, **(found if isinstance(found, dict) else {}))
            setattr(module, name, known[child])
    return 0


def by_size(policy, module, wrapper, ignored_modules, ignored_params, known) -> int:
    """Wrap modules by a policy that receives the number of parameters left."""
    total = 0
    for name, child in module.named_children():
        if child in ignored_modules:
            continue
        if child in known:
            setattr(module, name, known[child])
            continue
        count = numel(child, ignored_params)
        if not policy(module=child, recurse=True, nonwrapped_numel=count):
            continue
        inner = by_size(policy, child, wrapper, ignored_modules, ignored_params, known)
        if policy(module=child, recurse=False, nonwrapped_numel=count - inner):
            known[child] = wrapper(child)
            setattr(module, name, known[child])
            inner = count
        total += inner
    return total


class Wrapping(threading.local):
    """The settings of ``wrap`` within a block of ``enable_wrap``."""

    in_autowrap_context = False
    wrapper_cls = None
    kwargs: dict = {}


_ConfigAutoWrap = Wrapping()


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls, **wrapper_kwargs):
    """A block in which ``wrap`` wraps: by ``wrapper_cls``, with these keywords."""
    before = _ConfigAutoWrap.in_autowrap_context, _ConfigAutoWrap.wrapper_cls, _ConfigAutoWrap.kwargs
    if before[0]:
        raise NotImplementedError("You are already within an autowrap context and we currently do not supported nested "
                                  "autowrap.")
    _ConfigAutoWrap.in_autowrap_context, _ConfigAutoWrap.wrapper_cls, _ConfigAutoWrap.kwargs = (True, wrapper_cls,
                                                                                               wrapper_kwargs)
    try:
        yield
    finally:
        _ConfigAutoWrap.in_autowrap_context, _ConfigAutoWrap.wrapper_cls, _ConfigAutoWrap.kwargs = before


def wrap(module, **wrap_overrides):
    """Returns a module, wrapped if it is in a block of ``enable_wrap``."""
    if not _ConfigAutoWrap.in_autowrap_context:
        return module
    return _ConfigAutoWrap.wrapper_cls(module, **{**_ConfigAutoWrap.kwargs, **wrap_overrides})

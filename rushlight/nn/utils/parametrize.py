"""Parametrizations: a tensor of a module as a function of other tensors."""
from __future__ import annotations

import collections
from contextlib import contextmanager
from copy import deepcopy

import rushlight as torch
from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

__all__ = ["cached", "ParametrizationList", "register_parametrization", "is_parametrized", "remove_parametrizations", "type_before_parametrizations",
           "transfer_parametrizations_and_params"]
_cache_enabled = 0
_cache: dict = {}


@contextmanager
def cached():
    """A block in which each parametrized tensor is computed once.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils import parametrize
    >>> class Symmetric(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = parametrize.register_parametrization(torch.nn.Linear(2, 2), "weight", Symmetric())
    >>> with parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    global _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache.clear()


def _register_parameter_or_buffer(module, name, value):
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


def _maybe_set(dest, src):
    """Puts a tensor's data into another, which stays the same object."""
    dest.data = src.data if isinstance(src, torch.Tensor) else src


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, first to last, and what they start from: ``original`` (or ``original0``, ``original1``, ...)."""

    original: torch.Tensor

    def __init__(self, modules, original, unsafe=False):
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        start = self.inverted(original)
        self.is_tensor = isinstance(start, torch.Tensor)
        self.ntensors = 1 if self.is_tensor else len(start)
        if self.is_tensor:
            if original.dtype != start.dtype:
                raise ValueError(f"When `right_inverse` outputs one tensor, it may not change the dtype.\noriginal.dtype: {original.dtype}\nright_inverse(original).dtype: {start.dtype}")
            with torch.no_grad():
                _maybe_set(original, start)
            _register_parameter_or_buffer(self, "original", original)
        else:
            for k, tensor in enumerate(start):
                if not isinstance(tensor, torch.Tensor):
                    raise ValueError(f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element {k} of the sequence with type {type(tensor).__name__}.")
                if isinstance(original, Parameter):
                    tensor = Parameter(tensor, original.requires_grad)
                tensor.requires_grad_(original.requires_grad)
                _register_parameter_or_buffer(self, f"original{k}", tensor)
        if not self.unsafe:
            self.check(shape, dtype)

    def inverted(self, value):
        """What the parametrizations start from to give a value."""
        with torch.no_grad():
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    try:
                        value = module.right_inverse(value)
                    except NotImplementedError:
                        break
        if not isinstance(value, torch.Tensor) and not isinstance(value, collections.abc.Sequence):
            raise ValueError(f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got {type(value).__name__}")
        return value

    def check(self, shape, dtype):
        """ValueError for parametrizations that change what kind of tensor it is."""
        result = self()
        if not isinstance(result, torch.Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
        if result.dtype != dtype:
            raise ValueError(f"Registering a parametrization may not change the dtype of the tensor, unless `unsafe` flag is enabled.\nunparametrized dtype: {dtype}\nparametrized dtype: {result.dtype}")
        if result.shape != shape:
            raise ValueError(f"Registering a parametrization may not change the shape of the tensor, unless `unsafe` flag is enabled.\nunparametrized shape: {shape}\nparametrized shape: {result.shape}")

    def originals(self):
        return (self.original,) if self.is_tensor else tuple(getattr(self, f"original{k}") for k in range(self.ntensors))

    def right_inverse(self, value):
        """Sets the original tensors so that the parametrized one becomes ``value``."""
        with torch.no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            values = (value,) if self.is_tensor else tuple(value)
            if len(values) != self.ntensors:
                raise ValueError(f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of length {len(values)}.")
            for original, new in zip(self.originals(), values):
                if not isinstance(new, torch.Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(new).__name__}")
                if original.dtype != new.dtype:
                    raise ValueError(f"The tensor returned by `right_inverse` has dtype {new.dtype} while `original` has dtype {original.dtype}")
                _maybe_set(original, new)

    def forward(self):
        first, *rest = self
        x = first(*self.originals())
        for module in rest:
            x = module(x)
        return x


def _inject_new_class(module):
    """Gives a module a class of its own, where properties can be put."""
    cls = type(module)

    def default_deepcopy(self, memo):
        known = memo.get(id(self))
        if known is not None:
            return known
        made = self.__new__(type(self))
        memo[id(self)] = made
        made.__dict__ = deepcopy(self.__dict__, memo)
        return made

    def getstate(self):
        raise RuntimeError("Serialization of parametrized modules is only supported through state_dict(). See the note on saving models: save module.state_dict().")

    members = {"__getstate__": getstate}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = default_deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)


def _inject_property(module, name):
    """Makes an attribute the result of the parametrizations."""
    def value(self):
        if not _cache_enabled:
            return self.parametrizations[name]()
        key = id(module), name
        found = _cache.get(key)
        if found is None:
            found = _cache[key] = self.parametrizations[name]()
        return found

    def assign(self, given):
        self.parametrizations[name].right_inverse(given)

    setattr(module.__class__, name, property(value, assign))


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """From now on ``module.tensor_name`` is ``parametrization(original)``; the original is a parameter (or buffer) of ``module.parametrizations``.

    Where ``parametrization`` has ``right_inverse``, the value stays what it was, and assigning works.  ``unsafe`` allows other
    shapes and dtypes.  ValueError for a name that is neither a parameter, a buffer nor parametrized already.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        known = module.parametrizations[tensor_name]
        if not unsafe:
            before = getattr(module, tensor_name)
            after = parametrization(before)
            if not isinstance(after, torch.Tensor) or after.dtype != before.dtype or after.shape != before.shape:
                raise ValueError("Registering a parametrization may not change the shape or the dtype of the tensor, unless `unsafe` flag is enabled.\n"
                                 f"module.{tensor_name}: {before.dtype} {tuple(before.shape)}\nparametrization(module.{tensor_name}): {after!r}")
            if hasattr(parametrization, "right_inverse"):
                try:
                    start = parametrization.right_inverse(before)
                except NotImplementedError:
                    start = None
                if start is not None and (not isinstance(start, torch.Tensor) or start.dtype != before.dtype or start.shape != before.shape):
                    raise ValueError("parametrization.right_inverse must return a tensor of the shape and dtype it was given, unless `unsafe` flag is enabled")
        known.append(parametrization)
        known.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        made = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = made
    else:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'")
    return module


def is_parametrized(module, tensor_name=None) -> bool:
    """Whether a module has parametrizations (of the tensor of this name)."""
    known = getattr(module, "parametrizations", None)
    if known is None or not isinstance(known, ModuleDict):
        return False
    return len(known) > 0 if tensor_name is None else tensor_name in known


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Makes a parametrized tensor an ordinary one again: with its present value, or (``leave_parametrized=False``) as it was."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    known = module.parametrizations[tensor_name]
    if known.is_tensor:
        original = known.original
        if leave_parametrized:
            with torch.no_grad():
                value = getattr(module, tensor_name)
            _maybe_set(original, value)
    else:
        if not leave_parametrized:
            raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence of tensors.")
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    delattr(module.__class__, tensor_name)
    del module.parametrizations[tensor_name]
    _register_parameter_or_buffer(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = module.__class__.__bases__[0]
    return module


def type_before_parametrizations(module):
    """The class that a module had before it was parametrized."""
    return module.__class__.__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Gives another module the parametrizations of one, and the tensors under them."""
    if not is_parametrized(from_module):
        return to_module
    names = from_module.parametrizations if tensor_name is None else [tensor_name]
    for name in names:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for step in from_module.parametrizations[name]:
            register_parametrization(to_module, name, step)
        source, target = from_module.parametrizations[name], to_module.parametrizations[name]
        for original, new in zip(source.originals(), target.originals()):
            _maybe_set(new, original)
    return to_module

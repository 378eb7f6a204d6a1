"""Parametrizations: a tensor of a module as a function of other tensors."""
from __future__ import annotations

import collections
from contextlib import contextmanager
from copy import deepcopy

import rushlight as torch
from ..modules.container import ModuleDict, ModuleList
from ..parameter import Parameter

__all__ = ["cached", "ParametrizationList", "register_parametrization", "is_parametrized", "remove_parametrizations",
           "type_before_parametrizations",
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


def _require_same(before, after):
    """ValueError for a parametrization whose result is of another kind than (dtype, shape)."""
    if not isinstance(after, torch.Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}")
    for what, wanted, found in zip(("dtype", "shape"), before, (after.dtype, after.shape)):
        if wanted != found:
            raise ValueError(f"Registering a parametrization may not change the {what} of the tensor, unless the "
                             f"`unsafe` flag is enabled: {wanted} before, {found} after")


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, first to last, and what they start from: ``original`` (or ``original0``,
    ``original1``, ...)."""

    original: torch.Tensor

    def __init__(self, modules, original, unsafe=False):
        if not modules:
            raise ValueError("a ParametrizationList needs at least one parametrization")
        super().__init__(modules)
        self.unsafe = unsafe
        before = original.dtype, original.shape
        start = self._inverted(original)
        self.is_tensor = isinstance(start, torch.Tensor)
        self.ntensors = 1 if self.is_tensor else len(start)
        if self.is_tensor:
            if start.dtype != original.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype: "
                    f"{original.dtype} became {start.dtype}")
            with torch.no_grad():
                _maybe_set(original, start)
            _register_parameter_or_buffer(self, "original", original)
        else:
            self._enter_parts(start, original)
        if not unsafe:
            _require_same(before, self())

    def _enter_parts(self, parts, original):
        """Several tensors from which the original is computed: parameters if it was one."""
        for place, part in enumerate(parts):
            if not isinstance(part, torch.Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors: got element "
                    f"{place} of the sequence with type {type(part).__name__}")
            part = Parameter(part, original.requires_grad) if isinstance(original, Parameter) else part.requires_grad_(
                original.requires_grad)
            _register_parameter_or_buffer(self, f"original{place}", part)

    def _inverted(self, value):
        """Return the originals of a value, as far as the parametrizations can be inverted."""
        with torch.no_grad():
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    try:
                        value = module.right_inverse(value)
                    except NotImplementedError:
                        break
        if not isinstance(value, (torch.Tensor, collections.abc.Sequence)):
            raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...), got "
                             f"{type(value).__name__}")
        return value

    def originals(self):
        """The tensors that the parametrizations start from."""
        return [self.original] if self.is_tensor else [getattr(self, f"original{place}")
                                                       for place in range(self.ntensors)]

    def right_inverse(self, value):
        """Sets the original tensors so that the parametrized one becomes ``value``.  RuntimeError for parametrizations
        that have no inverse."""
        with torch.no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"{type(module).__name__} has no `right_inverse`, so nothing can be assigned to what it "
                        "parametrizes")
                value = module.right_inverse(value)
            parts = [value] if self.is_tensor else list(value)
            if len(parts) != self.ntensors:
                raise ValueError(
                    f"`right_inverse` gave {len(parts)} tensors, and the parametrization starts from {self.ntensors}")
            for original, part in zip(self.originals(), parts):
                if getattr(part, "dtype", None) != original.dtype:
                    raise ValueError(
                        f"`right_inverse` gave {getattr(part, 'dtype', type(part).__name__)} where a tensor of "
                        f"{original.dtype} is kept")
                _maybe_set(original, part)

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
        if id(self) not in memo:
            memo[id(self)] = type(self).__new__(type(self))
            vars(memo[id(self)]).update(deepcopy(vars(self), memo))
        return memo[id(self)]

    def getstate(self):
        raise RuntimeError(
            "a parametrized module has a class of its own and cannot be pickled: save the state_dict() of this "
            f"{cls.__name__} instead")

    members = {"__getstate__": getstate}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = default_deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)


def _inject_property(module, name):
    """Makes an attribute the result of the parametrizations."""
    def value(self):
        if not _cache_enabled:
            return self.parametrizations[name]()
        key = id(self), name
        found = _cache.get(key)
        if found is None:
            found = _cache[key] = self.parametrizations[name]()
        return found

    def assign(self, given):
        self.parametrizations[name].right_inverse(given)

    setattr(module.__class__, name, property(value, assign))


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """Make ``module.tensor_name`` be ``parametrization(original)``; the original is a parameter (or buffer) of
    ``module.parametrizations``.

    Where ``parametrization`` has ``right_inverse``, the value stays what it was, and assigning works.  ``unsafe``
    allows other shapes and dtypes.  ValueError for a name that is neither a parameter, a buffer nor parametrized
    already.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        known = module.parametrizations[tensor_name]
        if not unsafe:
            _check_next(parametrization, getattr(module, tensor_name))
        known.append(parametrization)
        known.unsafe |= unsafe
    elif tensor_name in module._parameters or tensor_name in module._buffers:
        made = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = made
    else:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
                         f"'{tensor_name}'")
    return module


def _check_next(parametrization, value):
    """ValueError for a parametrization that turns the value of those before it, or that has an inverse that turns what
    comes of it, into another kind of tensor."""
    kind, made = (value.dtype, value.shape), parametrization(value)
    _require_same(kind, made)
    if hasattr(parametrization, "right_inverse"):
        try:
            start = parametrization.right_inverse(made)
        except NotImplementedError:
            return
        if not isinstance(start, torch.Tensor):
            raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(start).__name__}")
        for what, wanted, found in zip(("dtype", "shape"), kind, (start.dtype, start.shape)):
            if wanted != found:
                raise ValueError(f"The tensor returned by parametrization.right_inverse must have the same {what} as "
                                 f"the parametrized one, unless the `unsafe` flag is enabled: {wanted} and {found}")


def is_parametrized(module, tensor_name=None) -> bool:
    """Whether a module has parametrizations (of the tensor of this name)."""
    known = getattr(module, "parametrizations", None)
    if known is None or not isinstance(known, ModuleDict):
        return False
    return len(known) > 0 if tensor_name is None else tensor_name in known


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Makes a parametrized tensor an ordinary one again: with its present value, or (``leave_parametrized=False``) as
    it was."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    known = module.parametrizations[tensor_name]
    if not known.is_tensor and not leave_parametrized:
        raise ValueError(
            f"Cannot leave unparametrized (`leave_parametrized=False`) {tensor_name!r}, which is computed from "
            f"{known.ntensors} tensors")
    if known.is_tensor:
        tensor = known.original
        if leave_parametrized:
            with torch.no_grad():
                _maybe_set(tensor, getattr(module, tensor_name))
    else:
        tensor = getattr(module, tensor_name)
        tensor = Parameter(tensor.detach()) if tensor.requires_grad else tensor
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register_parameter_or_buffer(module, tensor_name, tensor)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module):
    """The class that a module had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


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

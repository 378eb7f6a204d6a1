"""Modules whose parameters get their shapes from the first input."""
from __future__ import annotations

from ..parameter import is_lazy
from .module import Module

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Goes before Module among the bases of a module whose ``initialize_parameters(*args, **kwargs)`` makes its
    parameters (or gives UninitializedParameters their shapes) from the arguments of its first call.  ``cls_to_become``:
    the class that it has from then on.

    RuntimeError where a parameter has no shape after that.

    >>> import rushlight as torch
    >>> class Scale(LazyModuleMixin, torch.nn.Module):
    ...     def initialize_parameters(self, x):
    ...         self.weight = torch.nn.Parameter(torch.ones(x.size(-1)))
    ...     def forward(self, x):
    ...         return x * self.weight
    >>> scale = Scale()
    >>> scale(torch.ones(2, 3)).shape, scale.weight.shape
    (torch.Size([2, 3]), torch.Size([3]))
    """

    cls_to_become = None
    _rush_waiting = True  # for the first call

    def initialize_parameters(self, *args, **kwargs):
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer has no shape yet."""
        return any(value is not None and is_lazy(value)
                   for value in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(self, module, args, kwargs=None):
        """Initialize parameters before the first call."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {type(module).__name__} has not been fully initialized")
        module._rush_waiting = False
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def __call__(self, *args, **kwargs):
        if self._rush_waiting:
            self._infer_parameters(self, args, kwargs)
        return Module.__call__(self, *args, **kwargs)

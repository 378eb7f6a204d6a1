"""Modules whose parameters get their shapes from the first input."""
from __future__ import annotations

from ..parameter import is_lazy

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

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.register_forward_pre_hook(infer_parameters, with_kwargs=True)  # so that Module.__call__ may be replaced

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
        for key in [key for key, hook in module._forward_pre_hooks.items() if hook is infer_parameters]:
            del module._forward_pre_hooks[key]
            module._forward_pre_hooks_with_kwargs.pop(key, None)
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


def infer_parameters(module, args, kwargs):
    """Initialize the parameters of a lazy module: its first forward pre-hook, which copies of the module share."""
    module._infer_parameters(module, args, kwargs)

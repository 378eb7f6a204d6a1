"""Tensors of a module that a hook computes before each forward, from its parameters and buffers."""
from __future__ import annotations

from ..parameter import is_lazy

__all__ = ["Computed"]


class Computed:
    """A forward pre-hook that sets ``module.<name>`` to what ``_value`` computes; pruning and the older forms of weight
    and spectral norm are such hooks."""

    _tensor_name = None

    def __call__(self, module, inputs):
        self._refresh(module)

    def _value(self, module):
        raise NotImplementedError(f"{type(self).__name__} does not say what it computes")

    def _refresh(self, module):
        """An ordinary attribute, not a parameter: what it is computed from is in the state dict."""
        object.__setattr__(module, self._tensor_name, self._value(module))

    def _attach(self, module):
        self._refresh(module)
        module.register_forward_pre_hook(self)

    @classmethod
    def _key(cls, module, name):
        """The key of this hook on a tensor, None where there is none."""
        for key, hook in module._forward_pre_hooks.items():
            if isinstance(hook, cls) and hook._tensor_name == name:
                return key
        return None

    @classmethod
    def _require_none(cls, module, name):
        if cls._key(module, name) is not None:
            hook = "".join(f"_{c.lower()}" if c.isupper() else c for c in cls.__name__).strip("_")
            raise RuntimeError(f"Cannot register two {hook} hooks on the same parameter {name}: remove the first one")

    @classmethod
    def _require_shape(cls, tensor):
        """ValueError for a parameter whose shape is not known yet."""
        if is_lazy(tensor):
            raise ValueError(f"The module passed to `{cls.__name__}` can't have uninitialized parameters. Make sure to "
                             "run the dummy forward before applying the hook")

    @classmethod
    def _detach(cls, module, name, otherwise):
        """Takes the hook off and makes the tensor an ordinary parameter.  ValueError, with the text ``otherwise``,
        where there is no such hook."""
        key = cls._key(module, name)
        if key is None:
            raise ValueError(otherwise)
        module._forward_pre_hooks.pop(key).remove(module)
        return module

    def _settle(self, module, endings, parameter):
        """A parameter in place of the computed attribute and of the tensors that it was computed from."""
        vars(module).pop(self._tensor_name, None)
        for ending in endings:
            delattr(module, self._tensor_name + ending)
        module.register_parameter(self._tensor_name, parameter)

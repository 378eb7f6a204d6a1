"""Weight norm by a hook before each forward: the older form, with parameters ``weight_g`` and ``weight_v``."""
from __future__ import annotations

import rushlight as torch
from ..._src.core.advice import deprecated
from ..parameter import Parameter
from .hooked import Computed

__all__ = ["WeightNorm", "weight_norm", "remove_weight_norm"]


class WeightNorm(Computed):
    """The hook: computes ``weight = g * v / |v|`` before a forward."""

    name = property(lambda self: self._tensor_name)

    def __init__(self, name, dim):
        self._tensor_name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module):
        """The weight by its present norm and direction."""
        direction = getattr(module, f"{self.name}_v")
        return direction * (getattr(module, f"{self.name}_g") / torch.norm_except_dim(direction, 2, self.dim))

    _value = compute_weight

    @staticmethod
    def apply(module, name, dim):
        """Splits a parameter, and gives the hook that joins it."""
        WeightNorm._require_none(module, name)
        WeightNorm._require_shape(getattr(module, name))
        hook, weight = WeightNorm(name, dim), getattr(module, name).detach()
        delattr(module, name)
        module.register_parameter(f"{name}_g", Parameter(torch.norm_except_dim(weight, 2, hook.dim)))
        module.register_parameter(f"{name}_v", Parameter(weight))
        hook._attach(module)
        return hook

    def remove(self, module):
        """Joins the parameter for good."""
        weight = self.compute_weight(module).detach()
        self._settle(module, ("_g", "_v"), Parameter(weight))


def weight_norm(module, name="weight", dim=0):
    """Splits a parameter into norm and direction, by a hook; ``parametrizations.weight_norm`` is the newer form."""
    deprecated("torch.nn.utils.weight_norm", "torch.nn.utils.parametrizations.weight_norm", FutureWarning)
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module, name="weight"):
    """Makes the parameter ordinary again.  ValueError where there is no weight norm on it."""
    return WeightNorm._detach(module, name, f"weight_norm of '{name}' not found in {module}")

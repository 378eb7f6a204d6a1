"""Several modules, each with arguments of its own."""
from __future__ import annotations

from ..._src.core.native import Tensor
from ..._src.core.pytree import tree_flatten
from ..modules.module import Module

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj):
    """The first tensor in an object, None where there is none."""
    return next((leaf for leaf in tree_flatten(obj)[0] if isinstance(leaf, Tensor)), None)


def parallel_apply(modules: list[Module], inputs, kwargs_tup=None, devices=None) -> list:
    """The results of the modules, in their order: one device computes them one after another, each with all threads."""
    for name, values in (("inputs", inputs), ("kwargs_tup", kwargs_tup), ("devices", devices)):
        if values is not None and len(values) != len(modules):
            raise AssertionError(
                f"The number of modules {len(modules)} is not equal to the number of {name} {len(values)}")
    return [module(*(given if isinstance(given, (list, tuple)) else (given,)), **keywords)
            for module, given, keywords in zip(modules, inputs, kwargs_tup or [{}] * len(modules))]

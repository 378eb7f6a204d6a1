"""Several modules, each with arguments of its own."""
from __future__ import annotations

import contextlib

from ..._src.core.devices import placed
from ..._src.core.native import Tensor
from ..._src.core.pytree import tree_flatten
from ..modules.module import Module

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj):
    """The first tensor in an object, None where there is none."""
    return next((leaf for leaf in tree_flatten(obj)[0] if isinstance(leaf, Tensor)), None)


def parallel_apply(modules: list[Module], inputs, kwargs_tup=None, devices=None) -> list:
    """The results of the modules, in their order, each computed with its device, where one is given, as the current
    one.  The host gives them their work one after another; GPUs do it at the same time."""
    for name, values in (("inputs", inputs), ("kwargs_tup", kwargs_tup), ("devices", devices)):
        if values is not None and len(values) != len(modules):
            raise AssertionError(
                f"The number of modules {len(modules)} is not equal to the number of {name} {len(values)}")
    found = []
    for module, given, keywords, device in zip(modules, inputs, kwargs_tup or [{}] * len(modules),
                                               devices or [None] * len(modules)):
        with current(device):
            found.append(module(*(given if isinstance(given, (list, tuple)) else (given,)), **keywords))
    return found


@contextlib.contextmanager
def current(device):
    """A block in which a device is meant where only its type is named; None changes nothing."""
    where = None if device is None else placed(device)
    if where is None or where.index is None:
        yield
        return
    provider = where.provider
    before = provider.current()
    provider.set_current(where.index)
    try:
        yield
    finally:
        provider.set_current(before)

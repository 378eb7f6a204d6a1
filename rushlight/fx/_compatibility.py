"""``compatibility``: PyTorch's promise that a function stays; nothing but a decorator here."""
from __future__ import annotations


def compatibility(is_backward_compatible: bool = False):
    """A decorator that leaves a function as it is."""
    return lambda function: function

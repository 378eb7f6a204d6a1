"""Helpers of functions that write nodes of TorchScript graphs, which do not exist here."""
from __future__ import annotations

from .._src.compat.absent import absent_function, reason


def parse_args(*arg_descriptors):
    """Return a decorator of functions that write nodes: modules that define such functions can be imported, and the
    functions refuse to be called."""
    def decorate(function):
        error, why = reason("onnx.symbolic_helper")
        return absent_function(function.__module__, function.__name__, why, error)(function)

    return decorate

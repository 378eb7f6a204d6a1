"""Identify the package's classes, whatever their ``__module__``: if ``import torch`` means Rushlight, it names a module
of PyTorch (``compat/homes.py``)."""
from __future__ import annotations

FRAMEWORK = __name__.partition(".")[0]
DEFINED: dict[type, str] = {}  # renamed class -> the module that defines it


def defining_module(kind) -> str:
    """The module that defines a class or a function.

    >>> from rushlight import nn
    >>> defining_module(nn.Linear)
    'rushlight.nn.modules.linear'
    """
    return DEFINED.get(kind) or kind.__module__


def is_own(kind) -> bool:
    """True if a class or a function belongs to the package.

    >>> from rushlight import nn
    >>> is_own(nn.Linear), is_own(dict)
    (True, False)
    """
    return defining_module(kind).partition(".")[0] == FRAMEWORK

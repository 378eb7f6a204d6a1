"""The name ``torch``: after ``install()``, every ``import torch...`` in this process means Rushlight."""
from .finder import install

__all__ = ["install"]

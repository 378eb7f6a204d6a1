"""Rushlight: tensors, autograd and a compiler with PyTorch's programming model, in pure Python."""

__version__ = "0.1.0"

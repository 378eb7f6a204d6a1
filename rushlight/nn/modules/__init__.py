"""Modules by PyTorch's names."""
from . import (activation, adaptive, batchnorm, container, conv, dropout, linear, loss, normalization, pooling,
               rearrange, rnn, sparse, transformer)
from .module import Module

# components of layers, which PyTorch has only at their own path
_inside = {linear.NonDynamicallyQuantizableLinear}
__all__ = ["Module"]

for _place in (activation, adaptive, batchnorm, container, conv, dropout, linear, loss, normalization, pooling,
               rearrange, rnn, sparse, transformer):
    for _name, _value in vars(_place).items():
        if isinstance(_value, type) and issubclass(_value, Module) and not _name.startswith("_") and \
                _name not in globals() and _value not in _inside:
            globals()[_name] = _value
            __all__.append(_name)

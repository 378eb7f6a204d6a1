"""Modules by PyTorch's names."""
from . import (activation, adaptive, batchnorm, container, conv, dropout, linear, loss, normalization, pooling,
               rearrange, rnn, sparse, transformer)
from .module import Module

for _place in (activation, adaptive, batchnorm, container, conv, dropout, linear, loss, normalization, pooling,
               rearrange, rnn, sparse, transformer):
    for _name, _value in vars(_place).items():
        if isinstance(_value, type) and issubclass(_value, Module) and not _name.startswith("_"):
            globals()[_name] = _value

"""Variable, which tensors have long since become."""
from __future__ import annotations

from .._src.core.native import Tensor
from .._src.autograd.backward import Engine


class VariableMeta(type):
    """Every tensor is a Variable."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, Tensor)


class Variable(metaclass=VariableMeta):
    """``Variable(data, requires_grad=False)``: a tensor over the memory of ``data``, without its history.

    >>> import rushlight as torch
    >>> x = torch.autograd.Variable(torch.ones(2), requires_grad=True)
    >>> type(x), x.requires_grad, isinstance(torch.ones(1), torch.autograd.Variable)
    (<class 'rushlight.Tensor'>, True, True)
    """

    _execution_engine = Engine

    def __new__(cls, data=None, requires_grad=None, volatile=None):
        made = Tensor() if data is None else data.detach()
        return made.requires_grad_() if requires_grad else made

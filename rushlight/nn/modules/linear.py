"""Linear maps."""
from __future__ import annotations

import math

from ..._src import flat as torch
from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module


def empty(*size, device=None, dtype=None):
    return Parameter(torch.empty(*size, device=device, dtype=dtype))


def enter_parameters(module, shape, wanted, device=None, dtype=None):
    """Parameters of one shape by name; None for those not wanted, which keep their place in the state dict."""
    for name, present in wanted.items():
        module.register_parameter(name, empty(shape, device=device, dtype=dtype) if present else None)


def shown(module, *names) -> str:
    """Attributes as ``repr`` shows them; of ``bias``, whether there is one."""
    return ", ".join([f"{name}={module.bias is not None if name == 'bias' else getattr(module, name)}"
                      for name in names])


def unusual(module, **defaults) -> list:
    """Attributes that differ from their default, as ``repr`` shows them."""
    return [f"{name}={getattr(module, name)!r}" for name, default in defaults.items() if getattr(module, name)
            != default]


class Identity(Module):
    """Returns its input; accepts any arguments.

    >>> torch.nn.Identity()(torch.tensor([1., 2.]))
    tensor([1., 2.])
    """

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input):
        return input


class Linear(Module):
    """x @ weight.T + bias: [*, in] -> [*, out].

    >>> torch.nn.Linear(3, 4)(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """

    __constants__ = ["in_features", "out_features"]

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = empty((out_features, in_features), device=device, dtype=dtype)
        enter_parameters(self, out_features, {"bias": bias}, device, dtype)
        self.reset_parameters()

    def reset_parameters(self):
        """Both uniform within 1 / sqrt(in_features)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = self.weight.size(1) ** -0.5 if self.weight.size(1) else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input):
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self):
        return shown(self, "in_features", "out_features", "bias")


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear that quantization leaves alone (inside attention)."""


class Bilinear(Module):
    """x1^T weight x2 + bias for each output.

    >>> torch.nn.Bilinear(2, 3, 4)(torch.ones(1, 2), torch.ones(1, 3)).shape
    torch.Size([1, 4])
    """

    def __init__(self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = empty((out_features, in1_features, in2_features), device=device, dtype=dtype)
        enter_parameters(self, out_features, {"bias": bias}, device, dtype)
        self.reset_parameters()

    def reset_parameters(self):
        """Uniform within 1 / sqrt(in1_features)."""
        bound = self.weight.size(1) ** -0.5
        for parameter in (self.weight, self.bias):
            if parameter is not None:
                init.uniform_(parameter, -bound, bound)

    def forward(self, input1, input2):
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self):
        return shown(self, "in1_features", "in2_features", "out_features", "bias")


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear that learns ``in_features`` from its first input."""

    def __init__(self, out_features, bias=True, device=None, dtype=None):
        super().__init__(0, 0, bias=False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    cls_to_become = Linear

    def reset_parameters(self):
        if not self.has_uninitialized_params() and self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input):
        if self.has_uninitialized_params():
            self.in_features = input.size(-1)
            self.weight.materialize((self.out_features, self.in_features), dtype=input.dtype)
            if self.bias is not None:
                self.bias.materialize((self.out_features,), dtype=input.dtype)
            self.reset_parameters()
        elif self.in_features == 0:  # its parameters were loaded
            self.in_features = self.weight.size(1)

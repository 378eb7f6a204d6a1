"""Import every declaration, derive the in-place forms, and attach operators to public names."""
from __future__ import annotations

import numpy as np

from ..core.dtypes import category_of
from ..core.expr import Expr
from ..core.native import Tensor
from ..core.op import OPS
from ..core.tensor import attach
from . import prims, elementwise, bounds, shape, reduce, scan, matmul, create, index, random, sort, inplace  # noqa: F401
from . import activation, attention, bag, binary_loss, closeness, collective, combine, complex_numbers, conv, copies, ctc, distances, fft, fractional, gather, grid, grouped, linalg, logic, loss, masked, masks, matrix  # noqa: F401
from . import nibbles, norm, pieces, pool, quantiles, quantized, quantized_decomposed, rearrange, recurrent, resample, rounding, samplers, search, slices, special, statistics, unique, vectors, windows  # noqa: F401

inplace.derive()
copies.derive()

from . import quantized_tensors  # noqa: E402, F401 - rules for operators that are there now

ALIASES = {  # PyTorch's other names for one operator
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "negative": "neg", "absolute": "abs",
    "greater": "gt",
    "greater_equal": "ge", "less": "lt", "less_equal": "le", "not_equal": "ne", "arccos": "acos", "arcsin": "asin",
    "arctan": "atan",
    "arctan2": "atan2", "arccosh": "acosh", "arcsinh": "asinh", "arctanh": "atanh", "clip": "clamp", "fix": "trunc",
    "concat": "cat", "concatenate": "cat",
    "swapaxes": "transpose", "swapdims": "transpose", "moveaxis": "movedim", "row_stack": "vstack",
    "mvlgamma": "special.multigammaln",
    "trapz": "trapezoid", "i0": "special.i0",
    "_weight_int4pack_mm": "_weight_int4pack_mm_for_cpu", "_grouped_mm": "nn.functional.grouped_mm",
    "det": "linalg.det", "slogdet": "linalg.slogdet", "inverse": "linalg.inv", "matrix_power": "linalg.matrix_power",
    "matrix_exp": "linalg.matrix_exp", "segment_reduce": "_segment_reduce", "spmm": "mm", "dsmm": "mm",
    "saddmm": "addmm"}
FUNCTIONAL = (  # of nn.functional, at the top level too
    "adaptive_avg_pool1d", "adaptive_max_pool1d", "alpha_dropout", "avg_pool1d", "bilinear", "celu", "conv1d", "conv2d",
    "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "feature_alpha_dropout", "group_norm", "hardshrink",
    "max_pool1d_with_indices", "pairwise_distance", "pdist", "prelu",
    "rrelu", "selu", "threshold", "celu_", "selu_", "threshold_", "feature_dropout")
ALIASES.update({name: f"nn.functional.{name}" for name in FUNCTIONAL})
OPERATORS = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
             "pow": "pow", "matmul": "matmul",
             "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
             "rshift": "bitwise_right_shift"}


COMPARABLE = (Tensor, Expr, int, float, complex, np.generic, np.ndarray)


def guarded(operator):
    """Wrap an operator for Python's infix syntax: return NotImplemented for other operands than tensors and numbers."""
    def call(self, other):
        if not isinstance(other, COMPARABLE) and not any(hasattr(type(other), name)
                                                         for name in ("__torch_function__", "category")):
            return NotImplemented
        return operator(self, other)
    call.__name__ = operator.name
    return call


def of_tensors(operator, name):
    """Return a method that is an operator, for tensors only."""
    def call(self, other):
        if not isinstance(self, Tensor):
            raise TypeError(f"descriptor {name!r} requires a Tensor, got {type(self).__name__}")
        if isinstance(other, (list, tuple, str)):
            return NotImplemented  # sequences are repeated, or added to sequences
        return operator(self, other)
    call.__name__ = name
    return call


def swapped(operator):
    def call(self, other):
        if not isinstance(self, Tensor):
            raise TypeError(
                f"{operator.name}: the reflected operator is a method of Tensor, not of {type(self).__name__}")
        if isinstance(other, (int, float, bool, complex)) and operator is not OPS["pow"]:
            if operator.traits.get("number_first"):
                return operator(other, self)
            dtype = self.dtype if self.dtype.category >= category_of(other) else None
            other = OPS["full"]((), other, dtype=dtype, device=self.device)
        return operator(other, self)
    return call


def attach_methods():
    """Attach operators as methods of Tensor, and as Python's operators."""
    for name, operator in OPS.items():
        if operator.traits.get("method") and "." not in name:
            setattr(Tensor, name, operator)
    for alias, name in ALIASES.items():
        if name in OPS:
            for ending in ("", "_"):
                if name + ending in OPS and OPS[name + ending].traits.get("method"):
                    setattr(Tensor, alias + ending, OPS[name + ending])
    for symbol, name in OPERATORS.items():
        setattr(Tensor, f"__{symbol}__", OPS[name])
        if f"{name}_" in OPS:
            setattr(Tensor, f"__i{symbol}__", OPS[f"{name}_"])
        setattr(Tensor, f"__r{symbol}__", swapped(OPS[name]))
    Tensor.__radd__, Tensor.__rmul__ = of_tensors(OPS["add"], "__radd__"), of_tensors(OPS["mul"], "__rmul__")
    Tensor.__rsub__ = OPS["rsub"]
    Tensor.__rpow__ = OPS["rpow"]
    attach(polygamma)
    Tensor.prelu, Tensor.hardshrink, Tensor.narrow_copy = OPS["nn.functional.prelu"], OPS[
        "nn.functional.hardshrink"], OPS["narrow_copy"]
    Tensor.is_nonzero, Tensor.ndimension = Tensor.__bool__, Tensor.dim
    Tensor.__rdiv__ = Tensor.__rtruediv__
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Tensor, f"__{name}__", guarded(OPS[name]))
    Tensor.__neg__, Tensor.__abs__, Tensor.__invert__, Tensor.__pos__ = OPS["neg"], OPS["abs"], OPS["bitwise_not"], OPS[
        "positive"]
    attach(where)


def polygamma(self, n):
    """The n-th derivative of digamma."""
    return OPS["polygamma"](n, self)


def where(self, condition, other):
    """The tensor's elements where ``condition`` holds, else those of ``other``.

    >>> torch.tensor([1, 2]).where(torch.tensor([True, False]), 0)
    tensor([1, 0])
    """
    return OPS["where"](condition, self, other)


def namespace(prefix: str) -> dict:
    """Return the operators with a public dotted prefix ("" for the top level)."""
    found = {}
    for name, operator in OPS.items():
        where, _, last = name.rpartition(".")
        if where == prefix and (prefix or not operator.traits.get("method_only")):
            found[last] = operator
    if not prefix:
        found.update({alias: OPS[name] for alias, name in ALIASES.items() if name in OPS})
        found.update({alias + "_": OPS[name + "_"] for alias, name in ALIASES.items() if name + "_" in OPS})
    return found


attach_methods()

"""Multiplications and additions of contractions by the shapes of their arguments."""
from __future__ import annotations

import functools

from .._src.core.meta import product
from .._src.core.native import Tensor
from ._pytree import tree_map

__all__ = ["addmm_flop", "baddbmm_flop", "bmm_flop", "conv_backward_flop", "conv_flop", "conv_flop_count",
           "convert_num_with_suffix", "convert_to_percent_str", "flop_registry", "get_shape", "get_suffix_str",
           "mm_flop", "normalize_tuple", "register_flop_formula", "sdpa_backward_flop", "sdpa_backward_flop_count",
           "sdpa_flop", "sdpa_flop_count", "shape_wrapper", "suffixes"]

suffixes = ["", "K", "M", "B", "T"]
flop_registry: dict = {}


def get_shape(i):
    """The shape of a tensor, anything else itself."""
    return i.shape if isinstance(i, Tensor) else i


def shape_wrapper(f):
    """A formula of shapes as a function of tensors: their shapes, and the result's as ``out_shape``."""
    @functools.wraps(f)
    def count(*args, out_val=None, **kwargs):
        args, kwargs, out = tree_map(get_shape, (args, kwargs, out_val))
        return f(*args, out_shape=out, **kwargs)

    return count


def register_flop_formula(targets, get_raw: bool = False):
    """A decorator: a formula of operators (``torch.ops.library.name``, one or several), which FlopCounterMode uses from
    then on.  It is given shapes, and ``out_shape``; with ``get_raw`` the arguments and ``out_val``.

    ValueError for what is no operator, RuntimeError for one that has a formula.
    """
    def enter(formula):
        count = formula if get_raw else shape_wrapper(formula)
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if not hasattr(target, "overloads") and not hasattr(target, "_name") and not callable(target):
                raise ValueError(f"register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. "
                                 f"torch.ops.mylib.foo), got {target} which is of type {type(target)}")
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = count
        return formula
    return enter


def mm_flop(a_shape, b_shape, *args, out_shape=None, **kwargs) -> int:
    """Of ``a @ b``.

    >>> mm_flop((2, 3), (3, 4))
    48
    """
    return 2 * a_shape[0] * a_shape[1] * b_shape[1]


def addmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs) -> int:
    """Of ``addmm``: the product's."""
    return mm_flop(a_shape, b_shape)


def bmm_flop(a_shape, b_shape, out_shape=None, **kwargs) -> int:
    """FLOPs of a batched matmul."""
    return a_shape[0] * mm_flop(a_shape[1:], b_shape[1:])


def baddbmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs) -> int:
    """FLOPs of ``baddbmm``: those of the matmul."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape, w_shape, out_shape, transposed: bool = False) -> int:
    """Of a convolution of these shapes; ``out_shape`` is the result's."""
    where = x_shape if transposed else out_shape
    return 2 * x_shape[0] * product(where[2:]) * product(w_shape)


def conv_flop(x_shape, w_shape, _bias, _stride, _padding, _dilation, transposed, *args, out_shape=None,
              **kwargs) -> int:
    """Of a call of ``aten.convolution``."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed=transposed)


def conv_backward_flop(grad_out_shape, x_shape, w_shape, _bias, _stride, _padding, _dilation, transposed,
                       _output_padding, _groups, output_mask, out_shape, **kwargs) -> int:
    """FLOPs of the gradients of a convolution selected by ``output_mask``: of the input, the weight."""
    one = conv_flop_count(x_shape, w_shape, grad_out_shape, transposed)
    return one * (bool(output_mask[0]) + bool(output_mask[1]))


def sdpa_flop_count(query_shape, key_shape, value_shape) -> int:
    """FLOPs of attention: scores, and their matmul with values.

    >>> sdpa_flop_count((2, 4, 8, 16), (2, 4, 9, 16), (2, 4, 9, 16))
    36864
    """
    batch, heads, rows, depth = query_shape
    return 2 * batch * heads * rows * key_shape[-2] * (depth + value_shape[-1])


def sdpa_flop(query_shape, key_shape, value_shape, *args, out_shape=None, **kwargs) -> int:
    """Of a call of attention."""
    return sdpa_flop_count(query_shape, key_shape, value_shape)


def sdpa_backward_flop_count(grad_out_shape, query_shape, key_shape, value_shape) -> int:
    """FLOPs of attention's gradients: scores again, then two matmuls with values' width and two more with keys'."""
    batch, heads, rows, depth = query_shape
    return 2 * batch * heads * rows * key_shape[-2] * (3 * depth + 2 * value_shape[-1])


def sdpa_backward_flop(grad_out_shape, query_shape, key_shape, value_shape, *args, out_shape=None, **kwargs) -> int:
    """Of a call of attention's gradients."""
    return sdpa_backward_flop_count(grad_out_shape, query_shape, key_shape, value_shape)


def normalize_tuple(x):
    """A tuple of one where it is none.

    >>> normalize_tuple(3)
    (3,)
    """
    return x if isinstance(x, tuple) else (x,)


def get_suffix_str(number) -> str:
    """The suffix with which a number has at most seven digits before it.

    >>> get_suffix_str(12345), get_suffix_str(12)
    ('K', '')
    """
    return suffixes[max(0, min(len(suffixes) - 1, (len(str(number)) - 2) // 3))]


def convert_num_with_suffix(number, suffix) -> str:
    """A number in units of a suffix, with three digits behind the point.

    >>> convert_num_with_suffix(12345678, "M")
    '12.346M'
    """
    return f"{number / 1000 ** suffixes.index(suffix):.3f}{suffix}"


def convert_to_percent_str(num, denom) -> str:
    """A share in percent.

    >>> convert_to_percent_str(1, 3)
    '33.33%'
    """
    return "0%" if denom == 0 else f"{num / denom:.2%}"

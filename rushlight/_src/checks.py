"""Assertions of programs about their inputs."""
from __future__ import annotations

from .core.dtypes import bool_
from .core.native import Tensor
from .core.overriding import overridable
from .core.tensor import refuse_unless

NOT_TRUE = "Expected Tensor with single nonzero value, but got zero"


def _check_with(error_type, cond, message=None):
    """Raise ``error_type`` with the message ``message()`` unless ``cond`` holds.  TypeError for a tensor."""
    if not isinstance(cond, (bool, int)):
        raise TypeError(f"cond must be a bool, but got {type(cond).__name__}: for tensors use _check_tensor_all")
    if not cond:
        text = ("Expected cond to be True, but it is not: pass a function that tells more as the second argument"
                if message is None else message)
        raise error_type(text() if callable(text) else str(text))


def _check(cond, message=None):
    """RuntimeError with the message ``message()`` unless the condition holds; compiled code assumes it afterwards.

    >>> import rushlight as torch
    >>> torch._check(2 > 1, lambda: "never")
    """
    _check_with(RuntimeError, cond, message)


def _check_index(cond, message=None):
    _check_with(IndexError, cond, message)


def _check_value(cond, message=None):
    _check_with(ValueError, cond, message)


def _check_type(cond, message=None):
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond, message=None):
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(error_type, cond, message=None):
    """Raise ``error_type`` unless all elements of a bool tensor are True."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not bool_:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond, message=None):
    """RuntimeError unless all elements of a tensor of bools are True."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_is_size(i, message=None, *, max=None):
    """RuntimeError unless ``i`` is a size: not negative, and at most ``max``."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def sym_constrain_range(size, *, min=None, max=None):
    """Raise RuntimeError unless ``min <= size <= max``; compiled code assumes it afterwards.  Empty bounds raise it,
    too."""
    if min is not None and max is not None:
        _check(min <= max, f"Max must be greater than or equal to min. Got min={min} max={max}")

    def describe():
        low, high = -(1 << 63) if min is None else min, (1 << 63) - 1 if max is None else max
        return f"Invalid value range for {size} between [{low}, {high}]."

    if min is not None:
        _check(size >= min, describe)
    if max is not None:
        _check(size <= max, describe)


def sym_constrain_range_for_size(size, *, min=None, max=None):
    """Do as ``sym_constrain_range`` for the size of a dimension: ``min`` is 0 unless given, ``max`` greater than 2."""
    if max is not None:
        _check(max > 2, f"Max value to constrain_range_for_size must be greater than 2. got: {max}")
    sym_constrain_range(size, min=0 if min is None else min, max=max)


def _constrain_as_size(symbol, min=None, max=None):
    """Raise RuntimeError unless an integer is a size within bounds; compiled and exported programs assume it
    afterwards.

    >>> import rushlight as torch
    >>> torch._constrain_as_size(4, min=1, max=8)
    """
    sym_constrain_range_for_size(symbol, min=min, max=max)


@overridable
def _assert(condition, message):
    """AssertionError unless a condition (a bool, or a tensor of one element) holds; programs check tensors at run
    time."""
    if isinstance(condition, Tensor):
        require_one(condition)
        refuse_unless(condition, AssertionError(message))
    assert isinstance(condition, Tensor) or condition, message


def require_one(input):
    """RuntimeError for a tensor without a truth value: one that does not have exactly one element."""
    if input.numel() != 1:
        raise RuntimeError(f"Boolean value of Tensor with {'more than one value' if input.numel() else 'no values'} is "
                           "ambiguous")


def _assert_async(input, assert_msg=None):
    """RuntimeError unless a tensor of one element is true; compiled and exported programs check it at run time.

    >>> import rushlight as torch
    >>> torch._assert_async(torch.ones(1).sum() > 0, "never")
    """
    require_one(input)
    refuse_unless(input, RuntimeError(NOT_TRUE if assert_msg is None else assert_msg))


def _is_all_true(input):
    return input.all()


def _is_any_true(input):
    return input.any()

"""Assertions that programs make of their inputs."""
from __future__ import annotations

from .core.native import Tensor


def said(message, otherwise: str) -> str:
    return otherwise if message is None else str(message() if callable(message) else message)


def _check_with(error_type, cond, message=None):
    """Raises ``error_type`` unless ``cond`` holds; ``message`` is a function that gives the text."""
    if not cond:
        raise error_type(said(message, "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an enhancement request.)"))


def _check(cond, message=None):
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
    """Raises ``error_type`` unless a bool tensor holds everywhere."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond, message=None):
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_is_size(i, message=None, *, max=None):
    """RuntimeError unless a number can be a size."""
    _check_with(RuntimeError, i >= 0 and (max is None or i <= max), message)


def _assert(condition, message):
    """AssertionError unless a condition (a bool, or a tensor of one element) holds."""
    assert condition, message


def _assert_async(input, assert_msg=None):
    """RuntimeError unless a tensor of one element holds; here at once."""
    _check_with(RuntimeError, bool(input), assert_msg or "Expected Tensor with single nonzero value, but got zero")


def _is_all_true(input):
    return input.all()


def _is_any_true(input):
    return input.any()

"""Small helpers of annotations."""
from __future__ import annotations


def not_none(obj):
    """An object that is not None.  TypeError for None."""
    if obj is None:
        raise TypeError("Invariant encountered: value was None when it should not be")
    return obj


def as_it_is(source_method):
    """A decorator that changes nothing: checkers of types read that a function has the parameters of another."""
    return lambda func: func


copy_func_params = copy_func_sig = copy_method_params = copy_method_sig = as_it_is

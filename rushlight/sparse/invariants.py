"""Whether sparse tensors are checked for all that makes one when they are made: whether indices lie within sizes always
is, since kernels read memory by them."""
from __future__ import annotations

import functools


class check_sparse_tensor_invariants:
    """A block or function with checks of sparse tensors switched on or off, as PyTorch has it.

    What kernels rely on is always checked; these are whether runs rise, whether places within them are sorted and
    distinct, and whether coordinates that are said to be coalesced are.

    >>> with check_sparse_tensor_invariants():
    ...     check_sparse_tensor_invariants.is_enabled()
    True
    """

    on = False

    def __init__(self, enable=True):
        self.state, self.before = enable, None

    @staticmethod
    def is_enabled() -> bool:
        """Return the last value set."""
        return check_sparse_tensor_invariants.on

    @staticmethod
    def enable():
        check_sparse_tensor_invariants.on = True

    @staticmethod
    def disable():
        check_sparse_tensor_invariants.on = False

    def __enter__(self):
        if self.before is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Make another instance for an inner block.")
        self.before, check_sparse_tensor_invariants.on = self.is_enabled(), self.state

    def __exit__(self, *exception):
        check_sparse_tensor_invariants.on, self.before = self.before, None

    def __call__(self, function):
        @functools.wraps(function)
        def inside(*args, **kwargs):
            with type(self)(self.state):
                return function(*args, **kwargs)
        return inside

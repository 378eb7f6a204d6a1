"""Refusal of values of options that are part of PyTorch's signatures and not built."""
from __future__ import annotations

from .errors import NotBuiltError

SCALARS = bool, int, float, str, list, tuple, dict


def accept_only(function: str, remedy: str = "", /, **options):
    """Raise NotBuiltError for the first option that has another value than those accepted.

    Args:
        function: the name of the function as users call it.
        remedy: how to do without the option.
        options: ``name=(value, *accepted)`` of each; accepted scalars and containers are compared by ``==``, all
            others by identity.

    >>> accept_only("f", "sort before", stable=(False, False, None))
    >>> accept_only("f", "sort before", stable=(True, False, None))
    Traceback (most recent call last):
        ...
    rushlight._src.core.errors.NotBuiltError: f(stable=True) is not built
      wanted: stable=False or None
      remedy: sort before [error 1001]
    """
    for name, (value, *accepted) in options.items():
        if not any(value is one or isinstance(value, SCALARS) and isinstance(one, SCALARS) and value == one
                   for one in accepted):
            raise NotBuiltError(f"{function}({name}={value!r}) is not built",
                                f"{name}={' or '.join(map(repr, accepted))}", remedy)

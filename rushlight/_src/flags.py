"""Flags of ``torch.backends``.  A test suite may freeze them, so that no test leaves one changed."""
from __future__ import annotations

import contextlib
import types


class Freezing:
    """Flag: assignments to flags are allowed."""

    on = False


class FlagModule(types.ModuleType):
    """A module some of whose names are flags (``flag_names``): once frozen, they change only in a ``flags`` block."""

    flag_names: tuple = ("fp32_precision",)

    def __setattr__(self, name, value):
        if Freezing.on and name in self.flag_names:
            raise RuntimeError(f"not allowed to set torch.{self.__name__.partition('.')[2]} flags after "
                               "disable_global_flags; please use flags() context manager instead")
        super().__setattr__(name, value)


def disable_global_flags():
    """Freeze the flags of ``torch.backends`` and of its ``cudnn`` and ``mkldnn``: afterwards assigning to one raises
    RuntimeError, and ``flags`` changes them for a block."""
    Freezing.on = True


@contextlib.contextmanager
def allow_nonbracketed_mutation():
    """A block in which frozen flags can be assigned."""
    before, Freezing.on = Freezing.on, False
    try:
        yield
    finally:
        Freezing.on = before


def flags_frozen() -> bool:
    """True once ``disable_global_flags`` was called."""
    return Freezing.on

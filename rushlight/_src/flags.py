"""Flags of ``torch.backends``, which a test suite may freeze so that none stays changed behind a test."""
from __future__ import annotations

import contextlib
import types


class Freezing:
    """Whether flags can be assigned to."""

    on = False


class FlagModule(types.ModuleType):
    """A module some of whose names are flags (``flag_names``): once they are frozen, only its ``flags`` block changes
    them."""

    flag_names: tuple = ("fp32_precision",)

    def __setattr__(self, name, value):
        if Freezing.on and name in self.flag_names:
            raise RuntimeError(f"not allowed to set torch.{self.__name__.partition('.')[2]} flags after "
                               "disable_global_flags; please use flags() context manager instead")
        super().__setattr__(name, value)


def disable_global_flags():
    """Freezes the flags of ``torch.backends`` and of its ``cudnn`` and ``mkldnn``: from then on assigning to one
    raises RuntimeError, and ``flags`` changes them for a block."""
    Freezing.on = True


@contextlib.contextmanager
def allow_nonbracketed_mutation():
    """A block in which flags may be assigned to though they are frozen."""
    before, Freezing.on = Freezing.on, False
    try:
        yield
    finally:
        Freezing.on = before


def flags_frozen() -> bool:
    """True once ``disable_global_flags`` was called."""
    return Freezing.on

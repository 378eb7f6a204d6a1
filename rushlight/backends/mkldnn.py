"""Switches of oneDNN, which is not used."""
import sys

from .._src.compat.devices import switches
from .._src.flags import FlagModule

globals().update(switches())


class Switches(FlagModule):
    """The module itself."""

    flag_names = ("enabled", "deterministic", "allow_tf32", "fp32_precision")


sys.modules[__name__].__class__ = Switches

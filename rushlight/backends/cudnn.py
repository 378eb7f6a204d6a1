"""Switches of cuDNN, which is not used; ``allow_tf32`` holds for convolutions on GPUs."""
import contextlib
import sys
import types

from .._src import switches

enabled, benchmark, deterministic, benchmark_limit = True, False, False, 10
fp32_precision = "none"


class Switches(types.ModuleType):
    """The module, of which a switch is kept elsewhere."""

    @property
    def allow_tf32(self) -> bool:
        return switches.allows_tf32("cudnn")

    @allow_tf32.setter
    def allow_tf32(self, allowed):
        switches.allow_tf32_of_convolutions(allowed)


sys.modules[__name__].__class__ = Switches


def is_available() -> bool:
    return False


def version():
    """None: there is no cuDNN."""
    return None


def is_acceptable(tensor) -> bool:
    return False


@contextlib.contextmanager
def flags(enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True,
          fp32_precision="none"):
    """A block with other switches; all but ``allow_tf32`` change nothing."""
    before = switches.allows_tf32("cudnn")
    switches.allow_tf32_of_convolutions(allow_tf32)
    try:
        yield
    finally:
        switches.allow_tf32_of_convolutions(before)

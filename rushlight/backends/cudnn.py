"""cuDNN on GPUs, which computes attention and convolutions where it is expected, or was measured, to be faster, and
its switches.

``enabled``: whether it may; ``deterministic``: whether it may compute only reproducible results, which excludes its
gradients of attention and some of its convolution engines; ``allow_tf32`` applies to convolutions, by Rushlight's
kernels and by its engines.
"""
import contextlib
import sys

from .._src import switches
from .._src.core.devices import provided
from .._src.flags import FlagModule
from .._src.ops.attention import refusal_of_vendor

benchmark, benchmark_limit = False, 10
fp32_precision = "none"


class Switches(FlagModule):
    """The module; some switches are stored elsewhere."""

    flag_names = ("enabled", "deterministic", "benchmark", "benchmark_limit", "allow_tf32", "fp32_precision")

    @property
    def allow_tf32(self) -> bool:
        return switches.allows_tf32("cudnn")

    @allow_tf32.setter
    def allow_tf32(self, allowed):
        switches.allow_tf32_of_convolutions(allowed)

    @property
    def enabled(self) -> bool:
        return switches.uses_dnn

    @enabled.setter
    def enabled(self, allowed):
        switches.change("uses_dnn", bool(allowed))

    @property
    def deterministic(self) -> bool:
        return switches.deterministic_dnn

    @deterministic.setter
    def deterministic(self, wanted):
        switches.change("deterministic_dnn", bool(wanted))


sys.modules[__name__].__class__ = Switches


def is_available() -> bool:
    """Whether there is a GPU of NVIDIA, and the library."""
    return version() is not None


def version():
    """The version of cuDNN as a number, 90200 for 9.2.0; None where there is none."""
    found = provided("cuda")
    return (found.libraries.dnn_version() or None) if found is not None and found.count() else None


def is_acceptable(tensor) -> bool:
    """Whether cuDNN would take attention of such tensors: halves on a GPU, where it is enabled."""
    return switches.uses_dnn and tensor.dim() == 4 and refusal_of_vendor(tensor, tensor, tensor, None, 0.0,
                                                                         False) is None


@contextlib.contextmanager
def flags(enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True,
          fp32_precision="none"):
    """A block with other switches; ``benchmark`` and ``fp32_precision`` change nothing."""
    names = {"uses_dnn": bool(enabled), "deterministic_dnn": bool(deterministic)}
    before, kept = switches.allows_tf32("cudnn"), {name: getattr(switches, name) for name in names}
    switches.allow_tf32_of_convolutions(allow_tf32)
    for name, value in names.items():
        switches.change(name, value)
    try:
        yield
    finally:
        switches.allow_tf32_of_convolutions(before)
        for name, value in kept.items():
            switches.change(name, value)

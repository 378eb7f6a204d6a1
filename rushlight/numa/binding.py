"""Options by which a launcher binds processes to the CPUs near their GPUs."""
from __future__ import annotations

import dataclasses
import enum
import warnings

from .._src.core.errors import NoDeviceError

__all__ = ["AffinityMode", "NumaOptions"]


class AffinityMode(str, enum.Enum):
    """The CPUs of a process: those of its GPU's NUMA node, of the socket, a share of the node, or one core complex."""

    NODE = "node"
    SOCKET = "socket"
    EXCLUSIVE = "exclusive"
    CORE_COMPLEX = "core-complex"


@dataclasses.dataclass(frozen=True)
class NumaOptions:
    """NUMA binding of processes; ``should_fall_back_if_binding_fails``: run unbound, with a warning, if binding
    fails."""

    affinity_mode: AffinityMode
    should_fall_back_if_binding_fails: bool = False


def refuse_binding(options: NumaOptions | None):
    """NoDeviceError for options by which processes would be bound, a warning where they may run unbound."""
    if options is None:
        return
    text = (f"binding processes by {options.affinity_mode} needs the NUMA node of each process's GPU, which is not "
            "read here; bind programs with numactl or taskset")
    if not options.should_fall_back_if_binding_fails:
        raise NoDeviceError(f"{text}, or set should_fall_back_if_binding_fails")
    warnings.warn(f"{text}. Processes run unbound", stacklevel=3)

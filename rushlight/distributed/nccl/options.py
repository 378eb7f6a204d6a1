"""Options of NCCL process groups."""
from __future__ import annotations

from ..process_group import Options as GroupOptions, ProcessGroup


class NCCLConfig:
    """Fields of ``ncclConfig_t``; those that are not set are left to the library."""

    __slots__ = "blocking", "cga_cluster_size", "min_ctas", "max_ctas", "net_name", "split_share"

    def __init__(self, **given):
        for name, value in given.items():
            setattr(self, name, value)

    def asked(self) -> dict:
        return {name: getattr(self, name) for name in self.__slots__ if getattr(self, name, None) is not None}


class Options(GroupOptions):
    """``config``: fields of the library's configuration; ``is_high_priority_stream``: True if collectives run before
    other work of the device."""

    def __init__(self, is_high_priority_stream: bool = False, timeout=None):
        super().__init__("nccl", *([] if timeout is None else [timeout]))
        self.is_high_priority_stream, self.config = is_high_priority_stream, NCCLConfig()


class ProcessGroupNCCL(ProcessGroup):
    """PyTorch's name for groups of GPUs: ``ProcessGroupNCCL.Options``, ``ProcessGroupNCCL.NCCLConfig``."""

    Options, NCCLConfig = Options, NCCLConfig

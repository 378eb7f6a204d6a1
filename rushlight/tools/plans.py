"""A transformer, a device, and a way to divide the one over many of the other."""
from __future__ import annotations

from dataclasses import dataclass, field

HALF, STATE = 2, 12  # bytes of a parameter or gradient, and of its float32 copy with Adam's two moments
KEPT = 34  # bytes an element of the stream that a layer keeps for its backward, without scores of attention


@dataclass(frozen=True)
class Model:
    """A decoder of ``layers`` layers over ``width`` numbers a token; ``shared``: query heads for each key head."""

    layers: int
    width: int
    feed: int
    vocabulary: int
    sequence: int
    shared: int = 1

    @property
    def layer_parameters(self) -> int:
        return 2 * self.width ** 2 + 2 * self.width ** 2 // self.shared + 3 * self.width * self.feed

    @property
    def parameters(self) -> int:
        return self.layers * self.layer_parameters + 2 * self.vocabulary * self.width

    def layer_work(self, tokens: int) -> float:
        """Floating point operations of a layer forward."""
        return 2 * tokens * self.layer_parameters + 2 * tokens * self.sequence * self.width

    def head_work(self, tokens: int) -> float:
        return 2 * tokens * self.vocabulary * self.width


MODELS = {"7B": Model(32, 4096, 11008, 32000, 4096), "70B": Model(80, 8192, 28672, 32000, 4096, 8)}


@dataclass(frozen=True)
class Device:
    """``rate``: operations per second that matmuls reach; ``bandwidth`` and ``memory`` in bytes; ``launch``: seconds
    before a kernel begins; ``layer``: measured seconds by (tokens, parts of a layer), instead of the roofline;
    ``overlap``: the part of communication that may overlap computation."""

    rate: float = 989e12 * 0.55
    bandwidth: float = 3.35e12
    memory: float = 80e9
    launch: float = 4e-6
    overlap: float = 1.0
    layer: dict = field(default_factory=dict, hash=False)

    def seconds(self, work: float, nbytes: float, kernels: int = 12) -> float:
        return max(work / self.rate, nbytes / self.bandwidth) + kernels * self.launch


@dataclass(frozen=True)
class Plan:
    """Devices are ``tensor`` x ``data`` x ``pipeline``, neighbours first; ``shards``: parameters are divided over the
    data dimension, too (FSDP); ``micro``: sequences of a microbatch; ``again``: layers are computed again in backward
    instead of kept."""

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    shards: bool = False
    micro: int = 1
    again: bool = False

    @property
    def devices(self) -> int:
        return self.data * self.tensor * self.pipeline

    def __str__(self):
        return (f"data {self.data}{' sharded' if self.shards else ''}, tensor {self.tensor}, pipeline {self.pipeline}, "
                f"microbatches of {self.micro}{', layers computed again' if self.again else ''}")

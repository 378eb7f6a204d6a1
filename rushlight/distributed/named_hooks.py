"""Hooks of DistributedDataParallel by name."""
from __future__ import annotations

import enum
import functools

from .hooks import (allreduce_hook, bf16_compress_hook, fp16_compress_hook, noop_hook, quantization_perchannel_hook,
                    quantization_pertensor_hook)
from .powersgd import PowerSGDState, batched_powerSGD_hook, powerSGD_hook

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


def with_state(hook):
    """Return a function that registers a hook with a given state."""
    def register(model, state):
        model.register_comm_hook(state, hook)
    return register


def compressed(hook, rank: int):
    """Return a function that registers a PowerSGD hook of a rank."""
    def register(model, state):
        model.register_comm_hook(PowerSGDState(state, matrix_approximation_rank=rank), hook)
    return register


class DDPCommHookType(enum.Enum):
    """Hooks of DistributedDataParallel; each value registers one: ``value(model=..., state=...)``."""

    ALLREDUCE = functools.partial(with_state(allreduce_hook))
    FP16_COMPRESS = functools.partial(with_state(fp16_compress_hook))
    BF16_COMPRESS = functools.partial(with_state(bf16_compress_hook))
    QUANTIZE_PER_TENSOR = functools.partial(with_state(quantization_pertensor_hook))
    QUANTIZE_PER_CHANNEL = functools.partial(with_state(quantization_perchannel_hook))
    POWER_SGD = functools.partial(compressed(powerSGD_hook, 1))
    POWER_SGD_RANK2 = functools.partial(compressed(powerSGD_hook, 2))
    BATCHED_POWER_SGD = functools.partial(compressed(batched_powerSGD_hook, 1))
    BATCHED_POWER_SGD_RANK2 = functools.partial(compressed(batched_powerSGD_hook, 2))
    NOOP = functools.partial(with_state(noop_hook))


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model, state=None):
    """Registers a hook that is named; ``state`` is a group, or None for all processes.  RuntimeError for a second
    hook of a model."""
    comm_hook_type.value(model=model, state=state)

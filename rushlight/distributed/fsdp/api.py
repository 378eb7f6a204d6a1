"""Options of FullyShardedDataParallel: sharding of parameters, compute dtypes, contents of state dicts."""
from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from ...nn.modules.batchnorm import _BatchNorm

__all__ = ["BackwardPrefetch", "MixedPrecision", "CPUOffload", "StateDictType", "StateDictConfig",
           "FullStateDictConfig", "LocalStateDictConfig", "ShardedStateDictConfig", "OptimStateDictConfig",
           "FullOptimStateDictConfig", "LocalOptimStateDictConfig", "ShardedOptimStateDictConfig", "ShardingStrategy",
           "StateDictSettings"]


class ShardingStrategy(Enum):
    """FULL_SHARD: parameters are sharded between uses; SHARD_GRAD_OP: full from forward to backward; NO_SHARD: always
    full; HYBRID_SHARD: sharded within a host, and replicated between hosts."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When the parameters of the layer before travel in a backward pass: before, or after, this one's gradients."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


@dataclass
class MixedPrecision:
    """Dtypes of parameters while a layer computes, of gradient reduction, and of buffers; None leaves one unchanged.
    Modules of ``_module_classes_to_ignore`` compute in their own dtype."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Any = (_BatchNorm,)


@dataclass
class CPUOffload:
    """Accepted without effect: shards stay on the device of the parameters."""

    offload_params: bool = False


class StateDictType(Enum):
    """Full tensors, this process's elements, or DTensors."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


@dataclass
class StateDictConfig:
    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """``rank0_only``: other processes than the first get an empty state."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    pass


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """``rank0_only``: other processes than the first get an empty state."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    _use_dtensor: bool = False


CONFIGS = {StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
           StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
           StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig)}


@dataclass
class StateDictSettings:
    """Settings of a model's ``state_dict()``."""

    state_dict_type: StateDictType = StateDictType.FULL_STATE_DICT
    state_dict_config: StateDictConfig = field(default_factory=FullStateDictConfig)
    optim_state_dict_config: OptimStateDictConfig = field(default_factory=FullOptimStateDictConfig)


def settings_of(kind: StateDictType, config=None, optim_config=None) -> StateDictSettings:
    """Settings with default configurations.  RuntimeError for configurations of another type of state."""
    if kind not in CONFIGS:
        raise RuntimeError(f"Expected state_dict_type to be a StateDictType, but got {kind}")
    for given, wanted in zip((config, optim_config), CONFIGS[kind]):
        if given is not None and not isinstance(given, wanted):
            raise RuntimeError(f"Expected state_dict_config of type {wanted} but got {type(given)}")
    plain, optim = CONFIGS[kind]
    return StateDictSettings(kind, config if config is not None else plain(),
                             optim_config if optim_config is not None else optim())

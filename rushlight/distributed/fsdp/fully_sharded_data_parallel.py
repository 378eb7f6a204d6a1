"""``FullyShardedDataParallel``: a wrapper whose parameters are split over processes, by the machinery of
``fully_shard``."""
from __future__ import annotations

import contextlib
import copy
import functools
import os
from enum import Enum, auto

import rushlight as torch

from ..._src.core.options import accept_only
from ...utils._pytree import tree_map
from .. import collectives, membership
from ..backends import HOST
from ..device_mesh import DeviceMesh, init_device_mesh
from ..tensor import DTensor
from . import states
from .api import (BackwardPrefetch, CPUOffload, MixedPrecision, ShardingStrategy, StateDictSettings, StateDictType,
                  settings_of)
from .fully import FSDPModule, cast, fully_shard
from .policies import MixedPrecisionPolicy
from .wrap import wrap_below

__all__ = ["FullyShardedDataParallel", "OptimStateKeyType"]

FSDP_WRAPPED_MODULE = "_fsdp_wrapped_module"
FSDP_PREFIX = f"{FSDP_WRAPPED_MODULE}."
BETWEEN = {ShardingStrategy.FULL_SHARD: None, ShardingStrategy.HYBRID_SHARD: None}  # others stay full until backward
HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)


class OptimStateKeyType(Enum):
    """The keys of parameters in optimizer states."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


def kind_of(module, device_id) -> str:
    """Return the device type of a module: that of ``device_id``, to which it is moved, or its current one."""
    if device_id is not None:
        found = torch.device("cuda", device_id) if isinstance(device_id, int) else torch.device(device_id)
        if any(not p.is_meta for p in module.parameters()):
            module.to(found)
        return found.type
    return next((p.device.type for p in module.parameters() if not p.is_meta), HOST)


def mesh_of(group, strategy, mesh, where: str) -> DeviceMesh:
    """Return the mesh of a strategy on a device type: (shards), or (replicas, shards).  ValueError for one that does
    not fit."""
    if mesh is not None:
        if group is not None:
            raise ValueError("Cannot pass both process_group and device_mesh at the same time. Please just pass only "
                             "one of them.")
        if strategy in HYBRID and mesh.ndim != 2:
            raise ValueError(f"device_mesh must be 2D for {strategy}, not {mesh}")
        return mesh
    size = membership.get_world_size(group if not isinstance(group, tuple) else None)
    if strategy in HYBRID:
        if isinstance(group, tuple):  # parts, then replicas
            return DeviceMesh.from_group(list(reversed(group)), where, states.grid_of(group))
        within = int(os.environ.get("LOCAL_WORLD_SIZE", size))
        return init_device_mesh(where, (size // within, within))
    if isinstance(group, tuple):
        raise ValueError("Expected process_group to be passed in as either None or a ProcessGroup for strategies that "
                         "are not hybrid")
    if strategy is ShardingStrategy.NO_SHARD:
        if group is not None and size != membership.get_world_size():
            raise NotImplementedError("NO_SHARD over some of the processes: use DistributedDataParallel")
        return init_device_mesh(where, (size, 1))
    return init_device_mesh(where, (size,)) if group is None else DeviceMesh.from_group(group, where)


class FullyShardedDataParallel(torch.nn.Module):
    """Wraps a module: its parameters, except those of inner wrappers, are sharded over processes between uses.

    Parameters are DTensors, each by itself, whatever ``use_orig_params`` is: there is no flat parameter.
    ``auto_wrap_policy`` (``fsdp.wrap``) wraps modules below; ``mixed_precision`` has dtypes; ``sync_module_states``
    broadcasts the values of the first process; ``param_init_fn(module)`` initializes parameters on the meta device;
    ``ignored_states`` (or ``ignored_modules``) stay unchanged.  ``backward_prefetch``, ``forward_prefetch``,
    ``limit_all_gathers``, ``device_id`` and ``cpu_offload`` do not change results: parameters of the next layer are
    gathered when they are needed, and shards stay on their device.

    >>> import rushlight as torch
    >>> from rushlight.distributed.fsdp import FullyShardedDataParallel as FSDP
    >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    >>> model = FSDP(torch.nn.Linear(2, 1, bias=False))
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> list(model.state_dict()), model.weight.grad.full_tensor()
    (['weight'], tensor([[1., 1.]]))
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(self, module, process_group=None, sharding_strategy=None, cpu_offload=None, auto_wrap_policy=None,
                 backward_prefetch=BackwardPrefetch.BACKWARD_PRE, mixed_precision=None, ignored_modules=None,
                 param_init_fn=None, device_id=None, sync_module_states: bool = False, forward_prefetch: bool = False,
                 limit_all_gathers: bool = True, use_orig_params: bool = False, ignored_states=None, device_mesh=None):
        super().__init__()
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        if cpu_offload is not None and not isinstance(cpu_offload, CPUOffload):
            raise TypeError(f"cpu_offload is a CPUOffload, not {type(cpu_offload).__name__}")
        ignored = states.ignored(ignored_modules, ignored_states)
        self.mesh = mesh_of(process_group, strategy, device_mesh, kind_of(module, device_id))
        self.sharding_strategy, self.mixed_precision = strategy, mixed_precision or MixedPrecision()
        self.process_group = self.mesh.get_group(self.mesh.ndim - 1)
        if auto_wrap_policy is not None:
            inner = functools.partial(
                FullyShardedDataParallel, sharding_strategy=strategy, device_mesh=self.mesh,
                mixed_precision=mixed_precision, param_init_fn=param_init_fn, sync_module_states=sync_module_states,
                ignored_states=ignored, cpu_offload=cpu_offload, use_orig_params=use_orig_params)
            wrap_below(module, auto_wrap_policy, lambda m, **more: inner(m, **more), ignored_modules or (), ignored)
        states.materialized(module, param_init_fn, self.mesh.device_type)
        if sync_module_states:
            self.sent_by_first(module, ignored)
        self.split(module, ignored)
        self._fsdp_wrapped_module = module
        self.settings, self._is_root = StateDictSettings(), None
        self._register_load_state_dict_pre_hook(functools.partial(states.before_loading, self))

    def sent_by_first(self, module, ignored):
        """Gives all processes the values of the first one."""
        with torch.no_grad():
            for tensor in (*module.parameters(), *module.buffers()):
                if tensor not in ignored and not isinstance(tensor, DTensor):
                    for k in range(self.mesh.ndim):
                        collectives.broadcast(tensor.detach(), group=self.mesh.get_group(k), group_src=0)

    def split(self, module, ignored):
        """Shard a module's remaining parameters."""
        mixed = self.mixed_precision
        reshard = BETWEEN.get(self.sharding_strategy, False)
        ignored_classes = tuple(mixed._module_classes_to_ignore)
        if mixed.buffer_dtype is not None:
            for one in module.modules():
                if isinstance(one, ignored_classes):
                    continue
                for name, buffer in one._buffers.items():
                    if buffer is not None and buffer.is_floating_point():
                        one._buffers[name] = buffer.to(mixed.buffer_dtype)
        if mixed.param_dtype is not None and not isinstance(module, ignored_classes):
            for one in list(module.modules()):
                if isinstance(one, ignored_classes) and not isinstance(one, FSDPModule):
                    states.kept_exact(one)
                    fully_shard(one, mesh=self.mesh, reshard_after_forward=reshard, ignored_params=ignored)
        policy = MixedPrecisionPolicy() if isinstance(module, ignored_classes) else MixedPrecisionPolicy(
            mixed.param_dtype, mixed.reduce_dtype, cast_forward_inputs=mixed.cast_forward_inputs)
        if not isinstance(module, FSDPModule):
            fully_shard(module, mesh=self.mesh, reshard_after_forward=reshard, mp_policy=policy, ignored_params=ignored)

    # --- what it wraps ------------------------------------------------------------------------------------------------
    @property
    def module(self):
        return self._fsdp_wrapped_module

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == FSDP_WRAPPED_MODULE:
                raise
            return getattr(self._fsdp_wrapped_module, name)

    def __getitem__(self, key):
        return self._fsdp_wrapped_module[key]

    def check_is_root(self) -> bool:
        """True if no other wrapper contains this one; decided by the first forward."""
        if self._is_root is None:
            for one in FullyShardedDataParallel.fsdp_modules(self):
                one._is_root = one is self
        return self._is_root

    def forward(self, *args, **kwargs):
        mixed = self.mixed_precision
        if self.check_is_root() and mixed.param_dtype is not None and mixed.cast_root_forward_inputs:
            args, kwargs = tree_map(lambda v: cast(v, mixed.param_dtype), (args, kwargs))
        return self._fsdp_wrapped_module(*args, **kwargs)

    def named_parameters(self, *args, **kwargs):
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(FSDP_PREFIX, ""), parameter

    def named_buffers(self, *args, **kwargs):
        for name, buffer in super().named_buffers(*args, **kwargs):
            yield name.replace(FSDP_PREFIX, ""), buffer

    def apply(self, fn):
        """Calls a function on every module, with full parameters."""
        with FullyShardedDataParallel.summon_full_params(self):
            return super().apply(fn)

    @staticmethod
    def fsdp_modules(module, root_only: bool = False) -> list:
        """The wrappers in a module, itself among them; the outermost ones with ``root_only``."""
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        if not root_only:
            return found
        inner = {m for one in found for m in one.modules() if m is not one}
        return [m for m in found if m not in inner]

    # --- gradients ----------------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def no_sync(self):
        """A block whose backward passes do not reduce gradients; the next pass outside sums them all."""
        groups = states.groups_of(self, True)
        before = [g.sync for g in groups]
        for group in groups:
            group.sync = False
        try:
            yield
        finally:
            for group, sync in zip(groups, before):
                group.sync = sync

    @torch.no_grad()
    def clip_grad_norm_(self, max_norm, norm_type=2.0):
        """Scales gradients so that the norm of all of them together is ``max_norm`` at most; that norm before."""
        gradients = [p.grad for p in self.parameters() if p.grad is not None]
        total = states.norm_of(gradients, float(norm_type))
        factor = (float(max_norm) / (total + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            local = gradient._local_tensor if isinstance(gradient, DTensor) else gradient
            local.mul_(factor.to(local.dtype))
        return total

    def register_comm_hook(self, state, hook):
        """Registers ``hook(state, gradients, output)``, which averages the gradients of each layer, or in place
        ``hook(state, gradients)`` if parameters are not sharded (``fsdp/hooks.py``).

        AssertionError for a wrapper within another, for hybrid strategies, and for a second hook; ValueError for a
        value that is not callable.
        """
        if not self.check_is_root():
            raise AssertionError("register_comm_hook can only be called on a root instance.")
        if not callable(hook):
            raise ValueError(f"The communication hook must be callable but got {hook}")
        if self.sharding_strategy in HYBRID:
            raise AssertionError("Communication hook is not supported for hybrid strategies: "
                                 f"{self.sharding_strategy}")
        groups = states.groups_of(self, True)
        if any(group.hook is not None for group in groups):
            raise AssertionError("A communication hook is already registered")
        whole = self.sharding_strategy is ShardingStrategy.NO_SHARD

        def average(gradients, output):
            if whole:
                hook(state, gradients)
                output.copy_(gradients)
            else:
                hook(state, gradients, output)
        for group in groups:
            group.hook = average

    # --- whole parameters ---------------------------------------------------------------------------------------------
    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(module, recurse: bool = True, writeback: bool = True, rank0_only: bool = False,
                           offload_to_cpu: bool = False, with_grads: bool = False):
        """A block in which parameters are full plain tensors; with ``writeback`` changes to them are kept."""
        if rank0_only and writeback:
            raise NotImplementedError("writeback=True and rank0_only=True is not supported: processes would end up "
                                      "with different parameters")
        if offload_to_cpu and not all(p.device.provider.on_host for p in module.parameters()):
            accept_only("FSDP.summon_full_params", "copy the parameters within the block", offload_to_cpu=(True, False))
        groups = states.groups_of(module, recurse)
        for group in groups:
            group.unshard()
            group.held = True
        if with_grads:
            states.show_gradients(groups)
        try:
            yield
        finally:
            for group in groups:
                group.held = False
                if writeback and group.is_whole:
                    states.keep_written(group)
                if with_grads:
                    states.hide_gradients(group)
                group.reshard()

    # --- states -------------------------------------------------------------------------------------------------------
    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """Returns the state dict of the type set by ``set_state_dict_type``: by default full tensors."""
        found = self._fsdp_wrapped_module.state_dict(*args, destination=destination, prefix=prefix, keep_vars=keep_vars)
        return states.converted(found, prefix, self.settings)

    @staticmethod
    def set_state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        """Set the kind of ``state_dict()`` of a model; return the previous settings."""
        wrappers = FullyShardedDataParallel.fsdp_modules(module)
        before = FullyShardedDataParallel.get_state_dict_type(module) if wrappers else StateDictSettings()
        for one in wrappers:
            one.settings = settings_of(state_dict_type, state_dict_config, optim_state_dict_config)
        return before

    @staticmethod
    def get_state_dict_type(module) -> StateDictSettings:
        """Returns the settings of a model's ``state_dict()``."""
        wrappers = FullyShardedDataParallel.fsdp_modules(module)
        if not wrappers:
            raise ValueError("get_state_dict_type: the module has no FullyShardedDataParallel in it")
        return copy.copy(wrappers[0].settings)

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(module, state_dict_type: StateDictType, state_dict_config=None, optim_state_dict_config=None):
        """A block in which ``state_dict()`` gives another type of state."""
        set_type = FullyShardedDataParallel.set_state_dict_type
        before = set_type(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            for one in FullyShardedDataParallel.fsdp_modules(module):
                one.settings = before

    @staticmethod
    def optim_state_dict(model, optim, optim_state_dict=None, group=None) -> dict:
        """The state of an optimizer, or ``optim_state_dict`` of ``optim.state_dict()``, by names of parameters, of the
        type chosen for the model."""
        if optim_state_dict is not None:
            optim = states.optimizer_with(optim, optim_state_dict)
        return states.optimizer_state(model, optim, FullyShardedDataParallel.get_state_dict_type(model))

    @staticmethod
    def optim_state_dict_to_load(model, optim, optim_state_dict, is_named_optimizer: bool = False,
                                 load_directly: bool = False, group=None) -> dict:
        """Converts such a state for ``optim.load_state_dict``; ``load_directly`` loads it."""
        accept_only("FSDP.optim_state_dict_to_load", "give an optimizer of torch.optim",
                    is_named_optimizer=(is_named_optimizer, False))
        found = states.optimizer_loadable(model, optim, optim_state_dict)
        if load_directly:
            optim.load_state_dict(found)
        return found

    @staticmethod
    def full_optim_state_dict(model, optim, optim_input=None, rank0_only: bool = True, group=None) -> dict:
        """Returns the state of an optimizer with full tensors; ``{}`` in other processes than the first with
        ``rank0_only``."""
        return states.optimizer_state(model, optim, states.whole_settings(rank0_only))

    @staticmethod
    def sharded_optim_state_dict(model, optim, group=None) -> dict:
        """The state of an optimizer with DTensors."""
        return states.optimizer_state(model, optim, settings_of(StateDictType.SHARDED_STATE_DICT))

    @staticmethod
    def shard_full_optim_state_dict(full_optim_state_dict, model, optim_input=None, optim=None) -> dict:
        """Converts a state with full tensors for ``optim.load_state_dict``."""
        return states.optimizer_loadable(model, optim, full_optim_state_dict)

    @staticmethod
    def scatter_full_optim_state_dict(full_optim_state_dict, model, optim_input=None, optim=None, group=None) -> dict:
        """Converts the first process's state with full tensors for ``optim.load_state_dict``, in all processes."""
        return states.optimizer_loadable(model, optim, full_optim_state_dict, from_first=True)

    @staticmethod
    def flatten_sharded_optim_state_dict(sharded_optim_state_dict, model, optim) -> dict:
        """Converts a state with DTensors for ``optim.load_state_dict``."""
        return states.optimizer_loadable(model, optim, sharded_optim_state_dict)

    @staticmethod
    def rekey_optim_state_dict(optim_state_dict, optim_state_key_type, model, optim_input=None, optim=None) -> dict:
        """Converts a state by parameter names to one by indices, or the reverse.  Indices count the parameters of
        ``optim``, or those of ``optim_input``, else those of the model."""
        parameters = states.numbered_parameters(model, optim_input, optim)
        return states.rekeyed(optim_state_dict, optim_state_key_type is OptimStateKeyType.PARAM_NAME, model, parameters)

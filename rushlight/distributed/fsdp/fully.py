"""``fully_shard``: layers whose parameters are split between uses."""
from __future__ import annotations

import rushlight as torch

from ..._src.compiling import disable
from ...autograd.graph import saved_tensors_hooks
from ...utils._pytree import tree_leaves, tree_map
from ..tensor.placement_types import Shard
from .group import LIVE, Group, Member, world_mesh
from .policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy

__all__ = ["fully_shard", "FSDPModule", "UnshardHandle", "register_fsdp_forward_method"]


class UnshardHandle:
    """Parameters that are on their way."""

    def __init__(self, group):
        self.group = group

    def wait(self):
        """Return when the parameters are full."""
        if self.group is not None:
            self.group.unshard()


class State:
    """The state of a module under ``fully_shard``."""

    def __init__(self, group, reshard, policy):
        self.group, self.reshard, self.policy = group, reshard, policy
        self.ahead_forward, self.ahead_backward, self.root, self.reshard_backward = [], [], None, True

    def parts_after(self, module) -> bool:
        """True if a module's parameters are sharded between its forward and its backward."""
        return self.reshard if self.reshard is not None else self.root is not module


def taken(tensor):
    """Pack a saved tensor: a full parameter becomes (its member, shape, strides, offset)."""
    member = LIVE.get(id(tensor._rush_storage))
    if member is None or member.tensor_mesh is not None:
        return tensor
    return member, tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset()


def brought(kept):
    """Unpack a saved tensor: the full parameter again."""
    if isinstance(kept, torch.Tensor):
        return kept
    member, shape, strides, offset = kept
    member.group.unshard()
    return member.full.detach().as_strided(shape, strides, offset)


@disable
def before_forward(module, args, kwargs):
    """Unshard the parameters; return (arguments in their dtypes, the block of saved-tensor hooks, or None)."""
    state = module._fsdp
    if state.root is None:
        adopt(module)
    if state.policy.cast_forward_inputs and state.policy.param_dtype is not None:
        args, kwargs = tree_map(lambda v: cast(v, state.policy.param_dtype), (args, kwargs))
    state.group.unshard()
    for other in state.ahead_forward:
        other._fsdp.group.begin()
    keeping = None
    if state.parts_after(module) and torch.is_grad_enabled():
        keeping = saved_tensors_hooks(taken, brought)
        keeping.__enter__()
    return args, kwargs, keeping


@disable
def left(module, keeping):
    """The end of a forward pass, be it by an error."""
    if keeping is not None:
        keeping.__exit__(None, None, None)
    if module._fsdp.parts_after(module):
        module._fsdp.group.reshard()


@disable
def after_forward(module, outputs):
    """Return the outputs in their dtype, with hooks for the start of their backward."""
    dtype = module._fsdp.policy.output_dtype
    if dtype is not None:
        outputs = tree_map(lambda v: cast(v, dtype), outputs)
    for leaf in tree_leaves(outputs):
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
            leaf.register_hook(lambda gradient: before_backward(module))
    return outputs


class FSDPModule:
    """The class of modules that ``fully_shard`` was called on, besides their own."""

    def forward(self, *args, **kwargs):
        args, kwargs, keeping = before_forward(self, args, kwargs)
        try:
            outputs = super().forward(*args, **kwargs)
        finally:
            left(self, keeping)
        return after_forward(self, outputs)

    def unshard(self, async_op: bool = False):
        """Unshards the parameters; with ``async_op`` it only starts, and the handle's ``wait()`` returns when they are
        full."""
        if async_op:
            self._fsdp.group.begin()
            return UnshardHandle(self._fsdp.group)
        self._fsdp.group.unshard()
        return None

    def reshard(self):
        """Leaves the parts alone."""
        self._fsdp.group.reshard()

    def each(self, recurse: bool):
        return [m for m in (self.modules() if recurse else (self,)) if isinstance(m, FSDPModule)]

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True):
        """Sets if backward passes sum gradients over processes; without, they accumulate in each."""
        for module in self.each(recurse):
            module._fsdp.group.sync = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True):
        """Set if gradients are summed over replicas, if the mesh has any."""
        for module in self.each(recurse):
            module._fsdp.group.reduce_replicas = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True):
        """Sets if parameters are sharded between forward and backward."""
        for module in self.each(recurse):
            module._fsdp.reshard = reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True):
        """Sets if parameters are sharded after backward."""
        for module in self.each(recurse):
            module._fsdp.reshard_backward = reshard_after_backward

    def set_is_last_backward(self, is_last_backward: bool):
        """Accepted without effect: every backward pass completes all communication."""

    def set_gradient_divide_factor(self, factor: float):
        """Set the divisor of summed gradients, in place of the number of processes."""
        self._fsdp.group.divisor = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_modules_to_forward_prefetch(self, modules: list):
        """Gathers the parameters of these modules while this one computes forward."""
        self._fsdp.ahead_forward = list(modules)

    def set_modules_to_backward_prefetch(self, modules: list):
        """Gathers the parameters of these modules while this one computes backward."""
        self._fsdp.ahead_backward = list(modules)


def cast(value, dtype):
    return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def adopt(root):
    """Make the first module that runs the root of those in it: by default it stays full between forward and
    backward."""
    for module in root.each(True):
        module._fsdp.root = module._fsdp.root or root


def before_backward(module):
    """Unshard the parameters when the gradient of an output arrives; they are resharded at the end of the pass."""
    state = module._fsdp
    state.group.unshard()
    for other in state.ahead_backward:
        other._fsdp.group.begin()
    root = state.root
    if not getattr(root, "_fsdp_under_way", False):
        root._fsdp_under_way = True
        torch.autograd.Variable._execution_engine.queue_callback(lambda: after_backward(root))


def after_backward(root):
    """End a backward pass: sum the remaining gradients, and reshard the parameters."""
    root._fsdp_under_way = False
    for module in root.each(True):
        group = module._fsdp.group
        if group.coming is not None:  # asked for, and not used
            group.unshard()
        group.reduce()
        if module._fsdp.reshard_backward:
            group.reshard()


def owned(modules, ignored) -> dict:
    """Parameter -> (module, name) of each that has it, of modules and those below them that no other call has taken."""
    found: dict = {}

    def visit(module, top):
        if isinstance(module, FSDPModule) and not top:
            return
        for name, parameter in module._parameters.items():
            if parameter is not None and parameter not in ignored:
                found.setdefault(parameter, []).append((module, name))
        for child in module.children():
            visit(child, False)

    for module in modules:
        visit(module, True)
    return found


def fully_shard(module, *, mesh=None, reshard_after_forward=None, shard_placement_fn=None,
                mp_policy=MixedPrecisionPolicy(), offload_policy=OffloadPolicy(),
                ignored_params=None):
    """Shards the parameters of a module that no inner call has taken; they are full while it computes, forward and
    backward.  Returns the module, now an FSDPModule, too.

    ``mesh``: a mesh of one dimension, or of (replicas, shards); ``reshard_after_forward``: True if parameters are
      sharded between forward and backward (default: except for the outermost module);
      ``shard_placement_fn(parameter)``: the dimension to shard, as a Shard (default: the first).
    ValueError for a module that is an FSDPModule already.

    >>> import rushlight as torch
    >>> from rushlight.distributed.fsdp import fully_shard
    >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    >>> model = fully_shard(torch.nn.Linear(2, 1))
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> model.weight.grad.full_tensor()
    tensor([[1., 1.]])
    >>> torch.distributed.destroy_process_group()
    """
    modules = list(module) if isinstance(module, (list, tuple)) else [module]
    mesh = mesh if mesh is not None else world_mesh(module)
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    if any(isinstance(m, FSDPModule) for m in modules):
        raise ValueError("fully_shard was called on this module already")
    if not isinstance(offload_policy, (OffloadPolicy, CPUOffloadPolicy)):
        raise TypeError(f"offload_policy is an OffloadPolicy, not {type(offload_policy).__name__}")
    members = []
    for parameter, places in owned(modules, set(ignored_params or ())).items():
        placement = shard_placement_fn(parameter) if shard_placement_fn is not None else None
        dim = (placement or Shard(0)).dim % max(parameter.dim(), 1)
        if not parameter.dim():
            raise ValueError(
                "fully_shard doesn't support scalar parameters. Change a scalar parameter to a 1D tensor with numel "
                "equal to 1.")
        members.append(Member(parameter, places, mesh, dim, mp_policy.param_dtype))
    group = Group(members, mesh, mp_policy)
    group.announce(", ".join(type(one).__name__ for one in modules))
    for member in members:
        member.group = group
        member.show(member.sharded)
    for one in modules:
        one._fsdp = State(group, reshard_after_forward, mp_policy)
        one.__class__ = type(f"FSDP{type(one).__name__}", (FSDPModule, type(one)), {})
    for holder in {m for member in members for m, _ in member.places}:  # states are of parts
        holder.register_state_dict_pre_hook(lambda *_: group.put_away())
        holder._register_load_state_dict_pre_hook(lambda *_: group.put_away())
    return module


def register_fsdp_forward_method(module, method_name: str):
    """Has another method of an FSDPModule unshard parameters, as ``forward`` does."""
    own = getattr(module, method_name)

    def run(*args, **kwargs):
        module._fsdp.group.unshard()
        try:
            return own(*args, **kwargs)
        finally:
            if module._fsdp.root is not module:
                module._fsdp.group.reshard()
    setattr(module, method_name, run)

"""State dicts of models and optimizers under FullyShardedDataParallel, full or sharded."""
from __future__ import annotations

import copy
from collections import defaultdict

import rushlight as torch

from .. import collectives, membership
from ..checkpoint import state_dict as helpers
from ..checkpoint import whole_state
from ..tensor import DTensor, distribute_tensor
from .api import StateDictType, settings_of
from .fully import FSDPModule

PREFIX = "_fsdp_wrapped_module."


def grid_of(groups) -> list:
    """Return the ranks of a mesh of (replicas, shards) from this process's groups: ``groups[0]`` of shards and
    ``groups[1]`` of replicas."""
    parts = membership.get_process_group_ranks(groups[0])
    replicas = membership.get_process_group_ranks(groups[1])
    own = membership.get_rank()
    return [[r - own + p for p in parts] for r in replicas]


def ignored(modules, given) -> set:
    """Return the ignored parameters.  ValueError if both arguments are given."""
    if modules is not None and given is not None:
        raise ValueError("Cannot pass both ignored_modules and ignored_states at the same time. Please just pass "
                         "ignored_states.")
    found = set()
    for one in (*(modules or ()), *(given or ())):
        found.update(one.parameters() if isinstance(one, torch.nn.Module) else [one])
    return found


def materialized(module, init, where: str):
    """Gives memory on a kind of device, and values, to parameters on the device meta: by ``init(module)``, or by the
    module's own ``reset_parameters()``."""
    for one in module.modules():
        own = [t for t in (*one._parameters.values(), *one._buffers.values()) if t is not None]
        if not any(t.is_meta for t in own) or isinstance(one, FSDPModule):
            continue
        if init is not None:
            init(one)
        else:
            one.to_empty(device=where, recurse=False)
            if not hasattr(one, "reset_parameters"):
                raise ValueError(f"{type(one).__name__} has parameters on the device meta and no reset_parameters(): "
                                 "give param_init_fn")
            with torch.no_grad():
                one.reset_parameters()


def kept_exact(module):
    """Have a module keep its dtype among those of lower precision: its inputs are cast, and its output back."""
    def wide(mod, args):
        mod._fsdp_given = next((a.dtype for a in args if isinstance(a, torch.Tensor) and a.is_floating_point()), None)
        return tuple(a.float() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args)

    def back(mod, args, out):
        return out.to(mod._fsdp_given) if isinstance(out, torch.Tensor) and mod._fsdp_given is not None else out
    module.register_forward_pre_hook(wide)
    module.register_forward_hook(back)


def groups_of(module, recurse: bool) -> list:
    """The groups of parameters of a module, and of those below."""
    top = getattr(module, "_fsdp_wrapped_module", module)
    modules = module.modules() if recurse else (top,)
    return [m._fsdp.group for m in modules if isinstance(m, FSDPModule)]


def keep_written(group):
    """Copy changes of full parameters to the shards."""
    with torch.no_grad():
        for m in group.members:
            full = m.full._local_tensor if isinstance(m.full, DTensor) else m.full.detach()
            start = sum(m.lengths[:group.mesh.get_coordinate()[-1]])
            m.sharded._local_tensor.copy_(full.narrow(m.dim, start if m.own else 0, m.own))


def show_gradients(groups):
    for group in groups:
        for m in group.members:
            if m.sharded.grad is not None:
                m.full.grad = m.sharded.grad.full_tensor().to(m.full.dtype)


def hide_gradients(group):
    for m in group.members:
        if m.full.grad is not None and m.sharded.grad is not None:
            m.sharded.grad = whole_state.split_as(m.full.grad.to(m.sharded.grad.dtype), m.sharded.grad)
        m.full.grad = None


def norm_of(gradients, kind: float):
    """Return the total norm of sharded gradients."""
    kinds, gradients = {}, list(gradients)
    for gradient in gradients:
        if isinstance(gradient, DTensor):
            key = gradient.device_mesh, tuple(k for k, p in enumerate(gradient.placements) if p.is_shard())
            kinds.setdefault(key, []).append(gradient._local_tensor)
        else:
            kinds.setdefault((None, ()), []).append(gradient)
    where = gradients[0].device if gradients else None
    total = torch.zeros((), device=where)
    extreme = kind == float("inf")
    for (mesh, dims), locals_ in kinds.items():
        values = [t.float().abs().max() if extreme else t.float().abs().pow(kind).sum() for t in locals_ if t.numel()]
        own = torch.zeros((), device=where) if not values else torch.stack(values).max() if extreme else torch.stack(
            values).sum()
        for dim in dims:
            collectives.all_reduce(own, torch.distributed.ReduceOp.MAX if extreme else torch.distributed.ReduceOp.SUM,
                                   group=mesh.get_group(dim))
        total = torch.maximum(total, own) if extreme else total + own
    return total if extreme else total.pow(1.0 / kind)


# --- states of models -------------------------------------------------------------------------------------------------
def converted(state, prefix: str, settings):
    """Return a state dict with a wrapper's parameters converted by its settings."""
    kind = settings.state_dict_type
    kept = not getattr(settings.state_dict_config, "rank0_only", False) or membership.get_rank() == 0
    for name in [n for n in state if n.startswith(prefix)]:
        value = state[name]
        if isinstance(value, DTensor) and kind is StateDictType.FULL_STATE_DICT:
            value = value.detach().full_tensor()
        elif isinstance(value, DTensor) and kind is StateDictType.LOCAL_STATE_DICT:
            value = value._local_tensor.detach()
        if kept or kind is not StateDictType.FULL_STATE_DICT:
            state[name] = value
        else:
            del state[name]
    return state


def before_loading(wrapper, state, prefix, *_):
    """Adapt a state dict to a wrapper: rename keys as the wrapper's, and take this process's shards."""
    own = dict(wrapper._fsdp_wrapped_module.named_parameters())
    own = {name.replace(PREFIX, ""): p for name, p in own.items()}
    for name in [n for n in state if n.startswith(prefix)]:
        rest = name[len(prefix):]
        value, parameter = state.pop(name), own.get(rest)
        if isinstance(parameter, DTensor) and not isinstance(value, DTensor):
            if wrapper.settings.state_dict_type is StateDictType.LOCAL_STATE_DICT:
                value = DTensor.wrapped(value, parameter.device_mesh, parameter.placements, parameter._rush_meta)
            else:
                value = distribute_tensor(value.detach(), parameter.device_mesh, parameter.placements,
                                          src_data_rank=None)
        state[f"{prefix}{PREFIX}{rest}"] = value


# --- states of optimizers ---------------------------------------------------------------------------------------------
def whole_settings(first_only: bool):
    from .api import FullOptimStateDictConfig
    return settings_of(StateDictType.FULL_STATE_DICT, None, FullOptimStateDictConfig(rank0_only=first_only))


def optimizer_state(model, optimizer, settings) -> dict:
    """The state of an optimizer by names of parameters."""
    if settings.state_dict_type is StateDictType.FULL_STATE_DICT:
        config = settings.optim_state_dict_config
        options = helpers.StateDictOptions(full_state_dict=True, cpu_offload=getattr(config, "rank0_only", False))
        return helpers.get_optimizer_state_dict(model, optimizer, options=options)
    found = helpers.get_optimizer_state_dict(model, optimizer)
    if settings.state_dict_type is StateDictType.LOCAL_STATE_DICT:
        found = whole_state.mapped(found, lambda path, v: v._local_tensor if isinstance(v, DTensor) else v)
    return found


def optimizer_loadable(model, optimizer, state, from_first: bool = False) -> dict:
    """Convert a state by names for ``optimizer.load_state_dict``, with this process's shards."""
    options = helpers.StateDictOptions(full_state_dict=True, broadcast_from_rank0=from_first)
    return helpers.loadable(model, [optimizer], state or {}, options)[0][1]


def optimizer_with(optimizer, given):
    """Return a copy of an optimizer over the same parameters whose state is ``given``, by parameter indices."""
    made = copy.copy(optimizer)
    parameters = numbered_parameters(None, None, optimizer)
    made.state = defaultdict(dict, {parameters[number]: value for number, value in given["state"].items()})
    made.param_groups = [{**group, "params": [parameters[number] for number in group["params"]]}
                         for group in given["param_groups"]]
    return made


def numbered_parameters(model, optim_input, optimizer) -> list:
    """Return parameters in the order of the indices in optimizer states."""
    if optimizer is None and optim_input is None:
        return list(model.parameters())
    groups = list(optimizer.param_groups if optim_input is None else optim_input)
    return [p for group in groups for p in (group["params"] if isinstance(group, dict) else [group])]


def rekeyed(state, by_name: bool, model, parameters) -> dict:
    """Convert a state by indices of ``parameters`` to one by names, or the reverse."""
    known = {id(p): helpers.own_name(model, n) for n, p in model.named_parameters()}
    names = [known[id(p)] for p in parameters]
    change = dict(enumerate(names)) if by_name else {n: k for k, n in enumerate(names)}
    groups = [{**group, "params": [change[p] for p in group["params"]]} for group in state["param_groups"]]
    return {"state": {change[key]: value for key, value in state["state"].items()}, "param_groups": groups}

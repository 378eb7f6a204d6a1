"""States of models and optimizers by the names of parameters as the model itself has them, however it is wrapped."""
from __future__ import annotations

import contextlib
from dataclasses import dataclass

import rushlight as torch

from ..fsdp.api import StateDictType, settings_of
from . import whole_state

AROUND = ("_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module.")  # name parts added by wrappers
STATE, GROUPS, PARAMS = "state", "param_groups", "params"


@dataclass
class StateDictOptions:
    """Options for reading and loading state dicts.

    ``full_state_dict``: tensors are unsharded, in every process; with ``cpu_offload`` in the first one alone, and the
    others read ``{}``.  ``broadcast_from_rank0``: all processes load what the first one loads, and the arguments of
    the others are ignored; ValueError without ``full_state_dict``.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def checked(options) -> StateDictOptions:
    """The options, or default ones."""
    options = options or StateDictOptions()
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    return options


def as_asked(state, options):
    """Return a state dict that was read: unsharded with ``full_state_dict``."""
    return whole_state.put_together(state, options.cpu_offload) if options.full_state_dict else state


def as_it_lies(state, options, model_of):
    """Return a state dict to load: full tensors become sharded as their targets, ``model_of(path)``."""
    if not options.full_state_dict:
        return state
    if options.broadcast_from_rank0 and not whole_state.alone():
        return whole_state.sent_by_first(state, model_of)
    return whole_state.split(state, model_of)


@contextlib.contextmanager
def as_parts(model):
    """A block in which FullyShardedDataParallel wrappers give states of parts."""
    wrappers = [m for m in model.modules() if "_fsdp_wrapped_module" in m._modules]
    before = [w.settings for w in wrappers]
    for wrapper in wrappers:
        wrapper.settings = settings_of(StateDictType.SHARDED_STATE_DICT)
    try:
        yield
    finally:
        for wrapper, settings in zip(wrappers, before):
            wrapper.settings = settings


def own_name(model, name: str) -> str:
    """Return a name in the model without the parts of wrappers: ``module.`` of data parallel ones, ``_orig_mod.`` of
    compiled ones, and those of checkpointed ones."""
    kept, module, parts = [], model, name.split(".")
    for part in parts:
        wrapped = isinstance(module, (torch.nn.parallel.DistributedDataParallel,
                                      torch.nn.DataParallel)) and part == "module"
        if not wrapped and f"{part}." not in AROUND:
            kept.append(part)
        module = getattr(module, part, None)
    return ".".join(kept)


def names_of(model) -> dict:
    """Own name -> name in ``model.state_dict()``."""
    return {own_name(model, name): name for name in model.state_dict()}


def parameters_of(model) -> dict:
    """Parameter -> own name."""
    return {parameter: own_name(model, name) for name, parameter in model.named_parameters()}


def below(model, submodules) -> tuple | None:
    """The beginnings of names within some modules; None for all."""
    if not submodules:
        return None
    return tuple(f"{own_name(model, name)}." for name, module in model.named_modules() if module in submodules)


def get_model_state_dict(model, *, submodules=None, options=None) -> dict:
    """Own name -> tensor.

    >>> import rushlight as torch
    >>> list(get_model_state_dict(torch.compile(torch.nn.Linear(2, 1))))
    ['weight', 'bias']
    """
    options = checked(options)
    frozen = {name for parameter, name in parameters_of(model).items()
              if not parameter.requires_grad} if options.ignore_frozen_params else ()
    with as_parts(model):
        prefixes, state, names = below(model, submodules), model.state_dict(), names_of(model)
    found = {}
    for own, name in names.items():
        if own in frozen or prefixes is not None and not own.startswith(prefixes):
            continue
        short = own if prefixes is None or options.keep_submodule_prefixes else next(own[len(p):] for p in prefixes
                                                                                     if own.startswith(p))
        found[short] = state[name]
    return as_asked(found, options)


def listed(optimizers) -> tuple:
    return (optimizers,) if isinstance(optimizers, torch.optim.Optimizer) else tuple(optimizers)


def begin(optimizer):
    """Have an optimizer without state make it, by a step with a learning rate of 0 and gradients of 0."""
    parameters = [p for group in optimizer.param_groups for p in group[PARAMS]]
    if optimizer.state or any(p.grad is not None for p in parameters):
        return
    lengths = [group.get("lr") for group in optimizer.param_groups]
    for parameter in parameters:
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    for group, length in zip(optimizer.param_groups, lengths):
        if length is not None:
            group["lr"] = torch.tensor(0.0) if isinstance(length, torch.Tensor) else 0.0
    optimizer.step(closure=None)
    for group, length in zip(optimizer.param_groups, lengths):
        if length is not None:
            group["lr"] = length
    optimizer.zero_grad(set_to_none=True)


def get_optimizer_state_dict(model, optimizers, *, submodules=None, options=None) -> dict:
    """``{"state": {own name: {key: value}}, "param_groups": [{"params": own names, ...}]}`` of one optimizer or
    several; with
    ``flatten_optimizer_state_dict``: ``state.<name>.<key>`` and ``param_groups.<name>.<key>``.  An optimizer without
      state makes it first."""
    options = checked(options)
    names, prefixes = parameters_of(model), below(model, submodules)
    states, groups = {}, []
    for optimizer in listed(optimizers):
        begin(optimizer)
        for group in optimizer.param_groups:
            inside = [p for p in group[PARAMS] if prefixes is None or names[p].startswith(prefixes)]
            states.update({names[p]: dict(optimizer.state[p]) for p in inside if p in optimizer.state})
            groups.append({**{key: value for key, value in group.items() if key != PARAMS},
                           PARAMS: [names[p] for p in inside]})
    return as_asked(flat(states, groups) if options.flatten_optimizer_state_dict
                    else {STATE: states, GROUPS: groups}, options)


def flat(states, groups) -> dict:
    found = {f"{STATE}.{name}.{key}": value for name, state in states.items() for key, value in state.items()}
    for group in groups:
        found.update({f"{GROUPS}.{name}.{key}": value for name in group[PARAMS] for key, value in group.items()
                      if key != PARAMS})
    return found


def get_state_dict(model, optimizers, *, submodules=None, options=None) -> tuple:
    """Both of them: (of the model, of the optimizers)."""
    return (get_model_state_dict(model, submodules=submodules, options=options),
            get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options))


def set_model_state_dict(model, model_state_dict, *, options=None):
    """Loads own name -> tensor; returns the names that are missing and those that were not expected.  RuntimeError for
    either where ``strict``."""
    options = checked(options)
    with as_parts(model):
        names, own = names_of(model), model.state_dict()
    given = as_it_lies({names.get(name, name): value for name, value in model_state_dict.items()}, options,
                       lambda path: own.get(path[0]))
    strict = options.strict and not options.ignore_frozen_params
    nowhere = any(getattr(t, "_local_tensor", t).is_meta for t in own.values() if isinstance(t, torch.Tensor))
    with as_parts(model):
        return model.load_state_dict(given, strict=strict, assign=nowhere)


def value_of(group, key, state_dict, names):
    """Return a group's option from a flat or nested state dict, or the group's own value."""
    if GROUPS not in state_dict:
        return next((state_dict[f"{GROUPS}.{n}.{key}"] for n in names if f"{GROUPS}.{n}.{key}" in state_dict),
                    group[key])
    return next((g[key] for g in state_dict[GROUPS] if set(names) & set(g[PARAMS]) and key in g), group[key])


def held_at(held, path):
    """Return an optimizer's value at a path of a nested or flat state dict; None if the path is not parameter state."""
    if path[0] == STATE and len(path) == 3:
        return held.get(path[1], {}).get(path[2])
    beginning, _, rest = str(path[0]).partition(".")
    name, _, key = rest.rpartition(".")
    return held.get(name, {}).get(key) if beginning == STATE else None


def set_optimizer_state_dict(model, optimizers, optim_state_dict, *, options=None) -> None:
    """Loads a state dict of ``get_optimizer_state_dict``.  RuntimeError if a parameter's state is missing and
    ``strict``."""
    options = checked(options)
    if optim_state_dict or options.broadcast_from_rank0:
        for optimizer, state in loadable(model, listed(optimizers), optim_state_dict, options):
            optimizer.load_state_dict(state)


def loadable(model, optimizers, optim_state_dict, options) -> list:
    """Return (optimizer, its state for its ``load_state_dict``) of each."""
    names = parameters_of(model)
    for optimizer in optimizers:
        begin(optimizer)
    held = {names[parameter]: state for optimizer in optimizers for parameter, state in optimizer.state.items()
            if parameter in names}
    optim_state_dict = as_it_lies(optim_state_dict, options, lambda path: held_at(held, path))
    return [(optimizer, loadable_by(optimizer, names, optim_state_dict, options)) for optimizer in optimizers
            if optim_state_dict]


def loadable_by(optimizer, names, optim_state_dict, options) -> dict:
    """Return a state dict by names as one optimizer's, by parameter indices."""
    states, groups, number = {}, [], 0
    for group in optimizer.param_groups:
        own = [names[p] for p in group[PARAMS]]
        for k, (parameter, name) in enumerate(zip(group[PARAMS], own)):
            keys = optimizer.state.get(parameter, {})
            state = optim_state_dict[STATE].get(name) if STATE in optim_state_dict else {
                key: optim_state_dict[f"{STATE}.{name}.{key}"] for key in keys
                if f"{STATE}.{name}.{key}" in optim_state_dict}
            if keys and not state and options.strict:
                raise RuntimeError(
                    f"Missing optimizer state for parameter {name} in checkpoint. Set strict=False to skip this.")
            if state:
                states[number + k] = state
        groups.append({**{key: value_of(group, key, optim_state_dict, own) for key in group if key != PARAMS},
                       PARAMS: list(range(number, number + len(own)))})
        number += len(own)
    return {STATE: states, GROUPS: groups}


def set_state_dict(model, optimizers, *, model_state_dict, optim_state_dict, options=None):
    """Loads both of them; returns the result of ``set_model_state_dict``."""
    found = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return found


def _init_optim_state(optim):
    """Has an optimizer without state make it, by a step with gradients of zero and a learning rate of zero; does
    nothing if there are gradients."""
    parameters = [p for group in optim.param_groups for p in group["params"]]
    if optim.state or any(p.grad is not None for p in parameters):
        return
    rates = [group["lr"] for group in optim.param_groups if "lr" in group]
    for p in parameters:
        if p.requires_grad:
            p.grad = torch.zeros_like(p)
    for group in optim.param_groups:
        if "lr" in group:
            group["lr"] = torch.zeros_like(group["lr"]) if isinstance(group["lr"], torch.Tensor) else 0.0
    optim.step(closure=None)
    for group, rate in zip((g for g in optim.param_groups if "lr" in g), rates):
        group["lr"] = rate
    optim.zero_grad(set_to_none=True)

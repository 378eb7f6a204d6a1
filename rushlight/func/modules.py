"""Modules as functions of their parameters."""
from __future__ import annotations

from contextlib import contextmanager

from .._src.core.native import Tensor
from .._src.core.op import OPS


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """Calls a module with other tensors in the place of its parameters and buffers, which stay as they are.

    ``parameter_and_buffer_dicts``: a dictionary by qualified name, or several (with no name twice).  Other names are
    attributes of the module that hold tensors, or that it gets for the call.  A name that the call assigns to has its
    new tensor in the dictionary afterwards.  ``tie_weights``: names of one and the same tensor are replaced together.
    ``strict``: RuntimeError where names are not exactly those of the module's parameters and buffers.
    ``args``: one argument, or a tuple.

    >>> functional_call(torch.nn.Linear(1, 1, bias=False), {"weight": torch.ones(1, 1)}, torch.ones(1)).item()
    1.0
    """
    from ..jit.kinds import Made

    if isinstance(module, Made):
        raise RuntimeError("The stateless API can't be used with Jitted modules")
    given = merged(parameter_and_buffer_dicts)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with replacing(module, find_replacements(module, given, tie_weights, strict)):
        try:
            return module(*args, **(kwargs or {}))
        finally:
            given.update({name: value for name, value in read(module, given).items() if value is not given[name]})


def find_replacements(module, given, tie_weights: bool, strict: bool) -> dict:
    """Return the given tensors under every name that they replace. RuntimeError if ``strict`` and names differ."""
    own = dict(all_named(module)) if tie_weights or strict else {}
    every = tied(own, given) if tie_weights else dict(given)
    if strict and set(every) != set(own):
        differing = {"Unexpected": set(every) - set(own), "Missing": set(own) - set(every)}
        told = [f"{what} key(s): {', '.join(map(repr, sorted(names)))}." for what, names in differing.items() if names]
        raise RuntimeError("\n\t".join([f"Error(s) in reparametrizing for {type(module).__name__}:", *told]))
    return every


def merged(dicts) -> dict:
    if isinstance(dicts, dict):
        return dicts
    if not isinstance(dicts, (tuple, list)):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}")
    out = {}
    for one in dicts:
        if not isinstance(one, dict):
            raise ValueError(f"Expected all elements of parameter_and_buffer_dicts to be dictionaries, got {type(one)}")
        twice = sorted(set(out) & set(one))
        if twice:
            raise ValueError(f"{twice} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        out.update(one)
    return out


def all_named(module):
    """(name, tensor) of every parameter and buffer, shared ones under each of their names."""
    for prefix, inner in module.named_modules(remove_duplicate=False):
        for name, value in (*inner._parameters.items(), *inner._buffers.items()):
            if value is not None:
                yield f"{prefix}.{name}" if prefix else name, value


def tied(own, given) -> dict:
    """The given tensors under every name of the tensor that each replaces."""
    groups: dict = {}
    for name, value in own.items():
        groups.setdefault(id(value), []).append(name)
    out = dict(given)
    for names in groups.values():
        found = [n for n in names if n in given]
        if len({id(given[n]) for n in found}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(found)}, which are tied. Consider using "
                "tie_weights=False")
        out.update({n: given[found[0]] for n in names if found})
    return out


def home(module, name):
    """(the module that a qualified name leads to, what it keeps the name in, the last part of the name)."""
    path, _, last = name.rpartition(".")
    inner = module.get_submodule(path)
    return inner, next((kept for kept in (inner._parameters, inner._buffers) if last in kept), None), last


def read(module, names) -> dict:
    """Read the attributes of these qualified names that a module has."""
    places = {name: home(module, name) for name in names}
    return {name: getattr(inner, last) for name, (inner, _, last) in places.items() if hasattr(inner, last)}


@contextmanager
def replacing(module, given):
    """The block sees other tensors in the module.  TypeError for values that are none, and in the place of others."""
    before = []
    try:
        for name, value in given.items():
            inner, kept, last = home(module, name)
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"{value} is not an instance of torch.Tensor")
            if kept is not None:
                before.append((inner, kept, last, kept[last]))
                kept[last] = value
                continue
            held = getattr(inner, last, before)
            if held is not before and held is not None and not isinstance(held, Tensor):
                raise TypeError(f"attribute `{last}`: {held} is not an instance of torch.Tensor")
            before.append((inner, None, last, held))
            setattr(inner, last, value)
        yield
    finally:
        for inner, kept, last, value in reversed(before):
            if kept is not None:
                kept[last] = value
                continue
            delattr(inner, last)
            if value is not before:
                setattr(inner, last, value)


def stack_module_state(models):
    """The parameters and the buffers of several models of one class, each stacked along a new first dimension.

    Returns (parameters, buffers), dictionaries by qualified name; parameters are new leaves.  For ``vmap`` over an
    ensemble.
    """
    models = alike("stack_module_state", models)
    parameters = {k: stacked([dict(m.named_parameters())[k] for m in models]) for k, _ in models[0].named_parameters()}
    buffers = {k: stacked([dict(m.named_buffers())[k] for m in models]) for k, _ in models[0].named_buffers()}
    return parameters, buffers


def replace_all_batch_norm_modules_(root):
    """Makes the batch normalizations in a module forget their running statistics, in place, so that they may run under
    ``vmap``.  Returns the module.

    >>> replace_all_batch_norm_modules_(torch.nn.BatchNorm1d(2)).running_mean is None
    True
    """
    from ..nn.modules.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def alike(name, models) -> list:
    """Models that can be stacked.  RuntimeError for none, several classes, or several modes."""
    models = list(models)
    if not models:
        raise RuntimeError(f"{name}: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError(f"{name}: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError(f"{name}: Expected all models to be of the same class.")
    return models


def stacked(tensors) -> Tensor:
    wanting = [t.requires_grad for t in tensors]
    if any(wanting) and not all(wanting):
        raise RuntimeError(
            "Expected tensors to have the same .requires_grad: either all of the models' parameters want gradients, "
            "or none")
    return OPS["stack"]([t.detach() for t in tensors]).requires_grad_(wanting[0])

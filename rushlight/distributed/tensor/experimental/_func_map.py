"""Functions on parts."""
from __future__ import annotations

import functools

import rushlight as torch

from ....utils._pytree import tree_flatten, tree_unflatten
from .._api import DTensor

__all__ = ["local_map"]


def local_map(func=None, out_placements=None, in_placements=None, in_grad_placements=None, device_mesh=None, *,
              redistribute_inputs: bool = False):
    """A function on DTensors that runs ``func`` on their parts.  ``out_placements``: placements of its results (one for
    all, or a tuple with one for each, None for values that are not tensors); ``in_placements``: those of each argument
    (ValueError if one differs, unless ``redistribute_inputs``)."""
    if func is None:
        return functools.partial(local_map, out_placements=out_placements, in_placements=in_placements,
                                 in_grad_placements=in_grad_placements, device_mesh=device_mesh,
                                 redistribute_inputs=redistribute_inputs)

    @functools.wraps(func)
    def run(*args, **kwargs):
        leaves, spec = tree_flatten(args)
        if in_placements is not None and len(in_placements) != len(leaves):
            raise AssertionError(
                f"in_placements length {len(in_placements)} does not match the number of input args {len(leaves)}!")
        mesh, given, distributed = device_mesh, [], False
        for k, leaf in enumerate(leaves):
            if not isinstance(leaf, DTensor):
                if in_placements is not None and isinstance(leaf, torch.Tensor) and in_placements[k] is not None:
                    raise AssertionError(
                        f"Non-DTensor input {leaf} should have None placements but got {in_placements[k]}")
                given.append(leaf)
                continue
            mesh, distributed = mesh or leaf.device_mesh, True
            wanted = None if in_placements is None else in_placements[k]
            if wanted is not None and tuple(wanted) != leaf.placements:
                if not redistribute_inputs:
                    raise ValueError(
                        f"arg {leaf} in local_map has a mismatched placements: arg placements is {leaf.placements} "
                        f"but the input placements is {wanted}! If "
                        "redistribute_inputs is wanted, set redistribute_inputs=True to local_map.")
                leaf = leaf.redistribute(mesh, wanted)
            grads = None if in_grad_placements is None else in_grad_placements[k]
            given.append(leaf.to_local(grad_placements=grads))
        results = func(*tree_unflatten(given, spec), **kwargs)
        return made(results, mesh, out_placements) if distributed else results
    return run


def made(results, mesh, placements):
    """Results as DTensors."""
    leaves, spec = tree_flatten(results)
    each = placements if isinstance(placements, tuple) and len(placements) == len(leaves) and not all(
        hasattr(p, "is_shard") for p in placements) else (placements,) * len(leaves)
    found = []
    for leaf, one in zip(leaves, each):
        if isinstance(leaf, torch.Tensor):
            if isinstance(leaf, DTensor):
                raise AssertionError(f"Non-DTensor output expected but got {leaf}")
            found.append(leaf if one is None else DTensor.from_local(leaf, mesh, one, run_check=False))
        else:
            if one is not None and isinstance(placements, tuple) and one is not placements:
                raise AssertionError(f"Non-tensor output {leaf} does not expect placements but got {one}!")
            found.append(leaf)
    return tree_unflatten(found, spec)



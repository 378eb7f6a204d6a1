"""vmap: a function mapped over a dimension of its arguments."""
from __future__ import annotations

import functools

from ..core.native import Tensor
from ..core.op import OPS
from ..core.random import default_generator
from ..core.pytree import broadcast_prefix, tree_flatten, tree_unflatten
from .batch import RANDOMNESS, Batch, Batched


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """Return a function that applies ``func`` to every example along a dimension of its arguments, all at once.

    ``in_dims``: the dimension to map over for each argument (None: the same for all), nested as the arguments are;
    ``out_dims``: where the results have it.  ``randomness``: whether random operators are refused ("error"), draw once
      for
    all examples ("same") or for each ("different").  ``chunk_size``: how many examples at a time.

    >>> vmap(torch.dot)(torch.ones(3, 2), torch.ones(3, 2))
    tensor([2., 2., 2.])
    """
    if randomness not in RANDOMNESS:
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    return in_chunks(func, in_dims, out_dims, randomness, lambda size: chunk_size or size)


def chunk_vmap(func, in_dims=0, out_dims=0, randomness="error", chunks=2):
    """Like ``vmap``, in at most ``chunks`` parts of the same size (the last may be smaller).

    >>> chunk_vmap(torch.sum, chunks=2)(torch.ones(3, 2))
    tensor([2., 2., 2.])
    """
    if chunks < 1:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    return in_chunks(func, in_dims, out_dims, randomness, lambda size: -(-size // chunks))


def in_chunks(func, in_dims, out_dims, randomness, chunk_of):
    """Map ``func`` over ``chunk_of(size)`` examples at a time.  Values drawn once for all examples are the same in each
    chunk."""
    @functools.wraps(func)
    def mapped(*args, **kwargs):
        leaves, dims, spec = mapped_arguments(func, in_dims, args)
        size = batch_size(func, leaves, dims)
        chunk = chunk_of(size)
        if chunk >= size:
            return run(func, leaves, dims, spec, size, out_dims, randomness, kwargs)
        parts, place = [], default_generator.place
        for start in range(0, size, chunk):
            if randomness == "same":
                default_generator._place(*place)
            count = min(chunk, size - start)
            chosen = [leaf if d is None else OPS["narrow"](leaf, d, start, count) for leaf, d in zip(leaves, dims)]
            parts.append(run(func, chosen, dims, spec, count, out_dims, randomness, kwargs))
        return joined(parts, out_dims)

    return mapped


def name_of(func) -> str:
    return getattr(func, "__name__", None) or repr(func)


def mapped_arguments(func, in_dims, args):
    """The leaves of the arguments, the dimension of each that is mapped over (or None), and how they are nested."""
    called = f"vmap({name_of(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{called}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of "
            f"inputs, got: {type(in_dims)}.")
    if not args:
        raise ValueError(
            f"{called}: got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function with "
            "no inputs. The latter "
            "is unsupported.")
    leaves, spec = tree_flatten(args)
    dims = broadcast_prefix(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{called}: in_dims is not compatible with the structure of inputs. in_dims has structure "
            f"{tree_flatten(in_dims)[1]} but inputs "
            f"has structure {spec}.")
    return leaves, [checked_dim(called, leaf, dim) for leaf, dim in zip(leaves, dims)], spec


def checked_dim(called, leaf, dim):
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(
            f"{called}: Got in_dim={dim} for an input but in_dim must be either an integer dimension or None.")
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"{called}: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot vmap over "
            "non-Tensor arguments, please "
            "use None as the respective in_dim")
    rank = leaf.dim()
    if not -rank <= dim < rank:
        raise ValueError(
            f"{called}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {rank} so "
            "expected in_dim to satisfy "
            f"-{rank} <= in_dim < {rank}.")
    return dim % rank


def batch_size(func, leaves, dims) -> int:
    sizes = {leaf.size(d) for leaf, d in zip(leaves, dims) if d is not None}
    if not sizes:
        raise ValueError(
            f"vmap({name_of(func)}): at least one Tensor must be mapped over, but in_dims names no "
            "dimension")
    if len(sizes) > 1:
        raise ValueError(f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
                         f"{[leaf.size(d) for leaf, d in zip(leaves, dims) if d is not None]} for the mapped dimension")
    return sizes.pop()


def run(func, leaves, dims, spec, size, out_dims, randomness, kwargs):
    """Run one chunk."""
    level = Batch(size, randomness)
    fronted = [leaf if d is None else OPS["movedim"](leaf, d, 0) if d else leaf for leaf, d in zip(leaves, dims)]
    inputs = [leaf if d is None else Batched(level, leaf) for leaf, d in zip(fronted, dims)]
    with level:
        results = func(*tree_unflatten(inputs, spec), **kwargs)
        outputs, out_spec = tree_flatten(results)
        outputs = [level.refreshed(o) for o in outputs]
    for leaf, value in zip(fronted, inputs):
        if level.owns(value) and value.writes:
            leaf.copy_(value.value)
            value.value, value.writes = leaf, value.writes + 1
    with level:  # results that alias written values are views of them
        outputs = [level.refreshed(o) for o in outputs]
    wanted = broadcast_prefix(out_dims, out_spec)
    if wanted is None and isinstance(out_dims, tuple) and len(out_dims) == 1 and out_spec.is_leaf():
        wanted = list(out_dims)
    if wanted is None:
        raise ValueError(
            f"vmap({name_of(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the "
            "structure of `outputs`. out_dims "
            f"has structure {tree_flatten(out_dims)[1]} but outputs has structure {out_spec}.")
    return tree_unflatten([unbatched(func, level, o, d) for o, d in zip(outputs, wanted)], out_spec)


def unbatched(func, level, output, dim):
    """Return a result with the batch at dimension ``dim``."""
    if not isinstance(output, Tensor):
        if dim is None:
            return output
        raise ValueError(
            f"vmap({name_of(func)}, ...): `{name_of(func)}` must only return Tensors, got type {type(output)}. Did "
            "you mean to set out_dims= "
            "to None for output?")
    if dim is None:
        if level.owns(output):
            raise ValueError(
                f"vmap({name_of(func)}, ...): `{name_of(func)}` can not return a BatchedTensor when out_dim is None")
        return output
    if not isinstance(dim, int):
        raise ValueError(
            f"vmap({name_of(func)}, ..., out_dims={dim}): `out_dims` must be an int, None or a python collection of "
            "ints representing where "
            "in the outputs the vmapped dimension should appear.")
    value = output.value if level.owns(output) else OPS["expand"](output, (level.size, *output.shape))
    rank = value.dim()
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return OPS["movedim"](value, 0, dim) if dim % rank else value


def joined(parts, out_dims):
    """Concatenate the results of chunks."""
    flat = [tree_flatten(p) for p in parts]
    spec = flat[0][1]
    dims = broadcast_prefix(out_dims, spec) or list(out_dims)
    columns = zip(*(leaves for leaves, _ in flat))
    return tree_unflatten([c[0] if d is None else OPS["cat"](list(c), d) for c, d in zip(columns, dims)], spec)

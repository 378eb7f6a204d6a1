"""Whole matrices of derivatives, one row (jacrev) or column (jacfwd) for each element."""
from __future__ import annotations

import functools

from .._src.core.native import Tensor
from .._src.core.op import OPS
from .._src.core.pytree import tree_flatten, tree_map, tree_unflatten
from .._src.transforms.batch import Batched
from .._src.transforms.vmap import vmap
from .derivatives import checked_tensors, jvp, replaced, selected, vjp


def basis(leaves):
    """For each leaf a stack of tensors in its shape; row k of all of them together has a one at element k, else
    zeros."""
    total = sum(leaf.numel() for leaf in leaves)
    out, start = [], 0
    for leaf in leaves:
        unit = OPS["eye"](total, dtype=leaf.dtype, device=leaf.device)
        out.append(OPS["narrow"](unit, 1, start, leaf.numel()).reshape((total, *leaf.shape)))
        start += leaf.numel()
    return out


def parts(stacked, leaves):
    """The rows of ``stacked`` that belong to each leaf, in its shape."""
    sizes = [leaf.numel() for leaf in leaves]
    pieces = OPS["split"](stacked, sizes, 0)
    return [p.reshape((*leaf.shape, *stacked.shape[1:])) for p, leaf in zip(pieces, leaves)]


def one_by_one(pull, units):
    """Call ``pull`` for each row of ``units`` without vmap; return the leaves of its results, stacked."""
    found = [tree_flatten(pull(*row))[0] for row in zip(*(unit.unbind(0) for unit in units))]
    return [OPS["stack"](list(leaves)) for leaves in zip(*found)]


def checked_real(name, what, leaves):
    """Raise RuntimeError for complex tensors, whose Jacobians are not supported: multiply by the basis yourself."""
    for leaf in leaves:
        if isinstance(leaf, Tensor) and leaf.is_complex():
            raise RuntimeError(f"{name}: Expected all {what} to be real but received complex tensor of {leaf.dtype}. Please "
                               "use torch.view_as_real")


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """A function that returns the Jacobian of ``func`` with respect to the arguments ``argnums``, by reverse mode.

    Shape: that of the output, then that of the input; nested as the outputs, then as the inputs.  ``chunk_size``: how
    many rows at a time (1: without vmap); they are put together at the end, whatever ``_preallocate_and_copy``.
    RuntimeError for complex inputs and outputs.

    >>> jacrev(torch.sin)(torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"jacrev: `chunk_size` should be greater than 0, got {chunk_size}")

    @functools.wraps(func)
    def derived(*args, **kwargs):
        chosen = selected(args, argnums)
        leaves, spec = tree_flatten(chosen)
        checked_real("jacrev", "inputs", leaves)
        found = vjp(lambda given: func(*replaced(args, argnums, given), **kwargs), chosen, has_aux=has_aux)
        outputs, out_spec = tree_flatten(found[0])
        checked_tensors("jacrev(f)(*args)", outputs, "f(*args)")
        checked_real("jacrev", "outputs", outputs)
        pull = lambda *rows: found[1](tree_unflatten(rows, out_spec))[0]
        alone = chunk_size == 1 and any(o.numel() for o in outputs)
        pulled = one_by_one(pull, basis(outputs)) if alone else tree_flatten(
            vmap(pull, chunk_size=chunk_size)(*basis(outputs)))[0]
        columns = [parts(r, outputs) for r in pulled]  # one list for each input
        result = tree_unflatten([tree_unflatten([c[k] for c in columns], spec) for k in range(len(outputs))], out_spec)
        return (result, found[2]) if has_aux else result

    return derived


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """A function that returns the Jacobian of ``func`` with respect to the arguments ``argnums``, by forward mode.

    Shape: that of the output, then that of the input; nested as the outputs, then as the inputs.

    RuntimeError for complex inputs and outputs.

    >>> jacfwd(torch.sin)(torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    @functools.wraps(func)
    def derived(*args, **kwargs):
        chosen = selected(args, argnums)
        leaves, spec = tree_flatten(chosen)
        checked_tensors("jacfwd(f)(*args)", leaves, "the differentiated arguments")
        checked_real("jacfwd", "inputs", leaves)
        call = lambda given: func(*replaced(args, argnums, given), **kwargs)

        def push(*tangents):
            found = jvp(call, (chosen,), (tree_unflatten(tangents, spec),), has_aux=has_aux)
            return found[1:] if has_aux else found[1]

        auxiliary = []

        def column(*tangents):
            pushed = push(*tangents)
            checked_real("jacfwd", "outputs", tree_flatten(pushed[0] if has_aux else pushed)[0])
            if has_aux:
                auxiliary.append(tree_map(example, pushed[1]))
            return pushed[0] if has_aux else pushed

        columns = vmap(column, randomness=randomness, out_dims=-1)(*basis(leaves))

        def by_input(output):
            return tree_unflatten([moved(p, output.dim() - 1) for p in parts(OPS["movedim"](output, -1, 0), leaves)],
                                  spec)

        result = tree_map(by_input, columns)
        return (result, auxiliary[0]) if has_aux else result

    return derived


def example(leaf):
    """One example of what was mapped over: the auxiliary output is the same for every direction."""
    return leaf.value[0] if isinstance(leaf, Batched) else leaf


def moved(part, count):
    """[*input, *output] as [*output, *input]; ``count`` is the rank of the output."""
    rank = part.dim()
    return part.permute((*range(rank - count, rank), *range(rank - count)))


def hessian(func, argnums=0):
    """A function that returns the second derivatives of ``func``: the forward Jacobian of its reverse Jacobian.

    >>> hessian(lambda x: (x ** 3).sum())(torch.ones(2))
    tensor([[6., 0.],
            [0., 6.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)

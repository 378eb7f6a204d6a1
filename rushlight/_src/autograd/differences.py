"""Jacobians of a function as real matrices: by central differences, by reverse mode, by forward mode.

A complex element counts as two, its real and its imaginary part; a sparse tensor as the dense one of its elements.
"""
from __future__ import annotations

import math

from ..core.exchange import tensor
from ..core.native import Tensor
from ..core.op import OPS
from .backward import grad
from ...autograd.forward_ad import dual_level, make_dual, unpack_dual
from .mode import no_grad


def tensors_of(value) -> tuple:
    """The tensors of an argument list or a result, one level deep."""
    values = value if isinstance(value, (tuple, list)) else (value,)
    return tuple(v for v in values if isinstance(v, Tensor))


def inexact(value) -> tuple:
    """Return the floating and complex tensors, which may have gradients."""
    return tuple(t for t in tensors_of(value) if t.dtype.is_inexact)


def strided(tensor):
    """Return the tensor as a dense one without history."""
    tensor = tensor.detach()
    return tensor if str(tensor.layout) == "torch.strided" else tensor.to_dense()


def flat(tensor):
    """Return the elements as a vector of real numbers."""
    vector = strided(tensor).reshape((-1,))
    return OPS["stack"]([OPS["real"](vector), OPS["imag"](vector)], 1).reshape((-1,)) if tensor.is_complex() else vector


def unflat(vector, like):
    """Invert ``flat``: return the strided tensor of a vector."""
    if like.is_complex():
        vector = OPS["complex"](vector[0::2], vector[1::2])
    return vector.reshape(tuple(like.shape)).to(like.dtype)


def count(tensor) -> int:
    """Number of elements of the result of ``flat``."""
    return math.prod(tensor.shape) * (2 if tensor.is_complex() else 1)


def unit_like(tensor, at):
    """A tensor whose element ``at`` (as ``flat`` counts them) is one, the others zero."""
    unit = OPS["zeros"]((count(tensor),), dtype=tensor.dtype.to_real())
    unit[at] = 1
    return unflat(unit, tensor)


def random_like(tensor):
    """A random vector of length one, with as many elements as ``flat`` gives."""
    vector = OPS["rand"]((count(tensor),), dtype=tensor.dtype.to_real()) + 0.5
    return vector / vector.norm() if count(tensor) else vector


def copies(results) -> list:
    return [o.detach().clone() for o in inexact(results)]


class Moving:
    """An argument whose elements are perturbed: in its own storage, so that functions which read it elsewhere see that
    too; a sparse one is rebuilt."""

    def __init__(self, tensor, masked):
        self.tensor, self.masked = tensor, masked
        self.start = strided(tensor).clone()

    def outputs(self, func, inputs, k, direction) -> list:
        """Copies of the results of ``func`` with argument k moved by ``direction``, a strided tensor like it."""
        moved = self.start + direction
        if str(self.tensor.layout) != "torch.strided":
            return copies(func(*inputs[:k], self.sparse(moved), *inputs[k + 1:]))
        with no_grad():
            self.tensor.data.copy_(moved)
        try:
            return copies(func(*inputs))
        finally:
            with no_grad():
                self.tensor.data.copy_(self.start)

    def sparse(self, moved):
        tensor = self.tensor.detach()
        if self.masked:
            made = moved.sparse_mask(tensor.coalesce() if str(tensor.layout) == "torch.sparse_coo" else tensor)
        elif str(tensor.layout) == "torch.sparse_coo":
            made = moved.to_sparse(tensor.sparse_dim())
        else:
            blocks = tuple(tensor.values().shape[-2:]) if "bs" in str(tensor.layout) else None
            made = moved.to_sparse(layout=tensor.layout, blocksize=blocks)
        return made.requires_grad_()


def difference(func, inputs, k, direction, eps, moving) -> list:
    """Return the directional derivative of each output, as a real vector, for a direction of argument k.
    AssertionError if shapes or dtypes change."""
    above, below = (moving.outputs(func, inputs, k, direction * s) for s in (eps, -eps))
    for a, b in zip(above, below):
        if tuple(a.shape) != tuple(b.shape):
            raise AssertionError(
                "Expected `func` to return outputs with the same shape when inputs are perturbed, but got "
                f"{tuple(a.shape)} and {tuple(b.shape)}")
        if a.dtype is not b.dtype:
            raise AssertionError(
                f"Expected `func` to return outputs with the same dtype when inputs are perturbed, but got {a.dtype} "
                f"and {b.dtype}")
    return [(flat(a) - flat(b)) / (2 * eps) for a, b in zip(above, below)]


def numerical(func, inputs, k, eps, masked=False) -> list:
    """Return, for each output, the matrix [elements of input k, elements of the output], by central differences."""
    x = inputs[k]
    moving, shown = Moving(x, masked), shown_elements(x, masked)
    rows = [difference(func, inputs, k, unit_like(x, at), eps, moving) if shown is None or shown[at] else None
            for at in range(count(x))]
    known = next((row for row in rows if row is not None), None)
    if known is None:
        outputs = inexact(func(*inputs))
        return [OPS["zeros"]((len(rows), count(o)), dtype=o.dtype.to_real()) for o in outputs]
    return [OPS["stack"]([OPS["zeros_like"](known[j]) if row is None else row[j] for row in rows])
            for j in range(len(known))]


def shown_elements(x, masked):
    """Flags of a sparse argument's elements that count if others are masked, as a list; None for all."""
    if not masked or str(x.layout) == "torch.strided":
        return None
    x = x.detach()
    ones = Moving(x, True).sparse(OPS["ones_like"](strided(x)))
    return [bool(v) for v in (strided(ones).abs() > 0).reshape((-1,)).tolist()
            for _ in range(2 if x.is_complex() else 1)]


def analytical(output, x, masked=False):
    """Return the matrix of ``numerical`` by reverse mode, one backward pass for each element of the output."""
    shown = shown_elements(x, masked)
    columns = []
    for at in range(count(output)):
        found, = grad(output, x, unit_like(output, at), retain_graph=True, allow_unused=True)
        column = flat(OPS["zeros_like"](strided(x)) if found is None else found)
        columns.append(column if shown is None else column * tensor(shown).to(column.dtype))
    return OPS["stack"](columns, 1) if columns else OPS["zeros"]((count(x), 0), dtype=x.dtype.to_real())


def pushed(func, inputs, tangents) -> tuple:
    """Return the results of ``func`` and their tangents (None: zero), given those of the inputs (None: none)."""
    with dual_level():
        duals = [make_dual(x.detach(), t) if t is not None else x.detach() if isinstance(x, Tensor) else x
                 for x, t in zip(inputs, tangents)]
        pairs = [unpack_dual(o) for o in inexact(func(*duals))]
        return [p.primal for p in pairs], [p.tangent for p in pairs]


def forward(func, inputs, wanted, k, direction) -> list:
    """Return the tangent of each output, as a real vector, if that of argument k is ``direction``, and those of other
    inputs are zero."""
    tangents = [direction if j == k else OPS["zeros_like"](x) if j in wanted else None for j, x in enumerate(inputs)]
    primals, found = pushed(func, inputs, tangents)
    return [flat(OPS["zeros_like"](p) if t is None else t) for p, t in zip(primals, found)]


def forward_jacobian(func, inputs, wanted, k) -> list:
    """Return the matrices of ``numerical`` by forward mode, one run for each element of the input."""
    rows = [forward(func, inputs, wanted, k, unit_like(inputs[k], at)) for at in range(count(inputs[k]))]
    return [OPS["stack"](list(column)) for column in zip(*rows)]

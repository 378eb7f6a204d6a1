"""Nested tensors under PyTorch's names: batches of examples of different lengths, packed instead of padded."""
from __future__ import annotations

from .._src.core import convert
from .._src.core.advice import warn
from .._src.core.exchange import as_tensor
from .._src.core.native import Tensor
from .._src.core.op import OPS, pinned
from . import rules, uneven_rules  # noqa: F401 (they enter what operators do)
from .examples import joined
from .padding import padded
from .ragged import Ragged
from .tensor import made

__all__ = ["as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged",
           "to_padded_tensor"]


def nested_tensor(tensor_list, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A copy of tensors (or nested lists) as one nested tensor without history.

    [n_i, *] each -> [batch, n, *].  RuntimeError for tensors of different numbers of dimensions; for
    ``layout=torch.jagged`` also for an empty list, tensors without dimensions, or that differ in more than one size.

    >>> import rushlight as torch
    >>> torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged).offsets()
    tensor([0, 2, 6])
    """
    if layout is None:
        warn("nested_tensor() without a layout makes one of the older layout, torch.strided, to which few operators "
             "apply: write layout=torch.jagged.")
    parts = [as_tensor(x, dtype=dtype, device=device).detach() for x in tensor_list]
    out = joined(parts, layout or convert.strided, dtype, device)
    out = out.around(out.inner.to(out.inner.dtype, copy=True)) if len(parts) == 1 else out
    out = out.around(pinned(out.inner)) if pin_memory else out
    return out.requires_grad_() if requires_grad else out


def as_nested_tensor(ts, dtype=None, device=None, layout=None):
    """Tensors as one nested tensor through which gradients reach them; a nested tensor as it is, a dense one by its
    first dimension.

    RuntimeError as in ``nested_tensor``.

    >>> import rushlight as torch
    >>> torch.nested.as_nested_tensor(torch.ones(2, 3, 5), layout=torch.jagged).offsets()
    tensor([0, 3, 6])
    """
    if isinstance(ts, Tensor) and ts.is_nested:
        if layout not in (None, ts.layout):
            raise RuntimeError("as_nested_tensor(): Converting between nested tensor layouts is not supported")
        return ts if dtype in (None, ts.dtype) else ts.to(dtype)
    if isinstance(ts, Tensor):
        if ts.dim() < 2:
            raise RuntimeError(f"as_nested_tensor(): Expected tensor argument to have dim > 1, but got dim={ts.dim()}")
        ts = ts if dtype is None else ts.to(dtype)
        return made(ts.flatten(0, 1), Ragged.of([ts.size(1)] * ts.size(0)), 1, layout or convert.strided)
    return joined([as_tensor(x, dtype=dtype, device=device) for x in ts], layout or convert.strided, dtype, device)


def nested_tensor_from_jagged(values, offsets=None, lengths=None, jagged_dim=None, min_seqlen=None, max_seqlen=None):
    """Return a nested tensor over rows that are concatenated in dimension ``jagged_dim`` - 1 of ``values`` (default
    the first), without copying.

    ``offsets`` [batch + 1] integers: where each example begins, and the end; or ``lengths`` [batch]; both together
    where there are gaps.  RuntimeError where neither is given, or where they do not fit the values. ``min_seqlen`` and
    ``max_seqlen`` are not needed.

    >>> import rushlight as torch
    >>> torch.nested.nested_tensor_from_jagged(torch.ones(6, 3), torch.tensor([0, 2, 6])).unbind()[1].shape
    torch.Size([4, 3])
    """
    if offsets is None and lengths is None:
        raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
    at = 1 if jagged_dim is None else jagged_dim
    if not 1 <= at <= values.dim():
        raise RuntimeError(
            "nested_tensor_from_jagged(): jagged_dim is a dimension of the result after the batch's, 1 to "
            f"{values.dim()}; got {jagged_dim}")
    ragged = Ragged.of(lengths.numpy()) if offsets is None else Ragged(offsets, lengths)
    ragged.read()
    ragged.check(values.size(at - 1))
    return made(values, ragged, at)


def narrow(tensor, dim, start, length, layout=convert.strided):
    """Of each example of a dense tensor [batch, n, *] the rows from ``start`` on, ``length`` of them, as a nested
    tensor.

    ``start`` and ``length``: integers, or [batch] each. ``dim`` is 1. RuntimeError where they reach beyond the
    examples.

    >>> import rushlight as torch
    >>> torch.nested.narrow(torch.ones(2, 4), 1, torch.tensor([0, 1]), torch.tensor([3, 2]), layout=torch.jagged).unbind()[1]
    tensor([1., 1.])
    """
    if dim != 1:
        raise RuntimeError(f"jagged layout only supports dim=1, got {dim}")
    batch, rows = tensor.shape[:2]
    start, length = (x.tolist() if isinstance(x, Tensor) else [x] * batch for x in (start, length))
    if not len(start) == len(length) == batch:
        raise RuntimeError(
            f"narrow: start and length have one number for each of {batch} examples, got {len(start)} and "
            f"{len(length)}")
    if any(a < 0 or n < 0 or a + n > rows for a, n in zip(start, length)):
        raise RuntimeError(f"narrow: start ({start}) + length ({length}) exceeds dimension size ({rows})")
    starts = as_tensor([*(i * rows + a for i, a in enumerate(start)), (batch - 1) * rows + start[-1] + length[-1]
                        if batch else 0])
    return made(tensor.flatten(0, 1), Ragged(starts, as_tensor(length)), 1, layout)


def masked_select(tensor, mask):
    """The elements of each row of a tensor [batch, n, *] where a mask is true, as a nested tensor [batch, j].

    >>> import rushlight as torch
    >>> torch.nested.masked_select(torch.arange(4).view(2, 2), torch.tensor([[True, False], [True, True]])).offsets()
    tensor([0, 1, 3])
    """
    mask = OPS["broadcast_to"](mask, tuple(tensor.shape)) if mask.shape != tensor.shape else mask
    counts = mask.flatten(1).sum(1) if mask.dim() > 1 else mask.sum().reshape(1)
    return made(OPS["masked_select"](tensor, mask), Ragged.of(counts.numpy()))


def to_padded_tensor(input, padding, output_size=None):
    """A dense tensor [batch, n, *] in which examples shorter than the longest (or than ``output_size`` says) are filled
    up with ``padding``.

    >>> import rushlight as torch
    >>> torch.nested.to_padded_tensor(torch.nested.nested_tensor([[1.0, 2.0], [3.0]]), 0.0)
    tensor([[1., 2.],
            [3., 0.]])
    """
    return padded(input, padding, output_size)

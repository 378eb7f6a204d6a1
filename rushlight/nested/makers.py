"""Nested tensors under the names by which PyTorch makes them itself."""
from __future__ import annotations

from . import as_nested_tensor, nested_tensor_from_jagged
from .._src.core import convert


def jagged_from_list(tensors, offsets, dtype=None, device=None):
    """(tensors as one nested tensor through which gradients reach them, its offsets [batch + 1]).

    ``offsets``: those to be used, where others have them already, else None.  RuntimeError where they do not fit.

    >>> import rushlight as torch
    >>> jagged_from_list([torch.ones(2, 3), torch.ones(1, 3)], None)[1]
    tensor([0, 2, 3])
    """
    made = as_nested_tensor(tensors, dtype=dtype, device=device, layout=convert.jagged)
    if offsets is None:
        return made, made.offsets()
    if offsets.tolist() != made.offsets().tolist():
        raise RuntimeError(f"offsets {offsets.tolist()} do not fit tensors that begin at {made.offsets().tolist()}")
    return nested_tensor_from_jagged(made.values(), offsets, jagged_dim=made.at), offsets


def nested_view_from_values_offsets(values, offsets, ragged_idx=1, min_seqlen=None, max_seqlen=None):
    """``nested_tensor_from_jagged``, ragged in dimension ``ragged_idx``.

    >>> import rushlight as torch
    >>> nested_view_from_values_offsets(torch.ones(3, 2), torch.tensor([0, 2, 3])).unbind()[0].shape
    torch.Size([2, 2])
    """
    return nested_tensor_from_jagged(values, offsets, jagged_dim=ragged_idx)


def nested_view_from_values_offsets_lengths(values, offsets, lengths, ragged_idx=1, min_seqlen=None, max_seqlen=None):
    """``nested_tensor_from_jagged`` of ``lengths`` [batch] rows from each offset on.

    >>> import rushlight as torch
    >>> nested_view_from_values_offsets_lengths(torch.ones(3), torch.tensor([0, 2, 3]), torch.tensor([1, 1])).unbind()[0]
    tensor([1.])
    """
    return nested_tensor_from_jagged(values, offsets, lengths, jagged_dim=ragged_idx)


def buffer_from_jagged(jagged):
    """The rows of a nested tensor, ``values()``."""
    return jagged.values()

"""Sequences of different lengths for recurrent networks."""
from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable

from ..._src import flat as torch
from ..._src.checks import _check_is_size, _check_value
from ..._src.core.tensor import refuse_where
from ..functional import pad


PackedSequence_ = namedtuple("PackedSequence_", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])


def bind(optional, fn):
    """A function of a value, None of None."""
    return None if optional is None else fn(optional)


class PackedSequence(PackedSequence_):
    """Sequences packed by time step: ``data`` holds the steps of all that are still running, longest first."""

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        """Return the steps as another dtype or on another device; the batch sizes stay in CPU memory."""
        data = self.data.to(*args, **kwargs)
        orders = [order if order is None else order.to(data.device)
                  for order in (self.sorted_indices, self.unsorted_indices)]
        return self if data is self.data else PackedSequence(data, self.batch_sizes, *orders)

    def cpu(self, *args, **kwargs):
        """Return the steps in CPU memory."""
        return self.to("cpu", *args, **kwargs)

    def cuda(self, *args, **kwargs):
        """The steps in a GPU's memory: the current one unless ``device`` says which."""
        named = kwargs.pop("device", None)
        where = (named,) if named is not None else () if args else ("cuda",)
        return self.to(*where, *args, **kwargs)

    def pin_memory(self):
        """The steps and batch sizes in memory that devices read directly."""
        return PackedSequence(*(part if part is None else part.pin_memory() for part in self))

    def is_pinned(self) -> bool:
        """True if the steps are in pinned memory."""
        return self.data.is_pinned()

    is_cuda = property(lambda self: self.data.is_cuda, doc="Whether the steps lie on a GPU.")


def _cast(name):
    def cast(self):
        return self.to(dtype=getattr(torch, name))
    cast.__name__, cast.__qualname__ = name, f"PackedSequence.{name}"
    cast.__doc__ = f"The steps as {name}."
    return cast


for _name, _dtype in (("double", "float64"), ("float", "float32"), ("half", "float16"), ("long", "int64"),
                      ("int", "int32"), ("short", "int16"), ("char", "int8"), ("byte", "uint8")):
    setattr(PackedSequence, _name, _cast(_dtype))


def invert_permutation(permutation):
    """The permutation that undoes another."""
    return None if permutation is None else permutation.argsort()


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Packs padded sequences [t, b, *] with their lengths, in CPU memory.

    RuntimeError for lengths below 1 or above t, and if they must be sorted (``enforce_sorted``) but are not.
    """
    lengths = lengths if hasattr(lengths, "dim") else torch.tensor(list(lengths))
    x = input.transpose(0, 1) if batch_first else input
    order = None
    if x.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    if not enforce_sorted:
        lengths, order = lengths.sort(descending=True)
        order = order.to(x.device)
        x = x.index_select(1, order)
    if lengths.dim() != 1 or lengths.size(0) != x.size(1):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.numel()} (batch_size={x.size(1)})")
    refuse_where(lengths[1:] > lengths[:-1],
                 RuntimeError("`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can "
                              "pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this "
                              "requirement if you do not need ONNX exportability."))
    refuse_where(lengths <= 0,
                 RuntimeError(
                     "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"))
    refuse_where(lengths > x.size(0),
                 RuntimeError("Expected lengths of at most the steps of the input, but found a longer one"))
    lasting = torch.arange(x.size(0), device=lengths.device).unsqueeze(1) < lengths
    sizes = lasting.sum(1)
    return PackedSequence(x[lasting], sizes[sizes > 0], order)


def running(sequence):
    """Return which sequences of a packed batch last until each time, [t, b]."""
    sizes, order = sequence.batch_sizes, sequence.sorted_indices
    batch = int(sizes[0]) if order is None else order.size(0)
    _check_is_size(batch)
    return torch.arange(batch, device=sizes.device) < sizes.unsqueeze(1)


def padded(data, lasting, padding_value=0.0):
    """Steps [n, *] as a tensor [t, b, *], with padding where sequences do not last."""
    lasting = lasting.to(data.device)
    places = (lasting.reshape(-1).cumsum(0) - 1).clamp(min=0).view(lasting.shape)
    return torch.where(lasting.reshape(*lasting.shape, *[1] * (data.dim() - 1)), data[places],
                       data.new_full((), padding_value))


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """The padded sequences and their lengths.  ValueError for a ``total_length`` below the longest."""
    lasting = running(sequence)
    x, lengths, steps = padded(sequence.data, lasting, padding_value), lasting.sum(0), lasting.size(0)
    if total_length is not None:
        _check_value(total_length >= steps,
                     lambda: "Expected total_length to be at least the length of the longest sequence in input, "
                                                   f"but got total_length={total_length} and max sequence length "
                                                   f"being {steps}")
        x = pad(x, (*[0] * (2 * x.dim() - 1), total_length - steps), value=padding_value)
    if sequence.unsorted_indices is not None:
        x, lengths = x.index_select(1, sequence.unsorted_indices), lengths[sequence.unsorted_indices.to(lengths.device)]
    return (x.transpose(0, 1) if batch_first else x), lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Tensors [l, *] of different lengths as one padded tensor."""
    if isinstance(sequences, torch.Tensor):
        sequences = sequences.unbind(0)
    elif not isinstance(sequences, Iterable):
        raise RuntimeError("pad_sequence: Expected iterable for input sequences, but got arg of type: "
                           f"{type(sequences)}")
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    longest = max(s.size(0) for s in sequences)
    out = sequences[0].new_full((len(sequences), longest, *sequences[0].shape[1:]), padding_value)
    for k, s in enumerate(sequences):
        place = slice(0, s.size(0)) if padding_side == "right" else slice(longest - s.size(0), longest)
        out[k, place] = s
    return out if batch_first else out.transpose(0, 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The tensors that were padded."""
    x = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [x[k, :n] for k, n in enumerate(lengths.tolist())]


def pack_sequence(sequences, enforce_sorted=True):
    """Packs tensors of different lengths."""
    return pack_padded_sequence(pad_sequence(sequences), torch.tensor([s.size(0) for s in sequences]),
                                enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The tensors that were packed."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)

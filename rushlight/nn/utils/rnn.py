"""Sequences of different lengths for recurrent networks."""
from __future__ import annotations

from collections import namedtuple


class PackedSequence(namedtuple("PackedSequence_", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])):
    """Sequences packed by time step: ``data`` holds the steps of all that are still running, longest first."""

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        return PackedSequence(self.data.to(*args, **kwargs), self.batch_sizes, self.sorted_indices, self.unsorted_indices)


def invert_permutation(permutation):
    """The permutation that undoes another."""
    return None if permutation is None else permutation.argsort()


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Packs padded sequences [t, b, *] with their lengths."""
    import rushlight

    lengths = lengths if hasattr(lengths, "dim") else rushlight.tensor(list(lengths))
    x = input.transpose(0, 1) if batch_first else input
    order = None
    if not enforce_sorted:
        lengths, order = lengths.sort(descending=True)
        x = x.index_select(1, order)
    counts = lengths.tolist()
    if any(a < b for a, b in zip(counts, counts[1:])):
        raise RuntimeError("`lengths` array must be sorted in decreasing order when `enforce_sorted` is True.")
    if counts[-1] <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0")
    sizes = [sum(1 for n in counts if n > t) for t in range(counts[0])]
    data = rushlight.cat([x[t, :n] for t, n in enumerate(sizes)])
    return PackedSequence(data, rushlight.tensor(sizes), order)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """The padded sequences and their lengths."""
    import rushlight

    sizes = sequence.batch_sizes.tolist()
    steps = [part if len(part) == sizes[0] else rushlight.cat([part, part.new_full((sizes[0] - len(part), *part.shape[1:]), padding_value)])
             for part in sequence.data.split(sizes)]
    if total_length is not None:
        if total_length < len(sizes):
            raise ValueError(f"Expected total_length to be at least the length of the longest sequence in input, but got total_length={total_length} and max sequence length being {len(sizes)}")
        steps += [steps[0].new_full(tuple(steps[0].shape), padding_value)] * (total_length - len(sizes))
    x = rushlight.stack(steps)
    lengths = rushlight.tensor([sum(1 for n in sizes if n > k) for k in range(sizes[0])])
    if sequence.unsorted_indices is not None:
        x, lengths = x.index_select(1, sequence.unsorted_indices), lengths[sequence.unsorted_indices]
    return (x.transpose(0, 1) if batch_first else x), lengths


def pack_padded_like(x, packed):
    """Padded outputs [t, b, *] packed as a given sequence was."""
    import rushlight

    data = rushlight.cat([x[t, :n] for t, n in enumerate(packed.batch_sizes.tolist())])
    return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Tensors [l, *] of different lengths as one padded tensor."""
    sequences = list(sequences)
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
    import rushlight

    return pack_padded_sequence(pad_sequence(sequences), rushlight.tensor([s.size(0) for s in sequences]), enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The tensors that were packed."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)

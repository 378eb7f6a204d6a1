"""Tensors sent between stages: a vector of integers that describes them, then their elements."""
from __future__ import annotations

import rushlight as torch

from .. import collectives, membership

KINDS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
         torch.uint8, torch.bool, torch.complex64, torch.complex128)
LONGEST = 256  # numbers that describe a message


def described(tensors, where) -> torch.Tensor:
    """Return a tensor on the device ``where`` with the number of tensors, and of each the dtype, ``requires_grad``, the
    rank and the sizes; -1 for None."""
    row = [len(tensors)]
    for t in tensors:
        row += [-1] if t is None else [KINDS.index(t.dtype), int(t.requires_grad), t.dim(), *t.shape]
    if len(row) > LONGEST:
        raise RuntimeError(f"a stage gives {len(tensors)} tensors, whose sizes are {len(row)} numbers: a message takes "
                           f"{LONGEST}")
    return torch.tensor(row + [0] * (LONGEST - len(row)), dtype=torch.int64, device=where)


class Messages:
    """The messages of a stage.  Kinds of message have tags of their own, so that they may come in any order."""

    def __init__(self, group, device=None):
        self.group, self.under_way, self.where = group, [], device or membership.device_for(group)

    def send(self, tensors, rank: int, tag: int):
        """Sends tensors (or None) to a rank of the group, without waiting."""
        self.under_way = [one for one in self.under_way if not one[0].is_completed()]
        for tensor in (described(tensors, self.where), *(t.detach().contiguous() for t in tensors if t is not None)):
            self.under_way.append((collectives.isend(tensor, group=self.group, group_dst=rank, tag=tag), tensor))

    def receive(self, rank: int, tag: int) -> list:
        """Return the tensors (or None) that a rank sends with this tag; those that require a gradient are leaves."""
        row = torch.empty(LONGEST, dtype=torch.int64, device=self.where)
        collectives.recv(row, group=self.group, group_src=rank, tag=tag)
        numbers, found = iter(row.tolist()), []
        for _ in range(next(numbers)):
            kind = next(numbers)
            if kind < 0:
                found.append(None)
                continue
            wants, rank_ = next(numbers), next(numbers)
            tensor = torch.empty([next(numbers) for _ in range(rank_)], dtype=KINDS[kind],
                                 device=self.where)
            collectives.recv(tensor, group=self.group, group_src=rank, tag=tag)
            found.append(tensor.requires_grad_(bool(wants)))
        return found

    def finish(self):
        """Waits until all that was sent is on its way."""
        for work, _ in self.under_way:
            work.wait()
        self.under_way = []

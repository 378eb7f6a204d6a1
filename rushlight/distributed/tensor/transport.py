"""What redistribution asks of a group of processes: parts of tensors go where they are wanted."""
from __future__ import annotations

import rushlight as torch

from .. import collectives, membership
from ..counting import counted_as

OPS = {"sum": "SUM", "avg": "SUM", "product": "PRODUCT", "max": "MAX", "min": "MIN"}


def size(group) -> int:
    return membership.get_world_size(group)


def gathered(tensor, group) -> list:
    """The tensors of all processes, which are of one shape."""
    tensor = carried(tensor)
    found = [torch.empty_like(tensor) for _ in range(size(group))]
    with counted_as("c10d_functional.all_gather_into_tensor"):
        collectives.all_gather(found, tensor, group=group)
    return found


def carried(tensor):
    """A tensor as messages hold it: dense, in memory of its own."""
    tensor = tensor.detach().contiguous()
    return tensor.resolve_conj().resolve_neg()


def reduced(tensor, op: str, group):
    """The tensors of all processes combined."""
    kind, count = tensor.dtype, size(group)
    tensor = carried(tensor).clone()
    if kind is torch.bool:
        tensor = tensor.to(torch.uint8)
    held = torch.view_as_real(tensor) if kind.is_complex and op in ("sum", "avg") else tensor
    with counted_as("c10d_functional.all_reduce"):
        collectives.all_reduce(held, getattr(torch.distributed.ReduceOp, OPS[op]), group=group)
    tensor = tensor.to(kind)
    return tensor / count if op == "avg" else tensor


def reduced_parts(parts: list, op: str, group):
    """This process's part of what all processes' parts are combined; parts are of one shape."""
    with counted_as("c10d_functional.reduce_scatter_tensor"):
        if parts[0].dtype.is_complex or parts[0].dtype is torch.bool or op not in ("sum", "avg"):
            return reduced(torch.stack(parts), op, group)[membership.get_rank(group)]
        out = torch.empty_like(carried(parts[0]))
        collectives.reduce_scatter(out, [carried(p) for p in parts], group=group)
    return out / len(parts) if op == "avg" else out


def exchanged(parts: list, shapes: list, group) -> list:
    """Part k goes to process k; what comes back has these shapes."""
    parts = [carried(p).reshape(-1) for p in parts]
    counts, wanted = [p.numel() for p in parts], [torch.Size(s).numel() for s in shapes]
    out = torch.empty(sum(wanted), dtype=parts[0].dtype, device=parts[0].device)
    with counted_as("c10d_functional.all_to_all_single"):
        collectives.all_to_all_single(out, torch.cat(parts), wanted, counts, group=group)
    return [piece.reshape(shape) for piece, shape in zip(out.split(wanted), shapes)]


def sent(tensor, group, source: int = 0):
    """The tensor of one process of the group, in all."""
    tensor = carried(tensor).clone()
    collectives.broadcast(tensor, group=group, group_src=source)
    return tensor


def told(value, group, source: int = 0):
    """The object of one process of the group, in all."""
    box = [value]
    collectives.broadcast_object_list(box, group=group, group_src=source)
    return box[0]

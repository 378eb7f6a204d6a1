"""Collectives of redistribution, which move parts of tensors between processes."""
from __future__ import annotations

import rushlight as torch

from ..._src.core.interpret import decided
from ..._src.core.op import OPS
from .. import collectives, membership
from ..counting import counted_as
from ..functional import NAMESPACE, Meant


def size(group) -> int:
    return membership.get_world_size(group)


def call(name: str, counted: str, tensor, *given, group):
    """The result of a collective as an operator, which compiled programs record; it counts as ``counted``."""
    decided(Meant(group.group_name), "members")
    with counted_as(f"c10d_functional.{counted}"):
        return OPS[f"{NAMESPACE}.{name}"](tensor, *given, group.group_name)


def gathered(tensor, group) -> list:
    """The tensors of all processes, which are of one shape."""
    rows = carried(tensor).unsqueeze(0)
    return list(call("all_gather_into_tensor", "all_gather_into_tensor", rows, size(group), group=group).unbind(0))


def carried(tensor):
    """A tensor as messages hold it: dense, in memory of its own."""
    tensor = tensor.detach().contiguous()
    return tensor.resolve_conj().resolve_neg()


def reduced(tensor, op: str, group):
    """The tensors of all processes combined."""
    kind, count, tensor = tensor.dtype, size(group), carried(tensor)
    if kind is torch.bool:
        tensor = tensor.to(torch.uint8)
    held = torch.view_as_real(tensor) if kind.is_complex and op in ("sum", "avg") else tensor
    found = call("all_reduce", "all_reduce", held, "sum" if op == "avg" else op, group=group)
    found = (torch.view_as_complex(found) if held is not tensor else found).to(kind)
    return found / count if op == "avg" else found


def reduced_parts(parts: list, op: str, group):
    """Reduce parts of one shape over all processes; return this process's part."""
    rows = torch.stack([carried(p) for p in parts])
    with counted_as("c10d_functional.reduce_scatter_tensor"):
        if rows.dtype.is_complex or rows.dtype is torch.bool or op not in ("sum", "avg"):
            return reduced(rows, op, group)[membership.get_rank(group)]
        out = call("reduce_scatter_tensor", "reduce_scatter_tensor", rows, "sum", len(parts), group=group)[0]
    return out / len(parts) if op == "avg" else out


def exchanged(parts: list, shapes: list, group) -> list:
    """Send part k to process k; return the received parts, of these shapes."""
    parts = [carried(p).reshape(-1) for p in parts]
    counts, wanted = tuple(p.numel() for p in parts), tuple(torch.Size(s).numel() for s in shapes)
    out = call("all_to_all_single", "all_to_all_single", torch.cat(parts), wanted, counts, group=group)
    return [piece.reshape(shape) for piece, shape in zip(out.split(wanted), shapes)]


def sent(tensor, group, source: int = 0):
    """The tensor of one process of the group, in all."""
    return call("broadcast", "broadcast", carried(tensor), source, group=group)


def told(value, group, source: int = 0):
    """The object of one process of the group, in all."""
    box = [value]
    collectives.broadcast_object_list(box, group=group, group_src=source)
    return box[0]

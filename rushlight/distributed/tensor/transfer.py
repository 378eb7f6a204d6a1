"""Redistribution: from some placements to others, by the steps that move the fewest bytes."""
from __future__ import annotations

import functools
import logging
from collections import Counter

import rushlight as torch

from . import transport
from .layout import box, order
from .placement_types import Partial, Replicate, Shard

log = logging.getLogger("rushlight.sharding")
COUNTS: Counter = Counter()  # steps that were taken in this process, by their kind
NEUTRAL = {"sum": 0, "avg": 0, "product": 1}


@functools.lru_cache(maxsize=65536)
def route(shape, source, target, sizes) -> tuple:
    """Return the steps from some placements to others: (mesh dimension, from, to, placements before); after each step
    the parts are boxes that the next step supports."""
    now, steps = list(source), []

    def free(k) -> bool:
        """True if no mesh dimension that shards after k shards the tensor dimension that k shards, now or later."""
        for p in (now[k], target[k]):
            if isinstance(p, Shard):
                ahead = order([p if n == k else q for n, q in enumerate(now)])
                if any(now[n].dim == p.dim for n in ahead[ahead.index(k) + 1:]):
                    return False
        return True

    def early(k) -> bool:
        """True if sharding k now would coincide with a shard to be removed, or precede one still to be made."""
        p = target[k]
        if not isinstance(p, Shard):
            return False
        ahead = order(target)
        before = ahead[:ahead.index(k)]
        return any(n != k and now[n] != target[n]
                   and (now[n].is_shard(p.dim) or n in before and target[n].is_shard(p.dim)) for n in range(len(now)))

    while now != list(target):
        open_ = [k for k in range(len(now)) if now[k] != target[k]]
        ready = [k for k in open_ if free(k) and not early(k)]
        if ready:
            k = min(ready, key=lambda k: step_cost(shape, now, k, target[k], sizes))
            step = target[k]
            if isinstance(step, Shard) and now[k].is_shard(step.dim):  # parts of other parts
                step = Replicate()
        else:  # the last shard is gathered first
            k = next(n for n in reversed(order(now)) if any(isinstance(p, Shard) and p.dim == now[n].dim for m in open_
                                                            for p in (now[m], target[m])))
            step = Replicate()
        steps.append((k, now[k], step, tuple(now)))
        now[k] = step
        if len(steps) == 3 * len(now):
            return through_whole(source, target)
    return tuple(steps)


def through_whole(source, target) -> tuple:
    """The way that always is one: everything is put together, last splits first, and split again."""
    now, steps = list(source), []
    others = [k for k in range(len(now)) if not isinstance(target[k], Shard)]
    for k, step in [*((k, Replicate()) for k in reversed(order(now))),
                    *((k, Replicate()) for k, p in enumerate(source) if isinstance(p, Partial) and p != target[k]),
                    *((k, target[k]) for k in (*order(target), *others))]:
        if now[k] != step:
            steps.append((k, now[k], step, tuple(now)))
            now[k] = step
    return tuple(steps)


def elements(shape, placements, sizes) -> int:
    """Return the number of elements of the first process's part."""
    local = box(shape, tuple(placements), sizes, (0,) * len(sizes))[0]
    return max(1, torch.Size(local).numel())


def step_cost(shape, now, k, target, sizes) -> float:
    """Elements that a process receives in one step."""
    n = sizes[k]
    local = elements(shape, now, sizes)
    if now[k] == target or isinstance(now[k], Replicate) or n == 1:
        return 0.01 if now[k] != target else 0.0
    share = (n - 1) / n
    if isinstance(now[k], Partial):
        if isinstance(target, Partial):
            return 3 * share * local
        return 2 * share * local if isinstance(target, Replicate) else share * local
    if isinstance(target, Replicate):
        return share * local * n
    if isinstance(target, Partial):  # nothing travels now, but everything will
        return 3 * share * local * n
    return share * local


@functools.lru_cache(maxsize=65536)
def cost(shape, source, target, sizes) -> float:
    """Elements that a process receives on the way."""
    total = 0.0
    for k, _, step, now in route(shape, source, target, sizes):
        total += step_cost(shape, now, k, step, sizes)
    return total


def redistributed(local, shape, mesh, source, target, why: str = ""):
    """Return this process's part of a tensor of ``shape`` by ``target``, from the part by ``source``; a process outside
    the mesh has none."""
    if mesh.get_coordinate() is None:
        return local
    sizes, coordinate = mesh.shape, tuple(mesh.get_coordinate())
    for k, before, after, now in route(tuple(shape), tuple(source), tuple(target), sizes):
        then = tuple(after if n == k else p for n, p in enumerate(now))
        COUNTS[f"{type(before).__name__} to {type(after).__name__}"] += 1
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s: %s of %s along dimension %d of the mesh: %s to %s", why or "requested", list(shape),
                      local.dtype, k, before, after)
        local = moved(local, tuple(shape), mesh, k, now, then, sizes, coordinate)
    return local


def parts_along(shape, placements, sizes, coordinate, k) -> list:
    """Return the boxes of all processes in this one's row along mesh dimension k."""
    return [box(shape, placements, sizes, (*coordinate[:k], n, *coordinate[k + 1:])) for n in range(sizes[k])]


def moved(local, shape, mesh, k, now, then, sizes, coordinate):
    """One step."""
    before, after, own = now[k], then[k], coordinate[k]
    if isinstance(before, Replicate):
        return from_whole(local, shape, k, now, then, sizes, coordinate)
    group = mesh.get_group(k)
    if isinstance(before, Partial):
        if isinstance(after, Shard):
            boxes, base = parts_along(shape, then, sizes, coordinate, k), box(shape, now, sizes, coordinate)[1]
            dim = after.dim
            most = max(b[0][dim] for b in boxes)
            parts = [filled(local.narrow(dim, b[1][dim] - base[dim] if b[0][dim] else 0, b[0][dim]), dim, most)
                     for b in boxes]
            return transport.reduced_parts(parts, before.reduce_op, group).narrow(dim, 0, boxes[own][0][dim])
        whole = transport.reduced(local, before.reduce_op, group)
        return whole if isinstance(after, Replicate) else as_term(whole, after, own)
    if isinstance(after, Shard):
        boxes, wanted = parts_along(shape, now, sizes, coordinate, k), parts_along(shape, then, sizes, coordinate, k)
        base, d, e = boxes[own][1][after.dim], before.dim, after.dim
        parts = [local.narrow(e, w[1][e] - base if w[0][e] else 0, w[0][e]) for w in wanted]
        shapes = []
        for b in boxes:
            one = list(local.shape)
            one[d], one[e] = b[0][d], wanted[own][0][e]
            shapes.append(tuple(one))
        return torch.cat(transport.exchanged(parts, shapes, group), d)
    if isinstance(after, Partial):
        if after.reduce_op not in NEUTRAL:
            return as_term(together(local, shape, group, k, now, sizes, coordinate), after, own)
        boxes, d = parts_along(shape, now, sizes, coordinate, k), before.dim
        value = NEUTRAL[after.reduce_op]
        pieces = [local if n == own else torch.full([*local.shape[:d], b[0][d], *local.shape[d + 1:]], value,
                                                    dtype=local.dtype, device=local.device)
                  for n, b in enumerate(boxes)]
        out = torch.cat(pieces, d)
        return out * sizes[k] if after.reduce_op == "avg" else out
    return together(local, shape, group, k, now, sizes, coordinate)


def together(local, shape, group, k, now, sizes, coordinate):
    """The parts of a row of processes, as one."""
    boxes, dim = parts_along(shape, now, sizes, coordinate, k), now[k].dim
    most = max(b[0][dim] for b in boxes)
    found = transport.gathered(filled(local, dim, most), group)
    return torch.cat([piece.narrow(dim, 0, b[0][dim]) for piece, b in zip(found, boxes)], dim)


def filled(tensor, dim, count):
    """A tensor with rows more, up to ``count``."""
    missing = count - tensor.shape[dim]
    if not missing:
        return tensor
    return torch.cat([tensor, torch.zeros([*tensor.shape[:dim], missing, *tensor.shape[dim + 1:]], dtype=tensor.dtype,
                                          device=tensor.device)], dim)


def as_term(whole, after, own):
    """Return a full tensor as this process's term: the first process has it, the others the neutral element."""
    if after.reduce_op in NEUTRAL and own and after.reduce_op != "avg":
        return torch.full_like(whole, NEUTRAL[after.reduce_op])
    return whole.clone()


def from_whole(local, shape, k, now, then, sizes, coordinate):
    """Return this process's part, or term, of a tensor that every process of a row has."""
    after = then[k]
    if isinstance(after, Partial):
        return as_term(local, after, coordinate[k])
    base, (lengths, offsets) = box(shape, now, sizes, coordinate)[1], box(shape, then, sizes, coordinate)
    dim = after.dim
    return local.narrow(dim, offsets[dim] - base[dim] if lengths[dim] else 0, lengths[dim])

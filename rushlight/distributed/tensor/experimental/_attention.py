"""Attention over sequences that are split: each process has a share of the queries, and keys and values go round."""
from __future__ import annotations

import contextlib
import math
from typing import NamedTuple

import rushlight as torch

from ...._src.core.op import OPS
from ...._src.ops.dropping import blocks_drawn, level_of, within
from ....nn import functional as F
from ....overrides import TorchFunctionMode
from ... import collectives, membership
from .. import transport
from .._dispatch import Drawing

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]


class Settings:
    """Settings of context parallelism.  ``rotate_method``: keys and values are gathered at once ("allgather") or passed
    around a ring ("alltoall").  ``enable_load_balance``: sequences are cut into two pieces a process, and each has one
    from the front and one from the back, so that causal attention is equal work for all."""

    rotate_method = "allgather"
    enable_load_balance = True


_cp_options = Settings


def set_rotate_method(rotate_method: str) -> None:
    """Set the communication of keys and values: "allgather" or "alltoall".  NotImplementedError for others."""
    if rotate_method not in ("allgather", "alltoall"):
        raise NotImplementedError(f"Context Parallel does not support using {rotate_method} for kv shards rotation")
    Settings.rotate_method = rotate_method


def pieces_of(rank: int, ranks: int, balanced: bool) -> list[int]:
    """Return the indices of a process's pieces of a sequence.

    >>> [pieces_of(r, 2, True) for r in range(2)], [pieces_of(r, 2, False) for r in range(2)]
    ([[0, 3], [1, 2]], [[0], [1]])
    """
    return [rank, 2 * ranks - 1 - rank] if balanced else [rank]


def share(x, dim: int, rank: int, ranks: int, balanced: bool):
    """Return a process's share of a sequence.  ValueError if it is not cut evenly."""
    count = ranks * (1 + balanced)
    if x.shape[dim] % count:
        raise ValueError(f"context_parallel: a sequence of {x.shape[dim]} is not cut into {count} pieces of one length")
    every = x.chunk(count, dim)
    return torch.cat([every[k] for k in pieces_of(rank, ranks, balanced)], dim)


def whole(x, dim: int, group, balanced: bool):
    """Return the full sequence from the processes' shares."""
    found = transport.gathered(x.detach(), group)
    ranks = len(found)
    pieces = {}
    for rank, one in enumerate(found):
        own = pieces_of(rank, ranks, balanced)
        pieces.update(zip(own, one.chunk(len(own), dim)))
    return torch.cat([pieces[k] for k in sorted(pieces)], dim)


def context_parallel_unshard(mesh, buffers: list, seq_dims: list, load_balancer=None) -> list:
    """Return full tensors from shares, such as those that a model gives within ``context_parallel``."""
    if load_balancer is not None:
        raise NotImplementedError("context_parallel_unshard: load balancers are not taken; the order is that of "
                                  "context_parallel")
    return [whole(x, dim, mesh.get_group(), Settings.enable_load_balance) for x, dim in zip(buffers, seq_dims)]


@contextlib.contextmanager
def context_parallel(mesh, *, buffers=None, buffer_seq_dims=None, no_restore_buffers=None):
    """A block in which tensors ``buffers`` are this process's shares of sequences, along ``buffer_seq_dims``, and
    ``scaled_dot_product_attention`` takes shares of queries, keys and values, [batch, heads, share, size], for all of
    the sequence.  A mask has columns for the full sequence, and rows for the full sequence or for this process's share
    (a buffer that is cut along -2).  Dropout drops the same weights as in one process; the first process broadcasts
    its offset in the RNG stream.  Afterwards buffers are full again, except ``no_restore_buffers``.

    ValueError for a mesh of several dimensions, and for sequences that are not cut evenly.
    """
    buffers, dims = list(buffers or ()), list(buffer_seq_dims or ())
    kept = {id(b) for b in no_restore_buffers or ()}
    if len(buffers) != len(dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    if mesh.ndim != 1:
        raise ValueError(f"context_parallel expected a 1-D DeviceMesh, got {mesh}: slice it by dimension name")
    if not kept <= {id(b) for b in buffers}:
        raise ValueError("`no_restore_buffers` must be a subset of `buffers`.")
    if any(isinstance(b, torch.nn.Parameter) for b in buffers):
        raise ValueError("context_parallel: a buffer is a parameter")
    group, rank, ranks = mesh.get_group(), mesh.get_local_rank(), mesh.size()
    before = [b.detach().clone() if id(b) not in kept else None for b in buffers]
    shares = [share(buffer.detach(), dim, rank, ranks, Settings.enable_load_balance)
              for buffer, dim in zip(buffers, dims)]
    for buffer, own in zip(buffers, shares):
        buffer.data = own
    try:
        with Sharing(mesh, Settings.enable_load_balance, Settings.rotate_method == "alltoall"):
            yield
    finally:
        for buffer, value in zip(buffers, before):
            if value is not None:
                buffer.data = value


class Sharing(TorchFunctionMode):
    """A block in which attention is that over shares of sequences."""

    def __init__(self, mesh, balanced: bool, rotating: bool):
        self.how, self.drawing = (mesh.get_group(), balanced, rotating), Drawing(mesh)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is not F.scaled_dot_product_attention:
            return func(*args, **(kwargs or {}))
        return self.attention(*args, **(kwargs or {}))

    def attention(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                  enable_gqa=False):
        if not 0 <= dropout_p <= 1:
            raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")
        if query.dim() != 4 or query.shape[2] != key.shape[2]:
            raise ValueError("context_parallel: attention takes [batch, heads, share, size], with as many queries as "
                             f"keys, not {list(query.shape)} and {list(key.shape)}")
        if enable_gqa and key.shape[1] != query.shape[1]:
            key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
        if attn_mask is not None:
            self.check_mask(attn_mask, query, is_causal)
        scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
        level = level_of(float(dropout_p))
        dropped = self.dropped(query, level) if level else None
        return Ring.apply(query, key, value, attn_mask, bool(is_causal), scale, dropped, self.how)

    def dropped(self, query, level: int):
        """Return the dropout of the full sequence's weights."""
        n, heads, share, _ = query.shape
        length = share * membership.get_world_size(self.how[0])
        return Dropped(*self.drawing.reserve(blocks_drawn(n * heads, length, length)), level, length)

    def check_mask(self, mask, query, causal):
        """Raise RuntimeError for a mask together with ``is_causal``; ValueError if it lacks the columns of the full
        sequence, or rows of it or of this process's share; NotImplementedError if it requires a gradient."""
        whole = query.shape[2] * membership.get_world_size(self.how[0])
        if causal:
            raise RuntimeError("scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
        if mask.requires_grad:
            raise NotImplementedError("context_parallel: a mask gets no gradient; detach it")
        if not 2 <= mask.dim() <= 4 or mask.shape[-1] != whole or mask.shape[-2] not in (1, query.shape[2], whole):
            raise ValueError(f"context_parallel: a mask is [batch, heads, {query.shape[2]} or {whole}, {whole}], with "
                             f"columns for the whole sequence, not {list(mask.shape)}")


class Dropped(NamedTuple):
    """Dropout of the weights of a sequence of ``length``, at a ``level`` (``dropping.level_of``): from block ``place``
    of the RNG stream of ``seed``."""

    seed: int
    place: int
    level: int
    length: int

    def part(self, row: int, column: int) -> tuple:
        """Return the arguments of ``_attention_part`` for a part that begins at a row and a column of the weights."""
        where, blocks = within(self.length, self.length, row, column)
        return self.seed, self.place + blocks, self.level, where


class Shares:
    """Iterates over the shares of all processes: this one's own, then those of the ranks before it."""

    def __init__(self, group, rotating: bool):
        self.group, self.rotating = group, rotating
        self.rank, self.ranks = membership.get_rank(group), membership.get_world_size(group)

    def each(self, *tensors):
        """(rank, its tensors) of each process."""
        if not self.rotating:
            every = [transport.gathered(x, self.group) for x in tensors]
            for step in range(self.ranks):
                other = (self.rank - step) % self.ranks
                yield other, tuple(found[other] for found in every)
            return
        for step in range(self.ranks):
            yield (self.rank - step) % self.ranks, tensors
            if step < self.ranks - 1:
                tensors = tuple(map(self.passed_on, tensors))

    def passed_on(self, tensor):
        """Gives a tensor to the next process, for that of the one before."""
        given, found = transport.carried(tensor), torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
        work = collectives.isend(given, group=self.group, group_dst=(self.rank + 1) % self.ranks)
        collectives.recv(found, group=self.group, group_src=(self.rank - 1) % self.ranks)
        work.wait()
        return found

    def returned(self, parts: dict):
        """Return the sum over all processes of the tensors for this one, from ``{rank: tensor}``."""
        return transport.reduced_parts([parts[r] for r in range(self.ranks)], "sum", self.group)


def pairs(own: list, other: list, causal: bool) -> list:
    """Return (index of a piece of queries, of a piece of keys, True if they are the same) of pieces that attend."""
    return [(a, b, causal and i == j) for a, i in enumerate(own) for b, j in enumerate(other) if not causal or j <= i]


def centred(mask):
    """Subtract each row's maximum from a floating-point mask, which changes no weight: the log-sum-exp values that
    merge parts are then small, also if large values mask all of a row.  Other masks stay unchanged."""
    if mask is None or mask.dtype is torch.bool:
        return mask
    mask = mask.detach().float()
    high = mask.amax(-1, keepdim=True)
    return mask - high.masked_fill(high.isinf(), 0)


class Masks:
    """The parts of a mask (None: there is none) for this process's queries: rows of its pieces, in their order, or of
    the full sequence, and columns of the full sequence."""

    def __init__(self, mask, own: list, share: int):
        self.mask, self.own, self.step = centred(mask), own, share // len(own)
        self.mine = mask is not None and mask.shape[-2] == share

    def part(self, place: int, piece: int):
        """Return the mask of this process's piece of queries ``place`` and the sequence's piece of keys ``piece``."""
        if self.mask is None:
            return None
        found = self.mask.narrow(-1, piece * self.step, self.step)
        if found.shape[-2] > 1:
            found = found.narrow(-2, (place if self.mine else self.own[place]) * self.step, self.step)
        return found.reshape((1,) * (4 - found.dim()) + tuple(found.shape)).contiguous()


def joined(known, new):
    """Merge two parts of attention over the same queries: (result, log-sum-exp).  The log-sum-exp of queries without
    visible keys is inf, so that their weights are 0."""
    if known is None:
        return new
    logs = [part[1].masked_fill(part[1] == math.inf, -math.inf) for part in (known, new)]
    total = torch.logaddexp(*logs)
    total = total.masked_fill(total == -math.inf, math.inf)
    first, second = (part[0].float() * (log - total).exp().unsqueeze(-1) for part, log in zip((known, new), logs))
    return first + second, total


class Pieces:
    """A process's pieces of an attention: of queries, of a mask, and of the dropout mask."""

    def __init__(self, query, mask, causal: bool, scale: float, dropped: Dropped | None, how: tuple):
        self.group, self.balanced, rotating = how
        self.shares, self.count = Shares(self.group, rotating), 1 + self.balanced
        self.causal, self.scale, self.dropped = causal, scale, dropped
        self.own = pieces_of(self.shares.rank, self.shares.ranks, self.balanced)
        self.step, self.masks = query.shape[2] // self.count, Masks(mask, self.own, query.shape[2])

    def cut(self, x):
        return x.chunk(self.count, 2)

    def pairs(self, rank: int):
        """Yield (index of a piece of queries, of a piece of a process's keys, the arguments of their attention)."""
        theirs = pieces_of(rank, self.shares.ranks, self.balanced)
        for a, b, same in pairs(self.own, theirs, self.causal):
            seed, place, drop, part = (None, None, 0, ()) if self.dropped is None else self.dropped.part(
                self.own[a] * self.step, theirs[b] * self.step)
            yield a, b, (self.masks.part(a, theirs[b]), seed, place, same, self.scale, drop, part)


class Ring(torch.autograd.Function):
    """Attention of this process's queries to the keys of all."""

    @staticmethod
    def forward(ctx, query, key, value, mask, *how):
        pieces = Pieces(query, mask, *how)
        queries, found = pieces.cut(query), [None] * pieces.count
        for rank, (keys, values) in pieces.shares.each(key, value):
            for a, b, arguments in pieces.pairs(rank):
                part = OPS["_attention_part"](queries[a], pieces.cut(keys)[b], pieces.cut(values)[b], *arguments)
                found[a] = joined(found[a], part)
        out = torch.cat([f[0] for f in found], 2).to(query.dtype)
        ctx.save_for_backward(query, key, value, out, torch.cat([f[1] for f in found], 2), mask)
        ctx.how = how
        return out

    @staticmethod
    def backward(ctx, gradient):
        query, key, value, out, lse, mask = ctx.saved_tensors
        pieces = Pieces(query, mask, *ctx.how)
        rows = [pieces.cut(x) for x in (gradient, out, lse, query)]
        of_queries = torch.zeros_like(query, dtype=torch.float32)
        of_keys, of_values = {}, {}
        for rank, (keys, values) in pieces.shares.each(key, value):
            of_keys[rank], of_values[rank] = (torch.zeros_like(x, dtype=torch.float32) for x in (keys, values))
            for a, b, arguments in pieces.pairs(rank):
                parts = OPS["_attention_part_gradient"](*(x[a].contiguous() for x in rows), pieces.cut(keys)[b],
                                                        pieces.cut(values)[b], *arguments)
                pieces.cut(of_queries)[a].add_(parts[0])
                pieces.cut(of_keys[rank])[b].add_(parts[1])
                pieces.cut(of_values[rank])[b].add_(parts[2])
        return (of_queries.to(query.dtype), pieces.shares.returned(of_keys).to(key.dtype),
                pieces.shares.returned(of_values).to(value.dtype), *(None for _ in range(5)))

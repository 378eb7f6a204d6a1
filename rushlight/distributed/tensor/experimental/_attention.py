"""Attention over sequences that are split: each process has a share of the queries, and keys and values go round."""
from __future__ import annotations

import contextlib
import math

import rushlight as torch

from ...._src.core.op import OPS
from ....nn import functional as F
from ....overrides import TorchFunctionMode
from ... import collectives, membership
from .. import transport

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]


class Settings:
    """How keys and values travel: "allgather" at once, or "alltoall" from neighbour to neighbour; whether sequences are
    cut into twice as many pieces, of which each process has one of the front and one of the back, so that causal
    attention is as much work for all."""

    rotate_method = "allgather"
    enable_load_balance = True


_cp_options = Settings


def set_rotate_method(rotate_method: str) -> None:
    """How keys and values travel: "allgather" or "alltoall".  NotImplementedError for others."""
    if rotate_method not in ("allgather", "alltoall"):
        raise NotImplementedError(f"Context Parallel does not support using {rotate_method} for kv shards rotation")
    Settings.rotate_method = rotate_method


def pieces_of(rank: int, ranks: int, balanced: bool) -> list[int]:
    """Which pieces of a sequence a process has.

    >>> [pieces_of(r, 2, True) for r in range(2)], [pieces_of(r, 2, False) for r in range(2)]
    ([[0, 3], [1, 2]], [[0], [1]])
    """
    return [rank, 2 * ranks - 1 - rank] if balanced else [rank]


def share(x, dim: int, rank: int, ranks: int, balanced: bool):
    """The share that a process has of a sequence.  ValueError where it is not cut evenly."""
    count = ranks * (1 + balanced)
    if x.shape[dim] % count:
        raise ValueError(f"context_parallel: a sequence of {x.shape[dim]} is not cut into {count} pieces of one length")
    every = x.chunk(count, dim)
    return torch.cat([every[k] for k in pieces_of(rank, ranks, balanced)], dim)


def whole(x, dim: int, group, balanced: bool):
    """The sequence of which each process has a share."""
    found = transport.gathered(x.detach(), group)
    ranks = len(found)
    pieces = {}
    for rank, one in enumerate(found):
        own = pieces_of(rank, ranks, balanced)
        pieces.update(zip(own, one.chunk(len(own), dim)))
    return torch.cat([pieces[k] for k in sorted(pieces)], dim)


def context_parallel_unshard(mesh, buffers: list, seq_dims: list, load_balancer=None) -> list:
    """Whole tensors of shares, such as those that a model gives within ``context_parallel``."""
    if load_balancer is not None:
        raise NotImplementedError("context_parallel_unshard: load balancers are not taken; the order is that of "
                                  "context_parallel")
    return [whole(x, dim, mesh.get_group(), Settings.enable_load_balance) for x, dim in zip(buffers, seq_dims)]


@contextlib.contextmanager
def context_parallel(mesh, *, buffers=None, buffer_seq_dims=None, no_restore_buffers=None):
    """A block in which tensors ``buffers`` are this process's shares of sequences, along ``buffer_seq_dims``, and
    ``scaled_dot_product_attention`` takes shares of queries, keys and values, [batch, heads, share, size], for all of
    the sequence.  Afterwards buffers are whole again, but for ``no_restore_buffers``.

    ValueError for a grid of several dimensions, and for sequences that are not cut evenly.
    """
    buffers, dims = list(buffers or ()), list(buffer_seq_dims or ())
    kept = {id(b) for b in no_restore_buffers or ()}
    if len(buffers) != len(dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    if mesh.ndim != 1:
        raise ValueError(f"context_parallel takes a grid of one dimension, not {mesh}: slice it by the name of one")
    if not kept <= {id(b) for b in buffers}:
        raise ValueError("`no_restore_buffers` must be a subset of `buffers`.")
    if any(isinstance(b, torch.nn.Parameter) for b in buffers):
        raise ValueError("context_parallel: a buffer is a parameter")
    group, rank, ranks = mesh.get_group(), mesh.get_local_rank(), mesh.size()
    before = [b.detach().clone() if id(b) not in kept else None for b in buffers]
    for buffer, dim in zip(buffers, dims):
        buffer.data = share(buffer.detach(), dim, rank, ranks, Settings.enable_load_balance)
    try:
        with Sharing(group, Settings.enable_load_balance, Settings.rotate_method == "alltoall"):
            yield
    finally:
        for buffer, value in zip(buffers, before):
            if value is not None:
                buffer.data = value


class Sharing(TorchFunctionMode):
    """A block in which attention is that over shares of sequences."""

    def __init__(self, group, balanced: bool, rotating: bool):
        self.how = group, balanced, rotating

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is not F.scaled_dot_product_attention:
            return func(*args, **(kwargs or {}))
        return self.attention(*args, **(kwargs or {}))

    def attention(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                  enable_gqa=False):
        if attn_mask is not None or dropout_p:
            raise NotImplementedError("context_parallel: attention with a mask or with dropout is not implemented")
        if query.dim() != 4 or query.shape[2] != key.shape[2]:
            raise ValueError("context_parallel: attention takes [batch, heads, share, size], with as many queries as "
                             f"keys, not {list(query.shape)} and {list(key.shape)}")
        if enable_gqa and key.shape[1] != query.shape[1]:
            key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
        scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
        return Ring.apply(query, key, value, bool(is_causal), scale, self.how)


class Shares:
    """What each process has, one after another: this one's own, then those of the ranks before it."""

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
        given, found = transport.carried(tensor), torch.empty(tensor.shape, dtype=tensor.dtype)
        work = collectives.isend(given, group=self.group, group_dst=(self.rank + 1) % self.ranks)
        collectives.recv(found, group=self.group, group_src=(self.rank - 1) % self.ranks)
        work.wait()
        return found

    def returned(self, parts: dict):
        """The sum of what all processes have for this one, of ``{rank: tensor}``."""
        return transport.reduced_parts([parts[r] for r in range(self.ranks)], "sum", self.group)


def pairs(own: list, other: list, causal: bool) -> list:
    """(place of a piece of queries, of a piece of keys, whether they are the same) of those that look at each other."""
    return [(a, b, causal and i == j) for a, i in enumerate(own) for b, j in enumerate(other) if not causal or j <= i]


def joined(known, new):
    """Two parts of attention over the same queries as one: (result, logarithm of totals)."""
    if known is None:
        return new
    total = torch.logaddexp(known[1], new[1])
    first, second = ((part[0].float() * (part[1] - total).exp().unsqueeze(-1)) for part in (known, new))
    return first + second, total


class Ring(torch.autograd.Function):
    """Attention of this process's queries to the keys of all."""

    @staticmethod
    def forward(ctx, query, key, value, causal, scale, how):
        group, balanced, rotating = how
        shares, count = Shares(group, rotating), 1 + balanced
        queries = query.chunk(count, 2)
        found = [None] * count
        own = pieces_of(shares.rank, shares.ranks, balanced)
        for rank, (keys, values) in shares.each(key, value):
            for a, b, same in pairs(own, pieces_of(rank, shares.ranks, balanced), causal):
                part = OPS["_attention_part"](queries[a], keys.chunk(count, 2)[b], values.chunk(count, 2)[b], same,
                                              scale)
                found[a] = joined(found[a], part)
        out = torch.cat([f[0] for f in found], 2).to(query.dtype)
        ctx.save_for_backward(query, key, value, out, torch.cat([f[1] for f in found], 2))
        ctx.causal, ctx.scale, ctx.how = causal, scale, how
        return out

    @staticmethod
    def backward(ctx, gradient):
        query, key, value, out, lse = ctx.saved_tensors
        group, balanced, rotating = ctx.how
        shares, count = Shares(group, rotating), 1 + balanced
        rows = [x.chunk(count, 2) for x in (gradient, out, lse, query)]
        own = pieces_of(shares.rank, shares.ranks, balanced)
        of_queries = torch.zeros_like(query, dtype=torch.float32)
        of_keys, of_values = {}, {}
        for rank, (keys, values) in shares.each(key, value):
            of_keys[rank], of_values[rank] = (torch.zeros_like(x, dtype=torch.float32) for x in (keys, values))
            for a, b, same in pairs(own, pieces_of(rank, shares.ranks, balanced), ctx.causal):
                parts = OPS["_attention_part_gradient"](*(x[a].contiguous() for x in rows),
                                                        keys.chunk(count, 2)[b], values.chunk(count, 2)[b], same,
                                                        ctx.scale)
                of_queries.chunk(count, 2)[a].add_(parts[0])
                of_keys[rank].chunk(count, 2)[b].add_(parts[1])
                of_values[rank].chunk(count, 2)[b].add_(parts[2])
        return (of_queries.to(query.dtype), shares.returned(of_keys).to(key.dtype),
                shares.returned(of_values).to(value.dtype), None, None, None)

"""Attention as operation graphs of cuDNN."""

from __future__ import annotations

from ....ops.flash import AttentionSpec
from ...shared.attention import Attention
from .graphs import (ADD, DIV, EXP, GREATER_EQUAL, Graph, INDEX, LARGEST, LOG, MUL, SAME, SELECT, SUB, SUM, Tensor)

FORWARD = "q", "k", "v", "mask", "out", "lse", "workspace"
BACKWARD = "q", "k", "v", "mask", "out", "lse", "grad", "grad_q", "grad_k", "grad_v", "delta", "sums", "workspace"
LOWEST = -3.0e38  # the score of a masked element: its weight is 0, and a fully masked row has no NaN


def fields_of(p: Attention) -> tuple:
    """The numbers of a problem."""
    return (p.batch, p.heads, p.sharing, p.queries, p.keys, p.size, p.value_size, p.q, p.k, p.v, p.out, p.dtype,
            p.spec.causal, float(p.spec.scale), p.mask, p.mask_strides, p.grad, p.grad_q, p.grad_k, p.grad_v)


def problem_of(fields: tuple) -> Attention:
    *sizes, dtype, causal, scale, mask, mask_strides, grad, grad_q, grad_k, grad_v = fields
    return Attention(*sizes, dtype, AttentionSpec(causal, scale), mask, mask_strides, grad, grad_q, grad_k, grad_v)


def names(p: Attention, direction: str) -> tuple:
    """Return the names of a run's operands, in the order of a launch's slots."""
    found = FORWARD if direction == "forward" else BACKWARD
    return found if p.mask else tuple(name for name in found if name != "mask")


def graph(dnn, p: Attention, direction: str) -> Graph:
    return forward(dnn, p) if direction == "forward" else backward(dnn, p)


def suits(p: Attention, configuration) -> bool:
    """Whether an engine that the library proposes may be taken: all may."""
    return True


def turned(strides: tuple) -> tuple:
    return *strides[:2], strides[3], strides[2]


def scored(graph: Graph, p, q: Tensor, k: Tensor, shape: tuple) -> Tensor:
    """Scores: q k^T scaled, with the mask, and what causal attention leaves."""
    scores = graph.multiply(q, k, graph.tensor(shape, "float32"))
    scores = graph.point(MUL, scores, graph.constant(p.spec.scale))
    if p.mask:
        mask = graph.tensor(mask_shape(p), p.mask, "mask", p.mask_strides)
        scores = graph.point(ADD, scores, mask)
    if p.spec.causal:
        rows, columns = (graph.point(INDEX, scores, axis=axis) for axis in (2, 3))
        seen = graph.point(GREATER_EQUAL, rows, columns)
        scores = graph.point(SELECT, scores, graph.constant(LOWEST), seen)
    return scores


def mask_shape(p) -> tuple:
    """Sizes of the mask: 1 where it is the same for all."""
    whole = p.batch, p.heads, p.queries, p.keys
    return tuple(size if stride else 1 for size, stride in zip(whole, p.mask_strides))


def forward(dnn, p) -> Graph:
    """out and lse from q, k and v."""
    graph, shared = Graph(dnn), p.heads // p.sharing
    shape, rows = (p.batch, p.heads, p.queries, p.keys), (p.batch, p.heads, p.queries, 1)
    q = graph.tensor((p.batch, p.heads, p.queries, p.size), p.dtype, "q", p.q)
    k = graph.tensor((p.batch, shared, p.size, p.keys), p.dtype, "k", turned(p.k))
    v = graph.tensor((p.batch, shared, p.keys, p.value_size), p.dtype, "v", p.v)
    scores = scored(graph, p, q, k, shape)
    most = graph.reduce(LARGEST, scores, rows)
    e = graph.point(EXP, graph.point(SUB, scores, most))
    total = graph.reduce(SUM, e, rows)
    graph.point(ADD, most, graph.point(LOG, total), out=graph.tensor(rows, "float32", "lse"))
    weights = graph.point(DIV, e, total, out=graph.tensor(shape, p.dtype))
    graph.multiply(weights, v, graph.tensor((p.batch, p.heads, p.queries, p.value_size), p.dtype, "out", p.out))
    return graph


def backward(dnn, p) -> Graph:
    """grad_q, grad_k and grad_v from those of out and all that the forward had and made."""
    graph, shared = Graph(dnn), p.heads // p.sharing
    shape, rows = (p.batch, p.heads, p.queries, p.keys), (p.batch, p.heads, p.queries, 1)
    results = p.batch, p.heads, p.queries, p.value_size
    grad, out = graph.tensor(results, p.dtype, "grad", p.grad), graph.tensor(results, p.dtype, "out", p.out)
    q = graph.tensor((p.batch, p.heads, p.queries, p.size), p.dtype, "q", p.q)
    k = graph.tensor((p.batch, shared, p.size, p.keys), p.dtype, "k", turned(p.k))
    v = graph.tensor((p.batch, shared, p.value_size, p.keys), p.dtype, "v", turned(p.v))
    lse = graph.tensor(rows, "float32", "lse")
    delta = graph.reduce(SUM, graph.point(MUL, grad, out), rows, graph.tensor(rows, "float32", "delta"))
    scores = scored(graph, p, q, k, shape)
    weights = graph.point(EXP, graph.point(SUB, scores, lse))
    summed(graph, p, graph.transposed(weights, p.dtype), grad, "grad_v", (p.batch, shared, p.keys, p.value_size),
           p.grad_v)
    slopes = graph.point(SUB, graph.multiply(grad, v, graph.tensor(shape, "float32")), delta)
    slopes = graph.point(MUL, graph.point(MUL, slopes, weights), graph.constant(p.spec.scale))
    summed(graph, p, graph.transposed(slopes, p.dtype), q, "grad_k", (p.batch, shared, p.keys, p.size), p.grad_k)
    sums = graph.tensor(q.shape, "float32", "sums")
    graph.multiply(slopes, graph.transposed(k, p.dtype, p.k), sums)
    graph.point(SAME, sums, out=graph.tensor(q.shape, p.dtype, "grad_q", p.grad_q))
    return graph


def summed(graph: Graph, p, left: Tensor, right: Tensor, name: str, shape: tuple, strides: tuple):
    """A gradient of keys or values, which is that of all heads that share them."""
    result = graph.tensor(shape, p.dtype, name, strides)
    if p.sharing == 1:
        graph.multiply(left, right, result)
        return
    whole = graph.multiply(left, right, graph.tensor((p.batch, p.heads, *shape[2:]), p.dtype))
    graph.reduce(SUM, whole, shape, result)

"""Attention as one primitive that does not materialize its scores, and its gradient."""
from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from ..core.dtypes import bfloat16, bool_, float16, float32, int64
from ..core.interpret import draws
from ..core.kinds import Foreign, P
from ..core.meta import Meta, nested_strides
from ..core.op import OPS, Scalar, op
from ..core.runtime import RunTime
from .dropping import dropper, factors_numpy
from .prims.contractions import transposed
from .prims.primitive import primitive
from .prims.views import expanded
from .promotion import upcast


@dataclasses.dataclass(frozen=True)
class AttentionSpec:
    """Parameters of attention that are not operands.

    ``causal``: a query sees the keys up to its own position.  ``scale``: of scores.  ``mods``: user functions of
    scores, or None.  ``drop``: the level at which weights are dropped (``dropping.level_of``).  ``longest``: bounds of
    the numbers of queries and of keys of a packed sequence; () if sequences are not packed.  ``kernel``: "vendor" uses
    the library of the device's vendor, "own" does not; "": the device chooses.  ``part``: position of these weights
    among those that dropout decides about (``dropping.within``); (): they are all.

    The fields are the parameters of the primitives, so that a traversal of the scalars in a graph finds them.
    """

    causal: bool
    scale: float
    mods: object = None
    drop: int = 0
    longest: tuple = ()
    kernel: str = ""
    part: tuple = ()


class AttentionOperands(NamedTuple):
    """Operands of attention, in the order of the primitive's arguments (see ``attention``)."""

    q: object
    k: object
    v: object
    mask: object = None
    blocks: object = None
    captured: tuple = ()
    starts: tuple = ()
    seed: object = None
    place: object = None


def attend(operands: AttentionOperands, spec: AttentionSpec):
    """(attention, log-sum-exp of each row) by the primitive."""
    return P.attention(*operands, **vars(spec))


def specified(first: int):
    """Make a rule of the primitives, whose arguments are ``first`` values and the operands, from a function of the
    values, the AttentionOperands and the AttentionSpec."""
    def wrapped(function):
        def rule(*values, **how):
            return function(*values[:first], AttentionOperands(*values[first:]), AttentionSpec(**how))
        rule.__name__, rule.__doc__ = function.__name__, function.__doc__
        return rule
    return wrapped


# --- meaning ----------------------------------------------------------------------------------------------------------
def weights_numpy(q, k, x: AttentionOperands, spec: AttentionSpec):
    """Probabilities [n, h, l, s], log-sum-exp of each row (infinity, and zeros, for fully masked rows), and plain
    scores."""
    plain = scores = np.matmul(q, shared(k, q).swapaxes(-1, -2)) * np.float32(spec.scale)
    if spec.mods is not None:
        scores = spec.mods.scores_numpy(plain, x.captured)
    if x.mask is not None:
        scores = np.where(x.mask, scores, -np.inf) if x.mask.dtype == bool else scores + x.mask
    if spec.causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    high = scores.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(high == -np.inf, 0, high))
    total = e.sum(-1, keepdims=True)
    lse = np.where(total == 0, np.inf, np.log(total) + high)[..., 0]
    return e / np.where(total == 0, 1, total), lse, plain


def shared(x, q):
    """Repeat heads of keys or values for the heads of queries that share them."""
    return np.repeat(x, q.shape[1] // x.shape[1], 1)


@specified(0)
def attention_numpy(x, spec):
    dropped = factors(x, spec)

    def one(q, k, v, factors):
        weights, lse, _ = weights_numpy(q, k, x, spec)
        return np.matmul(weights * factors, shared(v, q)), lse

    if not x.starts:
        return one(x.q, x.k, x.v, dropped)
    parts = [one(x.q[:, :, a], x.k[:, :, b], x.v[:, :, b], f) for a, b, f in sequences(x.starts, dropped)]
    return tuple(np.concatenate(pieces, 2) for pieces in zip(*parts))


@specified(3)
def gradient_numpy(grad, out, lse, x, spec):
    dropped = factors(x, spec)
    if not x.starts:
        return gradients_of_one(grad, out, lse, x.q, x.k, x.v, x, spec, dropped)
    parts = [gradients_of_one(*(value[:, :, a] for value in (grad, out, lse, x.q)), x.k[:, :, b], x.v[:, :, b], x, spec,
                              f) for a, b, f in sequences(x.starts, dropped)]
    return tuple(np.concatenate(pieces, 2) for pieces in zip(*parts))


def sequences(starts, factors):
    """Yield (rows of queries, rows of keys, factors of weights) of each packed sequence."""
    (q, k), count = starts, len(starts[0]) - 1
    for i in range(count):
        rows, columns = slice(q[i], q[i + 1]), slice(k[i], k[i + 1])
        yield rows, columns, factors if np.ndim(factors) == 0 else factors[i:i + 1, :, :q[i + 1] - q[i],
                                                                           :k[i + 1] - k[i]]


def factors(x: AttentionOperands, spec: AttentionSpec):
    """Factors by which dropout multiplies weights: [n, h, l, s]; packed sequences are padded to the longest."""
    rows, columns = spec.longest if x.starts else (x.q.shape[2], x.k.shape[2])
    return factors_numpy((len(x.starts[0]) - 1 if x.starts else x.q.shape[0], x.q.shape[1], rows), columns, x.seed,
                         x.place, spec.drop, spec.part)


def gradients_of_one(grad, out, lse, q, k, v, x, spec, factors):
    """Return the gradients of q, k and v, given rows' log-sum-exp and results, which may cover more keys than k."""
    weights, own, scores = weights_numpy(q, k, x, spec)
    looking = np.isfinite(own) & np.isfinite(lse)
    weights = weights * np.exp(np.where(looking, own, 0) - np.where(looking, lse, 0))[..., None]
    products = np.matmul(grad, shared(v, q).swapaxes(-1, -2)) * factors
    slopes = weights * (products - (grad * out).sum(-1, keepdims=True))
    weights = weights * factors
    if spec.mods is not None:
        slopes = spec.mods.slopes_numpy(slopes, scores, x.captured)
    slopes = slopes * np.float32(spec.scale)

    def of_head(x, like):
        return x.reshape(*like.shape[:2], -1, *x.shape[2:]).sum(2)

    return (np.matmul(slopes, shared(k, q)), of_head(np.matmul(slopes.swapaxes(-1, -2), q), k),
            of_head(np.matmul(weights.swapaxes(-1, -2), grad), v))


# --- double backward, written with smaller primitives -----------------------------------------------------------------
@specified(5)
def second_gradient(g, y, grad, out, lse, x, spec):
    """Gradients of the results of attention_gradient.  With probabilities p, factors f of dropout, and slopes s = p *
    (dp - sum(p * dp)), the three results are s k, s^T q and (f p)^T grad; everything is differentiated through p and dp
    = f * grad v^T."""
    mask, causal = x.mask, spec.causal
    if x.starts and spec.drop:
        raise NotImplementedError(
            "the second derivative of attention over nested tensors with dropout is not implemented by its kernel; "
            "to_padded_tensor() gives "
            "dense tensors, whose attention has it")
    if x.starts:
        mask, causal = within_sequences(x.starts, x.q.shape[2], x.k.shape[2], causal), False
    if spec.mods is not None:
        raise NotImplementedError(
            "the second derivative of flex_attention with a score_mod or a mask_mod is not implemented by its kernel; "
            "with kernel_options={'BACKEND': 'FORMULA'} attention is computed by its formula, which has it")
    dtype, sharing, scale = x.q.dtype, x.q.shape[1] // x.k.shape[1], spec.scale
    a, b, c = g
    grad, q, k, v, a, b, c = (value if value is None else upcast(value) for value in (grad, *x[:3], a, b, c))
    heads = lambda x: x if x is None or sharing == 1 else repeated(x, sharing)
    keys, values, b, c = map(heads, (k, v, b, c))
    at = (3,)
    weights = probabilities(q, keys, lse, mask, causal, scale)
    kept = dropper(lse.shape, k.shape[2], x.seed, x.place, spec.drop, spec.part)
    products = kept(P.matmul(grad, transposed(values)))
    centred = P.sub(products, P.sum(P.mul(weights, products), at))
    slopes = P.mul(weights, centred)
    through = total(None if a is None else P.matmul(a, transposed(keys)),
                    None if b is None else P.matmul(q, transposed(b)))
    through = P.mul(scale, through) if through is not None else P.mul(weights, 0.0)
    mean = P.sum(P.mul(through, weights), at)
    inner = P.mul(weights, P.sub(through, mean))
    outer = P.sub(P.mul(through, centred), P.mul(products, mean))
    outer = total(outer, None if c is None else kept(P.matmul(grad, transposed(c))))
    scores = P.mul(P.mul(weights, P.sub(outer, P.sum(P.mul(outer, weights), at))), scale)
    slopes = P.mul(slopes, scale)
    inner = kept(inner)
    of_grad = total(P.matmul(inner, values), None if c is None else P.matmul(kept(weights), c))
    of_q = total(P.matmul(scores, keys), None if b is None else P.matmul(slopes, b))
    of_k = total(P.matmul(transposed(scores), q), None if a is None else P.matmul(transposed(slopes), a))
    of_v = P.matmul(transposed(inner), grad)
    if sharing > 1:
        of_k, of_v = summed(of_k, sharing), summed(of_v, sharing)
    found = [x if x.dtype is dtype else P.convert(x, dtype=dtype) for x in (of_grad, of_q, of_k, of_v)]
    return [found[0], None, None, *found[1:], *(None for _ in x[3:])]


def total(x, y):
    return y if x is None else x if y is None else P.add(x, y)


def probabilities(q, k, lse, mask, causal, scale):
    scores = P.mul(P.matmul(q, transposed(k)), scale)
    if mask is not None and mask.dtype is bool_:
        scores = P.where(mask, scores, -math.inf)
    elif mask is not None:
        scores = P.add(scores, mask if mask.dtype is scores.dtype else P.convert(mask, dtype=scores.dtype))
    if causal:
        scores = P.where(visible(*scores.shape[-2:]), scores, -math.inf)
    return P.exp(P.sub(scores, P.reshape(lse, shape=(*lse.shape, 1))))


def within_sequences(starts, rows, columns, causal):
    """Mask [rows, columns] of packed sequences: True if a query and a key are of the same sequence and, if ``causal``,
    the key is not ahead."""
    (row, first), (column, begin) = (sequence_of(start, count) for start, count in zip(starts, (rows, columns)))
    turned = lambda x: P.reshape(x, shape=(rows, 1))
    same = P.eq(turned(row), column)
    return P.logical_and(same, P.le(place_within(columns, begin),
                                    turned(place_within(rows, first)))) if causal else same


def sequence_of(starts, count):
    """Sequence of each of ``count`` rows, and its start: [1, count] each."""
    starts = P.convert(starts, dtype=int64)
    sequences = starts.shape[0] - 1
    ends = P.reshape(P.slice(starts, starts=(1,), steps=(1,), shape=(sequences,)), shape=(sequences, 1))
    before = P.le(ends, P.reshape(P.iota(size=count, dtype=int64), shape=(1, count)))
    found = P.sum(P.convert(before, dtype=int64), (0,))
    return found, P.take(starts, found, dim=0)


def place_within(count, begin):
    """Index of each row within its sequence: [1, count]."""
    return P.sub(P.reshape(P.iota(size=count, dtype=int64), shape=(1, count)), begin)


def visible(rows, columns):
    """Causal mask [rows, columns]: True if a query sees a key."""
    row = P.reshape(P.iota(size=rows, dtype=int64), shape=(rows, 1))
    return P.le(P.reshape(P.iota(size=columns, dtype=int64), shape=(1, columns)), row)


def repeated(x, sharing):
    n, h, *rest = x.shape
    out = P.expand(P.reshape(x, shape=(n, h, 1, *rest)), shape=(n, h, sharing, *rest))
    return P.reshape(out, shape=(n, h * sharing, *rest))


def summed(x, sharing):
    n, h, *rest = x.shape
    out = P.sum(P.reshape(x, shape=(n, h // sharing, sharing, *rest)), (2,))
    return P.reshape(out, shape=(n, h // sharing, *rest))


# --- the primitives ---------------------------------------------------------------------------------------------------
@specified(0)
def describe(x, spec):
    return in_order_of(x.q, x.v.shape[-1]), Meta.of(tuple(x.q.shape[:-1]), float32, x.q.device)


def in_order_of(x, size):
    """Copy [n, h, l, size] to new storage with the order of the first three dimensions of ``x``."""
    shape = (*x.shape[:-1], size)
    order = sorted(range(3), key=lambda dim: (x.strides[dim], -dim))
    return Meta(shape, tuple(nested_strides(shape, (3, *order))), x.dtype, x.device)


@specified(3)
def describe_gradient(grad, out, lse, x, spec):
    return tuple(in_order_of(value, value.shape[-1]) for value in x[:3])


@specified(2)
def gradient(g, y, x, spec):
    found = (None,) * 3 if g[0] is None else P.attention_gradient(g[0], *y, *x, **vars(spec))
    return [*found, *(None for _ in x[3:])]


attention = primitive(
    "attention", Foreign(attention_numpy, describe, gradient),
    lambda q, k, v, mask, blocks, captured, starts, seed, place, causal, scale, mods, drop, longest, kernel="",
    part=(): 0,
    arity=9,
    doc="softmax(q k^T * scale + mask) v, and the float32 logarithm of each row's total, which gets no gradient. q: "
        "[n, h, l, e], "
        "k: [n, h / sharing, s, e], v: [n, h / sharing, s, f], mask: None or [n, h, l, s] bool or float. "
        "mods: what a user's functions, which read the tensors `captured`, do to scores; blocks: [n or 1, h or 1, "
        "blocks of l, blocks of s] uint8, "
        "0 where nobody may look, 2 where everybody may. drop: the level of dropping a weight, as the stream "
        "from `seed` and block `place` on says, of which `part` says what these are. "
        "starts: (), or where sequences, which lie end to end in l and in s, begin, int64 [sequences + 1] each; "
        "longest: bounds of their lengths.")
attention_gradient = primitive(
    "attention_gradient", Foreign(gradient_numpy, describe_gradient, second_gradient),
    lambda grad, out, lse, q, k, v, mask, blocks, captured, starts, seed, place, causal, scale, mods, drop, longest,
    kernel="", part=(): 0,
    arity=12,
    doc="The gradients of q, k and v.")


@op(method=False, name="_attention")
def flash(query, key, value, mask, seed: Scalar, place: Scalar, causal, scale, drop, kernel=""):
    """Attention over [*, l, e] by the primitive; the mask, if any, broadcasts to [*, l, s]; weights are dropped at the
    level ``drop``.  ``kernel``: of AttentionSpec.

    ``scale`` None: 1 / sqrt(e), which only a plan has to know.  A run-time scale multiplies the query if that is
    float32; a 16-bit query would be rounded.
    """
    scale = 1.0 / math.sqrt(query.shape[-1] / 1) if scale is None else scale
    if isinstance(scale, RunTime) and query.dtype is float32:
        query, scale = OPS["mul"](query, scale), 1.0
    lead = tuple(query.shape[:-2])
    rows, columns = query.shape[-2], key.shape[-2]
    if mask is not None:
        if mask.shape[-1] != columns:  # the kernel reads masks along a row
            mask = P.copy(P.expand(mask, shape=expanded(mask.shape, (*mask.shape[:-1], columns))))
        mask = four(P.expand(mask, shape=expanded(mask.shape, (*lead, rows, columns))))
    out, _ = attend(AttentionOperands(four(query), four(key), four(value), mask, seed=seed, place=place),
                    AttentionSpec(causal, scale, drop=drop, kernel=kernel))
    return out if len(lead) == 2 else P.reshape(out, shape=(*lead, rows, value.shape[-1]))


@op(method=False, name="_flex_attention")
def flex(query, key, value, blocks, captured, causal, scale, mods):
    """Attention with user-defined score functions: its result, and the log-sum-exp of each row."""
    return attend(AttentionOperands(query, key, value, blocks=blocks, captured=tuple(captured)),
                  AttentionSpec(causal, scale, mods.at((*query.shape[:3], key.shape[2]), captured)))


@op(method=False, name="_attention_part")
def part(query, key, value, mask, seed: Scalar, place: Scalar, causal, scale, drop, part):
    """Attention [n, h, l, e] to some of the keys, and the log-sum-exp of each row, which combines parts. ``mask``:
    None, or a tensor that broadcasts to [n, h, l, keys].  Weights are dropped as a ``part`` (of AttentionSpec) of the
    full attention."""
    return attend(AttentionOperands(query, key, value, mask_over(mask, query, key), seed=seed, place=place),
                  AttentionSpec(causal, scale, drop=drop, part=part))


@op(method=False, name="_attention_part_gradient")
def part_gradient(grad, out, lse, query, key, value, mask, seed: Scalar, place: Scalar, causal, scale, drop, part):
    """Gradients of queries, keys and values of a part: ``out`` and ``lse`` are those of all keys."""
    operands = AttentionOperands(query, key, value, mask_over(mask, query, key), seed=seed, place=place)
    return P.attention_gradient(grad, out, lse, *operands, **vars(AttentionSpec(causal, scale, drop=drop, part=part)))


def mask_over(mask, query, key):
    """A mask of every row and key, read along rows; None without a mask."""
    shape = (*query.shape[:-1], key.shape[-2])
    return None if mask is None else P.expand(mask, shape=expanded(mask.shape, shape))


@op(method=False, name="_ragged_attention", autocast="half")
def ragged(query, key, value, q_starts, k_starts, seed: Scalar, place: Scalar, causal, scale, drop, longest):
    """Attention [h, rows, size] within packed sequences; ``longest``: bounds of the numbers of their queries and
    keys."""
    return sequences_of(query, key, value, (q_starts, k_starts), seed, place,
                        AttentionSpec(causal, scale, drop=drop, longest=longest))


def sequences_of(query, key, value, starts, seed, place, spec: AttentionSpec):
    """Attention [h, rows, size] by the primitive, within sequences that begin at ``starts``."""
    q, k, v = (P.reshape(x, shape=(1, *x.shape)) for x in (query, key, value))
    out, _ = attend(AttentionOperands(q, k, v, starts=starts, seed=seed, place=place), spec)
    return P.reshape(out, shape=tuple(out.shape[1:]))


def four(x):
    """View [*, l, e] as [n, h, l, e]."""
    *lead, rows, size = x.shape
    if len(lead) == 2:
        return x
    count = 1
    for n in lead:
        count = count * n
    return P.reshape(x, shape=(count, 1, rows, size))


def refusal(query, key, value, mask, probability, shares):
    """Reason why attention uses its formula instead of the primitive; None if it does not."""
    lead = tuple(query.shape[:-2])
    declined = query.device.provider.target().declines_attention(query, value)
    if declined is not None:
        return declined
    if probability and draws() > 1:
        return "dropout of which each example of a batch draws its own"
    if 0 in (*query.shape, *key.shape, *value.shape):
        return "no elements"
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        return "sizes that do not match"
    others = tuple(key.shape[:-2])
    if others != tuple(value.shape[:-2]) or not (others == lead or (
            shares and len(lead) == 2 and lead[0] == others[0] and lead[1] % others[1] == 0)):
        return f"batch dimensions {list(lead)}, {list(key.shape[:-2])} and {list(value.shape[:-2])}"
    if mask is not None:
        if mask.requires_grad:
            return "a mask that wants a gradient"
        if mask.dtype is not bool_ and mask.dtype not in (float32, float16, bfloat16, query.dtype):
            return f"a mask of {mask.dtype}"
        if len(mask.shape) == 0 or len(mask.shape) > len(query.shape) or mask.shape[-1] not in (key.shape[-2], 1):
            return f"a mask of shape {list(mask.shape)}"
    return None if query.dtype in (float32, float16, bfloat16) else f"{query.dtype}"

"""The connectionist temporal classification loss."""
from __future__ import annotations

import numpy as np

from ..core.dtypes import INTEGER, int64
from ..core.kinds import Foreign, P
from ..core.op import op
from ..core.tensor import Tensor, refuse_where
from .loss import F, chosen
from .prims.primitive import primitive

# A path through the lattice visits the states blank, target 1, blank, target 2, ... blank; each row of the lattice is
# one sample.


def with_blanks(targets, blank):
    """Interleave blanks, [n, s] -> [n, 2 s + 1], and mark the states that can be reached by skipping the blank before
    them."""
    states = np.full((targets.shape[0], 2 * targets.shape[1] + 1), blank)
    states[:, 1::2] = targets
    skips = np.zeros(states.shape, bool)
    skips[:, 3::2] = targets[:, 1:] != targets[:, :-1]
    return states, skips


def shifted(row, by):
    """Scores moved ``by`` states forward (back if negative), filled with -inf."""
    out = np.full_like(row, -np.inf)
    if by > 0:
        out[:, by:] = row[:, :-by]
    else:
        out[:, :by] = row[:, -by:]
    return out


def total_of(scores, tangents):
    """log-sum-exp of scores, and its tangent."""
    total = np.logaddexp.reduce(scores)
    if tangents is None:
        return total, None
    with np.errstate(invalid="ignore"):
        shares = np.where(np.isfinite(total), np.exp(np.stack(scores) - total), 0.0)
    return total, (shares * np.stack(tangents)).sum(0)


def moved(row, tangent, allowed, way):
    """Transitions into each state from the states of paths before (``way`` 1) or after (-1): from itself, the next one,
    and the one after if ``allowed``."""
    free = row if way > 0 else np.where(allowed, row, -np.inf)
    skipped = shifted(free, 2 * way) if row.shape[1] > 2 else np.full_like(row, -np.inf)
    scores = row, shifted(row, way), np.where(allowed, skipped, -np.inf) if way > 0 else skipped
    if tangent is None:
        return scores, None
    steps = np.arange(row.shape[1])[None]
    return scores, [np.take_along_axis(tangent, np.broadcast_to(np.clip(steps - k * way, 0, row.shape[1] - 1),
                                                                row.shape), 1) for k in range(3)]


def forward_scores(emitted, skips, tangent=None):
    """alpha[t]: log probability of all path prefixes that are in a state at time t.  [t, n, states], and its tangent
    for one of ``emitted``."""
    alpha = np.full(emitted.shape, -np.inf)
    alpha[0, :, :2] = emitted[0, :, :2]
    slope = None if tangent is None else np.array(tangent)
    for t in range(1, len(emitted)):
        inner, along = total_of(*moved(alpha[t - 1], None if slope is None else slope[t - 1], skips, 1))
        alpha[t] = inner + emitted[t]
        if slope is not None:
            slope[t] += along
    return alpha, slope


def backward_scores(emitted, skips, last, steps, tangent=None):
    """beta[t]: log probability of all path suffixes from a state at time t on, and its tangent.  ``last``: states in
    which a path may end."""
    beta = np.full(emitted.shape, -np.inf)
    ends = np.where(last, 0.0, -np.inf)
    slope = None if tangent is None else np.array(tangent)
    for t in reversed(range(len(emitted))):
        ending = (t == steps - 1)[:, None]
        after, beyond = (beta[t + 1], slope if slope is None
                         else slope[t + 1]) if t + 1 < len(emitted) else (np.full_like(ends, -np.inf),
                                                                          slope if slope is None
                                                                          else np.zeros_like(ends))
        inner, along = total_of(*moved(after, beyond, skips, -1))
        beta[t] = np.where(ending, ends, inner) + emitted[t]
        beta[t, t >= steps] = -np.inf
        if slope is not None:
            slope[t] += np.where(ending, 0.0, along)
    return beta, slope


def lattice(logp, targets, lengths, blank):
    """Return what a path emits in each state at each time, the allowed skips, and the states in which paths end."""
    states, skips = with_blanks(targets, blank)
    emitted = np.take_along_axis(logp.astype(np.float64), np.broadcast_to(states, (len(logp), *states.shape)), 2)
    place = np.arange(states.shape[1])[None]
    end = 2 * lengths[:, None]
    emitted = np.where(place <= end, emitted, -np.inf)
    return emitted, skips, (place == end) | (place == end - 1), states


def scores(logp, targets, steps, lengths, blank):
    """Negative log probability of each sample's targets: [n]."""
    emitted, skips, last, _ = lattice(logp, targets, lengths, blank)
    alpha, _ = forward_scores(emitted, skips)
    final = alpha[np.maximum(steps - 1, 0), np.arange(len(steps))]
    total = np.logaddexp.reduce(np.where(last, final, -np.inf), 1)
    total = np.where(steps == 0, np.where(lengths == 0, 0.0, -np.inf), total)
    return -total


def visits(loss, logp, targets, steps, lengths, blank, along=None):
    """Likelihood that a path emits each class at each time, given the targets: [t, n, c]; with ``along``, a direction
    of logp, its tangent."""
    emitted, skips, last, states = lattice(logp, targets, lengths, blank)
    finite = np.isfinite(emitted)
    tangent = None if along is None else np.where(finite, np.take_along_axis(along.astype(np.float64),
                                                                             np.broadcast_to(states, emitted.shape), 2),
                                                  0.0)
    alpha, alpha_slope = forward_scores(emitted, skips, tangent)
    beta, beta_slope = backward_scores(emitted, skips, last, steps, tangent)
    shares = np.exp(alpha + beta - np.where(finite, emitted, 0.0) + loss.astype(np.float64)[None, :, None])
    if along is not None:
        slope = alpha_slope + beta_slope - tangent
        shares = np.where(shares > 0, shares * (slope - (shares * slope).sum(2, keepdims=True)), 0.0)
    found = np.zeros(logp.shape)
    t, n = np.ogrid[:logp.shape[0], :logp.shape[1]]
    np.add.at(found, (t[..., None], n[..., None], states[None]), shares)
    return found


def within(out, loss, steps, zero_infinity):
    """Zero past the steps of each sample, and for infinite losses with ``zero_infinity``."""
    out[np.arange(len(out))[:, None] >= steps] = 0
    if zero_infinity:
        out[:, np.isinf(loss)] = 0
    return out


def slopes(g, loss, logp, targets, steps, lengths, blank, zero_infinity):
    """Gradient with respect to unnormalized scores, softmax less posterior, which log_softmax passes on (Graves et al.
    2006, eq. 16)."""
    out = (np.exp(logp.astype(np.float64)) - visits(loss, logp, targets, steps, lengths, blank)) * g[None, :, None]
    return within(out, loss, steps, zero_infinity)


def slopes_along(v, loss, logp, targets, steps, lengths, blank, zero_infinity):
    """The tangent of ``slopes`` (with g = 1) for a direction v of logp; as a matrix it is symmetric, so that it is the
    transpose too."""
    out = np.exp(logp.astype(np.float64)) * v - visits(loss, logp, targets, steps, lengths, blank, v)
    return within(out, loss, steps, zero_infinity)


def slopes_gradient(v, y, g, loss, logp, *rest, **how):
    """Gradients of ``slopes`` with respect to g and logp; the latter includes how the loss depends on logp."""
    ones = P.full(shape=tuple(g.shape), value=1, dtype=g.dtype)
    by_g = P.reshape(P.sum(P.mul(v, P.ctc_backward(ones, loss, logp, *rest, **how)), (0, 2)), shape=tuple(g.shape))
    weighted = P.mul(v, P.reshape(g, shape=(1, g.shape[0], 1)))
    return [by_g, None, P.ctc_curvature(weighted, loss, logp, *rest, **how), None, None, None]


P_ctc = primitive("ctc", Foreign(
    lambda logp, targets, steps, lengths, blank, zero_infinity: scores(logp, targets, steps, lengths, blank),
    lambda logp, targets, steps, lengths, blank, zero_infinity: logp.like((logp.shape[1],)),
    lambda g, y, logp, targets, steps, lengths, **how: [P.ctc_backward(g, y, logp, targets, steps, lengths, **how),
                                                        None, None, None]),
    lambda logp, targets, steps, lengths, blank, zero_infinity: 0, arity=4)
P_ctc_backward = primitive("ctc_backward",
                           Foreign(slopes, lambda g, loss, logp, *rest, **how: logp.like(tuple(logp.shape)),
                                   slopes_gradient),
                           lambda g, loss, logp, targets, steps, lengths, blank, zero_infinity: 0, arity=6)
P_ctc_curvature = primitive("ctc_curvature",
                            Foreign(slopes_along, lambda v, loss, logp, *rest, **how: logp.like(tuple(logp.shape))),
                            lambda v, loss, logp, targets, steps, lengths, blank, zero_infinity: 0, arity=6)


@op(method=False, name="_ctc")
def ctc_core(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity):
    """The loss of each sample, then reduced; the mean is over targets, then over the batch."""
    loss = P.ctc(log_probs, targets, input_lengths, target_lengths, blank=blank, zero_infinity=zero_infinity)
    if zero_infinity:
        loss = P.where(P.eq(loss, float("inf")), 0.0, loss)
    if reduction == "none":
        return loss
    if reduction == "mean":
        loss = P.div(loss, P.convert(P.maximum(target_lengths, 1), dtype=loss.dtype))
    total = P.reshape(P.sum(loss, (0,)), shape=())
    return P.div(total, loss.shape[0]) if reduction == "mean" else total


def lengths_of(lengths, name, count):
    """One length for each sample, as an int64 vector."""
    from ..core.exchange import tensor
    made = lengths if isinstance(lengths, Tensor) else tensor(list(lengths) if isinstance(lengths, (tuple, list))
                                                              else [lengths], dtype=int64)
    if made.dtype.category != INTEGER:
        raise RuntimeError(f"{name} must be integral, got {made.dtype}")
    if made.numel() != count:
        raise RuntimeError(f"{name} must be of size batch_size: got {made.numel()} lengths for a batch of {count}")
    return made.reshape(-1).to(int64)


def padded(targets, lengths):
    """Concatenated targets as one row for each sample."""
    ends = lengths.cumsum(0).tolist()
    if targets.numel() < (ends[-1] if ends else 0):
        raise RuntimeError(
            f"Expected at least {ends[-1]} concatenated targets, the sum of target_lengths, got {targets.numel()}")
    out = targets.new_zeros((len(ends), max(lengths.tolist(), default=0)))
    for k, (end, size) in enumerate(zip(ends, lengths.tolist())):
        out[k, :size] = targets[end - size:end]
    return out


@op(composite=True, namespace=F)
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """-log of the probability of all alignments that collapse to the targets (Graves et al. 2006).

    log_probs: [t, n, c] or [t, c]; targets: [n, s], or all of them in one dimension; lengths: [n].  The result is [n],
      or () when reduced.
    RuntimeError for lengths that do not fit and for a blank that is no class.
    """
    single = log_probs.dim() == 2
    logp = log_probs.unsqueeze(1) if single else log_probs
    if logp.dim() != 3:
        raise RuntimeError(f"log_probs must be [t, n, c] or [t, c], got {log_probs.dim()} dimensions")
    steps = lengths_of(input_lengths, "input_lengths", logp.size(1))
    lengths = lengths_of(target_lengths, "target_lengths", logp.size(1))
    if not 0 <= blank < logp.size(2):
        raise RuntimeError(f"blank must be in label range: got {blank} for {logp.size(2)} classes")
    refuse_where(steps > logp.size(0),
                 RuntimeError(f"Expected input_lengths to have value at most {logp.size(0)}, but got a larger one"))
    for given in (steps, lengths):
        refuse_where(given < 0, RuntimeError("Expected input_lengths and target_lengths to have no negative value"))
    rows = padded(targets, lengths) if targets.dim() == 1 else targets
    refuse_where(lengths > rows.size(1),
                 RuntimeError(
                     "Expected tensor to have size at least that of the longest target at dimension 1, but got size "
                     f"{rows.size(1)}"))
    loss = ctc_core(logp, rows.to(int64), steps, lengths, blank, chosen(reduction), bool(zero_infinity))
    return loss.squeeze(0) if single and reduction == "none" else loss

"""The connectionist temporal classification loss."""
from __future__ import annotations

import numpy as np

from ..core.dtypes import INTEGER, int64
from ..core.kinds import Foreign, P
from ..core.op import op
from ..core.tensor import Tensor, refuse_where
from .loss import F, chosen
from .prims import primitive

# A path through the lattice visits the states blank, target 1, blank, target 2, ... blank; each row of the lattice is one sample.


def with_blanks(targets, blank):
    """[n, s] -> [n, 2 s + 1], and from which states one may be reached by skipping the blank before it."""
    states = np.full((targets.shape[0], 2 * targets.shape[1] + 1), blank)
    states[:, 1::2] = targets
    skips = np.zeros(states.shape, bool)
    skips[:, 3::2] = targets[:, 1:] != targets[:, :-1]
    return states, skips


def shifted(row, by):
    """Scores moved ``by`` states on (back where negative), with -inf where nothing comes from."""
    out = np.full_like(row, -np.inf)
    if by > 0:
        out[:, by:] = row[:, :-by]
    else:
        out[:, :by] = row[:, -by:]
    return out


def forward_scores(emitted, skips):
    """alpha[t]: the log probability of all paths' beginnings that are in a state at time t.  [t, n, states]."""
    alpha = np.full(emitted.shape, -np.inf)
    alpha[0, :, :2] = emitted[0, :, :2]
    for t in range(1, len(emitted)):
        before = alpha[t - 1]
        skipped = np.where(skips, shifted(before, 2), -np.inf) if before.shape[1] > 2 else np.full_like(before, -np.inf)
        alpha[t] = np.logaddexp(np.logaddexp(before, shifted(before, 1)), skipped) + emitted[t]
    return alpha


def backward_scores(emitted, skips, last, steps):
    """beta[t]: the log probability of all paths' ends from a state at time t on.  ``last``: where a path may end."""
    beta = np.full(emitted.shape, -np.inf)
    ends = np.where(last, 0.0, -np.inf)
    for t in reversed(range(len(emitted))):
        after = beta[t + 1] if t + 1 < len(emitted) else np.full_like(ends, -np.inf)
        free = np.where(skips, after, -np.inf)
        skipped = shifted(free, -2) if after.shape[1] > 2 else np.full_like(after, -np.inf)
        inner = np.logaddexp(np.logaddexp(after, shifted(after, -1)), skipped)
        beta[t] = np.where((t == steps - 1)[:, None], ends, inner) + emitted[t]
        beta[t, t >= steps] = -np.inf
    return beta


def lattice(logp, targets, lengths, blank):
    """What a path emits in each state at each time, the allowed skips, and the states in which paths end."""
    states, skips = with_blanks(targets, blank)
    emitted = np.take_along_axis(logp.astype(np.float64), np.broadcast_to(states, (len(logp), *states.shape)), 2)
    place = np.arange(states.shape[1])[None]
    end = 2 * lengths[:, None]
    emitted = np.where(place <= end, emitted, -np.inf)
    return emitted, skips, (place == end) | (place == end - 1), states


def scores(logp, targets, steps, lengths, blank):
    """The negative log probability of each sample's targets: [n]."""
    emitted, skips, last, _ = lattice(logp, targets, lengths, blank)
    alpha = forward_scores(emitted, skips)
    final = alpha[np.maximum(steps - 1, 0), np.arange(len(steps))]
    total = np.logaddexp.reduce(np.where(last, final, -np.inf), 1)
    total = np.where(steps == 0, np.where(lengths == 0, 0.0, -np.inf), total)
    return -total


def slopes(g, loss, logp, targets, steps, lengths, blank, zero_infinity):
    """The gradient by unnormalised scores, softmax less posterior: what log_softmax would pass on (Graves et al. 2006, eq. 16)."""
    emitted, skips, last, states = lattice(logp, targets, lengths, blank)
    through = forward_scores(emitted, skips) + backward_scores(emitted, skips, last, steps) - np.where(np.isfinite(emitted), emitted, 0.0)
    posterior = np.zeros(logp.shape)
    t, n = np.ogrid[:logp.shape[0], :logp.shape[1]]
    np.add.at(posterior, (t[..., None], n[..., None], states[None]), np.exp(through + loss.astype(np.float64)[None, :, None]))
    out = (np.exp(logp.astype(np.float64)) - posterior) * g[None, :, None]
    out[np.arange(len(logp))[:, None] >= steps] = 0
    if zero_infinity:
        out[:, np.isinf(loss)] = 0
    return out


P_ctc = primitive("ctc", Foreign(
    lambda logp, targets, steps, lengths, blank, zero_infinity: scores(logp, targets, steps, lengths, blank),
    lambda logp, targets, steps, lengths, blank, zero_infinity: logp.like((logp.shape[1],)),
    lambda g, y, logp, targets, steps, lengths, **how: [P.ctc_backward(g, y, logp, targets, steps, lengths, **how), None, None, None]),
    lambda logp, targets, steps, lengths, blank, zero_infinity: 0, arity=4)
P_ctc_backward = primitive("ctc_backward", Foreign(slopes, lambda g, loss, logp, *rest, **how: logp.like(tuple(logp.shape))),
                           lambda g, loss, logp, targets, steps, lengths, blank, zero_infinity: 0, arity=6)


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
    made = lengths if isinstance(lengths, Tensor) else tensor(list(lengths) if isinstance(lengths, (tuple, list)) else [lengths], dtype=int64)
    if made.dtype.category != INTEGER:
        raise RuntimeError(f"{name} must be integral, got {made.dtype}")
    if made.numel() != count:
        raise RuntimeError(f"{name} must be of size batch_size: got {made.numel()} lengths for a batch of {count}")
    return made.reshape(-1).to(int64)


def padded(targets, lengths):
    """Concatenated targets as one row for each sample."""
    ends = lengths.cumsum(0).tolist()
    if targets.numel() < (ends[-1] if ends else 0):
        raise RuntimeError(f"Expected at least {ends[-1]} concatenated targets, the sum of target_lengths, got {targets.numel()}")
    out = targets.new_zeros((len(ends), max(lengths.tolist(), default=0)))
    for k, (end, size) in enumerate(zip(ends, lengths.tolist())):
        out[k, :size] = targets[end - size:end]
    return out


@op(composite=True, namespace=F)
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """-log of the probability of all alignments that collapse to the targets (Graves et al. 2006).

    log_probs: [t, n, c] or [t, c]; targets: [n, s], or all of them in one dimension; lengths: [n].  The result is [n], or () when reduced.
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
    refuse_where(steps > logp.size(0), RuntimeError(f"Expected input_lengths to have value at most {logp.size(0)}, but got a larger one"))
    for given in (steps, lengths):
        refuse_where(given < 0, RuntimeError("Expected input_lengths and target_lengths to have no negative value"))
    rows = padded(targets, lengths) if targets.dim() == 1 else targets
    refuse_where(lengths > rows.size(1), RuntimeError(f"Expected tensor to have size at least that of the longest target at dimension 1, but got size {rows.size(1)}"))
    loss = ctc_core(logp, rows.to(int64), steps, lengths, blank, chosen(reduction), bool(zero_infinity))
    return loss.squeeze(0) if single and reduction == "none" else loss

"""Gradients sent as low-rank factors: PowerSGD (Vogels, Karimireddy and Jaggi, arXiv 1905.13727)."""
from __future__ import annotations

from ..futures import Future
from .._src.core.op import OPS
from .._src.core.random import Generator
from .._src.flat import randn
from .hooks import allreduce_hook
from .membership import chosen


class PowerSGDState:
    """State of the hook: the rank of the approximation, errors that are added to the next gradients, and the last
    low-rank factors.

    Gradients are averaged uncompressed for the first ``start_powerSGD_iter`` steps, and if compression sends less than
    ``min_compression_rate`` times fewer elements.
    """

    def __init__(self, process_group, matrix_approximation_rank=1, start_powerSGD_iter=1_000, min_compression_rate=2,
                 use_error_feedback=True, warm_start=True,
                 orthogonalization_epsilon=0, random_seed=0, compression_stats_logging_frequency=10_000,
                 batch_tensors_with_same_shape=False):
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because "
                "PowerSGD can only be applied after the first two iterations in DDP.")
        self.process_group, self.matrix_approximation_rank, self.start_powerSGD_iter = (process_group,
                                                                                        matrix_approximation_rank,
                                                                                        start_powerSGD_iter)
        self.min_compression_rate, self.use_error_feedback, self.warm_start = (min_compression_rate, use_error_feedback,
                                                                               warm_start)
        self.orthogonalization_epsilon, self.compression_stats_logging_frequency = (orthogonalization_epsilon,
                                                                                    compression_stats_logging_frequency)
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.generator = Generator().manual_seed(random_seed)  # the same numbers in all processes
        self.error_dict, self.q_memory_dict = {}, {}
        self.iter = self.total_numel_before_compression = self.total_numel_after_compression = 0

    def compression_stats(self):
        """Return (compression factor, elements before, elements after)."""
        after = self.total_numel_after_compression
        return (self.total_numel_before_compression / after if after else 0), self.total_numel_before_compression, after


def orthogonal(matrix, epsilon: float):
    """The matrix with orthonormal columns: [n, r]."""
    if epsilon:
        matrix = matrix + epsilon
    return OPS["linalg.qr"](matrix.float())[0].to(matrix.dtype)


def compressible(state, tensor) -> bool:
    """True if low-rank factors are smaller than a gradient by ``min_compression_rate``."""
    if tensor.dim() < 2:
        return False
    rows, columns = tensor.size(0), tensor.numel() // tensor.size(0)
    return min(rows, columns) > state.matrix_approximation_rank and (
        rows + columns) * state.matrix_approximation_rank * state.min_compression_rate < tensor.numel()


def averaged(group, *tensors):
    from .reduction import RedOpType
    group.all_reduce(list(tensors), RedOpType.AVG)


def powerSGD_hook(state: PowerSGDState, bucket) -> Future:
    """Averages gradients approximated by matrices of rank ``matrix_approximation_rank``; vectors, and the first steps,
    uncompressed."""
    if state.iter < state.start_powerSGD_iter:
        state.iter += bucket.is_last()
        return allreduce_hook(state.process_group, bucket)
    group, buffer = chosen(state.process_group), bucket.buffer()
    if state.use_error_feedback and bucket.index() in state.error_dict:
        buffer.add_(state.error_dict[bucket.index()])
    given = buffer.clone() if state.use_error_feedback else None
    thin = [t for t in bucket.gradients() if compressible(state, t)]
    whole = [t for t in bucket.gradients() if not compressible(state, t)]
    matrices = [t.view(t.size(0), -1) for t in thin]
    if whole:
        averaged(group, *whole)
    rank, kept = state.matrix_approximation_rank, state.q_memory_dict.get(bucket.index())
    qs = kept if kept is not None and state.warm_start else [randn(m.size(1), rank, generator=state.generator,
                                                                   dtype=m.dtype).to(m.device) for m in matrices]
    qs = [orthogonal(q, state.orthogonalization_epsilon) for q in qs]
    ps = [m @ q for m, q in zip(matrices, qs)]
    if ps:
        averaged(group, *ps)
    ps = [orthogonal(p, state.orthogonalization_epsilon) for p in ps]
    qs = [m.t() @ p for m, p in zip(matrices, ps)]
    local = [p @ q.t() for p, q in zip(ps, qs)] if state.use_error_feedback else []
    if qs:
        averaged(group, *qs)
    state.q_memory_dict[bucket.index()] = qs
    sent = sum(p.numel() + q.numel() for p, q in zip(ps, qs)) + sum(t.numel() for t in whole)
    state.total_numel_before_compression += buffer.numel()
    state.total_numel_after_compression += sent
    if state.use_error_feedback:
        state.error_dict[bucket.index()] = lost(bucket, given, thin, local)
    for m, p, q in zip(matrices, ps, qs):
        m.copy_(p @ q.t())
    state.iter += bucket.is_last()
    found = Future()
    found.set_result(buffer)
    return found


def lost(bucket, given, thin, local):
    """Return the error of the low-rank approximation of this process's gradients."""
    error, at = given.zero_() if not thin else given, 0
    approximations = iter(local)
    for tensor in bucket.gradients():
        part = error[at:at + tensor.numel()]
        if any(tensor.data_ptr() == t.data_ptr() for t in thin):
            part.sub_(next(approximations).reshape(-1))
        else:
            part.zero_()
        at += tensor.numel()
    return error


def batched_powerSGD_hook(state: PowerSGDState, bucket) -> Future:
    """``powerSGD_hook`` of the entire bucket as one square matrix, padded with zeros."""
    if state.iter < state.start_powerSGD_iter:
        state.iter += bucket.is_last()
        return allreduce_hook(state.process_group, bucket)
    group, buffer = chosen(state.process_group), bucket.buffer()
    side = int(-(-buffer.numel() ** 0.5 // 1))
    square = OPS["zeros"](side * side, dtype=buffer.dtype, device=buffer.device)
    square[:buffer.numel()] = buffer
    if state.use_error_feedback and bucket.index() in state.error_dict:
        square.add_(state.error_dict[bucket.index()])
    given, matrix = square.clone(), square.view(side, side)
    kept = state.q_memory_dict.get(bucket.index())
    q = kept if kept is not None and state.warm_start else randn(side, state.matrix_approximation_rank,
                                                                 generator=state.generator,
                                                                 dtype=buffer.dtype).to(buffer.device)
    p = matrix @ orthogonal(q, state.orthogonalization_epsilon)
    averaged(group, p)
    p = orthogonal(p, state.orthogonalization_epsilon)
    q = matrix.t() @ p
    if state.use_error_feedback:
        state.error_dict[bucket.index()] = given - (p @ q.t()).reshape(-1)
    averaged(group, q)
    state.q_memory_dict[bucket.index()] = q
    buffer.copy_((p @ q.t()).reshape(-1)[:buffer.numel()])
    state.iter += bucket.is_last()
    found = Future()
    found.set_result(buffer)
    return found

"""Communication hooks of FullyShardedDataParallel: functions ``(state, gradient, output)``.

``gradient`` is a vector of a layer's gradients, one share for each process; this process's share of the averages is
written to ``output``.  If parameters are not sharded (NO_SHARD), ``(state, gradient)`` works in place.
"""
from __future__ import annotations

import rushlight as torch

from .. import collectives, membership

__all__ = ["DefaultState", "LowPrecisionState", "allreduce_hook", "reduce_scatter_hook", "fp16_compress_hook",
           "bf16_compress_hook"]


class DefaultState:
    """The group of a hook, and the divisors of gradients before and after the reduction, so that neither terms nor sums
    leave the range of the dtype.  ValueError without a group."""

    def __init__(self, process_group):
        if process_group is None:
            raise ValueError(f"Expected to pass in an explicit ProcessGroup to {self}.")
        self.process_group, self.world_size = process_group, membership.get_world_size(process_group)
        self.gradient_predivide_factor = self._get_gradient_predivide_factor(self.world_size)
        self.gradient_postdivide_factor = self.world_size / self.gradient_predivide_factor

    @staticmethod
    def _get_gradient_predivide_factor(world_size: int) -> float:
        """The power of 2 that is at least the square root of a size, while it divides that."""
        factor = 1
        while world_size % factor == 0 and world_size / factor > factor:
            factor *= 2
        return float(factor)


class LowPrecisionState(DefaultState):
    """The group of a hook that rounds gradients, which are of ``parameter_type`` afterwards."""

    def __init__(self, process_group, parameter_type=torch.float32):
        super().__init__(process_group)
        self.parameter_type = parameter_type


def allreduce_hook(state: DefaultState, grad) -> None:
    """Averages a vector over the group, in place."""
    grad.div_(state.gradient_predivide_factor)
    collectives.all_reduce(grad, group=state.process_group)
    grad.div_(state.gradient_postdivide_factor)


def reduce_scatter_hook(state: DefaultState, grad, output) -> None:
    """Averages a vector over the group; ``output`` gets this process's share."""
    grad.div_(state.gradient_predivide_factor)
    collectives.reduce_scatter_tensor(output, grad, group=state.process_group)
    output.div_(state.gradient_postdivide_factor)


def rounded(dtype, state: LowPrecisionState, grad, output) -> None:
    """Averages a vector that is rounded to ``dtype`` for the journey."""
    small = grad.to(dtype)
    if output is None:
        allreduce_hook(state, small)
        grad.copy_(small.to(state.parameter_type))
        return
    found = torch.empty(output.shape, dtype=dtype, device=output.device)
    reduce_scatter_hook(state, small, found)
    output.copy_(found.to(state.parameter_type))


def fp16_compress_hook(state: LowPrecisionState, grad, output=None) -> None:
    """Averages gradients rounded to float16."""
    rounded(torch.float16, state, grad, output)


def bf16_compress_hook(state: LowPrecisionState, grad, output=None) -> None:
    """Averages gradients rounded to bfloat16."""
    rounded(torch.bfloat16, state, grad, output)


LOW_PRECISION_HOOKS = [fp16_compress_hook, bf16_compress_hook]

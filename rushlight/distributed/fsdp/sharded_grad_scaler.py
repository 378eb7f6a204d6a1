"""A GradScaler for sharded parameters."""
from __future__ import annotations

import rushlight as torch

from ...amp.scaler import GradScaler
from .. import collectives, membership
from ..reduction import RedOpType


class ShardedGradScaler(GradScaler):
    """A GradScaler that skips a step, and backs off, in all processes of a group (None: all) where gradients overflowed
    in one of them.  Gradients of float16 are taken, too.

    >>> import rushlight as torch
    >>> from rushlight.distributed import threads
    >>> def member(rank):
    ...     weight, scaler = torch.nn.Parameter(torch.zeros(1)), ShardedGradScaler("cpu", init_scale=4.0)
    ...     optimizer = torch.optim.SGD([weight], lr=1.0)
    ...     weight.grad = torch.tensor([float("inf") if rank else 1.0])
    ...     scaler.step(optimizer)
    ...     scaler.update()
    ...     return weight.item(), scaler.get_scale()
    >>> threads.run(2, member)
    [(0.0, 2.0), (0.0, 2.0)]
    """

    halves = True

    def __init__(self, device: str = "cuda", init_scale: float = 2.0**16, backoff_factor: float = 0.5,
                 growth_factor: float = 2.0, growth_interval: int = 2000, enabled: bool = True, process_group=None):
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        if self._enabled:
            self.process_group = membership.chosen(process_group)

    def unscale_(self, optimizer):
        """Divides an optimizer's gradients by the scale, and reduces over all processes if they are finite."""
        super().unscale_(optimizer)
        if self._enabled:
            state = self._per_optimizer_states[id(optimizer)]
            device = membership.device_for(self.process_group)
            found = torch.zeros((), device=device)
            for value in state["found_inf_per_device"].values():
                found += value.to(device)
            collectives.all_reduce(found, RedOpType.MAX, self.process_group)
            state["found_inf_per_device"] = {found.device: found}

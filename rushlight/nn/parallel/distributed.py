"""A model in every process of a group, with gradients averaged: in a group of one they are averages already."""
from __future__ import annotations

import contextlib

from ..._src.core.errors import NotBuiltError
from ..._src.core.native import Tensor
from ..._src.core.pytree import tree_flatten
from ..modules.module import Module

__all__ = ["DistributedDataParallel"]


class GradBucket:
    """The gradients that a hook is handed at once: those of one parameter, as a vector."""

    def __init__(self, index: int, last: bool, parameter):
        self._index, self._last, self._parameter, self._buffer = index, last, parameter, parameter.grad.view(-1)

    def index(self) -> int:
        return self._index

    def is_last(self) -> bool:
        return self._last

    def buffer(self) -> Tensor:
        return self._buffer

    def set_buffer(self, buffer: Tensor):
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        return [self._buffer.view_as(self._parameter)]

    def parameters(self) -> list[Tensor]:
        return [self._parameter]


class DistributedDataParallel(Module):
    """A module whose gradients are averaged over the processes of a group.

    RuntimeError where no parameter wants a gradient; ValueError where there is no group (``torch.distributed.init_process_group``), or devices are named.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    >>> model(torch.ones(3, 2)).sum().backward()
    >>> list(model.state_dict()), model.module.weight.grad.tolist()
    (['module.weight', 'module.bias'], [[3.0, 3.0]])
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0, broadcast_buffers=None, init_sync=True, process_group=None, bucket_cap_mb=None, find_unused_parameters=False,
                 check_reduction=False, gradient_as_bucket_view=False, static_graph=False, delay_all_reduce_named_params=None, param_to_hook_all_reduce=None, mixed_precision=None,
                 device_mesh=None, skip_all_reduce_unused_params=False, bucket_cap_mb_list=None, batched_grad_copy=False, forward_sync_buffers=None):
        from ...distributed.membership import chosen
        super().__init__()
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError("DistributedDataParallel is not needed when a module doesn't have any parameters that require a gradient.")
        if device_ids or output_device is not None:
            raise ValueError(f"DistributedDataParallel: device_ids and output_device are for modules on one GPU; this one is on the CPU, but got device_ids {device_ids}, output_device {output_device}")
        if mixed_precision is not None:
            raise NotBuiltError("DistributedDataParallel(mixed_precision=...)", "None", "use torch.autocast")
        self.module, self.dim, self.device_ids, self.output_device = module, dim, None, None
        self.process_group = chosen(process_group)
        self.broadcast_buffers = True if broadcast_buffers is None else broadcast_buffers
        self.find_unused_parameters, self.static_graph, self.gradient_as_bucket_view = find_unused_parameters, static_graph, gradient_as_bucket_view
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.require_backward_grad_sync, self.device_type = True, next(module.parameters()).device.type
        self._hook = None
        names = [name for name, p in module.named_parameters() if p.requires_grad and name not in self.parameters_to_ignore]
        for index, name in enumerate(reversed(names)):
            module.get_parameter(name).register_post_accumulate_grad_hook(self.reducer(index, index == len(names) - 1))

    def reducer(self, index: int, last: bool):
        """What is done with a gradient that is complete: a group of one changes it only where a hook does."""
        def reduce(parameter):
            if self._hook is None or not self.require_backward_grad_sync:
                return
            hook, state = self._hook
            reduced = hook(state, GradBucket(index, last, parameter)).wait()
            reduced = reduced[0] if isinstance(reduced, (list, tuple)) else reduced
            parameter.grad = reduced.detach().to(parameter.dtype).view_as(parameter)

        return reduce

    def register_comm_hook(self, state, hook):
        """``hook(state, bucket)`` says what becomes of gradients: a future of a bucket's new content.  TypeError for what cannot be called, RuntimeError for a second one."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self._hook is not None:
            raise RuntimeError("register_comm_hook can only be called once.")
        self._hook = hook, state

    @contextlib.contextmanager
    def no_sync(self):
        """Gradients within are summed up and not averaged: no hook sees them."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextlib.contextmanager
    def join(self, divide_by_initial_world_size=True, enable=True, throw_on_early_termination=False):
        """Waits for processes with fewer batches: there are none."""
        yield

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)

    def will_sync_module_buffers(self) -> bool:
        return self.broadcast_buffers and any(True for _ in self.module.buffers())

    def _set_static_graph(self):
        """The graph does not change between steps: nothing depends on it."""
        self.static_graph = True

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module, params_and_buffers_to_ignore):
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore


def _find_tensors(obj) -> list:
    """The tensors in a result."""
    return [leaf for leaf in tree_flatten(obj)[0] if isinstance(leaf, Tensor)]

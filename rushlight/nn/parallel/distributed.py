"""A model in every process of a group, with gradients averaged."""
from __future__ import annotations

import contextlib
import pickle

from ..._src.autograd.mode import is_grad_enabled as grad_enabled, no_grad
from ..._src.compiling import disable
from ..._src.core.devices import device
from ..._src.core.errors import NotBuiltError
from ..._src.core.native import Tensor
from ..._src.core.pytree import tree_flatten
from ..modules.module import Module
from .reducer import MEGABYTE, GradBucket, Reducer

__all__ = ["DistributedDataParallel", "GradBucket"]


class DistributedDataParallel(Module):
    """A module whose gradients are averaged over the processes of a group.

    RuntimeError where no parameter wants a gradient; ValueError where there is no group
    (``torch.distributed.init_process_group``), or devices are named.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    >>> model(torch.ones(3, 2)).sum().backward()
    >>> list(model.state_dict()), model.module.weight.grad.tolist()
    (['module.weight', 'module.bias'], [[3.0, 3.0]])
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0, broadcast_buffers=None, init_sync=True,
                 process_group=None, bucket_cap_mb=None, find_unused_parameters=False,
                 check_reduction=False, gradient_as_bucket_view=False, static_graph=False,
                 delay_all_reduce_named_params=None, param_to_hook_all_reduce=None, mixed_precision=None,
                 device_mesh=None, skip_all_reduce_unused_params=False, bucket_cap_mb_list=None,
                 batched_grad_copy=False, forward_sync_buffers=None):
        from ...distributed.membership import chosen
        super().__init__()
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters that require a "
                "gradient.")
        if device_ids or output_device is not None:
            raise ValueError(
                "DistributedDataParallel: device_ids and output_device are for modules on one GPU; this one is on "
                f"the CPU, but got device_ids {device_ids}, output_device {output_device}")
        if mixed_precision is not None:
            raise NotBuiltError("DistributedDataParallel(mixed_precision=...)", "None", "use torch.autocast")
        self.module, self.dim, self.device_ids, self.output_device = module, dim, None, None
        self.process_group = chosen(process_group)
        self.broadcast_buffers = True if broadcast_buffers is None else broadcast_buffers
        self.find_unused_parameters, self.static_graph, self.gradient_as_bucket_view = (find_unused_parameters,
                                                                                        static_graph,
                                                                                        gradient_as_bucket_view)
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.require_backward_grad_sync, self.device_type = True, next(module.parameters()).device.type
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * MEGABYTE)
        self.joining, self.buffer_root = None, 0
        named = {name: p for name, p in module.named_parameters() if p.requires_grad
                 and name not in self.parameters_to_ignore}
        if self.process_group.size() > 1 and init_sync:
            check_same_model(self.process_group, named)
            self.send_out([*(p for name, p in module.named_parameters() if name not in self.parameters_to_ignore),
                           *self.shared_buffers()])
        self.reducer = Reducer(list(named.values()), self.process_group, self.bucket_bytes_cap, gradient_as_bucket_view,
                               find_unused_parameters or static_graph,
                               {id(p): name for name, p in named.items()})

    def shared_buffers(self) -> list:
        return [buffer for name, buffer in self.module.named_buffers() if name not in self.parameters_to_ignore]

    def send_out(self, tensors):
        """Gives all processes the tensors of rank 0 (in a ``join`` block, of one with batches)."""
        if tensors:
            with no_grad():
                self.process_group.broadcast_from([t.detach() for t in tensors], self.buffer_root)

    def register_comm_hook(self, state, hook):
        """``hook(state, bucket)`` says what becomes of gradients: a future of a bucket's new content.  TypeError for
        what cannot be called, RuntimeError for a second one."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook can only be called once.")
        self.reducer.hook, self.reducer.state = hook, state

    def _register_builtin_comm_hook(self, comm_hook_type):
        """Averages gradients as they are ("ALLREDUCE") or rounded to float16 ("FP16_COMPRESS")."""
        from ...distributed.hooks import allreduce_hook, fp16_compress_hook
        rounded = getattr(comm_hook_type, "name", str(comm_hook_type)).endswith("FP16_COMPRESS")
        self.register_comm_hook(self.process_group, fp16_compress_hook if rounded else allreduce_hook)

    @contextlib.contextmanager
    def no_sync(self):
        """Gradients within are summed up and not averaged: no hook sees them."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def join(self, divide_by_initial_world_size=True, enable=True, throw_on_early_termination=False):
        """A block in which processes may have different numbers of batches: who has no more takes part with gradients
        of zero.

        Gradients are divided by the size of the group, or without ``divide_by_initial_world_size`` by how many
        processes still have batches.
        """
        from ...distributed.joining import Join
        return Join([self], enable, throw_on_early_termination,
                    divide_by_initial_world_size=divide_by_initial_world_size)

    def join_hook(self, **kwargs):
        from ...distributed.joining import ModelJoinHook
        return ModelJoinHook(self, kwargs.get("divide_by_initial_world_size", True))

    join_device = property(lambda self: device("cpu"))
    join_process_group = property(lambda self: self.process_group)

    def forward(self, *inputs, **kwargs):
        self.begin()
        outputs = self.module(*inputs, **kwargs)
        if grad_enabled() and self.require_backward_grad_sync:
            self.await_gradients(outputs)
        return outputs

    @disable
    def begin(self):
        """What goes before a pass: news of who still has batches, and the buffers of rank 0."""
        if self.joining is not None:
            self.joining.notify(self)
        if (self.require_backward_grad_sync and self.will_sync_module_buffers() and self.process_group.size() > 1
            and grad_enabled()):
            self.send_out(self.shared_buffers())

    @disable
    def await_gradients(self, outputs):
        self.reducer.prepare(_find_tensors(outputs))

    def will_sync_module_buffers(self) -> bool:
        return self.broadcast_buffers and bool(self.shared_buffers())

    def _set_static_graph(self):
        """The graph does not change between steps; parameters that it does not reach are looked for."""
        self.static_graph = self.reducer.seeks = True

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module, params_and_buffers_to_ignore):
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore


def check_same_model(group, named):
    """RuntimeError where processes of a group have other parameters than rank 0."""
    shapes = [(tuple(p.shape), str(p.dtype)) for p in named.values()]
    every = [pickle.loads(data) for data in group.gather_bytes(pickle.dumps(shapes))]
    for rank, theirs in enumerate(every):
        if len(theirs) != len(every[0]):
            raise RuntimeError(
                f"DDP expects same model across all ranks, but Rank 0 has {len(every[0])} params, while rank {rank} "
                f"has inconsistent {len(theirs)} params.")
        for k, (a, b) in enumerate(zip(every[0], theirs)):
            if a != b:
                raise RuntimeError(
                    f"[{rank}]: params[{k}] in this process with sizes {list(b[0])} of {b[1]} appears not to match "
                    f"sizes {list(a[0])} of {a[1]} of the same param in process 0.")


def _find_tensors(obj) -> list:
    """The tensors in a result."""
    return [leaf for leaf in tree_flatten(obj)[0] if isinstance(leaf, Tensor)]

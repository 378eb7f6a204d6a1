"""A model in every process of a group, with gradients averaged."""
from __future__ import annotations

import contextlib
import os
import pickle
import warnings
import weakref

from ..._src.autograd.mode import is_grad_enabled as grad_enabled, no_grad
from ..._src.capture.asking import is_compiling
from ..._src.compiling import disable
from ..._src.core.devices import device
from ..._src.core.errors import NotBuiltError
from ..._src.core.log import logger
from ..._src.core.native import Tensor
from ..._src.core.pytree import tree_flatten, tree_map
from ...func.modules import functional_call
from ..modules.batchnorm import SyncBatchNorm
from ..modules.module import Module
from .captured import averaged
from .reducer import MEGABYTE, GradBucket, Reducer  # noqa: F401

log = logger("buckets")
LOGGED = {"float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16"}
ENVIRONMENT = ("MASTER_ADDR", "MASTER_PORT", "TORCH_DISTRIBUTED_DEBUG", "CUDA_VISIBLE_DEVICES", "GLOO_SOCKET_IFNAME")


def group_of(process_group, device_mesh):
    """Return the group of the processes that average gradients.

    Raises:
        RuntimeError: for both a group and a mesh, and for a mesh of more than one dimension.
    """
    from ...distributed.membership import chosen
    if device_mesh is None:
        return chosen(process_group)
    if process_group is not None:
        raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
    if device_mesh.ndim != 1:
        raise RuntimeError(f"Only 1D device mesh is supported, but got {device_mesh}.")
    return device_mesh.get_group(mesh_dim=0)


def select_buffer_sync(broadcast_buffers, forward_sync_buffers) -> tuple:
    """Return whether calls, and whether the constructor, broadcast buffers."""
    if broadcast_buffers is not None:
        warnings.warn(
            "Both `broadcast_buffers` and `forward_sync_buffers` were specified. `broadcast_buffers` is deprecated and "
            "its value is ignored when `forward_sync_buffers` is provided." if forward_sync_buffers is not None else
            "`broadcast_buffers` is deprecated. Use `forward_sync_buffers` instead, which syncs buffers at init also "
            "if it is False.", FutureWarning, stacklevel=3)
    if forward_sync_buffers is not None:
        return forward_sync_buffers, True
    return (broadcast_buffers is not False,) * 2


class DistributedDataParallel(Module):
    """A module whose gradients are averaged over the processes of a group.

    RuntimeError if no parameter requires a gradient; ValueError without a group
    (``torch.distributed.init_process_group``), or ``device_ids`` is not the module's GPU.

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
        super().__init__()
        if (delay_all_reduce_named_params is None) != (param_to_hook_all_reduce is None):
            raise ValueError(
                "delay_all_reduce_named_params and param_to_hook_all_reduce need to be set at the same time.")
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters that require a "
                "gradient.")
        own = next(module.parameters()).device
        if device_ids or output_device is not None:
            check_devices(module, device_ids, output_device)
        if mixed_precision is not None:
            raise NotBuiltError("DistributedDataParallel(mixed_precision=...)", "None", "use torch.autocast")
        self.module, self.dim, self.device, self.output_device = module, dim, own, output_device
        self.device_ids = [own.index] if device_ids else None
        if device_mesh is not None:
            self.device_mesh = device_mesh
        self.process_group = group_of(process_group, device_mesh)
        self.forward_sync_buffers, syncs_at_init = select_buffer_sync(broadcast_buffers, forward_sync_buffers)
        self.find_unused_parameters, self.static_graph, self.gradient_as_bucket_view = (find_unused_parameters,
                                                                                        static_graph,
                                                                                        gradient_as_bucket_view)
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.require_backward_grad_sync, self.device_type = True, own.type
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * MEGABYTE)
        self.joining, self.buffer_root = None, 0
        named = {name: p for name, p in module.named_parameters() if p.requires_grad
                 and name not in self.parameters_to_ignore}
        if self.process_group.size() > 1 and init_sync:
            check_same_model(self.process_group, named)
            self._rush_send_out([*(p for name, p in module.named_parameters() if name not in self.parameters_to_ignore),
                           *(self._rush_shared_buffers() if syncs_at_init else ())])
        self.reducer = Reducer(list(named.values()), self.process_group, self.bucket_bytes_cap, gradient_as_bucket_view,
                               find_unused_parameters, {id(p): name for name, p in named.items()})
        if static_graph:
            self._set_static_graph()
        weakref.finalize(self, self.reducer.leave).atexit = False
        self.group_name = self.process_group.group_name
        self.names_by_bucket = [[self.reducer.names[id(p)] for p in b.parameters] for b in self.reducer.buckets]
        log.info("%d gradients in %d buckets of %s bytes", len(named), len(self.reducer.buckets),
                 [sum(p.nbytes for p in b.parameters) for b in self.reducer.buckets])

    def _rush_shared_buffers(self) -> list:
        return [buffer for name, buffer in self.module.named_buffers() if name not in self.parameters_to_ignore]

    def _rush_send_out(self, tensors):
        """Gives all processes the tensors of rank 0 (in a ``join`` block, of one with batches)."""
        with no_grad():
            for place in dict.fromkeys(t.device for t in tensors):
                self.process_group.broadcast_from([t.detach() for t in tensors if t.device == place], self.buffer_root)

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

    join_device = property(lambda self: self.device)
    join_process_group = property(lambda self: self.process_group)

    def forward(self, *inputs, **kwargs):
        if is_compiling() and self._rush_averages_within():
            if self.device_ids is not None:
                inputs, kwargs = tree_map(self.moved, (inputs, kwargs))
            made = averaged(self.module, self.names_by_bucket, self.reducer.name, self.group_name)
            return functional_call(self.module, made, inputs, kwargs)
        self.begin()
        if self.device_ids is not None:
            inputs, kwargs = tree_map(self.moved, (inputs, kwargs))
        outputs = self.module(*inputs, **kwargs)
        if grad_enabled() and self.require_backward_grad_sync:
            self._rush_await_gradients(outputs)
        return outputs

    def _rush_averages_within(self) -> bool:
        """Whether a compiled program has the averages of its gradients in it: there is nothing to do before a pass, and
        nothing to wait for after it."""
        return (grad_enabled() and self.require_backward_grad_sync and self.joining is None
                and not self.will_sync_module_buffers() and self.reducer.within())

    def moved(self, value):
        """A tensor of the inputs, where the module is."""
        return value.to(self.device) if isinstance(value, Tensor) else value

    @disable
    def begin(self):
        """Prepare a pass: report which ranks still have batches, and broadcast the buffers of rank 0."""
        if self.joining is not None:
            self.joining.notify(self)
        if (self.require_backward_grad_sync and self.will_sync_module_buffers() and self.process_group.size() > 1
            and grad_enabled()):
            self._rush_send_out(self._rush_shared_buffers())

    @disable
    def _rush_await_gradients(self, outputs):
        self.reducer.prepare(_find_tensors(outputs))

    def will_sync_module_buffers(self) -> bool:
        return self.forward_sync_buffers and bool(self._rush_shared_buffers())

    @property
    def broadcast_buffers(self) -> bool:
        """``forward_sync_buffers`` under its deprecated name."""
        return self.forward_sync_buffers

    @broadcast_buffers.setter
    def broadcast_buffers(self, value: bool):
        self.forward_sync_buffers = value

    def _get_ddp_logging_data(self) -> dict:
        """Return data on the wrapper, by the names that PyTorch logs."""
        parameters = [p for b in self.reducer.buckets for p in b.parameters]
        whole = parameters if self.module is None else list(self.module.parameters())
        sizes = [sum(p.nbytes for p in b.parameters) for b in self.reducer.buckets]
        place = getattr(self.output_device, "index", self.output_device)
        return {
            "backend_name": self.process_group.name(), "world_size": self.process_group.size(),
            "rank": self.process_group.rank(), "module_name": type(self.module).__name__,
            "device_ids": ", ".join(map(str, self.device_ids or ())), "output_device": -1 if place is None else place,
            "broadcast_buffers": int(self.broadcast_buffers), "bucket_cap_bytes": self.bucket_bytes_cap,
            "find_unused_parameters": int(self.find_unused_parameters),
            "gradient_as_bucket_view": int(self.gradient_as_bucket_view), "static_graph": int(self.static_graph),
            "num_parameter_tensors": len(parameters), "total_parameter_size_bytes": sum(p.nbytes for p in parameters),
            "dtypes": ", ".join(sorted({LOGGED.get(p.dtype.name, p.dtype.name) for p in parameters})),
            "bucket_sizes": ", ".join(map(str, sizes)),
            "is_multi_device_module": int(len({p.device for p in whole}) > 1),
            "has_sync_bn": int(any(isinstance(m, SyncBatchNorm) for m in self.module.modules())),
            "comm_hook": getattr(self.reducer.hook, "__name__", "") if self.reducer.hook is not None else "",
            **{name.lower(): os.environ.get(name, "N/A") for name in ENVIRONMENT}}

    def _set_static_graph(self):
        """The graph does not change between steps: what the first backward pass does not reach, none does."""
        self.static_graph = self.reducer.seeks = self.reducer.is_static = True

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module, params_and_buffers_to_ignore):
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore


def check_devices(module, device_ids, output_device):
    """Raise ValueError if ``device_ids`` is not the module's one GPU."""
    places = {p.device for p in module.parameters()}
    if len(places) != 1 or next(iter(places)).index is None or len(device_ids or [0]) != 1:
        raise ValueError(
            "DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-"
            f"device GPU modules or CPU modules, but got device_ids {device_ids}, output_device {output_device}, and "
            f"module parameters {places}.")
    place = next(iter(places))
    for given in [*(device_ids or []), *([] if output_device is None else [output_device])]:
        if device(place.type, given) != place if isinstance(given, int) else device(given) != place:
            raise ValueError(f"DistributedDataParallel: the module is on {place}, but got device_ids {device_ids}, "
                             f"output_device {output_device}")


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

"""A model on all devices of a machine, each with a part of the batch."""
from __future__ import annotations

from itertools import chain
from typing import Generic, TypeVar

from ..._src.core.devices import Registry, placed
from ..modules.module import Module
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter_kwargs

T = TypeVar("T", bound=Module)


def devices_named(device_ids) -> list:
    """The devices that were named, by index or otherwise; the accelerator's, all of them, where none are; none where
    there is no accelerator whose devices copy to each other."""
    provider = Registry.of(Registry.present())
    if provider is None or not provider.count() or "peer" not in provider.capabilities(0):
        return []
    return [placed(one) for one in (range(provider.count()) if device_ids is None else device_ids)]


def checked(module, where):
    """Raise RuntimeError unless all parameters and buffers are on the first device."""
    for one in chain(module.parameters(), module.buffers()):
        if one.device != where:
            raise RuntimeError(f"module must have its parameters and buffers on device {where} (device_ids[0]) but "
                               f"found one of them on device: {one.device}")


def spread(module, inputs, kwargs, devices, output, dim):
    """The results of copies of a module on several devices, of a part of the arguments each, joined on one."""
    checked(module, devices[0])
    inputs, kwargs = scatter_kwargs(inputs, kwargs, devices, dim)
    if not inputs:
        inputs, kwargs = ((),), ({},)
    if len(devices) == 1:
        return module(*inputs[0], **kwargs[0])
    count = len(inputs)
    results = parallel_apply(replicate(module, devices[:count]), inputs, kwargs, devices[:count])
    return gather(results, output, dim)


class DataParallel(Module, Generic[T]):
    """A module that runs on several GPUs (all, unless ``device_ids`` names some): each has a copy and a part of the
    batch along ``dim``, and the results are concatenated on ``output_device`` (the first).  Gradients reach the
    module, which is on the first of them (else RuntimeError when it runs).  Without an accelerator it runs as it is.
    Its state has the prefix ``module.``, as in PyTorch."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module, self.dim = module, dim
        devices = devices_named(device_ids)
        self.device_ids = [one.index for one in devices]
        self._places, self._rush_output = devices, None
        self.output_device = output_device
        if devices:
            self._rush_output = devices[0] if output_device is None else placed(output_device)
            self.output_device, self.src_device_obj = self._rush_output.index, devices[0]
            if len(devices) == 1:
                module.to(devices[0])

    def forward(self, *inputs, **kwargs):
        if not self._places:
            return self.module(*inputs, **kwargs)
        return spread(self.module, inputs, kwargs, self._places, self._rush_output, self.dim)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """``module(*inputs)``, each device with a part of the batch, as DataParallel does it."""
    inputs = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    devices = devices_named(device_ids)
    if not devices:
        return module(*inputs, **(module_kwargs or {}))
    output = devices[0] if output_device is None else placed(output_device)
    return spread(module, inputs, module_kwargs or {}, devices, output, dim)

"""A model on all devices of a machine: there is one."""
from __future__ import annotations

from ..modules.module import Module


class DataParallel(Module):
    """A module, which runs as it is: its state has the prefix ``module.``, as in PyTorch."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module, self.dim, self.device_ids, self.output_device = module, dim, [], output_device

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """``module(*inputs)``."""
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))

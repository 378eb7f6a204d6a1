"""Programs for several GPUs on a machine that has none: the processor stands for each of them, for both frameworks.

``pretend(torch, count)`` has ``torch.accelerator`` and ``torch.cuda`` count so many devices.  What goes to a device by
its number or as "cuda:0" stays where it is, and the backend "nccl" is "gloo".
"""

from __future__ import annotations

import contextlib


def pretend(torch, count):
    """Changes ``torch`` in this process, once."""
    if hasattr(torch, "_pretended_devices"):
        return
    torch._pretended_devices = count
    torch.backends.cuda.enable_flash_sdp(False)  # PyTorch's attention for the processor takes no tensors over processes
    processor = torch.device("cpu")
    torch.accelerator.is_available = lambda: True
    torch.accelerator.device_count = torch.cuda.device_count = lambda: count
    torch.accelerator.current_accelerator = lambda *_, **__: processor
    torch.accelerator.set_device_index = torch.cuda.set_device = lambda index: None
    torch.accelerator.device_index = lambda index: contextlib.nullcontext()
    for owner in (torch.Tensor, torch.nn.Module):
        owner.to = moved(owner.to, torch)
        owner.cuda = lambda self, *_, **__: self
    torch.utils.data.DataLoader.__init__ = unpinned(torch.utils.data.DataLoader.__init__)
    torch.load = loaded(torch.load, torch)
    torch.distributed.init_process_group = torch.distributed.distributed_c10d.init_process_group = joined(
        torch.distributed.init_process_group
    )
    wrapper = torch.nn.parallel.DistributedDataParallel
    wrapper.__init__ = alone(wrapper.__init__)


def device(torch, value):
    """The processor for what names another device."""
    other = type(value) is int or str(value).startswith("cuda") and not isinstance(value, torch.Tensor)
    return torch.device("cpu") if other else value


def moved(plain, torch):
    def to(self, *arguments, **named):
        if "device" in named:
            named["device"] = device(torch, named["device"])
        return plain(self, *(device(torch, value) for value in arguments), **named)

    return to


def loaded(plain, torch):
    def load(*arguments, map_location=None, **named):
        return plain(*arguments, map_location=device(torch, map_location), **named)

    return load


def unpinned(plain):
    def __init__(self, *arguments, pin_memory=False, **named):
        plain(self, *arguments, **named)

    return __init__


def joined(plain):
    def init_process_group(backend=None, *arguments, device_id=None, **named):
        return plain("gloo" if backend == "nccl" else backend, *arguments, **named)

    return init_process_group


def alone(plain):
    def __init__(self, module, device_ids=None, *arguments, **named):
        plain(self, module, None, *arguments, **named)

    return __init__

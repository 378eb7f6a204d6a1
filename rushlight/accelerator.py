"""The accelerator of this host: the first device type that was registered in addition to the CPU.  None is built in:
register one with ``torch.devices.register``."""
from __future__ import annotations

import collections

from ._src.core.advice import deprecated
from ._src.core.devices import Registry, device as Device
from ._src.streams import Event, Stream, accelerator, current_stream, device_given, set_stream  # noqa: F401


def current_accelerator(check_available=False):
    """The type of the accelerator as a device without an index; None where there is none (or, with ``check_available``,
    no device of its type)."""
    if Registry.present() is None or check_available and not device_count():
        return None
    return Device(Registry.present())


def device_count() -> int:
    """How many devices of the accelerator's type there are."""
    return 0 if Registry.present() is None else Registry.of(Registry.present()).count()


def is_available() -> bool:
    """Whether there is an accelerator."""
    return device_count() > 0


def current_device_index() -> int:
    """The index of the device that is meant where none is named, for the calling thread."""
    return accelerator().index


def set_device_index(device, /):
    """Another device is meant where none is named, for the calling thread; a negative index changes nothing."""
    index = device if isinstance(device, int) else device_given(device).index
    if index >= 0:
        where = device_given(index)
        where.provider.set_current(where.index)


def current_device_idx() -> int:
    """``current_device_index`` as it was called before."""
    deprecated("torch.accelerator.current_device_idx()", "torch.accelerator.current_device_index()", FutureWarning)
    return current_device_index()


def set_device_idx(device, /):
    """``set_device_index`` as it was called before."""
    deprecated("torch.accelerator.set_device_idx()", "torch.accelerator.set_device_index()", FutureWarning)
    set_device_index(device)


class device_index:
    """A block in which another device is the current one; with None it stays."""

    def __init__(self, device, /):
        self.index, self.before = device, None

    def __enter__(self):
        if self.index is not None:
            self.before = current_device_index()
            set_device_index(self.index)

    def __exit__(self, *error):
        if self.index is not None:
            set_device_index(self.before)


def synchronize(device=None, /):
    """Waits until a device (default: the current one) has done all that it was given."""
    where = device_given(device)
    where.provider.synchronize(where.index)


def get_device_capability(device=None, /) -> dict:
    """Return the capabilities of a device: ``supported_dtypes`` are those with kernels."""
    where = device_given(device)
    return {"supported_dtypes": set(where.provider.dtypes(where.index))}


# --- memory -----------------------------------------------------------------------------------------------------------
def empty_cache():
    """Memory that is kept for later goes back to the system."""
    if Registry.present() is not None:
        provider = Registry.of(Registry.present())
        for index in range(provider.count()):
            provider.trim(index)


def empty_host_cache():
    """Pinned memory that is kept for later goes back to the system."""
    if Registry.present() is not None:
        Registry.of(Registry.present()).trim_host()


def statistics(device_index) -> dict:
    if Registry.present() is None:
        return {}
    where = device_given(device_index)
    return where.provider.statistics(where.index)


def memory_stats(device_index=None, /) -> collections.OrderedDict:
    """Bytes by name, of a device (default: the current one): ``allocated_bytes.all.current``,
    ``allocated_bytes.all.peak``, and of ``reserved_bytes``; of GPUs what ``torch.cuda.memory_stats`` has."""
    if Registry.present() is None:
        return collections.OrderedDict()
    where = device_given(device_index)
    return collections.OrderedDict(where.provider.figures(where.index))


def memory_allocated(device_index=None, /) -> int:
    """Bytes that tensors on a device have."""
    return statistics(device_index).get("allocated", 0)


def max_memory_allocated(device_index=None, /) -> int:
    """The most bytes that tensors on a device had at once."""
    return statistics(device_index).get("most_allocated", 0)


def memory_reserved(device_index=None, /) -> int:
    """Bytes of a device that are taken, for tensors or to be kept for later ones."""
    return statistics(device_index).get("reserved", 0)


def max_memory_reserved(device_index=None, /) -> int:
    """The most bytes of a device that were taken at once."""
    return statistics(device_index).get("most_reserved", 0)


def get_memory_info(device_index=None, /) -> tuple:
    """(free, total) bytes of a device."""
    where = device_given(device_index)
    return where.provider.memory(where.index)


def reset_peak_memory_stats(device_index=None, /):
    """The most that was allocated and reserved is counted from here on."""
    if Registry.present() is not None:
        where = device_given(device_index)
        where.provider.reset_statistics(where.index)


reset_accumulated_memory_stats = reset_peak_memory_stats

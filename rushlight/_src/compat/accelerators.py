"""``torch.xpu`` and ``torch.mps``: queries go to the provider of that name, if a device adapter registered it.

Without one, queries report no devices, and functions that need a device raise an error.
"""
from __future__ import annotations

import collections
import secrets

from .. import streams
from ..core.devices import device as Device, provided
from ..core.dtypes import float16, float64
from ..core.errors import NoDeviceError
from .devices import device_module


class Accelerator:
    """Functions of ``torch.<kind>`` for any devices: its methods are the names of the module."""

    def __init__(self, kind: str):
        self._kind, self._refusing = kind, device_module(kind)
        self._streams = self._of_device(streams.Stream, 1)

    # --- which device is meant ---
    def _provider(self):
        """Provider of the devices; NoDeviceError if there is none."""
        found = provided(self._kind)
        if found is None:
            raise NoDeviceError(f"Torch not compiled with {self._kind.upper()} enabled: no adapter has this name",
                                f"torch.{self._kind}.is_available()", "use the CPU")
        return found

    def _index(self, device=None) -> int:
        """Index of a device: an int, a device or its name; None: the current one.  ValueError for a device of another
        type."""
        found = self._provider()
        where = device
        if device is not None and not isinstance(device, int):
            meant = Device(device)
            if meant.type != Device(self._kind).type:
                raise ValueError(f"Expected a {self._kind} device, but got: {meant}")
            where = meant.index
        return found.current() if where is None else where

    def is_available(self) -> bool:
        """True if a device adapter has this name."""
        return self.device_count() > 0

    def is_initialized(self) -> bool:
        """True if there are devices, which need no initialization."""
        return self.is_available()

    def init(self):
        """Look for devices; NoDeviceError if there are none."""
        self._provider()

    def device_count(self) -> int:
        """Number of devices."""
        found = provided(self._kind)
        return 0 if found is None else found.count()

    def current_device(self) -> int:
        """Index of the current device."""
        return self._index()

    def set_device(self, device):
        """Make another device current; a negative index changes nothing."""
        index = self._index(device)
        if index >= 0:
            self._provider().set_current(index)

    def synchronize(self, device=None):
        """Wait until a device has done all enqueued work."""
        self._provider().synchronize(self._index(device))

    # --- device properties ---
    def get_device_properties(self, device=None):
        """Its ``name``, ``total_memory`` in bytes and ``multi_processor_count``."""
        return self._provider().properties(self._index(device))

    def get_device_name(self, device=None) -> str:
        """Name of a device from its driver."""
        return self.get_device_properties(device).name

    def get_device_capability(self, device=None) -> dict:
        """Capabilities of a device by name: ``has_fp16`` and ``has_fp64`` say which floats kernels compute in."""
        found = self.get_device_properties(device)
        dtypes = self._provider().dtypes(self._index(device))
        return {"name": found.name, "total_memory": found.total_memory,
                "max_compute_units": found.multi_processor_count, "has_fp16": float16 in dtypes,
                "has_fp64": float64 in dtypes}

    def is_bf16_supported(self, including_emulation=True) -> bool:
        """True if tensors may be bfloat16: kernels compute it in float32."""
        return self.is_available() and including_emulation

    # --- memory ---
    def _statistic(self, name: str, device=None) -> int:
        found = provided(self._kind)
        return 0 if found is None else found.statistics(self._index(device)).get(name, 0)

    def memory_allocated(self, device=None) -> int:
        """Bytes allocated by tensors."""
        return self._statistic("allocated", device)

    def max_memory_allocated(self, device=None) -> int:
        """Peak of the bytes allocated by tensors."""
        return self._statistic("most_allocated", device)

    def memory_reserved(self, device=None) -> int:
        """Bytes reserved from the driver, including cached ones."""
        return self._statistic("reserved", device)

    def max_memory_reserved(self, device=None) -> int:
        """Peak of the bytes reserved from the driver."""
        return self._statistic("most_reserved", device)

    def memory_stats(self, device=None) -> collections.OrderedDict:
        """Memory statistics by name, current and peak; empty without a device."""
        found = provided(self._kind)
        figures = {} if found is None else found.statistics(self._index(device))
        named = {"allocated_bytes.all.current": "allocated", "allocated_bytes.all.peak": "most_allocated",
                 "reserved_bytes.all.current": "reserved", "reserved_bytes.all.peak": "most_reserved"}
        return collections.OrderedDict((name, figures[own]) for name, own in named.items() if own in figures)

    def mem_get_info(self, device=None) -> tuple:
        """(free, total) bytes of a device."""
        return self._provider().memory(self._index(device))

    def reset_peak_memory_stats(self, device=None):
        """Reset the peak statistics."""
        if self.is_available():
            self._provider().reset_statistics(self._index(device))

    def empty_cache(self):
        """Release cached memory to the driver."""
        for index in range(self.device_count()):
            self._provider().trim(index)

    # --- random numbers ---
    def _generator(self, device=None):
        return self._provider().generator(self._index(device))

    def manual_seed(self, seed: int):
        """Seed the current device's RNG; do nothing without a device."""
        if self.is_available():
            self._generator().manual_seed(seed)

    def manual_seed_all(self, seed: int):
        """Seed the RNGs of all devices."""
        for index in range(self.device_count()):
            self._generator(index).manual_seed(seed)

    def seed(self):
        """Seed the current device's RNG from the system's entropy."""
        self.manual_seed(secrets.randbits(63))

    def seed_all(self):
        """Seed the RNGs of all devices with one seed from the system's entropy."""
        self.manual_seed_all(secrets.randbits(63))

    def initial_seed(self) -> int:
        """Seed of the current device's RNG."""
        return self._generator().initial_seed()

    def get_rng_state(self, device=None):
        """State of a device's RNG, as uint8."""
        return self._generator(device).get_state()

    def set_rng_state(self, new_state, device=None):
        """Set the RNG state of a device."""
        self._generator(device).set_state(new_state)

    def get_rng_state_all(self) -> list:
        """RNG states of all devices."""
        return [self.get_rng_state(index) for index in range(self.device_count())]

    def set_rng_state_all(self, new_states):
        """Set the RNG states of all devices."""
        for index, state in enumerate(new_states):
            self.set_rng_state(state, index)

    # --- order of work ---
    def current_stream(self, device=None):
        """Current stream of the calling thread."""
        index = self._index(device)
        return self._streams(index, stream_id=streams.current_stream(Device(self._kind, index)).stream_id)

    def set_stream(self, stream):
        """Make this stream current in the thread; None changes nothing."""
        self._provider()
        if stream is not None:
            streams.set_stream(stream)

    def stream(self, stream):
        """A block on another stream; None: on the same."""
        if stream is not None:
            self._provider()
        return streams.StreamContext(stream)

    def _of_device(self, base, number: int):
        """Return a subclass of streams or events for devices of this type; ``number``: index of the device among the
        first arguments."""
        module = self

        class Own(base):
            __doc__ = base.__doc__

            def __init__(self, *args, **kwargs):
                given = args[:number] or (kwargs.pop("device", None),) if number else ()
                options = dict(zip(("priority",) if number else ("enable_timing", "blocking", "interprocess"),
                                   args[number:]))
                where = Device(module._kind, module._index(*given))
                super().__init__(where, **options, **kwargs)

        Own.__name__ = Own.__qualname__ = base.__name__
        Own.__module__ = f"torch.{self._kind}"
        return Own

    def _block(self):
        """The class ``torch.<kind>.device``."""
        module = self

        class device:
            """A block with another current device; None or -1 change nothing."""

            def __init__(self, device):
                self.idx = device if device is None or device == -1 else module._index(device)

            def __enter__(self):
                if self.idx not in (None, -1):
                    self.prev_idx = module.current_device()
                    module.set_device(self.idx)
                return self

            def __exit__(self, *error):
                if self.idx not in (None, -1):
                    module.set_device(self.prev_idx)
                return False

        device.__qualname__, device.__module__ = "device", f"torch.{self._kind}"
        return device

    def _block_of(self, device):
        """The class ``torch.<kind>.device_of``."""
        kind = self._kind

        class device_of(device):
            """A block in which the device of a tensor is current; for other objects, it changes nothing."""

            def __init__(self, obj):
                super().__init__(obj.get_device() if obj.device.type == kind else -1)

        device_of.__qualname__, device_of.__module__ = "device_of", f"torch.{kind}"
        return device_of

    def names(self) -> dict:
        """Names of the module: the functions here that PyTorch's module has, and stubs that refuse all others."""
        own = {name: getattr(self, name) for name in dir(type(self)) if not name.startswith("_") and name != "names"}
        block = self._block()
        own |= {"Stream": self._streams, "Event": self._of_device(streams.Event, 0),
                "StreamContext": streams.StreamContext, "device": block, "device_of": self._block_of(block)}
        return {**self._refusing, **own}


class Metal(Accelerator):
    """Further functions of ``torch.mps``."""

    def current_allocated_memory(self) -> int:
        """Bytes allocated by tensors."""
        return self.memory_allocated()

    def driver_allocated_memory(self) -> int:
        """Bytes reserved from the driver."""
        return self.memory_reserved()

    def recommended_max_memory(self) -> int:
        """Bytes available to tensors."""
        return self.get_device_properties().total_memory


def accelerator_module(kind: str) -> dict:
    """Names of ``torch.<kind>``.

    >>> accelerator_module("xpu")["device_count"]() >= 0
    True
    """
    return (Metal if kind == "mps" else Accelerator)(kind).names()

"""Provider: the interface that a device type implements.

There is one ``Provider`` per device type, whatever the number of devices.  Other modules call it through
``tensor.device.provider`` and never compare device names.  A type is registered by ``register`` (for users:
``rushlight.devices.register``), as a Provider or as the name of a module that has one, which is imported when such a
device is first used.

Addresses are integers that only the device's own methods interpret: ``address + offset`` is the address ``offset``
bytes further.  Indices count the devices of the type from 0.
"""
from __future__ import annotations

import contextlib
import dataclasses

import numpy as np

from ..core.devices import Registry, device
from ..core.dtypes import ALL
from ..core.errors import NoDeviceError
from ..core.native import Storage
from ..core.random import Generator


@dataclasses.dataclass(frozen=True)
class Properties:
    """Properties of one device: its ``name``, bytes of memory, and number of multiprocessors."""

    name: str
    total_memory: int = 0
    multi_processor_count: int = 1


class DeviceMemory:
    """An allocation on a device, freed with the last storage that uses it."""

    __slots__ = ("provider", "index", "address", "nbytes")

    def __init__(self, provider: "Provider", index: int, address: int, nbytes: int):
        self.provider, self.index, self.address, self.nbytes = provider, index, address, nbytes

    def __del__(self):
        self.provider.free(self.index, self.address, self.nbytes)


class Pinned:
    """Memory of the host from which a device copies without waiting.  It owns a storage's bytes, and keeps ``memory``
    alive."""

    pins = True

    def __init__(self, address: int, memory):
        self.address, self.memory = address, memory


class Provider:
    """The interface of one device type.  A subclass implements at least the methods that raise NotImplementedError
    here; the others have correct, if slow, defaults."""

    type = ""
    has_data = True  # whether tensors there have elements
    on_host = False  # whether their memory is host memory, which Python and NumPy access directly
    is_accelerator = True  # whether ``torch.accelerator`` may mean this type, when it is made known before others
    has_array_interface = False  # whether libraries read arrays there by ``__cuda_array_interface__``
    autocast = "cuda"  # the list of operators that autocast follows there, of ``core/precisions.py``
    dlpack = 12  # the type of device in DLPack's table (12: an extension's)

    # --- which devices there are ---
    def count(self) -> int:
        """How many devices of the type there are."""
        raise NotImplementedError

    def properties(self, index: int) -> Properties:
        """Return the properties of a device."""
        return Properties(f"{self.type}:{index}")

    def capabilities(self, index: int) -> frozenset:
        """Return the names of optional features: "streams", "peer" (copies between devices without the host),
        "pinned"."""
        return frozenset()

    def dtypes(self, index: int) -> frozenset:
        """The dtypes that kernels of the device compute in; others run as ``fallback`` says."""
        return frozenset(dtype for dtype in ALL if dtype.has_kernels)

    def fingerprint(self, index: int) -> str:
        """Return a string of all that affects code generation for the device, for the keys of cached programs."""
        return f"{self.type} {self.properties(index).name}"

    def current(self) -> int:
        """Return the index of the calling thread's current device."""
        return 0

    def set_current(self, index: int):
        """Set the calling thread's current device."""
        if index != 0:
            raise NotImplementedError(f"there is one device of type {self.type!r}")

    def placed(self, where: device) -> device:
        """The device that holds tensors for what the user named, with its index.  NoDeviceError where there are
        fewer."""
        index = self.current() if where.index is None else where.index
        if not 0 <= index < self.count():
            raise NoDeviceError(f"device '{where}' is not available: there are {self.count()} of type {self.type!r}",
                                f"an index below {self.count()}",
                                "ask torch.accelerator.device_count() first")
        return where if where.index is not None else device(self.type, index)

    def recover(self, index: int):
        """Recreate a lost device; its tensors are gone.  NotImplementedError if that is impossible."""
        raise NotImplementedError(f"a device of type {self.type!r} cannot be recreated in a running process")

    # --- memory ---
    def allocate(self, index: int, nbytes: int) -> int:
        """Return the address of ``nbytes`` uninitialized bytes (of a block even for 0 bytes) for work on the current
        stream.  OutOfMemoryError if there are not enough."""
        raise NotImplementedError

    def free(self, index: int, address: int, nbytes: int):
        """Free a block.  Work submitted to the device before may still use it."""
        raise NotImplementedError

    def trim(self, index: int):
        """Release cached memory to the system."""

    def trim_host(self):
        """Release cached pinned memory to the system."""

    def statistics(self, index: int) -> dict:
        """Bytes by name: ``allocated``, ``most_allocated`` and ``reserved``, ``most_reserved``."""
        return {}

    def figures(self, index: int) -> dict:
        """Return the memory statistics of a device under PyTorch's names."""
        names = {"allocated": "allocated_bytes.all.current", "most_allocated": "allocated_bytes.all.peak",
                 "reserved": "reserved_bytes.all.current", "most_reserved": "reserved_bytes.all.peak"}
        return dict(sorted((names.get(name, name), value) for name, value in self.statistics(index).items()))

    def reset_statistics(self, index: int):
        """Reset the peaks of allocated and reserved memory."""

    def memory(self, index: int) -> tuple:
        """(free, total) bytes of a device."""
        total = self.properties(index).total_memory
        return total - self.statistics(index).get("allocated", 0), total

    def storage(self, index: int, nbytes: int) -> Storage:
        """A fresh storage on a device."""
        block = DeviceMemory(self, index, self.allocate(index, nbytes), nbytes)
        made = Storage()
        made.address, made.nbytes, made.owner = block.address, nbytes, block
        return made

    def pinned(self, nbytes: int):
        """Memory of the host from which the device copies without waiting, as a ``Pinned`` that keeps it; None: there
        is no such memory."""
        return None

    def used_by(self, index: int, storage: Storage, stream: int):
        """Note that a stream other than the allocating one uses a storage: its memory is reused only after the work
        submitted to that stream before the release."""

    # --- copies ---
    def upload(self, index: int, target: int, source: int, nbytes: int, non_blocking: bool):
        """Copy from the host's address ``source`` to the device's ``target``.  With ``non_blocking`` the host continues
        and must not change ``source`` until the stream is done."""
        raise NotImplementedError

    def download(self, index: int, target: int, source: int, nbytes: int, non_blocking: bool):
        """Copy from the device's address ``source`` to the host's ``target``.  With ``non_blocking`` the host continues
        and must not read ``target`` until the stream is done."""
        raise NotImplementedError

    def copy(self, index: int, target: int, source: int, nbytes: int):
        """Copies within a device.  The blocks do not overlap."""
        held = np.empty(max(nbytes, 1), np.uint8)
        self.download(index, held.ctypes.data, source, nbytes, False)
        self.upload(index, target, held.ctypes.data, nbytes, False)

    def peer(self, target_index: int, target: int, source_index: int, source: int, nbytes: int, non_blocking: bool):
        """Copies from one device of the type to another; by the host, if nothing better is known."""
        held = np.empty(max(nbytes, 1), np.uint8)
        self.download(source_index, held.ctypes.data, source, nbytes, False)
        self.upload(target_index, target, held.ctypes.data, nbytes, False)

    def read(self, index: int, source: int, dtype):
        """The element at an address, once all work before is done, as a number of Python's; ``dtype`` is one that NumPy
        has."""
        held = np.empty(1, dtype.numpy)
        self.download(index, held.ctypes.data, source, held.nbytes, False)
        return held[0].item()

    def view(self, tensor):
        """The tensor's memory as the host sees it: an array; None where the host does not."""
        return None

    # --- order of work ---
    def streams(self, index: int) -> "Streams":
        """The streams of a device."""
        return Streams()

    def synchronize(self, index: int):
        """Wait until a device has done all submitted work."""

    # --- other libraries ---
    def device_of(self, address: int) -> int:
        """Return the index of the device that owns an address of another library."""
        return 0

    def hand_over(self, index: int, stream: int):
        """Make later work of another library's stream wait for work already submitted to the thread's stream."""

    def take_over(self, index: int, stream: int):
        """Make later work of the thread's stream wait for work already submitted to another library's stream."""

    def at(self, index: int):
        """Context manager in which libraries that the thread calls find this device current."""
        return contextlib.nullcontext()

    def vendor(self) -> str:
        """Return the vendor whose libraries work with the memory and streams of these devices: "cuda", "hip", or ""."""
        return ""

    def recording(self, index: int) -> bool:
        """True if the thread's work for a device is captured for later instead of run."""
        return False

    def watching(self, index: int):
        """Context manager for a thread that submits no work and queries events; ``with ... as`` False if events must
        not be queried now."""
        return contextlib.nullcontext(True)

    def report(self, index: int, error: BaseException):
        """Report an error of submitted work: it is raised in the next call that waits for the device."""
        raise error

    # --- programs ---
    def target(self):
        """Return the code-generation interface (``compiler/target.py: Target``), by default the CPU's: a device that
        runs CPU code on memory of its own needs no other."""
        from .cpu import provider
        return provider.target()

    def run(self, index: int, code: int, values: int):
        """Runs a program on the current stream.

        ``code``: its address, as the compiler's encoder for the device wrote it.  ``values``: the host's address of its
          8-byte words: addresses of tensors, numbers,
        addresses of results and temporaries, seed and position of random numbers, then the address of a word for
        errors.  What the program reports in that word (0: nothing) is there when this returns, or when the device is
        next synchronised.
        """
        raise NotImplementedError

    def prepare(self, index: int, plan):
        """Called after a plan's program has run: a device whose queues the hot path supports
        (``core/native/queues.py``) attaches to the plan what later calls need to launch it there."""

    def replayed(self, plan, args, values: int, used: int):
        """Return the fresh results of a plan that runs as one recorded graph; None if ``run`` must run it."""
        return None

    def launch_failed(self, status: int):
        """Raises what the driver's status of a launch means."""
        raise RuntimeError(f"a launch on {self.type} has failed: {status}")

    def generator(self, index: int) -> Generator:
        """The random stream of a device: the same numbers for a seed as everywhere."""
        raise NotImplementedError

    def fallback(self, operator: str):
        """Notes that an operator runs on the host between two copies, since nothing of the device computes it.
        NotImplementedError where that is not wanted."""


class Streams:
    """The streams of one device: queues of work that is done in order.  These belong to a device that does all work at
    once: there is one, and nothing to wait for."""

    def new(self, priority: int) -> int:
        """The number of another stream.  Lower numbers of ``priority`` go first."""
        return 0

    def priority(self, stream: int) -> int:
        """The priority of a stream, within ``priorities``."""
        return 0

    def priorities(self) -> tuple:
        """(the number of the lowest priority, that of the highest)."""
        return 0, 0

    def current(self) -> int:
        """The number of the stream to which the calling thread gives work."""
        return 0

    def enter(self, stream: int):
        """Make a stream the calling thread's current one."""

    def done(self, stream: int) -> bool:
        """True if a stream has done all submitted work."""
        return True

    def synchronize(self, stream: int):
        """Wait until a stream has done all submitted work."""

    def mark(self, stream: int):
        """Record an event: the current end of the stream's work, in a representation private to these methods."""
        return None

    def wait(self, stream: int, event):
        """Make later work of the stream wait for an event."""

    def passed(self, event) -> bool:
        """True if the work before an event is done."""
        return True

    def reach(self, event):
        """Wait until the work before an event is done."""

    def elapsed(self, first, last) -> float:
        """Milliseconds between two events."""
        return 0.0


def register(provider: Provider, kind: str = ""):
    """Makes a type of device known: ``kind``, else the provider's own, else the one that ``rename_privateuse1_backend``
    has named.  The first type is the accelerator."""
    provider.type = kind or provider.type or Registry.private
    Registry.enter(provider.type, provider)

"""Communication engines by backend name."""
from __future__ import annotations

import ctypes

from .._src.core.devices import provided
from .._src.core.options import accept_only
from .arena import ArenaEngine
from .engine import Engine
from .memory import arena_for


def local_engine(store, rank: int, size: int, timeout: float) -> Engine:
    """The engine "gloo": memory that all ranks see."""
    arena = arena_for(store, rank, size)
    if arena is None:
        from .sockets import SocketEngine
        return SocketEngine(store, rank, size, timeout)
    return ArenaEngine(arena, rank, size, timeout)


class FakeEngine(Engine):
    """An engine without communication ("fake", for plans of large groups): this rank's data is copied to where other
    ranks' data would arrive; reductions, messages and data from a root leave memory unchanged."""

    def __init__(self, store, rank, size, timeout):
        self.rank, self.size, self.timeout = rank, size, timeout

    def nothing(self, *_given):
        return 0

    all_reduce = reduce_chain = reduce = broadcast = barrier = send = receive = close = abort = nothing

    def all_gather(self, targets, memory):
        for target in targets:
            ctypes.memmove(target.address, memory.address, min(target.nbytes, memory.nbytes))

    def gather(self, targets, memory, root):
        if targets is not None:
            self.all_gather(targets, memory)

    def scatter(self, target, sources, root):
        if sources is not None:
            self.all_gather([target], sources[self.rank])

    def reduce_scatter(self, target, sources, kind, scale):
        self.all_gather([target], sources[self.rank])

    def all_to_all(self, targets, sources):
        for target, source in zip(targets, sources):
            self.all_gather([target], source)


HOST = "cpu"  # the kind of device whose memory the host reads
STREAMED = "nccl",  # backends whose collectives run on device streams
CAPABLE = {"nccl": ("cuda",)}  # kinds of device that a backend carries without the host; others: the host's memory
# name of a backend -> function (store, rank, size, seconds) that gives its engine
MAKERS = {"gloo": local_engine, "fake": FakeEngine}
KNOWN = ["undefined", "gloo", "nccl", "xccl", "ucc", "mpi", "fake"]


class Backend(str):
    """The name of a backend: ``"gloo"``.  ValueError for values that are not strings."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, FAKE = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl", "fake"
    backend_list = KNOWN
    default_device_backend_map = {"cpu": "gloo", "cuda": "nccl"}

    def __new__(cls, name: str):
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, not {type(name).__name__}")
        return str.__new__(cls, name.lower())

    @classmethod
    def register_backend(cls, name: str, func, extended_api: bool = False, devices=None):
        """Registers ``func(store, rank, size, timeout)``, which makes engines (``engine.Engine``) for groups of a new
        backend.  AssertionError if the backend exists."""
        accept_only("Backend.register_backend", "func(store, rank, size, timeout) is called",
                    extended_api=(extended_api, False))
        assert name.lower() not in MAKERS, f"{name.upper()} c10d backend already exist"
        assert name.lower() not in KNOWN or name.lower() in ("mpi", "nccl", "ucc",
                                                             "xccl"), f"{name.upper()} c10d backend already exist"
        if name.lower() not in KNOWN:
            KNOWN.append(name.lower())
        setattr(cls, name.upper(), name.lower())
        for device in [devices] if isinstance(devices, str) else devices or ["cpu"]:
            cls.default_device_backend_map.setdefault(device, name.lower())
        MAKERS[name.lower()] = func


def available(name: str) -> bool:
    """True if groups of a backend can be made."""
    if name.lower() == "mpi":
        from .mpi import is_available
        return is_available()
    if name.lower() in STREAMED and name.lower() not in MAKERS:
        from .nccl.library import present
        return present()
    return name.lower() in MAKERS


def maker(name: str):
    """Return the function that makes the host engines of a backend; None if it runs on device streams."""
    if name in STREAMED and name not in MAKERS:
        return None  # the group calls ``streamed``
    if name == "mpi" and available("mpi"):
        from .mpi import MPIEngine
        return MPIEngine
    return MAKERS[name]


def streamed(name: str):
    """Return the function ``make(device, store, rank, size, seconds, options)`` that makes a device's engine."""
    from .nccl.engine import NCCLEngine
    return {"nccl": NCCLEngine}[name]


def by_device(text: str | None) -> dict:
    """Return backends by device type from ``"gloo"`` or ``"cpu:gloo,cuda:nccl"``.  ValueError for another format."""
    if not text:
        return {"cpu": Backend("gloo"), **({"cuda": Backend("nccl")} if usable("nccl") else {})}
    if ":" not in text:
        return {kind: Backend(text) for kind in CAPABLE.get(text.lower(), (HOST,))}
    found = {}
    for part in str(text).split(","):
        device, colon, name = part.partition(":")
        if not colon or not name or ":" in name:
            raise ValueError(
                f"The custom backend string argument is invalid: {text}.\n                Custom backend string is an "
                "experimental feature where the backend string must be in the format:\n"
                '                "<device_type1>:<backend1>,<device_type2>:<backend2>...". e.g. \'cpu:gloo,cuda:nccl\'')
        if device in found:
            raise ValueError(f"Duplicate device type {device}             in backend string: {text}")
        found[device] = Backend(name)
    return found


def usable(name: str) -> bool:
    """True if a device backend is installed, and such devices exist."""
    found = provided(CAPABLE[name][0])
    return found is not None and found.count() > 0 and available(name)


def backend_of(text: str | None) -> Backend:
    """Return the backend that names a group: the one for the CPU, if there is one.  RuntimeError for an unavailable
    one, AssertionError for an unknown one."""
    named = by_device(text)
    for name in named.values():
        assert name in KNOWN, f"Unknown backend type {name}"
        if not available(name):
            remedy = ": its library was not found (pip install rushlight[nccl])" if name in STREAMED else ""
            raise RuntimeError(f"Distributed package doesn't have {name.upper()} built in{remedy}")
        if name in STREAMED and not usable(name):
            raise ValueError(f"ProcessGroup{name.upper()} is only supported with GPUs, no GPUs found!")
    return named.get(HOST) or next(iter(named.values()))

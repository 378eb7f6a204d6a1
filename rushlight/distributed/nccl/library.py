"""NVIDIA's NCCL, by ctypes; AMD's RCCL has the same functions.

Every function returns a status; one that is neither 0 nor "in progress" raises DistBackendError with the library's
message.
"""
from __future__ import annotations

import ctypes
import functools
import importlib.util
import os

from ..._src.core.cached import cached_property
from ..stores import DistBackendError

P, I, Z = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
SUCCESS, IN_PROGRESS = 0, 7
UNDEFINED = -(1 << 31)  # a field of a Config that is left to the library
NO_COLOR = -1  # of a rank that is in no part of a split group
FILES = {"cuda": ("libnccl.so.2",), "hip": ("librccl.so.1", "librccl.so")}  # by the driver's kind
FOLDERS = "NCCL_LIB_DIR", "NCCL_ROOT", "NCCL_HOME"  # variables that name the library's directory
WHEELS = "nvidia.nccl",  # packages that contain it, in their directory ``lib``
NUMBERS = {"int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6, "float32": 7,
           "float64": 8, "bfloat16": 9, "bool": 1}
KINDS = {"sum": 0, "product": 1, "max": 2, "min": 3, "avg": 4}


class UniqueId(ctypes.Structure):
    """ncclUniqueId: by which the ranks of a communicator find one another."""

    _fields_ = [("internal", ctypes.c_char * 128)]


class Config(ctypes.Structure):
    """ncclConfig_t of 2.18; later libraries accept it by its size."""

    _fields_ = [("size", Z), ("magic", ctypes.c_uint), ("version", ctypes.c_uint), ("blocking", I),
                ("cga_cluster_size", I), ("min_ctas", I), ("max_ctas", I), ("net_name", ctypes.c_char_p),
                ("split_share", I)]

    def __init__(self, **given):
        super().__init__(ctypes.sizeof(Config), 0xCAFEBEEF, 21800, *[UNDEFINED] * 4, None, UNDEFINED)
        for name, value in given.items():
            setattr(self, name, value.encode() if isinstance(value, str) else value)


ENTRIES = {  # name: types of its arguments
    "ncclGetVersion": (ctypes.POINTER(I),), "ncclGetUniqueId": (ctypes.POINTER(UniqueId),),
    "ncclCommInitRank": (ctypes.POINTER(P), I, UniqueId, I), "ncclCommDestroy": (P,), "ncclCommAbort": (P,),
    "ncclCommGetAsyncError": (P, ctypes.POINTER(I)), "ncclGroupStart": (), "ncclGroupEnd": (),
    "ncclAllReduce": (P, P, Z, I, I, P, P), "ncclBroadcast": (P, P, Z, I, I, P, P),
    "ncclReduce": (P, P, Z, I, I, I, P, P), "ncclAllGather": (P, P, Z, I, P, P),
    "ncclReduceScatter": (P, P, Z, I, I, P, P), "ncclSend": (P, Z, I, I, P, P), "ncclRecv": (P, Z, I, I, P, P),
    "ncclRedOpCreatePreMulSum": (ctypes.POINTER(I), P, I, I, P), "ncclRedOpDestroy": (I, P),
}
LATER = {  # those that libraries have from some version on
    "ncclCommInitRankConfig": (ctypes.POINTER(P), I, UniqueId, I, ctypes.POINTER(Config)), "ncclCommFinalize": (P,),
    "ncclCommSplit": (P, I, I, ctypes.POINTER(P), ctypes.POINTER(Config)),
}


class Library:
    """The entries of one file."""

    def __init__(self, handle):
        self.handle, self.entries = handle, {}
        for name, types in {**ENTRIES, **LATER}.items():
            function = getattr(handle, name, None)
            if function is None:
                if name in ENTRIES:
                    raise AttributeError(f"{handle._name} has no {name}")
                continue
            function.restype, function.argtypes = I, types
            self.entries[name] = function
        handle.ncclGetErrorString.restype, handle.ncclGetErrorString.argtypes = ctypes.c_char_p, (I,)
        if self.has("ncclGetLastError"):
            handle.ncclGetLastError.restype, handle.ncclGetLastError.argtypes = ctypes.c_char_p, (P,)

    def has(self, name: str) -> bool:
        return getattr(self.handle, name, None) is not None

    @cached_property
    def version(self) -> tuple:
        """(2, 21, 5)"""
        out = I()
        self.call("ncclGetVersion", ctypes.byref(out))
        code = out.value
        return (code // 10000, code // 100 % 100, code % 100) if code >= 20900 else (code // 1000, code // 100 % 10,
                                                                                     code % 100)

    def call(self, name: str, *given) -> int:
        """Calls an entry.  Its status; DistBackendError for one that is an error."""
        status = self.entries[name](*given)
        if status not in (SUCCESS, IN_PROGRESS):
            raise DistBackendError(f"NCCL error in {name}: {self.words(status)}")
        return status

    def words(self, status: int) -> str:
        """Return the text of a status, with the library's last error and version."""
        text = (self.handle.ncclGetErrorString(status) or b"unknown error").decode(errors="replace")
        last = self.handle.ncclGetLastError(None) if self.has("ncclGetLastError") else None
        about = f"; last error: {last.decode(errors='replace').strip()}" if last else ""
        return f"{text} (status {status}), NCCL version {'.'.join(map(str, self.version))}{about}"

    def unique_id(self) -> bytes:
        out = UniqueId()
        self.call("ncclGetUniqueId", ctypes.byref(out))
        return bytes(out)


def places(kind: str):
    """Paths and names under which a driver's library may be found, best first."""
    for variable in FOLDERS:
        folder = os.environ.get(variable)
        if folder:
            yield from (os.path.join(folder, *inside, file) for inside in ((), ("lib",)) for file in FILES[kind])
    if kind == "cuda":
        for package in WHEELS:
            try:
                found = importlib.util.find_spec(package)
            except ModuleNotFoundError:
                continue
            for folder in found.submodule_search_locations or () if found else ():
                yield from (os.path.join(folder, "lib", file) for file in FILES[kind])
    yield from FILES[kind]


@functools.cache
def library(kind: str = "cuda") -> Library | None:
    """Return the library for a kind of driver ("cuda", "hip"); None if there is none."""
    for place in places(kind):
        if os.path.isabs(place) and not os.path.exists(place):
            continue
        try:
            return Library(ctypes.CDLL(place))
        except (OSError, AttributeError):  # missing, for another platform, or too old
            continue
    return None


def present() -> bool:
    """True if the library of some kind of driver is installed."""
    return any(library(kind) is not None for kind in FILES)

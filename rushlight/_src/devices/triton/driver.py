"""The driver's library of a GPU, by ctypes: memory, copies, streams, events, machine code and launches.

NVIDIA's and AMD's have the same entries under other names (``VENDORS``).  Every entry returns a status; a nonzero one
raises AcceleratorError with the library's message.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
from typing import NamedTuple

from ...core.advice import warn
from ...core.errors import AcceleratorError, OutOfMemoryError
from ...core.forking import guarded
from ...core.native import mine
from ...core.platform import here
from .binaries import Unfit

P, U, Z, I, F, L = (ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t, ctypes.c_int, ctypes.c_float,
                    ctypes.c_ulonglong)
OUT = ctypes.POINTER(ctypes.c_void_p)
OUT_OF_MEMORY, INVALID_VALUE, NO_DEVICE = 2, 1, 100
CONNECTED, UNCONNECTED = 704, (217, 711)  # of peers: they were connected before; the device has no way, or too many
ORDINAL = 9  # the attribute of an address that is its device's index


class Vendor(NamedTuple):
    """A driver library: its files, the prefix of its entries, and its numbers of attributes."""

    kind: str
    files: tuple
    names: dict
    shared_attribute: int
    counts: int  # the attribute of a device that counts its units
    capability: tuple = ()


COMMON = {  # entry: types of its arguments
    "init": (U,), "count": (ctypes.POINTER(I),), "name": (P, I, I), "total": (ctypes.POINTER(Z), I),
    "attribute": (ctypes.POINTER(I), I, I), "allocate": (OUT, Z), "free": (P,), "information": (ctypes.POINTER(Z),) * 2,
    "upload": (P, P, Z, P), "download": (P, P, Z, P), "copy": (P, P, Z, P), "fill": (P, ctypes.c_ubyte, Z, P),
    "pin": (OUT, Z, U), "unpin": (P,), "stream": (OUT, U, I), "stream_wait": (P,),
    "stream_done": (P,), "event": (OUT, U), "event_free": (P,), "event_mark": (P, P), "event_wait": (P,),
    "event_done": (P,), "event_before": (P, P, U), "event_elapsed": (ctypes.POINTER(F), P, P), "load": (OUT, P),
    "function": (OUT, P, ctypes.c_char_p), "function_set": (P, I, I),
    "launch": (P, U, U, U, U, U, U, U, P, P, P), "synchronize": (), "reaches": (ctypes.POINTER(I), I, I),
    "pointer": (P, I, P), "bus": (P, I, I), "priorities": (ctypes.POINTER(I), ctypes.POINTER(I)),
    "capture": (P, I), "captured": (P, OUT), "capturing": (P, ctypes.POINTER(I)), "capture_mode": (ctypes.POINTER(I),),
    "instantiate": (OUT, P, L), "replay": (P, P), "graph_free": (P,), "replay_free": (P,),
}
NVIDIA = Vendor("cuda", ("libcuda.so.1", "nvcuda.dll"), {
    "init": "cuInit", "count": "cuDeviceGetCount", "name": "cuDeviceGetName", "total": "cuDeviceTotalMem_v2",
    "attribute": "cuDeviceGetAttribute", "allocate": "cuMemAlloc_v2", "free": "cuMemFree_v2",
    "information": "cuMemGetInfo_v2", "upload": "cuMemcpyHtoDAsync_v2", "download": "cuMemcpyDtoHAsync_v2",
    "copy": "cuMemcpyDtoDAsync_v2", "fill": "cuMemsetD8Async", "pin": "cuMemHostAlloc", "unpin": "cuMemFreeHost",
    "stream": "cuStreamCreateWithPriority", "stream_wait": "cuStreamSynchronize",
    "stream_done": "cuStreamQuery", "event": "cuEventCreate", "event_free": "cuEventDestroy_v2",
    "event_mark": "cuEventRecord", "event_wait": "cuEventSynchronize", "event_done": "cuEventQuery",
    "event_before": "cuStreamWaitEvent", "event_elapsed": "cuEventElapsedTime", "load": "cuModuleLoadData",
    "function": "cuModuleGetFunction", "function_set": "cuFuncSetAttribute", "launch": "cuLaunchKernel",
    "synchronize": "cuCtxSynchronize", "reaches": "cuDeviceCanAccessPeer", "pointer": "cuPointerGetAttribute",
    "bus": "cuDeviceGetPCIBusId", "priorities": "cuCtxGetStreamPriorityRange",
    "capture": "cuStreamBeginCapture_v2",
    "captured": "cuStreamEndCapture", "capturing": "cuStreamIsCapturing",
    "capture_mode": "cuThreadExchangeStreamCaptureMode", "instantiate": "cuGraphInstantiateWithFlags",
    "replay": "cuGraphLaunch", "graph_free": "cuGraphDestroy", "replay_free": "cuGraphExecDestroy"}, 8, 16, (75, 76))
AMD = Vendor("hip", ("libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.7", "amdhip64_6.dll"), {
    "init": "hipInit", "count": "hipGetDeviceCount", "name": "hipDeviceGetName", "total": "hipDeviceTotalMem",
    "attribute": "hipDeviceGetAttribute", "allocate": "hipMalloc", "free": "hipFree", "information": "hipMemGetInfo",
    "upload": "hipMemcpyHtoDAsync", "download": "hipMemcpyDtoHAsync", "copy": "hipMemcpyDtoDAsync",
    "fill": "hipMemsetD8Async", "pin": "hipHostMalloc", "unpin": "hipHostFree", "stream": "hipStreamCreateWithPriority",
    "stream_wait": "hipStreamSynchronize", "stream_done": "hipStreamQuery",
    "event": "hipEventCreateWithFlags", "event_free": "hipEventDestroy", "event_mark": "hipEventRecord",
    "event_wait": "hipEventSynchronize", "event_done": "hipEventQuery", "event_before": "hipStreamWaitEvent",
    "event_elapsed": "hipEventElapsedTime", "load": "hipModuleLoadData", "function": "hipModuleGetFunction",
    "function_set": "hipFuncSetAttribute", "launch": "hipModuleLaunchKernel", "synchronize": "hipDeviceSynchronize",
    "reaches": "hipDeviceCanAccessPeer", "pointer": "hipPointerGetAttribute", "bus": "hipDeviceGetPCIBusId",
    "priorities": "hipDeviceGetStreamPriorityRange",
    "capture": "hipStreamBeginCapture",
    "captured": "hipStreamEndCapture",
    "capturing": "hipStreamIsCapturing", "capture_mode": "hipThreadExchangeStreamCaptureMode",
    "instantiate": "hipGraphInstantiateWithFlags", "replay": "hipGraphLaunch", "graph_free": "hipGraphDestroy",
    "replay_free": "hipGraphExecDestroy"},
    8, 63)
OWN = {  # entries that one library lacks, or has with other arguments: the full name and its types
    "cuda": {"profiler_start": ("cuProfilerStart", ()), "profiler_stop": ("cuProfilerStop", ()),
             "retain": ("cuDevicePrimaryCtxRetain", (OUT, I)), "enter": ("cuCtxSetCurrent", (P,)),
             "connect": ("cuCtxEnablePeerAccess", (P, U)), "peer_copy": ("cuMemcpyPeerAsync", (P, P, P, P, Z, P)),
             "words": ("cuGetErrorString", (I, ctypes.POINTER(ctypes.c_char_p))),
             "capture_state": ("cuStreamGetCaptureInfo_v2", (P, ctypes.POINTER(I), ctypes.POINTER(L), OUT,
                                                             ctypes.POINTER(OUT), ctypes.POINTER(Z))),
             "node_set": ("cuGraphExecKernelNodeSetParams_v2", (P, P, P))},
    "hip": {"enter": ("hipSetDevice", (I,)), "connect": ("hipDeviceEnablePeerAccess", (I, U)),
            "peer_copy": ("hipMemcpyPeerAsync", (P, I, P, I, Z, P)), "words": ("hipGetErrorString", (I,))},
}
NOT_READY = 600  # of a question whether something is done, for both
ARCHITECTURES = "gfx942", "gfx950", "gfx90a", "gfx1201", "gfx1200", "gfx1100"
NODES = "/sys/class/kfd/kfd/topology/nodes"  # where Linux lists the versions of AMD's GPUs


class Driver:
    """One vendor's library.  The device of a call is that of the calling thread (``use``)."""

    def __init__(self, vendor: Vendor, library):
        self.vendor, self.library, self.entries, self.contexts = vendor, library, {}, {}
        self.own, self.lock = threading.local(), guarded("devices", threading.Lock())
        self.waiting = "default"  # what happens where the host waits for a copy: "default" (nothing), "warn", "error"
        self.names = dict(vendor.names)
        for entry, (name, types) in self.signatures(vendor).items():
            function = getattr(library, name)
            function.restype = ctypes.c_char_p if name == "hipGetErrorString" else I
            function.argtypes, self.names[entry], self.entries[entry] = types, name, function
        self.connected: dict = {}  # by two devices, the lower first: whether each reads the other's memory by itself
        self.call("init", 0)

    @staticmethod
    def signatures(vendor: Vendor) -> dict:
        """{entry: (its full name, the types of its arguments)}"""
        return {entry: (vendor.names[entry], types) for entry, types in COMMON.items()} | OWN[vendor.kind]

    def call(self, entry: str, *given):
        """Calls an entry.  AcceleratorError for a status that is not 0; OutOfMemoryError where memory is short."""
        status = self.entries[entry](*given)
        if status:
            self.failed(self.names[entry], status)

    def failed(self, name: str, status: int):
        if status == OUT_OF_MEMORY:
            raise OutOfMemoryError(f"{name}: the device is out of memory", "at most what the device has left",
                                   "delete tensors that are no longer needed")
        vendor = "CUDA" if self.vendor.kind == "cuda" else "HIP"
        raise AcceleratorError(f"{vendor} error: {self.words(status)} ({name} gave {status})", status)

    def words(self, status: int) -> str:
        if self.vendor.kind == "hip":
            return (self.entries["words"](status) or b"unknown error").decode()
        text = ctypes.c_char_p()
        unknown = self.entries["words"](status, ctypes.byref(text))
        return (not unknown and text.value or b"unknown error").decode()

    def made(self, entry: str, *given) -> int:
        """Return the handle that an entry writes to its first argument."""
        out = ctypes.c_void_p()
        self.call(entry, ctypes.byref(out), *given)
        return out.value or 0

    # --- devices --------------------------------------------------
    def count(self) -> int:
        out = I()
        self.call("count", ctypes.byref(out))
        return out.value

    def text(self, entry: str, index: int) -> str:
        """Return a string property of a device."""
        text = ctypes.create_string_buffer(256)
        self.call(entry, text, 256, index)
        return text.value.decode()

    def name(self, index: int) -> str:
        return self.text("name", index)

    def bus(self, index: int) -> str:
        """The place of a device on the bus: "0000:81:00.0"."""
        return self.text("bus", index)

    def total(self, index: int) -> int:
        out = Z()
        self.call("total", ctypes.byref(out), index)
        return out.value

    def attribute(self, number: int, index: int) -> int:
        out = I()
        self.call("attribute", ctypes.byref(out), number, index)
        return out.value

    def units(self, index: int) -> int:
        """How many multiprocessors a device has."""
        return self.attribute(self.vendor.counts, index)

    @functools.cache
    def architecture(self, index: int) -> str:
        """Return "sm_90" or "gfx942": the architecture to compile for."""
        if self.vendor.capability:
            major, minor = (self.attribute(number, index) for number in self.vendor.capability)
            return f"sm_{10 * major + minor}"
        place = self.bus(index).lower()
        found = versions()
        if place not in found:
            raise RuntimeError(f"Linux lists no version of the GPU at {place}: {NODES} has {found}")
        return found[place]

    def use(self, index: int):
        """Direct the calling thread's driver calls to this device."""
        if getattr(self.own, "index", None) == index:
            return
        mine.queue = None  # it may be another device's
        self.call("enter", self.place(index))
        self.own.index = index

    def place(self, index: int):
        """Return a device as the library's entries take it: NVIDIA's its context, AMD's its index."""
        if self.vendor.kind == "hip":
            return index
        with self.lock:
            if index not in self.contexts:
                self.contexts[index] = self.made("retain", index)
            return self.contexts[index]

    @contextlib.contextmanager
    def at(self, index: int):
        """Context manager in which the thread's driver calls are for this device; restores the previous one."""
        before, queue = getattr(self.own, "index", None), mine.queue
        self.use(index)
        try:
            yield
        finally:
            if before is not None:
                self.use(before)
                mine.queue = queue

    def peer_copy(self, target_index, target, source_index, source, nbytes, stream):
        """Copies from one device to another, on a stream of the source's."""
        self.connect(source_index, target_index)
        self.use(source_index)  # the thread stays on the source
        self.call("peer_copy", target, self.place(target_index), source, self.place(source_index), nbytes, stream)

    def connect(self, one: int, other: int) -> bool:
        """Enable peer access of two devices to each other, if the hardware supports it: copies then bypass the host.
        Return whether they do."""
        pair = min(one, other), max(one, other)
        if pair not in self.connected:
            self.connected[pair] = all(self.connected_from(*way) for way in (pair, pair[::-1]))
        return self.connected[pair]

    def connected_from(self, index: int, other: int) -> bool:
        if not self.reaches(index, other):
            return False
        place = self.place(other)
        with self.at(index), self.relaxed():
            status = self.entries["connect"](place, 0)
        if status not in (0, CONNECTED, *UNCONNECTED):
            self.failed(self.names["connect"], status)
        return status not in UNCONNECTED

    def reaches(self, index: int, other: int) -> bool:
        """Whether a device reads the memory of another one."""
        out = I()
        self.call("reaches", ctypes.byref(out), index, other)
        return bool(out.value)

    def device_of(self, address: int) -> int:
        """The index of the device that memory belongs to."""
        out = I()
        self.call("pointer", ctypes.byref(out), ORDINAL, address)
        return out.value

    def priorities(self) -> tuple:
        """(the number of the lowest priority of streams, that of the highest)."""
        lowest, highest = I(), I()
        self.call("priorities", ctypes.byref(lowest), ctypes.byref(highest))
        return lowest.value, highest.value

    # --- graphs --------------------------------------------------
    @contextlib.contextmanager
    def relaxed(self):
        """Context manager in which the thread may allocate memory although a stream is captured."""
        mode = I(2)
        self.call("capture_mode", ctypes.byref(mode))
        try:
            yield
        finally:
            self.call("capture_mode", ctypes.byref(mode))

    def capturing(self, stream: int) -> bool:
        """Whether a stream is recorded."""
        out = I()
        self.call("capturing", stream, ctypes.byref(out))
        return out.value == 1

    def address(self, entry: str) -> int:
        """The address of an entry, for machine code."""
        return ctypes.cast(self.entries[entry], P).value

    # --- questions and kernels --------------------------------------------------
    def done(self, entry: str, handle: int) -> bool:
        """Whether a stream or an event has been reached."""
        status = self.entries[entry](handle)
        if status not in (0, NOT_READY):
            self.failed(self.names[entry], status)
        return status == 0

    def elapsed(self, first: int, last: int) -> float:
        out = F()
        self.call("event_elapsed", ctypes.byref(out), first, last)
        return out.value

    def memory(self) -> tuple:
        """(free, total) bytes."""
        free, total = Z(), Z()
        self.call("information", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def kernel(self, binary) -> int:
        """Load machine code and return its handle.  Raise Unfit if it needs more shared memory than the device has.
        On NVIDIA's, more than 48 KB must be requested; AMD's provide all they have, and support this entry only for
        functions of the host program."""
        module = self.made("load", ctypes.c_char_p(binary.code))
        found = self.made("function", module, binary.entry.encode())
        if binary.shared > 48 << 10 and self.vendor.kind == "cuda":
            try:
                self.call("function_set", found, self.vendor.shared_attribute, binary.shared)
            except AcceleratorError as reason:
                if reason.error_code != INVALID_VALUE:
                    raise
                raise Unfit(f"{binary.entry} needs {binary.shared} bytes of shared memory: {reason}") from reason
        return found


def versions() -> dict:
    """Return {bus address: "gfx942"} of AMD's GPUs as Linux's driver lists them; the order differs from that of the
    library's indices, which environment variables choose."""
    found = {}
    for node in os.listdir(NODES):
        with open(os.path.join(NODES, node, "properties"), encoding="ascii") as file:
            facts = {name: int(value) for name, value in (line.split() for line in file if len(line.split()) == 2)}
        version, where = facts.get("gfx_target_version", 0), facts.get("location_id", 0)
        if version:
            place = f"{facts.get('domain', 0):04x}:{where >> 8:02x}:{where >> 3 & 31:02x}.{where & 7:x}"
            found[place] = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
    return found


def opened(vendor: Vendor):
    """The Driver of a vendor; None where its library, or its device, is not there.  A library that is there and does
    not work is warned about."""
    for file in vendor.files:
        if file.endswith(".dll") != (here.name == "windows"):
            continue
        try:
            library = ctypes.CDLL(file)
        except OSError:
            continue
        try:
            driver = Driver(vendor, library)
            return driver if driver.count() else None
        except AttributeError as reason:
            warn(f"CUDA initialization: {file} is too old for this package ({reason})")
        except (AcceleratorError, OutOfMemoryError) as reason:
            if getattr(reason, "error_code", 0) != NO_DEVICE:
                warn(f"CUDA initialization: Unexpected error from {file}: {reason}")
    return None


@functools.cache
def found():
    """The Driver of this machine; None where there is none."""
    return opened(NVIDIA) or opened(AMD)

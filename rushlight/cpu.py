"""The CPU as a device: what PyTorch offers under ``torch.cpu``."""
from __future__ import annotations

import functools
import threading
import types

from ._src.core.advice import deprecated
from .amp import GradScaler, autocast


def is_available() -> bool:
    """True: there is a CPU."""
    return True


def device_count() -> int:
    """1: all cores are one device."""
    return 1


def current_device() -> str:
    """The name of the device."""
    return "cpu"


def is_initialized() -> bool:
    """True: a CPU needs no context."""
    return True


def set_device(device):
    """Nothing: all cores are one device."""


def synchronize(device=None):
    """Nothing: calls return when their results are there."""


class Event:
    """A point in a stream, for code that is written for any device: it is always reached."""

    def query(self) -> bool:
        """True: calls return when their results are there."""
        return True

    def record(self, stream=None):
        """Nothing: what was called is done."""

    def synchronize(self):
        """Nothing, as there is nothing to wait for."""

    def wait(self, stream=None):
        """Nothing, as there is nothing to wait for."""


class Stream:
    """A queue of calls, for device-independent code: calls run immediately, in order."""

    def __init__(self, priority: int = -1):
        pass

    def wait_stream(self, stream):
        """Nothing: what the other stream was given is done."""

    def record_event(self):
        """Nothing: what was called is done."""

    def wait_event(self, event):
        """Nothing: the event has happened."""


selected = threading.local()
_default_cpu_stream = Stream()


def current_stream(device=None) -> Stream:
    """The stream that this thread has selected."""
    return getattr(selected, "stream", _default_cpu_stream)


class StreamContext:
    """Selects a stream for a block; None leaves the one that is selected."""

    def __init__(self, stream):
        self.stream, self.prev_stream = stream, _default_cpu_stream

    def __enter__(self):
        if self.stream is not None:
            self.prev_stream, selected.stream = current_stream(), self.stream

    def __exit__(self, *error):
        if self.stream is not None:
            selected.stream = self.prev_stream


def stream(stream) -> StreamContext:
    """A block in which ``stream`` is selected.

    >>> with stream(Stream()) as nothing:
    ...     current_stream() is _default_cpu_stream
    False
    """
    return StreamContext(stream)


# where more than a hyphen differs
AS_LLVM = {"fma3": "fma", "avx_vnni": "avxvnni", "avx_vnni_int8": "avxvnniint8", "avx_vnni_int16": "avxvnniint16",
           "avx_ne_convert": "avxneconvert"}
X86 = ("sse sse2 sse3 ssse3 sse4_1 sse4_2 sse4a avx avx2 avx_vnni avx512_f avx512_cd avx512_dq avx512_bw avx512_vl "
       "avx512_ifma avx512_vbmi avx512_vbmi2 avx512_bitalg "
       "avx512_vpopcntdq avx512_vnni avx512_bf16 avx512_fp16 avx512_vp2intersect avx10_1 avx10_2 avx_vnni_int8 "
       "avx_vnni_int16 avx_ne_convert amx_bf16 amx_tile amx_int8 "
       "amx_fp16 fma3 fma4 f16c bmi bmi2 popcnt lzcnt aes sha clflushopt clwb").split()


@functools.cache
def get_capabilities() -> types.MappingProxyType:
    """The instruction sets that kernels may use, by name, each with True or False; the architecture and the CPU's name.

    The setting ``RUSHLIGHT_CPU`` restricts them.

    >>> get_capabilities()["architecture"] in ("x86_64", "aarch64", "arm64")
    True
    """
    import os
    import platform

    from ._src.core.llvm.processor import host, instruction_sets
    name, features = host()  # the name is that of the real CPU, which PyTorch reports, too
    found = {"architecture": platform.machine(), "cpu_name": name, "num_logical_cores": os.cpu_count() or 1}
    sets = instruction_sets()
    if not sets.is_x86:
        return types.MappingProxyType({**found, **{feature: sets.has(feature) for feature in features}})
    for one in X86:
        found[one] = sets.has(llvm_name(one))
    return types.MappingProxyType(found)


def llvm_name(name: str) -> str:
    """LLVM's name of an instruction set of ``X86``.

    >>> llvm_name("avx512_vnni"), llvm_name("amx_tile"), llvm_name("sse4_1")
    ('avx512vnni', 'amx-tile', 'sse4.1')
    """
    for start, between in (("avx512", ""), ("amx", "-"), ("", ".")):
        if name.startswith(start):
            return AS_LLVM.get(name) or name.replace("_", between)


def _init_amx() -> bool:
    """True if this process may use AMX tiles; requests permission from the operating system."""
    return _is_amx_tile_supported()


def has(*names: str) -> bool:
    """True if kernels may use all of these instruction sets, by LLVM's names."""
    from ._src.core.llvm.processor import instruction_sets
    return all(map(instruction_sets().has, names))


def _is_avx2_supported() -> bool:
    """True if kernels may use AVX2."""
    return has("avx2")


def _is_avx512_supported() -> bool:
    """True if kernels may use AVX-512 with the extensions that compilers expect."""
    return has("avx512f", "avx512cd", "avx512dq", "avx512bw", "avx512vl")


def _is_avx512_bf16_supported() -> bool:
    """True if kernels may use dot products of bfloat16."""
    return has("avx512bf16")


def _is_vnni_supported() -> bool:
    """True if kernels may use dot products of int8."""
    return has("avx512vnni")


def _is_amx_tile_supported() -> bool:
    """True if kernels may use AMX tiles, or the model that ``RUSHLIGHT_CPU=amx-model`` has of them."""
    return has("amx-tile")


def _is_amx_fp16_supported() -> bool:
    """True if kernels may use float16 matmuls in AMX tiles."""
    return has("amx-fp16")


def _get_cpu_capability() -> str:
    """``torch.backends.cpu.get_cpu_capability``, at another path."""
    from .backends.cpu import get_cpu_capability
    return get_cpu_capability()


class _Autocast(autocast):
    """``autocast("cpu")``, as it was called before."""

    def __init__(self, enabled=True, dtype=None, cache_enabled=True):
        deprecated("torch.cpu.amp.autocast(args...)", "torch.amp.autocast('cpu', args...)", FutureWarning)
        super().__init__("cpu", dtype, enabled, cache_enabled)


class _Scaler(GradScaler):
    """``GradScaler("cpu")``, as it was called before."""

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        deprecated("torch.cpu.amp.GradScaler(args...)", "torch.amp.GradScaler('cpu', args...)", FutureWarning)
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


amp = types.SimpleNamespace(autocast=_Autocast, GradScaler=_Scaler)

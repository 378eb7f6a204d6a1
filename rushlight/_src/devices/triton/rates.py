"""Properties of GPUs by architecture: multiprocessors, shared memory, bandwidth and peak rates.

The rates are the vendors' numbers for dense matmuls and memory of A100 (80 GB), H200, B200, MI300X and RX 9070 XT.
"""

from __future__ import annotations

from typing import NamedTuple


class GPU(NamedTuple):
    """``units``: multiprocessors; ``shared``: KiB of shared memory per program, ``shared_unit``: per multiprocessor;
    ``registers``: 32-bit registers per multiprocessor; ``warp``: threads of a warp; ``threads``: per multiprocessor;
    ``bandwidth``: bytes per second; ``rates``: operations per second by kind of matmul ("float32" without tensor
    cores, "tf32", "half", "float8", "int8", "float64")."""

    name: str
    units: int
    shared: int
    shared_unit: int
    registers: int
    warp: int
    threads: int
    bandwidth: float
    rates: dict


T = 1e12
GPUS = {
    "sm_80": GPU("A100", 108, 163, 164, 65536, 32, 2048, 2.0 * T, {
        "float32": 19.5 * T, "tf32": 156 * T, "half": 312 * T, "int8": 624 * T, "float64": 9.7 * T}),
    "sm_90": GPU("H200", 132, 227, 228, 65536, 32, 2048, 4.8 * T, {
        "float32": 67 * T, "tf32": 495 * T, "half": 989 * T, "float8": 1979 * T, "int8": 1979 * T,
        "float64": 34 * T}),
    "sm_100": GPU("B200", 148, 227, 228, 65536, 32, 2048, 8.0 * T, {
        "float32": 75 * T, "tf32": 1125 * T, "half": 2250 * T, "float8": 4500 * T, "int8": 4500 * T,
        "float64": 37 * T}),
    "gfx942": GPU("MI300X", 304, 64, 64, 131072, 64, 2048, 5.3 * T, {
        "float32": 163 * T, "tf32": 654 * T, "half": 1307 * T, "float8": 2615 * T, "int8": 2615 * T,
        "float64": 82 * T}),
    "gfx1201": GPU("RX 9070 XT", 64, 64, 64, 131072, 32, 2048, 0.64 * T, {
        "float32": 48 * T, "half": 195 * T, "float8": 389 * T, "int8": 389 * T, "float64": 0.76 * T}),
}
SHARED = {name: gpu.shared for name, gpu in GPUS.items()} | {"sm_86": 99, "sm_89": 99, "sm_120": 99, "gfx950": 160}
MOST_SHARED = 48  # KiB, of what is not named
LAUNCH = 3e-6  # seconds between the ends of two launches that do nothing


def shared_of(architectures: str) -> int:
    """Bytes of memory that a program's threads may share on each of the GPUs named; 64 KiB if none is.

    Example:
        >>> shared_of("sm_80 gfx942") >> 10
        64
    """
    return min((SHARED.get(name, MOST_SHARED) for name in architectures.split()), default=64) << 10


def known(architectures: str) -> GPU:
    """Return the GPU that represents the first of the named architectures; H200 for unknown ones."""
    return GPUS.get((architectures.split() or [""])[0], GPUS["sm_90"])


BYTES = {"float8_e4m3fn": "tl.float8e4nv", "float8_e5m2": "tl.float8e5",
         "float8_e4m3fnuz": "tl.float8e4b8", "float8_e5m2fnuz": "tl.float8e5b16"}  # names in Triton


def byte_by(architectures: str, name: str) -> str:
    """Return the Triton type in which tensor cores of all the named GPUs multiply a float8 dtype; empty if there is
    none.

    Example:
        >>> byte_by("sm_90", "float8_e5m2"), byte_by("sm_80", "float8_e5m2"), byte_by("gfx942", "float8_e4m3fnuz")
        ('tl.float8e5', '', 'tl.float8e4b8')
    """
    def has(gpu: str) -> bool:
        if name.endswith("fnuz"):
            return gpu == "gfx942"
        return gpu.startswith("sm_") and int(gpu[3:]) >= 89 or gpu in ("gfx950", "gfx1200", "gfx1201")

    return BYTES[name] if architectures and all(map(has, architectures.split())) else ""


def float32_by(architectures: str) -> str:
    """Return Triton's ``input_precision`` for float32 matmuls of nearly full precision on the named GPUs: three tf32
    matmuls on NVIDIA's, six bfloat16 matmuls on AMD's that have no float32 matrix cores.

    Example:
        >>> float32_by("sm_90"), float32_by("gfx942"), float32_by("sm_90 gfx942")
        ('tf32x3', 'ieee', 'ieee')
    """
    names = architectures.split()
    if names and all(name.startswith("sm_") for name in names):
        return "tf32x3"
    return "bf16x6" if names and all(name.startswith(("gfx11", "gfx12")) for name in names) else "ieee"


def tf32_by(architectures: str) -> str:
    """Return Triton's ``input_precision`` for float32 matmuls with tf32 allowed: three bfloat16 ones without tf32.

    Example:
        >>> tf32_by("sm_80"), tf32_by("gfx1201"), tf32_by("")
        ('tf32', 'bf16x3', 'ieee')
    """
    names = architectures.split()
    if names and all(name.startswith("sm_") or name == "gfx942" for name in names):
        return "tf32"
    return "bf16x3" if names and all(name.startswith(("gfx11", "gfx12", "gfx950")) for name in names) else "ieee"

"""What GPUs have, by the name of their architecture: units, memory that threads share, and how fast they are.

Figures are those that vendors give for dense products and memory, of A100 (80 GB), H200, B200, MI300X and RX 9070 XT.
"""

from __future__ import annotations

from typing import NamedTuple


class GPU(NamedTuple):
    """``units``: processors; ``shared``: KiB that a program's threads may share, ``shared_unit``: that a unit has;
    ``registers``: numbers of 32 bits of a unit; ``warp``: threads of a warp; ``threads``: that a unit holds;
    ``bandwidth``: bytes a second of memory; ``rates``: operations a second by kind of product ("float32" without units
    for products, "tf32", "half", "float8", "int8", "float64")."""

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
    """The GPU whose figures stand for the first of those named; H200's for what is not named."""
    return GPUS.get((architectures.split() or [""])[0], GPUS["sm_90"])


BYTES = {"float8_e4m3fn": "tl.float8e4nv", "float8_e5m2": "tl.float8e5",
         "float8_e4m3fnuz": "tl.float8e4b8", "float8_e5m2fnuz": "tl.float8e5b16"}  # names in Triton


def byte_by(architectures: str, name: str) -> str:
    """The type of Triton whose products units compute on all of the GPUs named, of floats of a byte; empty: they have
    no units for these.

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
    """How units for products multiply float32 to nearly all of its digits on the GPUs named, in Triton's words: as
    three products of tf32 on NVIDIA's, as six of bfloat16 where AMD's have no units for float32.

    Example:
        >>> float32_by("sm_90"), float32_by("gfx942"), float32_by("sm_90 gfx942")
        ('tf32x3', 'ieee', 'ieee')
    """
    names = architectures.split()
    if names and all(name.startswith("sm_") for name in names):
        return "tf32x3"
    return "bf16x6" if names and all(name.startswith(("gfx11", "gfx12")) for name in names) else "ieee"


def tf32_by(architectures: str) -> str:
    """How float32 is multiplied where tf32 is allowed: as three products of bfloat16 where there is no tf32.

    Example:
        >>> tf32_by("sm_80"), tf32_by("gfx1201"), tf32_by("")
        ('tf32', 'bf16x3', 'ieee')
    """
    names = architectures.split()
    if names and all(name.startswith("sm_") or name == "gfx942" for name in names):
        return "tf32"
    return "bf16x3" if names and all(name.startswith(("gfx11", "gfx12", "gfx950")) for name in names) else "ieee"

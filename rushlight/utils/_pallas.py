"""JAX and its Pallas: whether they are installed, and that no kernels are written in Pallas here."""
from __future__ import annotations

import functools
from importlib import import_module


@functools.cache
def imports(name: str) -> bool:
    """True if a module can be imported."""
    try:
        import_module(name)
    except ImportError:
        return False
    return True


def has_jax_package() -> bool:
    """True if JAX is installed."""
    return imports("jax")


def has_pallas_package() -> bool:
    """True if JAX is installed and has Pallas."""
    return imports("jax") and imports("jax.experimental.pallas")


def get_jax_version(fallback: tuple[int, int, int] = (0, 0, 0)) -> tuple[int, int, int]:
    """Return JAX's version as three numbers; ``fallback`` if there is none."""
    if not has_jax_package():
        return fallback
    try:
        major, minor, patch = map(int, import_module("jax").__version__.split(".")[:3])
    except (AttributeError, ValueError):
        return fallback
    return major, minor, patch


def has_pallas() -> bool:
    """False: kernels are not written in Pallas, on any device."""
    return False


has_cpu_pallas = has_cuda_pallas = has_tpu_pallas = has_pallas

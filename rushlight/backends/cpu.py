"""The CPU."""


def get_cpu_capability() -> str:
    """The widest vectors that kernels use: "AVX512", "AVX2" or "DEFAULT".  ``RUSHLIGHT_CPU`` restricts them."""
    from .._src.devices.cpu.llvm.features import host
    return {512: "AVX512", 256: "AVX2"}.get(host().width, "DEFAULT") if host().is_x86 else "DEFAULT"

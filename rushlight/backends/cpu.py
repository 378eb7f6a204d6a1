"""The processor."""


def get_cpu_capability() -> str:
    """The widest vectors that kernels use: "AVX512", "AVX2" or "DEFAULT"."""
    from ..compiler.llvm import features
    found = str(features.__dict__.get("NAME", "")).upper() or "DEFAULT"
    return found if found in ("AVX512", "AVX2") else "DEFAULT"

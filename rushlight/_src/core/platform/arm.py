"""AArch64 CPU features as Linux reports them: numbers, which are also stored in packages made on any system."""
from __future__ import annotations

WORDS = {1: 16, 2: 26}
"""What ``getauxval`` is asked for each of the two words: AT_HWCAP, AT_HWCAP2."""
BITS = {"neon": (1, 1), "fullfp16": (1, 10), "lse": (1, 8), "dotprod": (1, 20), "sve": (1, 22), "sve2": (2, 1),
        "i8mm": (2, 13), "bf16": (2, 14)}
"""By LLVM's name of a feature the word, and the bit."""
SVE_LENGTH = 51
"""What ``prctl`` is asked for the bytes of SVE's vectors, in the lower 16 bits; -1 where there is no SVE."""

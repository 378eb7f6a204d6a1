"""The version, and what this build was made with."""
from ._src.compat.finder import VERSION as __version__

debug = False
cuda = hip = xpu = rocm = None
git_version = "unknown"
__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]

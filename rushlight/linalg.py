"""Linear algebra under PyTorch's names."""
from __future__ import annotations

from .ops import library
from .ops.lapack import LinAlgError  # noqa: F401
from .core.later import later

globals().update(library.namespace("linalg"))
__getattr__ = later(__name__)

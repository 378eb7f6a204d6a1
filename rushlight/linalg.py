"""Linear algebra under PyTorch's names."""
from __future__ import annotations

from .ops import library
from .ops.lapack import LinAlgError  # noqa: F401

globals().update(library.namespace("linalg"))

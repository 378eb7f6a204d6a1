"""Linear algebra under PyTorch's names."""
from __future__ import annotations

from ._src.ops import library
from ._src.ops.lapack import LinAlgError  # noqa: F401

globals().update(library.namespace("linalg"))

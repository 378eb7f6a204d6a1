"""Windows under PyTorch's names."""
from __future__ import annotations

from ..ops import library

globals().update(library.namespace("signal.windows"))

"""Windows under PyTorch's names."""
from __future__ import annotations

from ..ops import library
from ..core.later import later

globals().update(library.namespace("signal.windows"))
__getattr__ = later(__name__)

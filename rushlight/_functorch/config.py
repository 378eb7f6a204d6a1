"""``torch._functorch.config``: the partition always recomputes what is cheap, so its names are read and heeded by
nothing."""
from __future__ import annotations

import sys

from .._src.core.configuration import Configuration

sys.modules[__name__].__class__ = Configuration

"""``torch.utils.serialization.config``: what ``save`` and ``load`` do where a call does not say it."""
from __future__ import annotations

import sys

from ..._src.core.configuration import Configuration
from ..._src.file_options import loading as load, saving as save  # noqa: F401 - settings

sys.modules[__name__].__class__ = Configuration

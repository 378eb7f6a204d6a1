"""``torch.utils.serialization.config``: ``load`` and ``save`` take these as arguments, so that nothing heeds them
here."""
from __future__ import annotations

import sys

from ..._src.core.configuration import Configuration

sys.modules[__name__].__class__ = Configuration

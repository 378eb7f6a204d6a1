"""``torch.compiler.config``: some names are those of ``_dynamo.config``, the others are for clusters, and change
nothing here."""
from __future__ import annotations

import sys

from .._src.core.configuration import Configuration, Disabling


class Config(Configuration):
    """The module itself."""

    force_disable_caches = Disabling("cache", "0", "Whether nothing is kept on disk.")


sys.modules[__name__].__class__ = Config

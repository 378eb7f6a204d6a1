"""``torch.compiler.config``: some names are those of ``_dynamo.config``, the others are for clusters, and change nothing here."""
from __future__ import annotations

import sys

from ..core.configuration import Configuration, Steered
from ..core.settings import settings


class Config(Configuration):
    """The module itself."""

    force_disable_caches = Steered(settings, "cache", "Whether nothing is kept on disk.", lambda off: "0" if off else None, lambda folder: folder == "0")


sys.modules[__name__].__class__ = Config

"""What ``torch._inductor.config`` steers: how programs are compiled that ``compile`` makes from now on."""
from __future__ import annotations

import sys

from ..capture.modes import DEFAULTS
from ..core.configuration import Configuration, Steered
from ..core.settings import settings

class Config(Configuration):
    """The module itself: some names are settings of ours, of which ``mode`` and ``options`` of ``compile`` override two."""

    force_disable_caches = Steered(settings, "cache", "Whether nothing is kept on disk.", lambda off: "0" if off else None, lambda folder: folder == "0")
    fx_graph_cache = Steered(settings, "store", "Whether plans are kept on disk, beside machine code.", bool)
    disable_progress = Steered(settings, "progress", "Whether nothing is said of long compilations.", lambda off: 0.0 if off else 2.0, lambda after: after == 0)

    @property
    def freezing(self):
        """Whether what follows from parameters alone is computed once, for inference."""
        return DEFAULTS.get("freezing", False)

    @freezing.setter
    def freezing(self, value):
        DEFAULTS["freezing"] = bool(value)

    @property
    def max_autotune(self):
        """Whether choices within templates are measured and remembered."""
        return DEFAULTS.get("max_autotune", False)

    @max_autotune.setter
    def max_autotune(self, value):
        DEFAULTS["max_autotune"] = bool(value)


sys.modules[__name__].__class__ = Config

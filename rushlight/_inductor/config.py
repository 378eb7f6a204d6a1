"""``torch._inductor.config``: settings of programs that ``compile`` compiles afterwards."""
from __future__ import annotations

import sys

from .._src.capture.modes import DEFAULTS
from .._src.core.configuration import Configuration, Disabling, Steered
from .._src.core.settings import one_of, settings


class Config(Configuration):
    """The module itself: some names are Rushlight's settings; ``mode`` and ``options`` of ``compile`` override two."""

    force_disable_caches = Disabling("cache", "0", "Whether nothing is kept on disk.")
    fx_graph_cache = Steered(settings, "store", "Whether plans are kept on disk, beside machine code.", bool)
    disable_progress = Disabling("progress", 0.0, "Whether nothing is said of long compilations.")

    bucket_all_reduces_fx = Steered(settings, "bucket_all_reduces", "Whether all_reduces are joined.",
                                    one_of("none", "all"))
    bucket_all_gathers_fx = Steered(settings, "bucket_all_gathers", "Whether all_gathers are joined.",
                                    one_of("none", "all"))
    bucket_reduce_scatters_fx = Steered(settings, "bucket_reduce_scatters", "Whether reduce_scatters are joined.",
                                        one_of("none", "all"))

    def is_fbcode(self) -> bool:
        """False: this is no build within PyTorch's own company."""
        return False

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

"""What ``torch._dynamo.config`` steers, over the table of settings: assign to its names, or ``patch`` them for a
block."""
from __future__ import annotations

import sys

from .._src.capture import marks
from .._src.capture.stance import Stance
from .._src.core.configuration import Configuration, Steered
from .._src.core.settings import settings

class Config(Configuration):
    """The module itself: some names are settings."""

    recompile_limit = cache_size_limit = Steered(settings, "recompile_limit",
                                                 "How often one piece of code is captured before it runs uncompiled.")
    trace_numpy = Steered(settings, "trace_numpy",
                          "Whether functions of NumPy on arrays are followed into graphs, or run between them.", bool)
    error_on_recompile = Steered(Stance, "now",
                                 "Whether it is an error that no graph applies: as the stance fail_on_recompile.",
                                 lambda wanted: "fail_on_recompile" if wanted else "default",
                                 lambda stance: stance == "fail_on_recompile")
    fail_on_recompile_limit_hit = Steered(Stance, "limit_is_error",
                                          "Whether it is an error, instead of a warning, that ``recompile_limit`` is "
                                          "reached.", bool)
    suppress_errors = Steered(Stance, "errors_are_suppressed",
                              "Whether a function runs uncompiled, with a warning, where capturing or compiling it "
                              "fails.", bool)
    reorderable_logging_functions = Steered(marks, "reordered",
                                            "Functions of users that put something out, and may do so at the end of a "
                                            "graph: a set. "
                                            "What ``print``, ``warnings`` and ``logging`` do needs no mention.", set)
    ignore_logging_functions = Steered(marks, "ignored", "Functions of users that compiled code does not call: a set.",
                                       set)

    @property
    def compiled_autograd(self):
        """Whether backward passes are compiled as a whole."""
        from .._src.autograd.backward import Whole
        return Whole.run is not None

    @compiled_autograd.setter
    def compiled_autograd(self, value):
        from .._src.autograd.backward import Whole
        from .compiled_autograd import Compiled, compile
        Whole.run = Compiled(compile) if value else None


sys.modules[__name__].__class__ = Config

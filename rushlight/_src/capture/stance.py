"""How compiled functions behave, and what they count."""
from __future__ import annotations

import collections


class Stance:
    """How compiled functions behave: see ``compiler.set_stance``."""

    KNOWN = ("default", "force_eager", "fail_on_recompile", "eager_on_recompile", "eager_then_compile",
             "aot_eager_then_compile")
    now = "default"
    break_is_error = limit_is_error = False  # whether a graph break raises, and giving up at the limit
    errors_are_suppressed = False  # whether a function runs uncompiled where capturing or compiling it fails


counters = collections.defaultdict(collections.Counter)  # what happened, by PyTorch's names

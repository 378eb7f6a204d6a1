"""The stance of compiled functions, and their counters."""
from __future__ import annotations

import collections


class Stance:
    """The behavior of compiled functions: see ``compiler.set_stance``."""

    KNOWN = ("default", "force_eager", "fail_on_recompile", "eager_on_recompile", "eager_then_compile",
             "aot_eager_then_compile")
    now = "default"
    break_is_error = limit_is_error = False  # True if a graph break raises, and if giving up at the limit does
    errors_are_suppressed = False  # True if a function runs uncompiled when capturing or compiling it fails


counters = collections.defaultdict(collections.Counter)  # events, by PyTorch's names

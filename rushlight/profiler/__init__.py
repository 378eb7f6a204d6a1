"""Profiling: ``record_function`` marks blocks; recording what runs is not here yet."""
from __future__ import annotations

import contextlib
import enum
import functools

from ..compat.absent import absent

__all__ = ["ProfilerAction", "ProfilerActivity", "record_function"]
WHY = "what runs is not recorded here: RUSHLIGHT_LOGS=timing says what compiled programs take, and python -m rushlight.tools.see shows what a line does"
globals().update(absent("torch.profiler", WHY, "profile schedule tensorboard_trace_handler export_chrome_trace supported_activities ExecutionTraceObserver KinetoProfile"))


class ProfilerActivity(enum.Enum):
    """What a profile would record."""

    CPU, XPU, MTIA, CUDA, HPU, PrivateUse1 = range(6)


class ProfilerAction(enum.Enum):
    """What a profile would do in a step."""

    NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)


class record_function(contextlib.ContextDecorator):
    """A block with a name."""

    def __init__(self, name, args=None):
        self.name, self.args = name, args

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return False

    def __call__(self, function):
        @functools.wraps(function)
        def run(*args, **kwargs):
            with type(self)(self.name, self.args):
                return function(*args, **kwargs)
        return run

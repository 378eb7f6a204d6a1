"""PyTorch's ``torch._dynamo`` names over capture."""
from __future__ import annotations

import types

from .compiling import (allow_in_graph, assume_constant_result, disable, explain, graph_break, is_compiling, list_backends, mark_dynamic,  # noqa: F401
                        mark_static, maybe_mark_dynamic, reset)
from .compiling import compile as optimize_function
from .capture.frames import counters
from .core.settings import settings


class Config:
    """The settings that ``torch._dynamo.config`` names and that mean something here."""

    @property
    def recompile_limit(self):
        return settings.recompile_limit

    @recompile_limit.setter
    def recompile_limit(self, value):
        settings.recompile_limit = value

    cache_size_limit = recompile_limit
    suppress_errors = verbose = False
    assume_static_by_default, automatic_dynamic_shapes = True, True


config = Config()
utils = types.SimpleNamespace(counters=counters)


def optimize(backend="rushlight", *, nopython=False, dynamic=None):
    """``optimize(backend)(function)``: another spelling of ``compile``."""
    return lambda function: optimize_function(function, backend=backend, fullgraph=nopython, dynamic=dynamic)


def is_dynamo_supported() -> bool:
    """Whether functions can be captured: always."""
    return True

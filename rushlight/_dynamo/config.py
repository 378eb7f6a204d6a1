"""What ``torch._dynamo.config`` steers, over the table of settings: assign to its names, or ``patch`` them for a block."""
from __future__ import annotations

import sys

from ..capture import marks
from ..capture.frames import Stance
from ..core.configuration import Configuration
from ..core.settings import settings

INERT = {"verbose": False, "assume_static_by_default": True, "automatic_dynamic_shapes": True, "inline_inbuilt_nn_modules": True,
         "capture_scalar_outputs": False, "capture_dynamic_output_shape_ops": False, "accumulated_recompile_limit": 256, "cache_size_limit_static": 8,
         "specialize_int": False, "force_parameter_static_shapes": True, "optimize_ddp": True, "guard_nn_modules": True,
         "allow_rnn": True, "skip_nnmodule_hook_guards": True, "specialize_float": False, "allow_unspec_int_on_nn_module": True, "log_file_name": None,
         "accumulated_cache_size_limit": 256, "dynamic_shapes": True, "capture_func_transforms": True, "capture_autograd_function": True,
         "trace_numpy": True, "nested_graph_breaks": True, "compiled_autograd_kwargs_override": {}, "use_numpy_random_stream": False,
         "force_disable_caches": False, "cprofile": False, "optimize_ddp_lazy_compile": False, "install_free_tensors": False}  # names that programs set, and that change nothing here


class Config(Configuration):
    """The module itself: some names are settings."""

    @property
    def recompile_limit(self):
        return settings.recompile_limit

    @recompile_limit.setter
    def recompile_limit(self, value):
        settings.recompile_limit = value

    cache_size_limit = recompile_limit

    @property
    def compiled_autograd(self):
        """Whether backward passes are compiled as a whole."""
        from ..autograd.backward import Whole
        return Whole.run is not None

    @compiled_autograd.setter
    def compiled_autograd(self, value):
        from ..autograd.backward import Whole
        from .compiled_autograd import Compiled, compile
        Whole.run = Compiled(compile) if value else None

    @property
    def error_on_recompile(self):
        """Whether it is an error that no graph applies: as the stance "fail_on_recompile"."""
        return Stance.now == "fail_on_recompile"

    @error_on_recompile.setter
    def error_on_recompile(self, value):
        Stance.now = "fail_on_recompile" if value else "default"

    @property
    def fail_on_recompile_limit_hit(self):
        """Whether it is an error, instead of a warning, that a function was captured ``recompile_limit`` times."""
        return Stance.limit_is_error

    @fail_on_recompile_limit_hit.setter
    def fail_on_recompile_limit_hit(self, value):
        Stance.limit_is_error = bool(value)

    @property
    def suppress_errors(self):
        """Whether a function runs uncompiled, with a warning, where capturing or compiling it fails."""
        return Stance.errors_are_suppressed

    @suppress_errors.setter
    def suppress_errors(self, value):
        Stance.errors_are_suppressed = bool(value)

    @property
    def reorderable_logging_functions(self):
        """Functions of users that put something out, and may do so at the end of a graph: a set. What ``print``, ``warnings`` and ``logging`` do needs no mention."""
        return marks.reordered

    @reorderable_logging_functions.setter
    def reorderable_logging_functions(self, value):
        marks.reordered = set(value)

    @property
    def ignore_logging_functions(self):
        """Functions of users that compiled code does not call: a set."""
        return marks.ignored

    @ignore_logging_functions.setter
    def ignore_logging_functions(self, value):
        marks.ignored = set(value)


globals().update(INERT)
sys.modules[__name__].__class__ = Config

"""What ``torch._dynamo.config`` steers, over the table of settings: assign to its names, or ``patch`` them for a block."""
from __future__ import annotations

import sys

from ..capture import marks
from ..capture.frames import Stance
from ..core.configuration import Configuration, Steered
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

    recompile_limit = cache_size_limit = Steered(settings, "recompile_limit", "How often one piece of code is captured before it runs uncompiled.")
    error_on_recompile = Steered(Stance, "now", "Whether it is an error that no graph applies: as the stance fail_on_recompile.",
                                 lambda wanted: "fail_on_recompile" if wanted else "default", lambda stance: stance == "fail_on_recompile")
    fail_on_recompile_limit_hit = Steered(Stance, "limit_is_error", "Whether it is an error, instead of a warning, that ``recompile_limit`` is reached.", bool)
    suppress_errors = Steered(Stance, "errors_are_suppressed", "Whether a function runs uncompiled, with a warning, where capturing or compiling it fails.", bool)
    reorderable_logging_functions = Steered(marks, "reordered", "Functions of users that put something out, and may do so at the end of a graph: a set. "
                                            "What ``print``, ``warnings`` and ``logging`` do needs no mention.", set)
    ignore_logging_functions = Steered(marks, "ignored", "Functions of users that compiled code does not call: a set.", set)

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


globals().update(INERT)
sys.modules[__name__].__class__ = Config

"""Program-facing controls of ``compile``."""

from .._src.core.later import later

__getattr__ = later(__name__, {
    "._src.compiling": ("compile", "disable", "reset", "graph_break", "allow_in_graph", "assume_constant_result",
                   "list_backends", "nested_compile_region", "set_stance", "cudagraph_mark_step_begin",
                        "register_backend", "save_cache_artifacts",
                   "load_cache_artifacts"),
    "._src.capture.asking": ("is_compiling", "is_dynamo_compiling", "is_exporting"),
    "._src.controls": ("set_default_backend", "get_default_backend", "substitute_in_graph", "wrap_numpy",
                       "skip_guard_on_globals_unsafe",
                  "skip_guard_on_all_nn_modules_unsafe", "skip_guard_on_inbuilt_nn_modules_unsafe",
                       "keep_tensor_guards_unsafe", "skip_all_guards_unsafe"),
})

"""From a Graph to machine code; and PyTorch's ``torch.compiler`` names, which steer capture."""

NAMES = ("compile", "disable", "is_compiling", "is_dynamo_compiling", "is_exporting", "reset", "graph_break", "allow_in_graph", "assume_constant_result", "list_backends",
         "nested_compile_region", "set_stance", "cudagraph_mark_step_begin", "register_backend", "save_cache_artifacts", "load_cache_artifacts")
STEERING = ("set_default_backend", "get_default_backend", "substitute_in_graph", "wrap_numpy", "skip_guard_on_globals_unsafe",
            "skip_guard_on_all_nn_modules_unsafe", "skip_guard_on_inbuilt_nn_modules_unsafe", "keep_tensor_guards_unsafe", "skip_all_guards_unsafe")


def __getattr__(name):
    if name in NAMES or name in STEERING or name == "config":
        from importlib import import_module

        return getattr(import_module("..compiling" if name in NAMES else "..steering" if name in STEERING else ".._dynamo", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

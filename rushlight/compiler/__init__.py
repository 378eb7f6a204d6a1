"""From a Graph to machine code; and PyTorch's ``torch.compiler`` names, which steer capture."""

NAMES = ("compile", "disable", "is_compiling", "is_dynamo_compiling", "is_exporting", "reset", "graph_break", "allow_in_graph", "assume_constant_result", "list_backends",
         "set_stance", "cudagraph_mark_step_begin", "register_backend", "save_cache_artifacts", "load_cache_artifacts")


def __getattr__(name):
    if name in NAMES:
        from importlib import import_module

        return getattr(import_module("..compiling", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

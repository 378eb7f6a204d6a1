"""Controls of capture, under PyTorch's name."""
from .._src.compiling import (allow_in_graph, assume_constant_result, disable, graph_break, mark_dynamic, mark_static,
                              mark_unbacked, maybe_mark_dynamic, set_stance)
from .._src.controls import (disallow_in_graph, error_on_graph_break, forbid_in_graph, mark_static_address, run,
                             skip_frame, step_unsupported, substitute_in_graph)

nonstrict_trace = allow_in_graph

__all__ = ["allow_in_graph", "assume_constant_result", "disable", "graph_break", "mark_dynamic", "mark_static",
           "mark_unbacked", "maybe_mark_dynamic", "set_stance",
           "disallow_in_graph", "error_on_graph_break", "forbid_in_graph", "mark_static_address", "run", "skip_frame",
           "step_unsupported", "substitute_in_graph", "nonstrict_trace"]

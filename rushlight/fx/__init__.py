"""Programs as graphs that users look at and change: PyTorch's ``torch.fx``.

The graphs here are a view: ``fx.convert`` makes them from captured programs, and captured programs from them.
"""
from ._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy

__all__ = ["PH", "ProxyableClassMeta", "Tracer", "symbolic_trace", "wrap", "CodeGen", "Graph", "GraphModule", "Interpreter", "Transformer", "Node", "has_side_effect",
           "map_arg", "Proxy", "replace_pattern", "subgraph_rewriter", "passes", "experimental", "immutable_collections"]


def __getattr__(name):
    from importlib import import_module

    if name == "replace_pattern":
        return import_module(".subgraph_rewriter", __name__).replace_pattern
    if name in ("subgraph_rewriter", "passes", "experimental", "traceback", "immutable_collections", "proxy", "convert"):
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

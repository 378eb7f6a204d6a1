"""Programs as graphs that users look at and change: PyTorch's ``torch.fx``.

The graphs here are a view: ``fx.convert`` makes them from captured programs, and captured programs from them.
"""
from .._src.core.later import later
from ._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy

__all__ = ["PH", "ProxyableClassMeta", "Tracer", "symbolic_trace", "wrap", "CodeGen", "Graph", "GraphModule",
           "Interpreter", "Transformer", "Node", "has_side_effect",
           "map_arg", "Proxy", "replace_pattern", "subgraph_rewriter", "passes", "experimental",
           "immutable_collections"]


__getattr__ = later(__name__, {"subgraph_rewriter": ("replace_pattern",)})

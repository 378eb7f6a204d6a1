"""Programs as graphs that users look at and change: PyTorch's ``torch.fx``.

The graphs here are a view: ``fx.convert`` makes them from captured programs, and captured programs from them.
"""
from .._src.core.later import later
from ._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap  # noqa: F401
from .graph import CodeGen, Graph  # noqa: F401
from .graph_module import GraphModule  # noqa: F401
from .interpreter import Interpreter, Transformer  # noqa: F401
from .node import Node, has_side_effect, map_arg  # noqa: F401
from .proxy import Proxy  # noqa: F401


__getattr__ = later(__name__, {"subgraph_rewriter": ("replace_pattern",)})

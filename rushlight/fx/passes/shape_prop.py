"""ShapeProp: runs a graph and notes what is known of each value."""
from __future__ import annotations

from typing import Any, NamedTuple, Optional

from ..._src.core import convert
from ..._src.core.native import Tensor
from ..interpreter import Interpreter
from ..node import map_aggregate


class TensorMetadata(NamedTuple):
    """Metadata of a tensor, without its data."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple
    memory_format: Optional[Any]
    is_quantized: bool
    qparams: dict


def _extract_tensor_metadata(result: Tensor, include_contiguity=True) -> TensorMetadata:
    """The TensorMetadata of a tensor."""
    form = None
    if include_contiguity:
        form = next((f for f in (convert.contiguous_format, convert.channels_last, convert.channels_last_3d)
                     if fits(result, f)), None)
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(), form, False, {})


def fits(tensor, form) -> bool:
    rank = {"channels_last": 4, "channels_last_3d": 5}.get(str(form).rpartition(".")[2])
    return (rank is None or tensor.dim() == rank) and tensor.is_contiguous(memory_format=form)


class ShapeProp(Interpreter):
    """Runs a graph module on example inputs: each node gets ``meta["tensor_meta"]`` and ``meta["type"]``.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.shape_prop import ShapeProp
    >>> module = torch.fx.symbolic_trace(lambda x: x.sum(0))
    >>> _ = ShapeProp(module).propagate(torch.ones(2, 3))
    >>> [tuple(node.meta["tensor_meta"].shape) for node in module.graph.nodes]
    [(2, 3), (3,), (3,)]
    """

    def __init__(self, gm, fake_mode=None):
        super().__init__(gm)
        self.fake_mode = fake_mode

    def run_node(self, n):
        result = super().run_node(n)
        found = []

        def note(value):
            if isinstance(value, Tensor):
                found.append(value)
                return _extract_tensor_metadata(value)
            return value

        meta = map_aggregate(result, note)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args):
        """Run the graph, on fake tensors with ``fake_mode``; return its result."""
        if self.fake_mode is None:
            return super().run(*args)
        fakes = [self.fake_mode.from_tensor(a) if isinstance(a, Tensor) else a for a in args]
        with self.fake_mode:
            return super().run(*fakes)

"""FakeTensorProp: notes what each node gives, without computing it."""
from __future__ import annotations

from ..._subclasses import FakeTensorMode
from ..._src.core.native import Tensor
from ..._src.core.pytree import tree_leaves
from ..interpreter import Interpreter

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """Run a module on fake tensors: the result of each node is in its ``meta["val"]``.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.fake_tensor_prop import FakeTensorProp
    >>> module = torch.fx.symbolic_trace(lambda x: x.sum(0))
    >>> _ = FakeTensorProp(module).propagate(torch.ones(2, 3))
    >>> [tuple(node.meta["val"].shape) for node in module.graph.nodes if "val" in node.meta]
    [(2, 3), (3,), (3,)]
    """

    def __init__(self, module, mode=None):
        super().__init__(module)
        self._mode = mode if mode is not None else FakeTensorMode(allow_non_fake_inputs=True)

    def run_node(self, n):
        result = super().run_node(n)
        if any(isinstance(leaf, (Tensor, int, float, bool)) for leaf in tree_leaves(result)):
            n.meta["val"] = result
            n.meta["type"] = type(result)
        return result

    def propagate(self, *args):
        return self.propagate_dont_convert_inputs(*(self._mode.from_tensor(a) if isinstance(a, Tensor) else a
                                                    for a in args))

    def propagate_dont_convert_inputs(self, *args):
        with self._mode:
            return super().run(*args)

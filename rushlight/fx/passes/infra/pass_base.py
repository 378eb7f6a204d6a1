"""PassBase: one change of a graph module, checked before and after."""
from __future__ import annotations

from typing import NamedTuple


class PassResult(NamedTuple):
    """Result of a pass: the module, and whether it was changed."""

    graph_module: object
    modified: bool


class PassBase:
    """Override ``call(graph_module)``, which returns a PassResult; ``requires`` and ``ensures`` may check the module
    before and after."""

    def __call__(self, graph_module):
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module if result is None else result.graph_module)
        return result

    def call(self, graph_module):
        raise NotImplementedError(
            f"{type(self).__name__} must define call(self, graph_module), which returns a PassResult")

    def requires(self, graph_module):
        """Checks what the pass assumes."""

    def ensures(self, graph_module):
        """Checks what the pass promises."""

"""The table of what operators decompose into, for programs to change and to give to ``run_decompositions``."""
from __future__ import annotations

from ..library.decompositions import table

__all__ = ["CustomDecompTable"]


class CustomDecompTable(dict):
    """Overload -> function, at first for the operators that are not among those that PyTorch calls its core.

    >>> import rushlight as torch
    >>> table = torch.export.default_decompositions()
    >>> del table[torch.ops.aten.softplus.default]  # the operator stays
    >>> program = torch.export.export(torch.nn.Softplus(), (torch.ones(2),)).run_decompositions(table)
    >>> torch.ops.aten.softplus.default in [node.target for node in program.graph.nodes]
    True
    """

    has_materialized = True  # every entry is there from the beginning

    def __init__(self):
        super().__init__(table())
        self.first = dict(self)

    @property
    def unchanged(self) -> bool:
        return self == self.first

    def copy(self) -> "CustomDecompTable":
        """A table that is changed apart from this one."""
        made = CustomDecompTable()
        made.clear()
        made.update(self)
        return made

    def materialize(self) -> dict:
        """The entries as a plain dict."""
        return dict(self)

"""The table of what operators decompose into, for programs to change and to give to ``run_decompositions``."""
from __future__ import annotations

from ..library.decompositions import table
from ..library.implicit import list_implicit_decompositions

__all__ = ["CustomDecompTable"]

MISSING = object()


class CustomDecompTable(dict):
    """Overload -> function, at first for the operators that are not among those that PyTorch calls its core.  User-
    defined operators that are functions of others are entries, too: those that are defined when the table is read.

    >>> import rushlight as torch
    >>> table = torch.export.default_decompositions()
    >>> del table[torch.ops.aten.softplus.default]  # the operator stays
    >>> program = torch.export.export(torch.nn.Softplus(), (torch.ones(2),)).run_decompositions(table)
    >>> torch.ops.aten.softplus.default in [node.target for node in program.graph.nodes]
    True
    """

    def __init__(self):
        super().__init__(table())
        self.deleted: set = set()  # overloads that stay out when user-defined operators are added
        self.has_materialized = False

    def add_implicit(self) -> "CustomDecompTable":
        """Add the user-defined operators that were defined since the table was read last; return the table."""
        self.has_materialized = True
        for overload, function in list_implicit_decompositions().items():
            if overload not in self.deleted and not super().__contains__(overload):
                super().__setitem__(overload, function)
        return self

    def __getitem__(self, overload):
        self.add_implicit()
        return super().__getitem__(overload)

    def __contains__(self, overload) -> bool:
        self.add_implicit()
        return super().__contains__(overload)

    def __iter__(self):
        self.add_implicit()
        return super().__iter__()

    def __reversed__(self):
        self.add_implicit()
        return super().__reversed__()

    def __len__(self) -> int:
        self.add_implicit()
        return super().__len__()

    def __eq__(self, other):
        self.add_implicit()
        return super().__eq__(other.add_implicit() if isinstance(other, CustomDecompTable) else other)

    __hash__ = None

    def __setitem__(self, overload, function):
        self.deleted.discard(overload)
        super().__setitem__(overload, function)

    def __delitem__(self, overload):
        self.pop(overload)

    def keys(self):
        self.add_implicit()
        return super().keys()

    def values(self):
        self.add_implicit()
        return super().values()

    def items(self):
        self.add_implicit()
        return super().items()

    def get(self, overload, default=None):
        return self[overload] if overload in self else default

    def pop(self, overload, default=MISSING):
        """Remove an overload, whose calls stay, and return its function.  KeyError for one that is not there, unless a
        default is given."""
        if overload in self:
            self.deleted.add(overload)
            return super().pop(overload)
        if default is MISSING:
            raise KeyError(f"{overload} doesn't exist in the table")
        return default

    def update(self, *others, **named):
        """Set the entries of a mapping, or of pairs."""
        for overload, function in dict(*others, **named).items():
            self[overload] = function

    def copy(self) -> "CustomDecompTable":
        """A table that is changed apart from this one."""
        made = CustomDecompTable()
        dict.clear(made)
        dict.update(made, self)
        made.deleted, made.has_materialized = set(self.deleted), self.has_materialized
        return made

    def materialize(self) -> dict:
        """The entries as a plain dict."""
        return dict(self.items())

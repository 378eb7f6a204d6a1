"""``foo_copy`` for every view ``foo``: the same elements in new storage."""
from __future__ import annotations

from ..core.kinds import P
from ..core.op import OPS, declare, declared_scalars

COPIES = ("alias", "as_strided", "detach", "diagonal", "expand", "narrow", "permute", "select", "squeeze", "t",
          "transpose", "unfold", "unsqueeze", "view", "view_as_real", "view_as_complex", "_conj", "_neg_view")


def copied(view):
    def body(input, *args, **kwargs):
        return P.copy(view.body(input, *args, **kwargs))
    return body


def derive():
    """Declare the copying variants."""
    for name in COPIES:
        view = OPS[name]
        declare(f"{name}_copy", copied(view), None, view.signature, declared_scalars(view),
                composite=view.traits.get("composite", False), samples=(), namespace="",
                method=False, doc=f"{name}, copied.")

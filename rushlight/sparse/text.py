"""The text of sparse tensors: their indices and values, then what these leave open."""
from __future__ import annotations

from .._src.core import dtypes
from .._src.core.printing import add_suffixes, elements, spell_history

PREFIX = "tensor("


def spell(x, new_line: bool) -> str:
    """Return the text of a sparse tensor; ``new_line``: its size begins a line."""
    gap = ",\n" + " " * len(PREFIX)
    parts = gap.join(f"{name}=" + spell_part(part, len(f"{PREFIX}{name}=")) for name, part in x.parts())
    suffixes = [f"size={tuple(x.shape)}", f"nnz={x._nnz()}"]
    if x.dtype not in (dtypes.Defaults.floating, dtypes.Defaults.floating.to_complex(), dtypes.int64, dtypes.bool_):
        suffixes.append(f"dtype={x.dtype}")
    suffixes.append(f"layout={x.layout}")
    suffixes += spell_history(x)
    return add_suffixes(PREFIX + parts, suffixes, len(PREFIX), new_line)


def spell_part(part, indent: int) -> str:
    """Return the text of indices or values, whose dtype that of the sparse tensor and the layout say."""
    if not part.numel():
        return f"{PREFIX}[], size={tuple(part.shape)})"
    return PREFIX + elements(part, indent + len(PREFIX)) + ")"

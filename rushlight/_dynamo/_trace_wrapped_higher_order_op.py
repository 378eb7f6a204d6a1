"""What transformers wraps its mask functions in: here indexing by tensors is mapped over as it is."""
from __future__ import annotations

import contextlib

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(contextlib.AbstractContextManager):
    """A block in which ``x[i]`` with a tensor i that is mapped over stays an operator: always so here."""

    def __exit__(self, *exception):
        return False

"""The wrapper of transformers' mask functions: vmap maps over indexing by tensors unchanged."""
from __future__ import annotations

import contextlib

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(contextlib.AbstractContextManager):
    """A block in which ``x[i]`` with a tensor i that is mapped over stays an operator: always so here."""

    def __exit__(self, *exception):
        return False

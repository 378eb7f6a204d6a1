"""Causal masks that are not materialized: the corner of the scores that the triangle is aligned to."""
from __future__ import annotations

import enum

import rushlight as torch

from ..._src.core.native import Tensor
from .. import functional as F

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """Alignment of the diagonal: with the first query and key, or with the last ones."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A mask [length, keys]; ``scaled_dot_product_attention`` reads only its variant, other operators see a bool
    tensor."""

    def __new__(cls, variant, seq_len_q, seq_len_kv):
        allowed = torch.ones(seq_len_q, seq_len_kv, dtype=torch.bool).tril(0 if variant == CausalVariant.UPPER_LEFT
                                                                           else seq_len_kv - seq_len_q)
        return allowed.as_subclass(cls)

    def __init__(self, variant, seq_len_q, seq_len_kv):
        if not isinstance(variant, CausalVariant):
            raise TypeError(f"variant must be a CausalVariant, not {type(variant).__name__}")
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv

    def __repr__(self, *, tensor_contents=None):
        return repr(self.as_subclass(Tensor))

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        args = [a.as_subclass(Tensor) if isinstance(a, cls) and function is not F.scaled_dot_product_attention else a
                for a in args]
        if function is not F.scaled_dot_product_attention:
            return super().__torch_function__(function, types, args, kwargs)
        mask = args.pop(3) if len(args) > 3 else kwargs.pop("attn_mask")
        if kwargs.get("is_causal") or len(args) > 4 and args[4]:
            raise ValueError("CausalBias should not be used with causal=True")
        if mask.variant == CausalVariant.UPPER_LEFT or mask.seq_len_q == mask.seq_len_kv:
            return F.scaled_dot_product_attention(*args[:3], None, *args[3:], is_causal=True, **kwargs)
        return F.scaled_dot_product_attention(*args[:3], mask.as_subclass(Tensor), *args[3:], **kwargs)


def causal_upper_left(*size):
    """Queries see the keys up to their own number.

    >>> causal_upper_left(2, 3)
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    return CausalBias(CausalVariant.UPPER_LEFT, *checked(size))


def causal_lower_right(*size):
    """The last query sees all keys, and each one before it one fewer.

    >>> causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    return CausalBias(CausalVariant.LOWER_RIGHT, *checked(size))


def checked(size):
    """(queries, keys); RuntimeError for other numbers of sizes."""
    if len(size) != 2:
        raise RuntimeError(f"a causal mask has 2 sizes, of queries and of keys, not {len(size)}")
    return size

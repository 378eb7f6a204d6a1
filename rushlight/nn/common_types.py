"""``torch.nn.common_types``: annotations of sizes."""
from __future__ import annotations

from typing import Optional, TypeVar, Union

from .._src.core.native import Tensor

T = TypeVar("T")


def sized(kind, count: int):
    """One value, or as many as there are dimensions."""
    return Union[kind, tuple.__class_getitem__((kind,) * count)]


_scalar_or_tuple_any_t = Union[T, tuple[T, ...]]
_scalar_or_tuple_1_t, _scalar_or_tuple_2_t, _scalar_or_tuple_3_t = (sized(T, n) for n in range(1, 4))
_scalar_or_tuple_4_t, _scalar_or_tuple_5_t, _scalar_or_tuple_6_t = (sized(T, n) for n in range(4, 7))
_size_any_t = Union[int, tuple[int, ...]]
_size_1_t, _size_2_t, _size_3_t, _size_4_t, _size_5_t, _size_6_t = (sized(int, n) for n in range(1, 7))
_size_any_opt_t = Union[Optional[int], tuple[Optional[int], ...]]
_size_2_opt_t, _size_3_opt_t = (sized(Optional[int], n) for n in (2, 3))
_ratio_any_t = Union[float, tuple[float, ...]]
_ratio_2_t, _ratio_3_t = (sized(float, n) for n in (2, 3))
_tensor_list_t = Union[Tensor, list[Tensor]]
_maybe_indices_t = Union[Tensor, tuple[Tensor, Tensor]]

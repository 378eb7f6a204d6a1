"""Names for annotations: what the framework takes as a number, a size, a device."""
from __future__ import annotations

import os
from builtins import bool as _bool, bytes as _bytes, complex as _complex, float as _float, int as _int, str as _str
from collections.abc import Sequence
from typing import Any, Union

from ._src.core.devices import device as _device
from ._src.core.dtypes import dtype as _dtype
from ._src.core.convert import layout as _layout
from ._src.core.meta import Size as _size_class
from ._src.core.native import Tensor
from ._src.legacy import SymBool, SymFloat, SymInt
from .storage import UntypedStorage as Storage

Number = Union[_int, _float, _bool]
_Number = (_int, _float, _bool)
Device = Union[_device, _str, _int, None]
FileLike = Union[_str, os.PathLike, Any]
PySymType = py_sym_types = (SymInt, SymFloat, SymBool)
IntLikeType, FloatLikeType, BoolLikeType = Union[_int, SymInt], Union[_float, SymFloat], Union[_bool, SymBool]
_TensorOrTensors = Union[Tensor, Sequence[Tensor]]
_TensorOrTensorsOrGradEdge = Union[_TensorOrTensors, Sequence[Any]]
_size = Union[_size_class, list, tuple]
_symsize, _dispatchkey, _qscheme = _size, _str, Any

__all__ = ["Device", "FileLike", "Number", "Storage"]

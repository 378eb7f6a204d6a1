"""Concatenation of tensors without a program: any number of them, of any lengths."""
from __future__ import annotations

from .language import cast, i64, native
from .memory import copy_bytes
from .objects import Tensor


@native
def copy_rows(tensors: tuple, out: i64, rows: i64, width: i64) -> None:
    """Concatenate dense tensors of ``rows`` rows each along their rows, into rows of ``width`` bytes at the address
    ``out``."""
    for k in range(len(tensors)):
        tensor = cast(Tensor, tensors[k])
        nbytes: i64 = tensor._rush_meta.nbytes
        own = nbytes // rows
        source = tensor._rush_storage.address + tensor._rush_offset * tensor.itemsize
        for row in range(rows):
            copy_bytes(out + row * width, source + row * own, own)
        out += own

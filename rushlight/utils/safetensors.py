"""Files of named tensors in the safetensors format (https://huggingface.co/docs/safetensors), read without copying.

A file is the length of its header (8 bytes, little-endian), the header (JSON: name -> dtype, shape, byte range), and
the data.
"""
from __future__ import annotations

import json
import mmap
import os

import numpy as np

from .._src.core.devices import cpu
from .._src.core.dtypes import BY_NAME
from .._src.core.errors import CorruptFileError
from .._src.core.exchange import from_numpy, seen_memory
from .._src.core.files import replaced
from .._src.core.meta import Meta, product
from .._src.core.native import Tensor, wrap
from .._src.core.tensor import borrowed, resolved

CODES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "F16": "float16",
         "BF16": "bfloat16", "F32": "float32",
         "F64": "float64", "C64": "complex64", "U16": "uint16", "U32": "uint32", "U64": "uint64",
         "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E4M3FNUZ": "float8_e4m3fnuz",
         "F8_E5M2FNUZ": "float8_e5m2fnuz"}
DTYPES = {code: BY_NAME[name] for code, name in CODES.items() if name in BY_NAME}
LONGEST_HEADER = 100_000_000
REMEDY = "copy or write the file again"


def save_file(tensors: dict, path, metadata: dict | None = None) -> None:
    """Writes named tensors; ``path`` is replaced only once all is written.

    ``tensors``: name -> tensor of any shape.  ``metadata``: text -> text.  TypeError for other values;
      NotImplementedError
    for a dtype that the format does not have.

    >>> import os, tempfile, rushlight as rl
    >>> path = os.path.join(tempfile.mkdtemp(), "a.safetensors")
    >>> save_file({"x": rl.arange(3)}, path)
    >>> load_file(path)["x"].tolist()
    [0, 1, 2]
    """
    with replaced(path) as file:
        write(tensors, file, metadata)


def write(tensors: dict, file, metadata: dict | None = None) -> None:
    """As ``save_file``, to a file that is open for bytes."""
    header, arrays = describe(tensors, metadata)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    file.writelines(arrays)


def describe(tensors, metadata):
    """The header of a file, and the bytes of each tensor in the order of their ranges."""
    codes = {dtype: code for code, dtype in DTYPES.items()}
    header, arrays, at = {}, [], 0
    if metadata is not None:
        if not all(isinstance(v, str) for pair in metadata.items() for v in pair):
            raise TypeError(f"metadata must map str to str, not {metadata}")
        header["__metadata__"] = dict(metadata)
    # so that all are aligned
    for name, tensor in sorted(tensors.items(), key=lambda item: -item[1].itemsize if isinstance(item[1], Tensor)
                               else 0):
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise TypeError(f"save_file wants str -> Tensor, but {name!r} is a {type(tensor).__name__}")
        if tensor.dtype not in codes:
            raise NotImplementedError(
                f"{name!r} is of {tensor.dtype}, which the safetensors format does not have: convert it first")
        data = seen_memory(resolved(tensor.detach().contiguous()).cpu(),
                           tensor.dtype.numpy or np.dtype(np.uint16)).reshape(-1).view(np.uint8)
        header[name] = {"dtype": codes[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [at, at + data.nbytes]}
        arrays.append(data)
        at += data.nbytes
    return header, arrays


def load_file(path) -> dict:
    """The tensors of a file by name, over the mapped file: read when first used, and private when written.

    FileNotFoundError; CorruptFileError (a RuntimeError) for a file that does not hold what its header says.
    """
    memory, header, start = mapped(path)
    check_ranges(path, header)
    return {name: tensor_at(memory, start, name, entry) for name, entry in header.items() if name != "__metadata__"}


def metadata_of(path) -> dict:
    """The metadata that was written with a file.  Raises as load_file."""
    return mapped(path)[1].get("__metadata__", {})


def mapped(path):
    """A file's bytes, its header, and where its data starts."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < 10:
            raise CorruptFileError(f"{path}: {size} bytes",
                                   "a safetensors file: at least its header's length and a header", REMEDY)
        memory = np.frombuffer(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY), np.uint8)
    length = int.from_bytes(memory[:8].tobytes(), "little")
    if length > min(size - 8, LONGEST_HEADER):
        raise CorruptFileError(f"{path}: a header of {length} bytes in a file of {size}", "a header within the file",
                               REMEDY)
    try:
        header = json.loads(memory[8:8 + length].tobytes().decode())
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"{path}: its header is not JSON: {error}", "a JSON object", REMEDY) from None
    if not isinstance(header, dict):
        raise CorruptFileError(f"{path}: its header is a {type(header).__name__}", "a JSON object", REMEDY)
    return memory, header, 8 + length


def check_ranges(path, header):
    """CorruptFileError where the ranges of two tensors overlap: each byte belongs to one tensor, so that a file holds
    no more than its size, and writing one tensor leaves the others as they are."""
    end, before = 0, ""
    for begin, last, name in sorted((*range_of(name, entry), name) for name, entry in header.items()
                                    if name != "__metadata__"):
        if begin < last:
            if begin < end:
                raise CorruptFileError(f"{path}: {name!r} begins at byte {begin}, and {before!r} ends at {end}",
                                       "ranges that do not overlap", REMEDY)
            end, before = last, name


def range_of(name, entry) -> tuple:
    """Return the begin and end of a tensor's bytes."""
    found = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not (isinstance(found, list) and len(found) == 2 and all(type(n) is int and n >= 0 for n in found)):
        raise CorruptFileError(f"{name!r} is described by {entry}",
                               f"dtype ({', '.join(DTYPES)}), shape and data_offsets", REMEDY)
    return tuple(found)


def tensor_at(memory, start, name, entry) -> Tensor:
    """A tensor over its range of the mapped file; a copy where the range is not aligned."""
    try:
        dtype, shape, (begin, end) = DTYPES[entry["dtype"]], tuple(entry["shape"]), entry["data_offsets"]
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(f"{name!r} is described by {entry}",
                               f"dtype ({', '.join(DTYPES)}), shape and data_offsets ({error})", REMEDY) from None
    numbers = all(type(n) is int and n >= 0 for n in (*shape, begin, end))
    if not numbers or end - begin != product(shape) * dtype.itemsize or start + end > len(memory):
        raise CorruptFileError(
            f"{name!r} of {dtype} and shape {list(shape)} is at {begin} to {end} of {len(memory) - start} bytes",
            "a range within the file, as long as the tensor", REMEDY)
    data = memory[start + begin:start + end]
    if data.ctypes.data % dtype.itemsize:
        data = data.copy()
    meta = Meta.of(shape, dtype, cpu)
    if not data.size:
        return from_numpy(np.empty(shape, np.uint8)).to(dtype)
    return wrap(borrowed(data.ctypes.data, meta.nbytes, data), 0, meta, meta.itemsize)

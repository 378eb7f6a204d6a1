"""Tensors over the bytes of a file."""
from __future__ import annotations

import os

import numpy as np

from . import devices
from .dtypes import Defaults
from .exchange import frombuffer
from .native import Tensor
from .tensor import empty


def from_file(filename, shared=None, size=0, *, dtype=None, layout=None, device=None, pin_memory=None,
              requires_grad=False) -> Tensor:
    """The first ``size`` elements [size] of a file, mapped into memory.

    Writes reach the file only if ``shared``; it is then created, or extended, if necessary. Raises RuntimeError for a
    file that cannot be opened or is too short.

    >>> import numpy as np, os, tempfile
    >>> import rushlight as rl
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers")
    >>> np.arange(4, dtype="float32").tofile(path)
    >>> rl.from_file(path, size=3).tolist()
    [0.0, 1.0, 2.0]
    """
    dtype = dtype or Defaults.floating
    if device is not None and not devices.placed(device).provider.on_host or layout is not None and str(
            layout) != "torch.strided" or pin_memory:
        raise RuntimeError(
            "from_file: the tensor is strided, in pageable CPU memory: leave layout, device and "
            "pin_memory out")
    if size < 0:
        raise RuntimeError(f"from_file: the number of elements is {size}, less than 0")
    nbytes = size * dtype.itemsize
    try:
        if shared:
            with open(filename, "ab") as file:
                if os.fstat(file.fileno()).st_size < nbytes:
                    file.truncate(nbytes)
        found = os.stat(filename).st_size
        array = np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,)) if 0 < nbytes <= found else None
    except OSError as error:
        raise RuntimeError(
            f"unable to open file <{filename}> in {'read-write' if shared else 'read-only'} mode: {error.strerror} "
            f"({error.errno})") from error
    if nbytes > found:
        raise RuntimeError(f"file <{filename}> size <{found}> is smaller than the required mapping size <{nbytes}>")
    out = empty((0,), dtype) if array is None else frombuffer(array, dtype=dtype)
    return out.requires_grad_() if requires_grad else out

"""Where a tensor lives."""
from __future__ import annotations

import functools

from .errors import NoDeviceError
from .native import LeavingDevice, mine

KNOWN = ("cpu", "meta", "cuda", "mps", "xpu", "mtia", "xla", "hpu", "ipu", "maia", "vulkan", "privateuseone", "lazy", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga")


class device:
    """A device type and an optional index: ``device("cpu")``, ``device("cuda:0")``, ``device("cuda", 0)``.  Interned."""

    __slots__ = ("type", "index", "__weakref__")
    _table: dict = {}

    def __new__(cls, type="cpu", index=None):
        if isinstance(type, device):
            return type
        if isinstance(type, int):
            type, index = "cuda", type
        if not isinstance(type, str):
            raise TypeError(f"device(): expected a string such as 'cpu', not {type!r}")
        if ":" in type and index is None:
            type, _, number = type.partition(":")
            if not number.isdigit():
                raise RuntimeError(f"Invalid device string: '{type}:{number}' (after the colon comes an index, as in 'cpu:0')")
            index = int(number)
        if type not in KNOWN:
            raise RuntimeError(f"Expected one of {', '.join(KNOWN)} device type at start of device string: {type}")
        found = cls._table.get((type, index))
        if found is None:
            found = object.__new__(cls)
            found.type, found.index = type, index
            found = cls._table.setdefault((type, index), found)  # another thread may have been first
        return found

    def __repr__(self):
        return f"device(type='{self.type}'" + (f", index={self.index})" if self.index is not None else ")")

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self):
        return device, (self.type, self.index)

    def __enter__(self):
        where = placed(self)
        where = None if where is cpu else where
        mine.devices += (mine.device,)
        mine.device = where  # no call in between: an interrupt comes with calls only
        return self

    __exit__ = LeavingDevice()


cpu = device("cpu")
meta = device("meta")


def preferred() -> device:
    """The device of factory functions that name none; each thread has its own."""
    return mine.device or cpu


def prefer(where: device):
    """Sets the device of factory functions that name none, for the calling thread."""
    mine.device = None if where is cpu else where


def placed(where) -> device:
    """The device that can hold tensors for what the user named; an absent accelerator is an error that says so."""
    if where is None:
        return preferred()
    found = device(where)
    if found.type == "cpu":
        return cpu
    if found.type == "meta":
        return meta
    raise NoDeviceError(f"device '{found}' is not available: Torch not compiled with {found.type.upper()} enabled", "'cpu' or 'meta'",
                        f"ask torch.{found.type}.is_available() first, and load with map_location='cpu' what was saved elsewhere")


def placing(function):
    """A function that makes a tensor as one that takes ``device``, which is that of all factory functions inside it; what it makes elsewhere goes there."""
    @functools.wraps(function)
    def run(*args, device=None, **kwargs):
        where = placed(device)
        if device is None and where is cpu:
            return function(*args, **kwargs)
        with where:
            made = function(*args, **kwargs)
        if made.device is where:
            return made
        moved = made.detach().to(where)
        return moved.requires_grad_() if made.requires_grad else moved
    return run

"""Devices: where a tensor's memory is."""
from __future__ import annotations

import functools
from importlib import import_module

from .errors import NoDeviceError
from .native import LeavingDevice, mine
from .shutdown import allow_imports

# a higher layer: imported when a device's provider is first needed
ROOM = f"{__name__.rpartition('.')[0].rpartition('.')[0]}.devices"
PRIVATE = "privateuseone"
KNOWN = ("cpu", "meta", "cuda", "mps", "xpu", "mtia", "xla", "hpu", "ipu", "maia", "vulkan", "privateuseone", "lazy",
         "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga")


class Registry:
    """{type of device: its Provider (``devices/base.py``), or the name of the module that has one under
    ``provider``}."""

    providers: dict = {"cpu": f"{ROOM}.cpu", "meta": f"{ROOM}.meta", "webgpu": f"{ROOM}.webgpu.provider"}
    # modules that resolve such a name
    aliases = dict.fromkeys(("mps", "xpu"), f"{ROOM}.webgpu.aliases") | {"cuda": f"{ROOM}.triton.provider"}
    private = PRIVATE  # the name that an extension has given to this type
    accelerator = None  # the type of the first provider that is neither the CPU nor the meta device
    searched = ("cuda",)  # accelerator candidates before one is registered: their presence can be checked at once

    @classmethod
    def enter(cls, kind: str, provider):
        """Register a type of device or replace its provider; the first accelerator registered becomes the
        accelerator."""
        if not kind.isidentifier():
            raise ValueError(f"a type of device is one word, not {kind!r}")
        cls.providers[kind] = provider
        for known in list(device._table.values()):
            if known.type == kind:
                known.forget()
        if cls.accelerator is None and kind not in ("cpu", "meta") and (isinstance(provider, str)
                                                                        or provider.is_accelerator):
            cls.accelerator = kind

    @classmethod
    def leave(cls, kind: str):
        """Remove the registration of a type: the device type no longer exists."""
        del cls.providers[kind]
        for known in list(device._table.values()):
            if known.type == kind:
                known.forget()
        if cls.accelerator == kind:
            cls.accelerator = next((other for other, found in cls.providers.items() if other not in ("cpu", "meta")
                                    and not isinstance(found, str) and found.is_accelerator), None)

    @classmethod
    def of(cls, kind: str):
        """The Provider of a type; None where there is none.  A type of our own that was found becomes the accelerator
        when it is first asked for, where there is no other."""
        found = cls.providers.get(kind)
        new = isinstance(found, str)
        if new:
            allow_imports()
            found = import_module(found).provider
        elif found is None and kind in cls.aliases:
            found = import_module(cls.aliases[kind]).alias(kind)
            new = found is not None
        if new:
            cls.providers[kind] = found
            if cls.accelerator is None and found.has_data and not found.on_host and found.count():
                cls.accelerator = kind
        return found

    @classmethod
    def present(cls):
        """The type of the accelerator, looked for where none is known yet; None where there is none."""
        for kind in cls.searched:
            if cls.accelerator is None:
                cls.of(kind)
        return cls.accelerator

    @classmethod
    def types(cls) -> tuple:
        """The types that can be named."""
        return (*KNOWN, *(kind for kind in (cls.private, *cls.providers) if kind not in KNOWN))


class device:
    """A device type and an optional index: ``device("cpu")``, ``device("cuda:0")``, ``device("cuda", 0)``.
    Interned."""

    __slots__ = ("type", "index", "provider", "__weakref__")
    _table: dict = {}

    def __new__(cls, type="cpu", index=None):
        if isinstance(type, device):
            return type
        if isinstance(type, int):
            type, index = Registry.accelerator or "cuda", type
        if not isinstance(type, str):
            raise TypeError(f"device(): expected a string such as 'cpu', not {type!r}")
        if ":" in type and index is None:
            type, _, number = type.partition(":")
            if not number.isdigit():
                raise RuntimeError(
                    f"Invalid device string: '{type}:{number}' (after the colon comes an index, as in 'cpu:0')")
            index = int(number)
        if type == PRIVATE:
            type = Registry.private
        elif type not in KNOWN and type not in Registry.providers and type != Registry.private:
            raise RuntimeError(
                f"Expected one of {', '.join(Registry.types())} device type at start of device string: {type}")
        found = cls._table.get((type, index))
        if found is None:
            found = object.__new__(cls)
            found.type, found.index = type, index
            found = cls._table.setdefault((type, index), found)  # another thread may have been first
        return found

    def __getattr__(self, name):
        """``provider``: the device's Provider, looked up at first use. Raises NoDeviceError if there is none."""
        if name != "provider":
            raise AttributeError(f"'device' object has no attribute {name!r}")
        found = Registry.of(self.type)
        if found is None:
            raise NoDeviceError(
                f"device '{self}' is not available: Torch not compiled with {self.type.upper()} enabled",
                "'cpu' or 'meta'",
                f"ask torch.{self.type}.is_available() first, and load with map_location='cpu' what was saved "
                "elsewhere")
        self.provider = found
        return found

    def forget(self):
        """Drop the cached provider, so that it is looked up again."""
        try:
            del self.provider
        except AttributeError:
            pass

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


def provided(where):
    """The Provider of a device, or of a type of devices, by which questions about it are answered although none of them
    may be there; None where nothing provides it."""
    return Registry.of(where.type if isinstance(where, device) else str(where).partition(":")[0])


def is_host(where) -> bool:
    """True if a device, or a type of devices, has its memory in the host's.

    >>> is_host(cpu), is_host("cuda:0")
    (True, False)
    """
    found = provided(where)
    return found is not None and found.on_host


def preferred() -> device:
    """The device of factory functions that name none; each thread has its own."""
    return mine.device or cpu


def prefer(where: device):
    """Sets the device of factory functions that name none, for the calling thread."""
    mine.device = None if where is cpu else where


def placed(where) -> device:
    """The device for tensors on the device that the user named; raises an error if it is absent."""
    if where is None:
        return preferred()
    found = device(where)
    return found if found is cpu else found.provider.placed(found)


def on(where) -> tuple:
    """The device argument for an operator that creates a tensor: () for CPU memory."""
    found = placed(where)
    return () if found is cpu or found.provider.on_host else (found,)


def placing(function):
    """Add an argument ``device`` to a function that makes a tensor: it applies to all factory functions inside it, and
    a result on another device is moved there."""
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

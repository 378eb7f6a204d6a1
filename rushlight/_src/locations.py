"""Destinations of the storages of a file: the argument ``map_location`` of ``load``."""
from __future__ import annotations

from .core.convert import InProcess, UntypedStorage
from .core.devices import Registry, cpu, device as Device, placed
from .core.errors import NoDeviceError
from .core.native import Tensor


class Places:
    """A destination for each storage, by its location in the file.

    ``said``: a device or its name for all; a dict from locations to others; a function of a storage and its location
      that returns a storage, or None to leave it unchanged; or None, for the original locations.  TypeError for
      anything else.
    """

    def __init__(self, said):
        if not (said is None or isinstance(said, (str, Device, dict)) or callable(said)):
            raise TypeError(
                f"map_location must be a device, its name, a dict of locations or a function, not {said!r}: "
                f"'{type(said).__name__}' object is not callable")
        self.said = found(said) if isinstance(said, (str, Device)) else said

    def device(self, location: str) -> Device:
        """Device on which a storage is made: the original one, if that exists."""
        if isinstance(self.said, dict) and location in self.said:
            return found(self.said[location])
        if isinstance(self.said, Device) or callable(self.said):
            return self.said if isinstance(self.said, Device) else cpu
        known = Registry.of(location.partition(":")[0]) if isinstance(location, str) else None
        return found(location) if isinstance(location, str) and (known is None or known.has_data) else cpu

    def readable(self, location: str) -> Device:
        """Device into whose memory the bytes of a storage are read: the CPU for devices with memory of their own."""
        where = self.device(location)
        return where if where.provider.on_host or not where.provider.has_data else cpu

    def settled(self, memory: Tensor, location: str) -> Tensor:
        """Bytes of a storage after reading, possibly replaced by the function ``said``."""
        if not callable(self.said):
            return memory.to(self.device(location)) if memory.device.provider.has_data else memory
        chosen = self.said(UntypedStorage(memory), location)
        if chosen is None:
            return memory
        if not isinstance(chosen, InProcess):
            raise TypeError(
                f"map_location returned {type(chosen).__name__}: a function of a storage returns a storage, or None")
        return (chosen if isinstance(chosen, UntypedStorage) else chosen.untyped()).bytes

    def __repr__(self):
        return repr(self.said)


def found(name) -> Device:
    """Return the device of this name; RuntimeError if this machine has none."""
    try:
        return placed(name)
    except NoDeviceError as error:
        raise RuntimeError(
            f"Attempting to deserialize object on a {str(name).partition(':')[0].upper()} device, {name}, which is not "
            f"available here. Pass map_location='cpu' to load what was saved there. ({error.args[0]})") from None

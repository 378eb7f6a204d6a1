"""Types of tensors by dtype and type of device, as older programs name them: ``x.type("torch.FloatTensor")``."""
from __future__ import annotations

from . import devices, dtypes
from .native import Tensor
from .tensor import attach

type_of = type  # below, a method has that name


@attach
def type(self, dtype=None, non_blocking=False):
    """The legacy type's name, or a conversion to a dtype, a type of tensors (of its device) or its name. ``Tensor`` is
    the type of the default dtype. Raises ValueError for another name, TypeError for any other object."""
    if dtype is None:
        place = self._rush_meta.device.type
        return f"torch.{'' if place == 'cpu' else f'{place}.'}{dtypes.type_name(self.dtype)}Tensor"
    if isinstance(dtype, dtypes.dtype):
        return self.to(dtype)
    if dtype is Tensor:
        return self.to(dtypes.Defaults.floating)
    if isinstance(dtype, str):
        found, place = legacy_type(dtype)
    elif isinstance(dtype, type_of):
        found, place = getattr(dtype, "dtype", None), getattr(dtype, "device_type", None)
        if place is None:
            raise ValueError(f"invalid type: '{dtype.__name__}'")
    else:
        raise TypeError("dtype must be a type, str, or dtype object")
    return self.to(found) if self._rush_meta.device.type == place else self.to(place, found)


def legacy_type(name: str):
    """The dtype and the type of device that a name means: "torch.FloatTensor", "torch.cuda.FloatTensor".  ValueError
    for another name."""
    *path, kind = name.split(".")
    root, *place = path or ("",)
    found = next((d for d in dtypes.ALL if f"{dtypes.type_name(d)}Tensor" == kind), None)
    known = not place or place[0] in devices.KNOWN or devices.provided(place[0]) is not None
    if found is None or root not in ("torch", "rushlight") or len(place) > 1 or not known:
        raise ValueError(f"invalid type: '{name}'")
    return found, place[0] if place else "cpu"


@attach
def type_as(self, other):
    """The tensor in the dtype, and on the device, of another one."""
    return self.to(other._rush_meta.device, other.dtype)

"""``torch._utils``: small helpers that libraries reach for."""
from __future__ import annotations

from ._src.capture.asking import is_compiling  # noqa: F401
from ._src.core.devices import Registry
from ._src.core.native import Tensor
from ._src.core.op import OPS
from ._src.extensions import module_of
from ._src.restored import attributes as _get_obj_state, with_state as _set_obj_state  # noqa: F401
from .serialization import ALLOWED


__all__ = ["_element_size", "_flatten_dense_tensors", "_get_all_device_indices", "_get_available_device_type",
           "_get_device_index", "_reorder_tensors_as", "_take_tensors",
           "_unflatten_dense_tensors"]
globals().update({name: function for (room, name), function in ALLOWED.items() if room == "torch._utils"})


def _get_device_module(device_type: str):
    """Return the module of a type of device. RuntimeError if there is none."""
    if (module := module_of(device_type)) is None:
        raise RuntimeError(f"Device '{device_type}' does not have a corresponding module registered as "
                           f"'torch.{device_type}'.")
    return module


def _flatten_dense_tensors(tensors) -> Tensor:
    """Return the concatenated elements of tensors as a vector."""
    return OPS["cat"]([t.reshape(-1) for t in tensors])


def _unflatten_dense_tensors(flat, tensors) -> tuple:
    """A vector cut into tensors of the shapes of others."""
    return tuple(part.view(t.shape) for part, t in zip(flat.split([t.numel() for t in tensors]), tensors))


def _element_size(dtype) -> int:
    """How many bytes an element takes."""
    return dtype.itemsize


def _take_tensors(tensors, size_limit):
    """Lists of tensors of one type, each of at most ``size_limit`` bytes or of one tensor."""
    waiting: dict = {}
    for tensor in tensors:
        group = waiting.setdefault(tensor.type(), [])
        if group and sum(t.nbytes for t in group) + tensor.nbytes > size_limit:
            yield waiting.pop(tensor.type())
            group = waiting.setdefault(tensor.type(), [])
        group.append(tensor)
    yield from waiting.values()


def _reorder_tensors_as(tensors, ordered_tensors) -> tuple:
    """Tensors, kept in their order among those of one type, in the order that these types have in another list."""
    by_type: dict = {}
    for tensor in tensors:
        by_type.setdefault(tensor.type(), []).append(tensor)
    return tuple(by_type[other.type()].pop(0) for other in ordered_tensors)


def _get_available_device_type() -> str | None:
    """Return the type of the accelerator; None if there is no device of it."""
    kind = Registry.present()
    return kind if kind is not None and Registry.of(kind).count() else None


def _get_all_device_indices() -> list:
    """Return the indices of the accelerator's devices."""
    kind = _get_available_device_type()
    return [] if kind is None else list(range(Registry.of(kind).count()))


def _is_privateuse1_backend_available() -> bool:
    """True if an extension has made its device type known and has a device of it: its module's ``is_available`` says
    so, or, in a module without one, the number of devices that its provider has."""
    asked = getattr(module_of(Registry.private), "is_available", None)
    if asked is not None:
        return bool(asked())
    provider = Registry.of(Registry.private)
    return provider is not None and provider.count() > 0


def _get_device_index(device, optional=False, allow_cpu=False) -> int:
    """The index of a device; -1 for the CPU where that is allowed, else ValueError."""
    from ._src.core.devices import device as Device, is_host
    found = Device(device) if isinstance(device, str) else device
    if isinstance(found, int):
        return found
    if found is None or is_host(found):
        if found is not None and not allow_cpu or found is None and not optional:
            raise ValueError(f"Expected a torch.device with a specified index or an integer, but got: {device}")
        return -1
    return found.index if found.index is not None else 0

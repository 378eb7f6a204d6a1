"""The name of an extension's device, and the methods that go by it."""
from __future__ import annotations

from .._src.core.convert import to_type
from .._src.core.devices import PRIVATE, Registry, device as Device
from .._src.core.native import Tensor
from ..nn import Module
from ..nn.utils.rnn import PackedSequence
from ..storage import TypedStorage, UntypedStorage

__all__ = ["generate_methods_for_privateuse1_backend", "rename_privateuse1_backend"]


def rename_privateuse1_backend(backend_name: str):
    """Gives the type ``privateuseone`` the name by which users know it.  RuntimeError once it has another name.

    A provider that was registered under the former name goes with it.
    """
    if Registry.private not in (PRIVATE, backend_name):
        raise RuntimeError(
            f"torch.register_privateuse1_backend() has already been set! Current backend: {Registry.private}")
    if not isinstance(backend_name, str) or not backend_name.isidentifier():
        raise RuntimeError(f"Invalid backend name: {backend_name!r}")
    Registry.private = backend_name
    if PRIVATE in Registry.providers and backend_name != PRIVATE:
        provider = Registry.of(PRIVATE)
        Registry.leave(PRIVATE)
        provider.type = backend_name
        Registry.enter(backend_name, provider)


def entered_once(owner, name: str, value):
    """Makes something an attribute of a class.  RuntimeError where it has one of this name."""
    if hasattr(owner, name):
        raise RuntimeError(f"The custom device module of {owner} has already been registered with {name}")
    setattr(owner, name, value)


def to_storage(kind: str):
    """The method of storages that copies to a device of a type."""
    def move(self, device=None, non_blocking=False):
        return self.to(Device(kind, device) if device is None or isinstance(device, int) else device, non_blocking)
    return move


def to_module(kind: str):
    """The method of modules that moves their parameters and buffers to a device of a type."""
    def move(self, device=None):
        return self._apply(lambda t: getattr(t, kind)(device))
    return move


def to_sequence(kind: str):
    """The method of packed sequences that copies to a device of a type."""
    def move(self, *args, **kwargs):
        return self.to(Device(kind), *args, **kwargs)
    return move


def generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_packed_sequence=True,
                                             for_storage=False, unsupported_dtype=None):
    """Adds ``x.<name>()`` and ``x.is_<name>``, where the name is that of the extension's device, to tensors, modules
    (the first alone), packed sequences and storages.  RuntimeError where they are there; storages whose dtype is among
    ``unsupported_dtype`` refuse."""
    kind = Registry.private

    def lies_there(self) -> bool:
        return (self.data if isinstance(self, PackedSequence) else self).device.type == kind

    if for_tensor:
        entered_once(Tensor, f"is_{kind}", property(lies_there))
        entered_once(Tensor, kind, to_type(kind))
    if for_module:
        entered_once(Module, kind, to_module(kind))
    if for_packed_sequence:
        entered_once(PackedSequence, f"is_{kind}", property(lies_there))
        entered_once(PackedSequence, kind, to_sequence(kind))
    if for_storage:
        def typed(self, device=None, non_blocking=False):
            if unsupported_dtype and self.dtype in unsupported_dtype:
                raise RuntimeError(f"Cannot create {self.dtype} TypedStorage on device {kind}")
            return to_storage(kind)(self, device, non_blocking)

        for owner, move in ((UntypedStorage, to_storage(kind)), (TypedStorage, typed)):
            entered_once(owner, f"is_{kind}", property(lies_there))
            entered_once(owner, kind, move)

"""Extensions that add a device: their modules, and discovery by package metadata at import."""
from __future__ import annotations

import importlib
import os
import sys
import threading
import warnings

from .core.devices import Registry, device as Device
from .core.later import facade

GROUP = b"torch.backends"


def module_of(kind: str):
    """Return the module ``torch.<kind>``; None if there is none."""
    return getattr(facade(), kind, None)


def get_device_module(device=None):
    """Module of a type of device: ``torch.cuda`` for ``"cuda:0"``; without an argument, that of the accelerator, or of
    the CPU.

    >>> import rushlight as torch
    >>> torch.get_device_module("cpu").__name__
    'rushlight.cpu'
    """
    if isinstance(device, Device):
        kind = device.type
    elif isinstance(device, str):
        kind = Device(device).type
    elif device is None:
        kind = Registry.present() or "cpu"
    else:
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    found = module_of(kind)
    if found is None:
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.")
    return found


def _register_device_module(device_type, module):
    """Register a module as ``torch.<device_type>``.  RuntimeError if there is one."""
    kind = Device(device_type).type
    if kind in vars(facade()):
        raise RuntimeError(f"The runtime module of '{kind}' has already been registered with '{module_of(kind)}'")
    setattr(facade(), kind, module)
    sys.modules[f"{facade().__name__}.{kind}"] = module


def declared_in(folder: str):
    """True if an installed package in a directory names extensions; searches the bytes of its metadata, so that
    importing costs little."""
    try:
        with os.scandir(folder) as entries:
            found = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return False
    for path in found:
        try:
            with open(os.path.join(path, "entry_points.txt"), "rb") as file:
                if GROUP in file.read():
                    return True
        except OSError:
            continue
    return False


class WithoutPyTorch:
    """A block that prevents imports of PyTorch in this thread: importing Rushlight under its own name does not start
    it."""

    def __init__(self):
        self.thread, self.is_asked = threading.get_ident(), False

    def find_spec(self, fullname, path=None, target=None):
        if fullname == "torch" and threading.get_ident() == self.thread:
            self.is_asked = True
            raise ModuleNotFoundError("Rushlight does not replace 'torch' yet", name=fullname)
        return None

    def __enter__(self):
        sys.meta_path.insert(0, self)
        return self

    def __exit__(self, *exception):
        sys.meta_path.remove(self)


postponed: list = []  # entry points of extensions that import torch; they run once Rushlight replaces it


def load_extensions():
    """Load the extensions that installed packages name in the group ``torch.backends``, and call them.  Those that
    import torch wait until Rushlight replaces it; one that fails is named in a warning.
    ``TORCH_DEVICE_BACKEND_AUTOLOAD=0`` disables this."""
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD",
                      "1") != "1" or not any(map(declared_in, dict.fromkeys(folder or "." for folder in sys.path))):
        return
    for entry in importlib.import_module("importlib.metadata").entry_points(group=GROUP.decode()):
        with WithoutPyTorch() as block:
            try:
                entry.load()()
            except Exception as error:
                if block.is_asked:
                    postponed.append(entry)
                else:
                    warnings.warn(f"{failure_of(entry)} {type(error).__name__}: {error}", RuntimeWarning, stacklevel=3)


def load_postponed_extensions():
    """Load the extensions that import torch, after Rushlight replaced it.  RuntimeError, with the extension's name, for
    one that fails."""
    while postponed:
        entry = postponed.pop(0)
        try:
            entry.load()()
        except Exception as error:
            raise RuntimeError(failure_of(entry)) from error


def failure_of(entry) -> str:
    """Message of the error, or warning, about an extension that fails."""
    return (f"Failed to load the backend extension: {entry.name}. You can disable extension auto-loading with "
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0.")

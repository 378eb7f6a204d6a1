"""Tensors and modules of a module by name, by PyTorch's private name."""
from __future__ import annotations

from ..._src.core.native import Tensor
from ..modules.module import Module

MISSING = object()


def check(module, name, kind, value):
    """Raise TypeError for no Module or a value of another kind, KeyError for a name that no attribute may have."""
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if not isinstance(value, kind) and (kind is Module or value is not None and value is not MISSING):
        raise TypeError(f"{value} is not an instance of torch.{'Tensor' if kind is Tensor else 'nn.Module'}")
    what = "tensor" if kind is Tensor else "submodule"
    if "." in name:
        raise KeyError(f'{what} name can\'t contain ".": {name!r}')
    if not name:
        raise KeyError(f'{what} name can\'t be empty string ""')


def set_tensor(module, name: str, tensor):
    """Set a parameter, buffer or attribute of a module to any tensor, or None."""
    check(module, name, Tensor, tensor)
    for registered in (module._parameters, module._buffers):
        if name in registered:
            registered[name] = tensor
            return
    setattr(module, name, tensor)


def swap_tensor(module, name: str, tensor, allow_missing: bool = False):
    """Set a parameter, buffer or attribute of a module to any tensor and return the previous one. A missing name is an
    AttributeError unless ``allow_missing``, which returns an object that stands for the missing name: giving that
    object back as ``tensor`` removes the name."""
    check(module, name, Tensor, tensor)
    for registered in (module._parameters, module._buffers):
        if name in registered:
            previous = registered[name]
            if tensor is MISSING:
                del registered[name]
            else:
                registered[name] = tensor
            return previous
    previous = getattr(module, name, MISSING)
    if previous is MISSING and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if previous is not MISSING and previous is not None and not isinstance(previous, Tensor):
        raise TypeError(f"attribute `{name}`: {previous} is not an instance of torch.Tensor")
    if tensor is not MISSING:
        setattr(module, name, tensor)
    elif previous is not MISSING:
        delattr(module, name)
    return previous


def swap_submodule(module, name: str, submodule):
    """Set a submodule of a module and return the previous one."""
    check(module, name, Module, submodule)
    if name not in module._modules:
        raise KeyError(f"submodule {name} does not exist")
    previous = module._modules[name]
    module._modules[name] = submodule
    return previous

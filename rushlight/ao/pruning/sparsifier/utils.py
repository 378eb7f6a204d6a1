"""Masks as parametrizations, and names of modules and tensors."""
from __future__ import annotations

from itertools import chain

from ....nn import Module
from ....nn.utils.parametrize import is_parametrized, type_before_parametrizations

__all__ = ["FakeSparsity", "fqn_to_module", "get_arg_info_from_tensor_fqn", "module_contains_param", "module_to_fqn",
           "swap_module"]


class FakeSparsity(Module):
    """A parametrization: weights times a mask, which is a buffer and no part of the state."""

    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x):
        if self.mask.shape != x.shape:
            raise AssertionError(f"mask shape ({self.mask.shape}) must match x shape ({x.shape})")
        return self.mask * x

    def state_dict(self, *args, **kwargs):
        """Nothing: the sparsifier keeps the masks."""
        return {}


def module_contains_param(module, parametrization) -> bool:
    """Whether a tensor of a module has a parametrization of a class."""
    return is_parametrized(module) and any(
        isinstance(one, parametrization) for one in chain.from_iterable(module.parametrizations.values()))


def swap_module(mod, mapping):
    """What ``mapping`` makes of a module by its class before parametrizations; itself for other classes.  Its hooks go
    along."""
    kind = type_before_parametrizations(mod)
    if kind not in mapping:
        return mod
    made = mapping[kind].from_dense(mod)
    for hook in mod._forward_pre_hooks.values():
        made.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        made.register_forward_hook(hook)
    device = next((p.device for p in chain(mod.parameters(), mod.buffers())), None)
    return made if device is None else made.to(device)


def module_to_fqn(model, module, prefix=""):
    """The name of a module in a model, None where it is not in it.

    >>> import rushlight as torch
    >>> model = torch.nn.Sequential(torch.nn.ReLU())
    >>> module_to_fqn(model, model[0])
    '0'
    """
    return next((f"{prefix}.{name}".strip(".") if name else prefix.strip(".")
                 for name, one in model.named_modules() if one is module), None)


def fqn_to_module(model, path: str):
    """The module, or the tensor, of a name in a model; None where it has none."""
    for name in path.split(".") if path else ():
        model = getattr(model, name, None)
    return model


def get_arg_info_from_tensor_fqn(model, tensor_fqn: str) -> dict:
    """The module of a tensor, the module's name, the tensor's and both."""
    name = tensor_fqn.rpartition(".")
    tensor_fqn = tensor_fqn.removeprefix(".")
    return {"module_fqn": tensor_fqn.rpartition(".")[0], "module": fqn_to_module(model, tensor_fqn.rpartition(".")[0]),
            "tensor_name": name[2], "tensor_fqn": tensor_fqn}

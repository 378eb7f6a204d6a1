"""States taken by modules: tensors copied or taken over by name, and what does not fit."""
from __future__ import annotations

from collections import OrderedDict, namedtuple

from ..._src.autograd.mode import no_grad
from ..._src.core.native import Tensor
from ..parameter import Parameter, is_lazy


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What ``load_state_dict`` did not find on either side."""

    def __repr__(self):
        return ("<All keys matched successfully>" if not self.missing_keys and not self.unexpected_keys
                else super().__repr__())

    __str__ = __repr__


def load_tensor(module, name, own, key, given, assign, error_msgs):
    """Copies (or takes over) one tensor of a state dict; what does not fit is told in ``error_msgs``."""
    if not isinstance(given, Tensor):
        error_msgs.append(
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
            f'checkpoint but received {type(given)}')
        return
    if is_lazy(own):
        if is_lazy(given):
            return
        with no_grad():
            own.materialize(given.shape, dtype=given.dtype)
    if own.dim() == 0 and tuple(given.shape) == (1,):
        given = given[0]
    if tuple(given.shape) != tuple(own.shape):
        error_msgs.append(
            f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, the shape in "
            f"current model is {own.shape}.")
        return
    try:
        with no_grad():
            if not assign:
                own.copy_(given)
            elif isinstance(own, Parameter) and not isinstance(given, Parameter):
                setattr(module, name, Parameter(given, requires_grad=bool(own._needs_grad)))
            else:
                setattr(module, name, given)
    except Exception as error:
        error_msgs.append(
            f'"{key}" of shape {tuple(own.shape)} could not take the tensor of shape {tuple(given.shape)}: '
            f'{error.args}')


def load(module, state_dict, strict, assign):
    """``module.load_state_dict``."""
    if not hasattr(state_dict, "keys"):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    missing, unexpected, errors = [], [], []
    metadata = getattr(state_dict, "_metadata", None)
    state_dict = OrderedDict(state_dict)
    if metadata is not None:
        state_dict._metadata = metadata

    def below(module, given, prefix=""):
        local = {} if metadata is None else metadata.get(prefix[:-1], {})
        if assign:
            local = {**local, "assign_to_params_buffers": True}
        module._load_from_state_dict(given, prefix, local, True, missing, unexpected, errors)
        for name, child in module._modules.items():
            if child is not None:
                inner = prefix + name + "."
                below(child, {k: v for k, v in given.items() if k.startswith(inner)}, inner)
        keys = _IncompatibleKeys(missing, unexpected)
        for hook in module._load_state_dict_post_hooks.values():
            if hook(module, keys) is not None:
                raise AssertionError(
                    "Hooks registered with register_load_state_dict_post_hook are not expected to return new "
                    "values: change incompatible_keys in place")

    below(module, state_dict)
    if strict:
        if unexpected:
            errors.insert(0, "Unexpected key(s) in state_dict: {}. ".format(
                ", ".join(f'"{k}"' for k in unexpected)))
        if missing:
            errors.insert(0, "Missing key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in missing)))
    if errors:
        raise RuntimeError("Error(s) in loading state_dict for {}:\n\t{}".format(type(module).__name__,
                                                                                 "\n\t".join(errors)))
    return _IncompatibleKeys(missing, unexpected)

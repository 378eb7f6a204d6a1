"""States taken by modules: tensors copied or taken over by name, and what does not fit."""
from __future__ import annotations

import functools
import weakref
from collections import OrderedDict, namedtuple

from ..._src.autograd.mode import no_grad
from ..._src.core.advice import warn
from ..._src.core.convert import may_stand_for
from ..._src.core.native import Tensor
from ..parameter import Parameter, is_lazy


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What ``load_state_dict`` did not find on either side."""

    def __repr__(self):
        return ("<All keys matched successfully>" if not self.missing_keys and not self.unexpected_keys
                else super().__repr__())

    __str__ = __repr__


class Conversion:
    """The switches of ``torch.__future__``, of the process."""

    overwrites = False  # conversions make new parameters
    swaps = False  # conversions and loads exchange parameters with new ones


def successor(own, value):
    """A value as a parameter where its predecessor is one, with the same wish for a gradient."""
    if not isinstance(own, Parameter):
        return value
    if isinstance(value, Parameter):
        return value.requires_grad_(bool(own._rush_needs_grad))
    return Parameter(value, requires_grad=bool(own._rush_needs_grad))


def swap(own, value, where: str):
    """Exchanges a tensor with its successor; RuntimeError, with the place, where that cannot be."""
    from ...utils import swap_tensors
    gradient, own.grad = own.grad, None
    try:
        swap_tensors(own, successor(own, value))
    except Exception as error:
        own.grad = gradient
        raise RuntimeError(f"_apply(): Couldn't swap {where}") from error


def convert_parameter(module, key, own, fn):
    """Puts ``fn(own)`` in the place of a parameter, and of its gradient."""
    with no_grad():
        changed = fn(own)
    gradient, place = own.grad, f"{module._get_name()}.{key}"
    if Conversion.swaps:
        swap(own, changed, place)
    elif Conversion.overwrites or not may_stand_for(changed, own):
        own = module._parameters[key] = Parameter(changed, bool(own._rush_needs_grad))
    elif changed is not own:
        with no_grad():
            own.data = changed
    if gradient is not None:
        with no_grad():
            converted = fn(gradient)
        if Conversion.swaps:
            swap(gradient, converted.requires_grad_(gradient.requires_grad), f"{place}.grad")
            converted = gradient
        own._rush_gradient = converted


def load_tensor(module, name, own, key, given, assign, error_msgs):
    """Copy (or assign, or swap) one tensor of a state dict; mismatches are appended to ``error_msgs``."""
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
    if own.dim() == 0 and given.dim() == 1 and len(given):
        given = given[0]
    if tuple(given.shape) != tuple(own.shape):
        error_msgs.append(
            f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, the shape in "
            f"current model is {own.shape}.")
        return
    if own.is_meta and not given.is_meta and not assign:
        warn(f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, "
             "which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to their "
             "corresponding key in the module instead of copying them in place?)")
    try:
        with no_grad():
            take(module, name, own, given, assign)
    except Exception as error:
        error_msgs.append(
            f'While {"swapping" if Conversion.swaps else "copying"} the parameter named "{key}", whose dimensions in '
            f"the model are {own.size()} and whose dimensions in the checkpoint are {given.size()}, an exception "
            f"occurred : {error.args}.")


def take(module, name, own, given, assign):
    """Gives a module's tensor what is loaded."""
    if Conversion.swaps:
        new = own.module_load(given, assign=assign)
        if new is given or new is own:
            raise RuntimeError("module_load returned one of self or other, please .detach() the result if returning one "
                               "of the inputs in module_load")
        swap(own, new, name)
    elif assign:
        setattr(module, name, successor(own, given))
    else:
        own.copy_(given)


class BoundHook:
    """A hook that is called with the module that it was given to, which it does not keep alive."""

    def __init__(self, hook, module=None):
        functools.update_wrapper(self, hook)  # with what the hook keeps in itself, which goes below our own
        self.hook, self.module = hook, None if module is None else weakref.ref(module)

    def __call__(self, *args, **kwargs):
        if self.module is None:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self):
        return {"hook": self.hook, "module": None if self.module is None else self.module()}

    def __setstate__(self, state):
        self.__init__(state["hook"], state["module"])


def load_below(module, given, prefix, metadata, assign, found):
    """Loads a module and those within it; ``found``: missing keys, unexpected keys and errors, which grow."""
    local = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local = {**local, "assign_to_params_buffers": True}
    missing, unexpected, errors = found
    module._load_from_state_dict(given, prefix, local, True, missing, unexpected, errors)
    for name, child in module._modules.items():
        if child is not None:
            inner = prefix + name + "."
            load_below(child, {k: v for k, v in given.items() if k.startswith(inner)}, inner, metadata, assign, found)
    keys = _IncompatibleKeys(missing, unexpected)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, keys) is not None:
            raise AssertionError(
                "Hooks registered with register_load_state_dict_post_hook are not expected to return new "
                "values: change incompatible_keys in place")


def load(module, state_dict, strict, assign):
    """``module.load_state_dict``."""
    if not hasattr(state_dict, "keys"):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    missing, unexpected, errors = [], [], []
    metadata = getattr(state_dict, "_metadata", None)
    state_dict = OrderedDict(state_dict)
    if metadata is not None:
        state_dict._metadata = metadata

    load_below(module, state_dict, "", metadata, assign, (missing, unexpected, errors))
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

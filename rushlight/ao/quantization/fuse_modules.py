"""Layers of a model made one, by their names."""
from __future__ import annotations

import copy

from ..._src.core.later import later
from ...nn import BatchNorm2d, BatchNorm3d, Identity, ReLU

__getattr__ = later(__name__)


def fuse_known_modules(mod_list, is_qat, additional_fuser_method_mapping=None):
    """Modules in a row as a list of as many: one that does what all do, and Identity for the others.
    AssertionError for rows that have no such module.

    ``additional_fuser_method_mapping``: {classes in a row: function of ``is_qat`` and the modules}.
    """
    from ..nn.intrinsic.modules import fused
    from .fx.fuse import LAYERS, NORMED, joined
    kinds, (first, *rest) = tuple(map(type, mod_list)), mod_list
    own = (additional_fuser_method_mapping or {}).get(kinds)
    norm = rest[0] if rest and kinds[0] in LAYERS and kinds[1] is LAYERS[kinds[0]][0] else None
    last = rest[norm is not None:]
    relu = last[0] if len(last) == 1 and type(last[0]) is ReLU else None
    if own is not None:
        made = own(is_qat, *mod_list)
    elif kinds in ((BatchNorm2d, ReLU), (BatchNorm3d, ReLU)):
        made = (fused.BNReLU2d if kinds[0] is BatchNorm2d else fused.BNReLU3d)(*mod_list)
    elif kinds[0] not in LAYERS or len(mod_list) != 1 + (norm is not None) + (relu is not None) or not rest or (
            norm is not None and relu is not None and NORMED[kinds[0]][1] is None):
        raise AssertionError(f"did not find fuser method for: {kinds}")
    else:
        made = joined(first, norm, relu, is_qat)
    made.training = first.training
    made = moved_hooks(first, mod_list[-1], made)
    return [made, *(Identity().train(first.training) for _ in rest)]


def moved_hooks(first, last, made):
    """The fused module with the hooks that ran before the first and after the last."""
    for hook in first._forward_pre_hooks.values():
        made.register_forward_pre_hook(hook)
    for hook in last._forward_hooks.values():
        made.register_forward_hook(hook)
    first._forward_pre_hooks.clear()
    last._forward_hooks.clear()
    return made


def fused(model, modules_to_fuse, is_qat, inplace, fuser_func, fuse_custom_config_dict):
    """A model whose named rows of modules are one module each; a copy unless ``inplace``."""
    model = model if inplace else copy.deepcopy(model)
    own = (fuse_custom_config_dict or {}).get("additional_fuser_method_mapping")
    rows = modules_to_fuse if isinstance(modules_to_fuse[0], (list, tuple)) else [modules_to_fuse]
    for names in rows:
        for name, module in zip(names, fuser_func([model.get_submodule(name) for name in names], is_qat, own)):
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, module)
    return model


def fuse_modules(model, modules_to_fuse, inplace=False, fuser_func=fuse_known_modules, fuse_custom_config_dict=None):
    """Return a copy of a model in evaluation mode (or itself, ``inplace``) with the layers of these names fused:
    batch norms are folded into the preceding weights, relu is paired with its layer.

    ``modules_to_fuse``: a list of names, or a list of such lists.  AssertionError for rows that have no form as
    one: convolution or linear layer with batch norm, relu, or both; batch norm with relu.

    >>> import rushlight as torch
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU()).eval()
    >>> [type(m).__name__ for m in torch.ao.quantization.fuse_modules(model, ["0", "1", "2"])]
    ['ConvReLU2d', 'Identity', 'Identity']
    """
    return fused(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(model, modules_to_fuse, inplace=False, fuser_func=fuse_known_modules,
                     fuse_custom_config_dict=None):
    """As ``fuse_modules``, for a model in training mode: batch norms are parts that go on learning."""
    return fused(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)

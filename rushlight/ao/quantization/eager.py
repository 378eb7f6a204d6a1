"""Eager quantization: observers are attached to results of modules, and modules are swapped for their quantized
classes."""
from __future__ import annotations

import copy
import warnings

from ..._src.core.later import later
from ..._src.core.options import accept_only
from ...nn import Dropout, Sequential
from ..nn.intrinsic.modules.fused import _FusedModule
from ..nn.qat.modules.rounded import Rounded
from ..nn.quantized.modules.functional_modules import FloatFunctional, QFunctional
from . import fake_quantize
from .observer import _is_activation_post_process
from .quantization_mappings import (FIXED, get_default_qat_module_mappings, get_default_qconfig_propagation_list,
                                    get_default_static_quant_module_mappings)
from .stubs import DeQuantStub, QuantWrapper

__getattr__ = later(__name__)
OBSERVER = "activation_post_process"
OBSERVED = "weights are observed when modules are converted"
CUSTOM = "give the class to prepare(allow_list=...) and convert(mapping=...)"


def propagate_qconfig_(module, qconfig_dict=None, prepare_custom_config_dict=None):
    """Set the ``qconfig`` of each submodule without one to that of its parent.

    ``qconfig_dict``: {path or class: QConfig} that goes before that of the module around.
    """
    accept_only("propagate_qconfig_", CUSTOM, prepare_custom_config_dict=(prepare_custom_config_dict, None, {}))
    inherit(module, qconfig_dict or {}, None, "")


def inherit(module, given, parent, path):
    """Gives a module and all in it the QConfig of its path, of its class, or of the module around it."""
    chosen = given.get(path, given.get(type(module), parent)) if path or given else parent
    module.qconfig = getattr(module, "qconfig", chosen)
    for name, child in module.named_children():
        inherit(child, given, module.qconfig, f"{path}.{name}" if path else name)


def wanted(module) -> bool:
    """Whether a module has a QConfig."""
    return getattr(module, "qconfig", None) is not None


def observe(module, observer=None):
    """Puts an observer, that of the module's QConfig, behind its results."""
    if wanted(module) and not isinstance(module, DeQuantStub):
        module.add_module(OBSERVER, observer() if observer else module.qconfig.activation())
        module.register_forward_hook(observed, prepend=True)


def observed(module, args, output):
    """A forward hook: what the observer returns."""
    return module.activation_post_process(output)


def add_observers(module, kinds, whole):
    """Observers for the parts of a module; ``whole``: classes that are observed although they have parts."""
    for child in module.children():
        if type(child) is Dropout:
            continue
        if isinstance(child, (FloatFunctional, QFunctional)):
            if wanted(child):
                child.activation_post_process = child.qconfig.activation()
        elif isinstance(child, _FusedModule) or type(child) in whole:
            observe(child)
        elif module.training and type(child) in FIXED:
            observe(child, fake_quantize.default_fixed_qparams_range_0to1_fake_quant)
        else:
            add_observers(child, kinds, whole)
    if not list(module.children()) and not isinstance(module, Sequential) and type(module) in kinds:
        observe(module)


def prepare(model, inplace=False, allow_list=None, observer_non_leaf_module_list=None,
            prepare_custom_config_dict=None):
    """A copy of a model (or itself, ``inplace``) with observers behind modules that have a ``qconfig``: give it data
    like those that it is for, then call ``convert``.

    ``allow_list``: classes that are observed; ``observer_non_leaf_module_list``: further ones, that have parts.
    """
    accept_only("prepare", CUSTOM, prepare_custom_config_dict=(prepare_custom_config_dict, None, {}))
    model = model if inplace else copy.deepcopy(model)
    kinds = get_default_qconfig_propagation_list() if allow_list is None else set(allow_list)
    propagate_qconfig_(model)
    if not any(wanted(module) for module in model.modules()):
        warnings.warn("None of the submodule got qconfig applied. Make sure you passed correct configuration through "
                      "`qconfig_dict` or by assigning the `.qconfig` attribute directly on submodules", stacklevel=2)
    add_observers(model, kinds, set(observer_non_leaf_module_list or ()))
    return model


def prepare_qat(model, mapping=None, inplace=False):
    """A copy of a model in training mode (or itself, ``inplace``) that rounds weights and results: train it, then call
    ``eval()`` and ``convert``.  AssertionError in evaluation mode."""
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    mapping = get_default_qat_module_mappings() if mapping is None else mapping
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model)
    convert(model, mapping, inplace=True, remove_qconfig=False)
    return prepare(model, inplace=True, observer_non_leaf_module_list=set(mapping.values()))


def swap_module(mod, mapping, custom_module_class_mapping=None, use_precomputed_fake_quant=False):
    """Return the replacement of a module that has a ``qconfig``; hooks other than observers are moved to it."""
    accept_only("swap_module", CUSTOM, custom_module_class_mapping=(custom_module_class_mapping, None, {}))
    accept_only("swap_module", OBSERVED, use_precomputed_fake_quant=(use_precomputed_fake_quant, False))
    if not wanted(mod) or type(mod) not in mapping:
        return mod
    made = mapping[type(mod)].from_float(mod)
    for hook in mod._forward_pre_hooks.values():
        made.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not observed:
            made.register_forward_hook(hook)
    return made


def convert(module, mapping=None, inplace=False, remove_qconfig=True, is_reference=False,
            convert_custom_config_dict=None, use_precomputed_fake_quant=False):
    """Return a copy of a prepared model (or itself, ``inplace``) with quantized modules.

    ``mapping``: {class: quantized class}; ``remove_qconfig``: remove the remaining QConfigs and observers.
    NotImplementedError for reference modules and for modules converted by custom functions.
    """
    if is_reference or convert_custom_config_dict:
        raise NotImplementedError("convert makes quantized modules by a mapping of classes: is_reference and "
                                  "convert_custom_config_dict are not supported")
    accept_only("convert", OBSERVED, use_precomputed_fake_quant=(use_precomputed_fake_quant, False))
    module = module if inplace else copy.deepcopy(module)
    swap_below(module, get_default_static_quant_module_mappings() if mapping is None else mapping)
    if remove_qconfig:
        forget(module)
    return module


def swap_below(module, mapping):
    """Replaces modules in a module by those that a mapping names, innermost first."""
    for name, child in list(module.named_children()):
        if not isinstance(child, (_FusedModule, Rounded)):
            swap_below(child, mapping)
        made = swap_module(child, mapping)
        if made is not child:
            setattr(module, name, made)


def forget(module):
    """Removes QConfigs, and observers with their hooks."""
    for part in list(module.modules()):
        vars(part).pop("qconfig", None)
        if _is_activation_post_process(part._modules.get(OBSERVER)):
            delattr(part, OBSERVER)
        for key in [key for key, hook in part._forward_hooks.items() if hook is observed]:
            del part._forward_hooks[key]


def add_quant_dequant(module):
    """Return a module in which leaves with a ``qconfig`` are wrapped in a QuantStub and a DeQuantStub."""
    if not list(module.children()) and wanted(module):
        return QuantWrapper(module)
    for name, child in list(module.named_children()):
        setattr(module, name, add_quant_dequant(child))
    return module

"""Quantization module by module: what is called in turn."""
from __future__ import annotations

import copy

from ..._src.core.later import later

__getattr__ = later(__name__, {
    ".dynamic": ("quantize_dynamic",),
    ".eager": ("add_quant_dequant", "convert", "prepare", "prepare_qat", "propagate_qconfig_", "swap_module"),
    ".quantization_mappings": ("get_default_dynamic_quant_module_mappings", "get_default_qat_module_mappings",
                               "get_default_qconfig_propagation_list", "get_default_static_quant_module_mappings")})


def quantize(model, run_fn, run_args, mapping=None, inplace=False):
    """Return a quantized copy of a model (or itself, ``inplace``): prepare it, calibrate it by ``run_fn(model,
    *run_args)``, and convert it.

    The model's parts have a ``qconfig``; a QuantStub and a DeQuantStub mark where quantized values begin and end.

    >>> import rushlight as torch
    >>> model = torch.ao.quantization.QuantWrapper(torch.nn.Linear(4, 2))
    >>> model.qconfig = torch.ao.quantization.get_default_qconfig("x86")
    >>> x = torch.linspace(-1, 1, 8).reshape(2, 4)
    >>> torch.ao.quantization.quantize(model, lambda model: model(x), ())(x).shape
    torch.Size([2, 2])
    """
    from .eager import convert, prepare
    model = (model if inplace else copy.deepcopy(model)).eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, mapping, inplace=True)


def quantize_qat(model, run_fn, run_args, inplace=False):
    """As ``quantize``, for a model in training mode which ``run_fn`` trains."""
    from .eager import convert, prepare_qat
    model = (model if inplace else copy.deepcopy(model)).train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, inplace=True)


def _remove_qconfig(module):
    """Takes the QConfigs, and the observers of results, off a module and its parts."""
    for each in module.modules():
        for name in ("qconfig", "activation_post_process"):
            if name in each.__dict__ or name in each._modules:
                delattr(each, name)

"""Quantization without data: layers that quantize their inputs as they come, weights of two bytes, and tables of quint8
rows."""
from __future__ import annotations

import copy

from ..._src.core.dtypes import float16
from ..._src.core.later import later
from ..._src.core.quantized import qint8, quint8
from ...nn import GRU, GRUCell, LSTM, Embedding, EmbeddingBag, Linear, LSTMCell, RNNCell
from .eager import convert, propagate_qconfig_
from .qconfig import default_dynamic_qconfig, float16_dynamic_qconfig, float_qparams_weight_only_qconfig
from .quantization_mappings import get_default_dynamic_quant_module_mappings

__getattr__ = later(__name__)
LAYERS = Linear, LSTM, GRU, LSTMCell, RNNCell, GRUCell
DEFAULTS = {qint8: (default_dynamic_qconfig, LAYERS), float16: (float16_dynamic_qconfig, LAYERS),
            quint8: (float_qparams_weight_only_qconfig, (EmbeddingBag, Embedding))}


def wanted(qconfig_spec, dtype) -> dict:
    """Return {path or class: QConfig} of the modules to quantize.  ValueError for a dtype that no weights have."""
    if isinstance(qconfig_spec, dict):
        return qconfig_spec
    if dtype not in DEFAULTS:
        raise ValueError(f"Don't know how to quantize with default settings for {dtype}. Provide full qconfig please")
    chosen, kinds = DEFAULTS[dtype]
    return dict.fromkeys(kinds if qconfig_spec is None else qconfig_spec, chosen)


def quantize_dynamic(model, qconfig_spec=None, dtype=qint8, mapping=None, inplace=False):
    """A copy of a model (or itself, ``inplace``), in evaluation mode, in which linear and recurrent layers have qint8
    weights and quantize their inputs and states by the extremes of these.

    ``qconfig_spec``: paths and classes of modules, or a dict from them to QConfigs; default: linear layers, LSTM, GRU
      and cells; of quint8, tables.
    ``dtype``: qint8; float16, for weights rounded to the half; quint8, for rows of Embedding and EmbeddingBag.
      ValueError for others.
    ``mapping``: {class: its form}; default: ``get_default_dynamic_quant_module_mappings``.

    >>> import rushlight as torch
    >>> torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(4, 2)))(torch.ones(1, 4)).shape
    torch.Size([1, 2])
    """
    spec = wanted(qconfig_spec, dtype)
    model = (model if inplace else copy.deepcopy(model)).eval()
    propagate_qconfig_(model, spec)
    return convert(model, get_default_dynamic_quant_module_mappings() if mapping is None else mapping, inplace=True)

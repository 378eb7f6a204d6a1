"""Quantization without data: linear layers that quantize their inputs as they come, and tables of quint8 rows."""
from __future__ import annotations

import copy

from ..._src.core.errors import QuantizedError
from ..._src.core.later import later
from ..._src.core.quantized import qint8
from ...nn import GRU, GRUCell, LSTM, Embedding, EmbeddingBag, Linear, LSTMCell, RNNCell
from ..nn.quantized.dynamic.modules import linear
from ..nn.quantized.modules import embedding_ops
from .qconfig import QConfig, default_dynamic_qconfig

__getattr__ = later(__name__)
TABLES = {Embedding: embedding_ops.Embedding, EmbeddingBag: embedding_ops.EmbeddingBag}
RECURRENT = LSTM, GRU, LSTMCell, GRUCell, RNNCell


def wanted(qconfig_spec) -> dict:
    """{path or class: QConfig} of what is to be quantized."""
    if qconfig_spec is None:
        return dict.fromkeys((Linear, *RECURRENT), default_dynamic_qconfig)
    if isinstance(qconfig_spec, dict):
        return {key: one or default_dynamic_qconfig for key, one in qconfig_spec.items()}
    return dict.fromkeys(qconfig_spec, default_dynamic_qconfig)


def quantize_dynamic(model, qconfig_spec=None, dtype=qint8, mapping=None, inplace=False):
    """A copy of a model (or itself, ``inplace``) whose linear layers have qint8 weights and quantize their inputs by
    the extremes of these.

    Embeddings that ``qconfig_spec`` names with float_qparams_weight_only_qconfig get quint8 rows.

    ``qconfig_spec``: paths and classes of modules, or a dict from them to QConfigs; default: linear layers.
      QuantizedError for other dtypes than qint8 and for recurrent layers.

    >>> import rushlight as torch
    >>> torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(4, 2)))(torch.ones(1, 4)).shape
    torch.Size([1, 2])
    """
    if dtype is not qint8 or mapping is not None:
        raise QuantizedError(
            f"quantize_dynamic makes weights of torch.qint8 alone, by its own mapping; got dtype={dtype} and "
            f"mapping={mapping}")
    spec, model = wanted(qconfig_spec), model if inplace else copy.deepcopy(model)
    return replaced(model, "", spec, spec.get(""))


def replaced(module, path, spec, inherited: QConfig | None):
    """A module with its parts as ``spec`` wants them; a QConfig holds for what lies below, too."""
    chosen = spec.get(path, spec.get(type(module), inherited)) if path else spec.get(type(module), inherited)
    if chosen is not None and type(module) is Linear:
        return linear.Linear.of(module, chosen.weight(), 1.0, 0)
    if chosen is not None and type(module) in TABLES:
        module.qconfig = chosen
        return TABLES[type(module)].from_float(module)
    if chosen is not None and type(module) in RECURRENT:
        raise QuantizedError(
            f"{type(module).__name__} has no quantized form here: name the modules that are to be quantized, as in "
            f"quantize_dynamic(model, {{nn.Linear}})")
    for name, child in module.named_children():
        setattr(module, name, replaced(child, f"{path}.{name}" if path else name, spec, chosen))
    return module

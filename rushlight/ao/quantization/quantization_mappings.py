"""Module swaps of eager quantization, for preparation and conversion."""
from __future__ import annotations

from ... import nn
from ..._src.core.later import later
from ...nn.modules.linear import NonDynamicallyQuantizableLinear
from ..nn.intrinsic.modules import fused
from ..nn.intrinsic.qat.modules import conv_fused, linear_fused
from ..nn.intrinsic.qat.modules import linear_relu as qat_relu
from ..nn.intrinsic.quantized.dynamic.modules import linear_relu as dynamic_linear_relu
from ..nn.intrinsic.quantized.modules import bn_relu, conv_relu, linear_relu
from ..nn.qat.modules import conv as qat_conv
from ..nn.qat.modules import linear as qat_linear
from ..nn.quantized.dynamic.modules import linear as dynamic_linear
from ..nn.quantized.dynamic.modules import rnn
from ..nn.quantized.modules import (activation, batchnorm, conv, dropout, embedding_ops, functional_modules, linear,
                                    normalization, stubs)
from .stubs import DeQuantStub, QuantStub

__getattr__ = later(__name__)
QAT = {one._FLOAT_MODULE: one for one in (
    qat_conv.Conv1d, qat_conv.Conv2d, qat_conv.Conv3d, qat_linear.Linear, linear_fused.LinearBn1d, qat_relu.LinearReLU,
    *(getattr(conv_fused, f"{name}{rank}d") for name in ("ConvBn", "ConvBnReLU", "ConvReLU") for rank in (1, 2, 3)))}
# PyTorch leaves these float when it prepares module by module
WITHOUT_QAT = nn.Conv1d, fused.ConvReLU1d
FIXED = {nn.Sigmoid: activation.Sigmoid, nn.Softmax: activation.Softmax}


# rows of a layer and its batch norm, which are for training
KEPT = {kind for kind in QAT if "Bn" in kind.__name__}


def quantized_layer(kind):
    """Return the quantized layer that a float layer, fused or not, is converted to."""
    name = kind.__name__.replace("LinearBn1d", "Linear").replace("Bn", "")
    return getattr(next(home for home in (conv, linear, conv_relu, linear_relu) if name in vars(home)), name)


TRANSPOSED = nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d
LAYERS = {**{kind: quantized_layer(kind) for kind in (*QAT, *QAT.values(), *TRANSPOSED)},
          NonDynamicallyQuantizableLinear: linear.Linear}
STATIC = {QuantStub: stubs.Quantize, DeQuantStub: stubs.DeQuantize, nn.Dropout: dropout.Dropout,
          nn.BatchNorm2d: batchnorm.BatchNorm2d, nn.BatchNorm3d: batchnorm.BatchNorm3d,
          nn.LayerNorm: normalization.LayerNorm, nn.GroupNorm: normalization.GroupNorm,
          nn.InstanceNorm1d: normalization.InstanceNorm1d, nn.InstanceNorm2d: normalization.InstanceNorm2d,
          nn.InstanceNorm3d: normalization.InstanceNorm3d, nn.ELU: activation.ELU, nn.Hardswish: activation.Hardswish,
          nn.LeakyReLU: activation.LeakyReLU, nn.ReLU6: activation.ReLU6, nn.PReLU: activation.PReLU,
          fused.BNReLU2d: bn_relu.BNReLU2d, fused.BNReLU3d: bn_relu.BNReLU3d,
          nn.Embedding: embedding_ops.Embedding, nn.EmbeddingBag: embedding_ops.EmbeddingBag,
          functional_modules.FloatFunctional: functional_modules.QFunctional, **LAYERS}
TABLES = nn.Embedding, nn.EmbeddingBag
DYNAMIC = {nn.Linear: dynamic_linear.Linear, fused.LinearReLU: dynamic_linear_relu.LinearReLU,
           NonDynamicallyQuantizableLinear: dynamic_linear.Linear,
           nn.Embedding: embedding_ops.Embedding, nn.EmbeddingBag: embedding_ops.EmbeddingBag,
           **{getattr(nn, name): getattr(rnn, name) for name in ("LSTM", "GRU", "LSTMCell", "GRUCell", "RNNCell")}}


def get_default_static_quant_module_mappings() -> dict:
    """Return {float class: quantized class}, a new dict."""
    return {kind: made for kind, made in STATIC.items() if kind not in KEPT}


def get_default_dynamic_quant_module_mappings() -> dict:
    """{float class: its form that quantizes what comes}, a new dict."""
    return dict(DYNAMIC)


def get_default_qat_module_mappings() -> dict:
    """{float class: its form that learns with rounded weights}, a new dict."""
    return {**{kind: one for kind, one in QAT.items() if kind not in WITHOUT_QAT},
            NonDynamicallyQuantizableLinear: qat_linear.Linear}


def get_default_qconfig_propagation_list() -> set:
    """Classes of modules whose results are observed."""
    return {*STATIC, *get_default_qat_module_mappings().values()}

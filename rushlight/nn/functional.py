"""PyTorch's functional namespace: the operators declared under ``nn.functional``."""
from __future__ import annotations

from .._src.core.op import OPS
from .._src.ops import library

globals().update(library.namespace("nn.functional"))
for _name in ("tanh", "sigmoid", "relu_", "dropout_"):
    if _name in OPS:
        globals()[_name] = OPS[_name]

from .scaling import ScalingType, SwizzleType, scaled_mm  # noqa: E402,F401
from .multihead import multi_head_attention_forward  # noqa: E402,F401 - a function of these
from . import _reduction as _Reduction  # noqa: E402,F401 - its name in PyTorch

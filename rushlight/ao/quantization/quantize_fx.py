"""Quantization of graphs: not here yet."""
from ...compat.absent import absent
from . import WHY

globals().update(absent("torch.ao.quantization.quantize_fx", WHY, "fuse_fx _fuse_fx prepare_fx prepare_qat_fx convert_fx"))

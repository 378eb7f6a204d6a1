"""Quantization of modules: not here yet."""
from ...compat.absent import absent

WHY = "modules are not quantized yet; torch._int_mm multiplies int8 matrices"
globals().update(absent("torch.ao.quantization", WHY, "QuantWrapper QuantStub DeQuantStub FakeQuantize MinMaxObserver HistogramObserver MovingAverageMinMaxObserver PerChannelMinMaxObserver "
                        "QConfig QConfigMapping get_default_qconfig get_default_qat_qconfig get_default_qconfig_mapping get_default_qconfig_propagation_list prepare prepare_qat convert "
                        "quantize quantize_dynamic quantize_qat fuse_modules fuse_modules_qat propagate_qconfig_ add_quant_dequant default_dynamic_qconfig"))

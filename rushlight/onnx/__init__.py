"""Programs as ONNX files: ``export``; PyTorch's ``torch.onnx``.  The extra ``rushlight[onnx]`` brings its packages."""
from __future__ import annotations

from . import errors
from .errors import OnnxExporterError
from .exporting import export
from .program import ONNXProgram

__all__ = ["export", "errors", "ONNXProgram", "OnnxExporterError", "is_in_onnx_export"]


def is_in_onnx_export() -> bool:
    """False: modules are captured as they run, so that none has to ask."""
    return False


is_onnxrt_backend_supported = is_in_onnx_export

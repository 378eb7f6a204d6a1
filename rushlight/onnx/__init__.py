"""Programs as ONNX files: ``export``; PyTorch's ``torch.onnx``.  The extra ``rushlight[onnx]`` brings its packages."""
from __future__ import annotations

from . import errors  # noqa: F401
from .errors import OnnxExporterError  # noqa: F401
from .exporting import export  # noqa: F401
from .program import ONNXProgram  # noqa: F401


def is_in_onnx_export() -> bool:
    """False: modules are captured as they run, so that none has to ask."""
    return False


is_onnxrt_backend_supported = is_in_onnx_export

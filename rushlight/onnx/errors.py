"""Errors of writing ONNX."""
from ..core.later import later


class OnnxExporterError(RuntimeError):
    """A program cannot be written as ONNX."""


__getattr__ = later(__name__)

"""Errors of writing ONNX."""


class OnnxExporterError(RuntimeError):
    """A program cannot be written as ONNX."""

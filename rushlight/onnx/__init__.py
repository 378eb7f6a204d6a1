"""ONNX: not written here."""
from ..compat.absent import absent

globals().update(absent("torch.onnx", "programs are not written as ONNX files: save the state_dict, or use torch.export", "export dynamo_export ONNXProgram register_custom_op_symbolic "
                        "OnnxExporterError"))


def is_in_onnx_export() -> bool:
    return False


is_onnxrt_backend_supported = is_in_onnx_export

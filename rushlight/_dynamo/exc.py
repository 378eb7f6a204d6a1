"""``torch._dynamo.exc``: the errors of capture by PyTorch's names."""
from ..capture.errors import Break, CaptureError

__all__ = ["ArgsMismatchError", "BackendCompilerFailed", "FailOnRecompileLimitHit", "InternalTorchDynamoError", "RecompileError", "TorchDynamoException", "TorchRuntimeError",
           "Unsupported", "UserError"]

Unsupported = UserError = CaptureError  # what does not fit one graph
TorchDynamoException = RuntimeError  # errors of a user's program are raised as they are, errors of capture are RuntimeErrors
BackendCompilerFailed = InternalTorchDynamoError = TorchRuntimeError = ArgsMismatchError = RuntimeError
RecompileError = FailOnRecompileLimitHit = RuntimeError
SkipFrame = Break

"""What ``compile`` raises, under PyTorch's names."""
from ..capture.errors import BackendFailed as BackendCompilerFailed
from ..capture.errors import Break as SkipFrame
from ..capture.errors import CaptureError, ConstraintViolationError, RecompileLimitError, UnknownBackend, UserError
from ..core.later import later

TorchDynamoException = RuntimeError
Unsupported, FailOnRecompileLimitHit, RecompileLimitExceeded, InvalidBackend = CaptureError, RecompileLimitError, RecompileLimitError, UnknownBackend
InternalTorchDynamoError = TorchRuntimeError = ArgsMismatchError = RecompileError = RuntimeError

__all__ = ["TorchDynamoException", "Unsupported", "FailOnRecompileLimitHit", "RecompileLimitExceeded", "InvalidBackend", "BackendCompilerFailed", "UserError",
           "ConstraintViolationError", "InternalTorchDynamoError", "TorchRuntimeError", "ArgsMismatchError", "RecompileError", "SkipFrame"]


__getattr__ = later(__name__)

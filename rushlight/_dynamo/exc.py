"""What ``compile`` raises, under PyTorch's names."""
from .._src.capture.errors import BackendFailed as BackendCompilerFailed
from .._src.capture.errors import Break as SkipFrame
from .._src.capture.errors import CaptureError, ConstraintViolationError, RecompileLimitError, UnknownBackend, UserError

TorchDynamoException = RuntimeError
Unsupported, FailOnRecompileLimitHit, RecompileLimitExceeded, InvalidBackend = (CaptureError, RecompileLimitError,
                                                                                RecompileLimitError, UnknownBackend)
InternalTorchDynamoError = TorchRuntimeError = ArgsMismatchError = RecompileError = RuntimeError

__all__ = ["TorchDynamoException", "Unsupported", "FailOnRecompileLimitHit", "RecompileLimitExceeded", "InvalidBackend",
           "BackendCompilerFailed", "UserError",
           "ConstraintViolationError", "InternalTorchDynamoError", "TorchRuntimeError", "ArgsMismatchError",
           "RecompileError", "SkipFrame"]

"""What ``compile`` raises, under PyTorch's names."""
from .._src.capture.errors import BackendFailed as BackendCompilerFailed
from .._src.capture.errors import Break as SkipFrame
from .._src.capture.errors import CaptureError, ConstraintViolationError, RecompileLimitError, UnknownBackend, UserError

TorchDynamoException = RuntimeError
Unsupported, FailOnRecompileLimitHit, RecompileLimitExceeded, InvalidBackend = (CaptureError, RecompileLimitError,
                                                                                RecompileLimitError, UnknownBackend)
InternalTorchDynamoError = TorchRuntimeError = ArgsMismatchError = RecompileError = RuntimeError



class IncorrectUsage(Exception):
    """Raised when a control of compiled code is misused."""


__all__ = ["IncorrectUsage", "TorchDynamoException", "Unsupported", "FailOnRecompileLimitHit", "RecompileLimitExceeded",
           "InvalidBackend",
           "BackendCompilerFailed", "UserError",
           "ConstraintViolationError", "InternalTorchDynamoError", "TorchRuntimeError", "ArgsMismatchError",
           "RecompileError", "SkipFrame"]

"""``torch.cuda.amp.grad_scaler``."""
from ...amp.grad_scaler import OptState  # noqa: F401
from . import GradScaler  # noqa: F401

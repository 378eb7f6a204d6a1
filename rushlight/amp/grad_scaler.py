"""``torch.amp.grad_scaler``: GradScaler by the name of PyTorch's file."""
from ..core.later import later
from .scaler import GradScaler, OptState

__all__ = ["GradScaler", "OptState"]


__getattr__ = later(__name__)

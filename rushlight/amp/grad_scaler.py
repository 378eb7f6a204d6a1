"""``torch.amp.grad_scaler``: GradScaler by the name of PyTorch's file."""
from .scaler import GradScaler, OptState

__all__ = ["GradScaler", "OptState"]

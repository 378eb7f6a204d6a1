"""``torch.amp.grad_scaler``: GradScaler by the name of PyTorch's file."""
from .scaler import GradScaler, OptState, _refresh_per_optimizer_state  # noqa: F401

__all__ = ["GradScaler", "OptState"]

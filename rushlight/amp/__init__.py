"""Automatic mixed precision: ``autocast`` and ``GradScaler``."""
from .autocast import autocast, custom_bwd, custom_fwd, is_autocast_available
from .scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

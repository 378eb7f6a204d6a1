"""``torch.cuda.amp``: autocast and GradScaler by their older names."""
from ..amp import GradScaler, autocast as _autocast


class autocast(_autocast):
    """``torch.autocast("cuda")``: without such a device it does nothing."""

    def __init__(self, enabled=True, dtype=None, cache_enabled=True):
        super().__init__("cuda", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


__all__ = ["GradScaler", "autocast"]

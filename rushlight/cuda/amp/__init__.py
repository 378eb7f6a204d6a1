"""``torch.cuda.amp``: autocast and GradScaler by their older names."""
from ...amp import GradScaler as _GradScaler, autocast as _autocast, custom_bwd, custom_fwd
from ..._src.core.advice import deprecated


class autocast(_autocast):
    """``torch.autocast("cuda")``: without such a device it does nothing."""

    def __init__(self, enabled=True, dtype=None, cache_enabled=True):
        deprecated("torch.cuda.amp.autocast(args...)", "torch.amp.autocast('cuda', args...)", FutureWarning)
        super().__init__("cuda", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(_GradScaler):
    """``torch.amp.GradScaler("cuda")``."""

    def __init__(self, *args, **kwargs):
        deprecated("torch.cuda.amp.GradScaler(args...)", "torch.amp.GradScaler('cuda', args...)", FutureWarning)
        super().__init__("cuda", *args, **kwargs)


__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

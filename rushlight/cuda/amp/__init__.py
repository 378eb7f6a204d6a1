"""``torch.cuda.amp``: autocast and GradScaler by their older names."""
from ...amp import GradScaler as _GradScaler, autocast as _autocast, custom_bwd as _custom_bwd
from ...amp import custom_fwd as _custom_fwd
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


def custom_fwd(fwd=None, *, cast_inputs=None):
    """``torch.amp.custom_fwd(device_type="cuda")``."""
    deprecated("torch.cuda.amp.custom_fwd(args...)", "torch.amp.custom_fwd(args..., device_type='cuda')", FutureWarning)
    return _custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd=None):
    """``torch.amp.custom_bwd(device_type="cuda")``."""
    deprecated("torch.cuda.amp.custom_bwd(args...)", "torch.amp.custom_bwd(args..., device_type='cuda')", FutureWarning)
    return _custom_bwd(bwd, device_type="cuda")

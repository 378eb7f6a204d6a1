"""``torch.cuda.amp.autocast_mode``."""
from . import autocast, custom_bwd, custom_fwd

__all__ = ["autocast", "custom_bwd", "custom_fwd"]

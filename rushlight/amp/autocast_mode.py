"""``torch.amp.autocast_mode``: autocast by the name of PyTorch's file."""
from .autocast import _cast, autocast, custom_bwd, custom_fwd, is_autocast_available  # noqa: F401

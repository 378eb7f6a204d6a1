"""PyTorch's ``torch._functorch`` names that programs use."""
from ..core.later import later

__getattr__ = later(__name__)

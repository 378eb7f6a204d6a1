"""PyTorch's torch.ao: quantization."""
from .._src.core.later import later

__getattr__ = later(__name__)

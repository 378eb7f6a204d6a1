"""Figures of a run for TensorBoard, as PyTorch's ``torch.utils.tensorboard``; needs the package tensorboard (``pip install rushlight[tensorboard]``)."""
from .writer import FileWriter, SummaryWriter
from ...core.later import later

__all__ = ["FileWriter", "SummaryWriter"]
__getattr__ = later(__name__)

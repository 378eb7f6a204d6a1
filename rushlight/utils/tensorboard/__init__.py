"""Figures of a run for TensorBoard, as PyTorch's ``torch.utils.tensorboard``; needs the package tensorboard
(``pip install rushlight[tensorboard]``)."""
from .writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]

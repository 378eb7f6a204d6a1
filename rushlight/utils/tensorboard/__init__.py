"""Figures of a run for TensorBoard, as PyTorch's ``torch.utils.tensorboard``; needs the package tensorboard
(``pip install rushlight[tensorboard]``)."""
from .writer import FileWriter, SummaryWriter  # noqa: F401
from tensorboard.summary.writer.record_writer import RecordWriter  # noqa: E402, F401

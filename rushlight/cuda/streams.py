"""``torch.cuda.streams``: no device that would have any."""
from . import Event, ExternalStream, Stream

__all__ = ["Event", "ExternalStream", "Stream"]

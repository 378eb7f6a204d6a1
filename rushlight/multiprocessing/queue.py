"""Python's queues between processes, through which tensors in shared memory go as that memory."""
from multiprocessing.queues import Queue, SimpleQueue  # noqa: F401

from ..core.later import later

__getattr__ = later(__name__)

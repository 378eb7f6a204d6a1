"""Python's queues between processes, through which tensors in shared memory go as that memory."""
from multiprocessing.queues import Queue, SimpleQueue  # noqa: F401

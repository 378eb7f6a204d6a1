"""Parameters drawn by ranks that are threads of one process, which have one random stream."""
import contextlib
import threading

import rushlight as torch

DRAWING = threading.Lock()


@contextlib.contextmanager
def seeded(seed=0):
    """Let no other thread draw within such a block, which starts the default random stream with ``seed``."""
    with DRAWING:
        torch.manual_seed(seed)
        yield

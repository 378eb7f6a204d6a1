"""Directories for tests of checkpoints."""
from __future__ import annotations

import functools
import logging
import shutil
import tempfile

from .... import distributed as dist


def with_temp_dir(func=None):
    """Give a test method a directory, ``self.temp_dir``, the same for all ranks; the first rank creates and removes
    it."""
    if func is None:
        return with_temp_dir

    @functools.wraps(func)
    def inside(self, *args, **kwargs):
        first = not dist.is_initialized() or dist.get_rank() == 0
        told = [tempfile.mkdtemp() if first else None]
        if dist.is_initialized():
            dist.broadcast_object_list(told)
        self.temp_dir = told[0]
        try:
            func(self, *args, **kwargs)
            if dist.is_initialized():
                dist.barrier()  # all ranks have finished reading
        finally:
            if first:
                shutil.rmtree(self.temp_dir, ignore_errors=True)
    return inside


def with_checkpoint_logging(func=None, logger_name="torch.distributed.checkpoint", level=logging.DEBUG):
    """Runs a test method with a logger at another level."""
    if func is None:
        return functools.partial(with_checkpoint_logging, logger_name=logger_name, level=level)

    @functools.wraps(func)
    def inside(self, *args, **kwargs):
        logger = logging.getLogger(logger_name)
        before = logger.level
        logger.setLevel(level)
        try:
            func(self, *args, **kwargs)
        finally:
            logger.setLevel(before)
    return inside

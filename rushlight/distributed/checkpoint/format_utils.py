"""Checkpoints of ``torch.save`` as checkpoints in a folder, and the reverse."""
from __future__ import annotations

import rushlight as torch

from .default_planner import _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader, FileSystemWriter
from .state_dict_loader import read
from .state_dict_saver import written

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(dcp_checkpoint_dir, torch_save_path) -> None:
    """Writes what a folder holds to one file."""
    state: dict = {}
    read(state, FileSystemReader(dcp_checkpoint_dir), None, 0, True, _EmptyStateDictLoadPlanner())
    torch.save(state, torch_save_path)


def torch_save_to_dcp(torch_save_path, dcp_checkpoint_dir) -> None:
    """Writes what a file of weights holds into a folder."""
    written(torch.load(torch_save_path, weights_only=True), FileSystemWriter(dcp_checkpoint_dir), None, 0, True, None)

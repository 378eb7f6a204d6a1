"""Conversion of ``torch.save`` checkpoints to distributed checkpoints, and the reverse."""
from __future__ import annotations

import argparse
import os

import rushlight as torch

from .. import collectives, membership
from ...futures import Future
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner, narrowed, whole
from .filesystem import FileSystemReader, FileSystemWriter
from .metadata import Metadata, TensorProperties, TensorStorageMetadata
from .planner import LoadItemType
from .state_dict_loader import read
from .state_dict_saver import written
from .storage import StorageReader

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp", "BroadcastingTorchSaveReader", "DynamicMetaLoadPlanner"]


def dcp_to_torch_save(dcp_checkpoint_dir, torch_save_path) -> None:
    """Writes the contents of a checkpoint directory to one file."""
    state: dict = {}
    read(state, FileSystemReader(dcp_checkpoint_dir), None, 0, True, _EmptyStateDictLoadPlanner())
    torch.save(state, torch_save_path)


def torch_save_to_dcp(torch_save_path, dcp_checkpoint_dir) -> None:
    """Writes the contents of a file of weights to a checkpoint directory."""
    written(torch.load(torch_save_path, weights_only=True), FileSystemWriter(dcp_checkpoint_dir), None, 0, True, None)


class DynamicMetaLoadPlanner(DefaultLoadPlanner):
    """Plans loading without stored metadata: tensors have the sizes of the state, each in one chunk.  RuntimeError for
    a state with other values than tensors."""

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        super().set_up_planner(state_dict, metadata, is_coordinator)
        known = {}
        for name, value in self.state_dict.items():
            if not isinstance(value, torch.Tensor):
                raise RuntimeError(f"Non-tensor value identified at {name}. At this time DynamicMetaLoadPlanner only "
                                   "supports loading Tensors.")
            known[name] = TensorStorageMetadata(TensorProperties(value.dtype), value.size(), [whole(value.size())])
        self.metadata = Metadata(known)


class BroadcastingTorchSaveReader(StorageReader):
    """Reads a file of ``torch.save`` in one process, which broadcasts each tensor; the others take their parts.

    For use with ``DynamicMetaLoadPlanner``.  RuntimeError, in all processes, if the file cannot be read or lacks a
    tensor of the state, or has it in another size.
    """

    def __init__(self, checkpoint_id=None, coordinator_rank: int = 0):
        self.checkpoint_id, self.coordinator_rank, self.is_coordinator = checkpoint_id, coordinator_rank, False

    def reset(self, checkpoint_id=None) -> None:
        self.checkpoint_id = checkpoint_id if checkpoint_id is not None else self.checkpoint_id

    def read_metadata(self, *args, **kwargs):
        """Return empty metadata: the planner makes them."""
        return Metadata({})

    def set_up_storage_reader(self, metadata, is_coordinator: bool, *args, **kwargs) -> None:
        self.is_coordinator = is_coordinator
        if self.checkpoint_id is None:
            raise RuntimeError("BroadcastingTorchSaveReader: there is no checkpoint_id")

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return plans

    def stored(self, wanted: dict):
        """Return (the tensors of the file by name, in the coordinator; their error, in all)."""
        found, wrong = {}, None
        if self.is_coordinator:
            try:
                found = torch.load(self.checkpoint_id, map_location="cpu", weights_only=True)
                wrong = next((f"{name} is not in {self.checkpoint_id}, or not of size {tuple(value.size())}"
                              for name, value in wanted.items() if not isinstance(found.get(name), torch.Tensor)
                              or found[name].size() != value.size()), None)
            except Exception as error:  # raised below, by all
                wrong = f"{type(error).__name__}: {error}"
        box = [wrong]
        if membership.is_initialized():
            collectives.broadcast_object_list(box, src=self.coordinator_rank)
        return found, box[0]

    def read_data(self, plan, planner):
        """Return a Future that is done when all tensors of the planner's state are read."""
        items: dict = {}
        for item in plan.items:
            if item.type is LoadItemType.BYTE_IO:
                raise RuntimeError(f"Non-tensor value identified at {item.storage_index.fqn}. At this time "
                                   "BroadcastingTorchSaveReader only supports loading Tensors.")
            items.setdefault(item.storage_index.fqn, []).append(item)
        found, wrong = self.stored(planner.state_dict)
        if wrong is not None:
            raise RuntimeError(wrong)
        for name, value in planner.state_dict.items():  # all processes in the same order, whatever their parts are
            tensor = found[name].to(value.dtype).contiguous() if self.is_coordinator else torch.empty(
                value.size(), dtype=value.dtype)
            if membership.is_initialized():
                place = membership.device_for(None)
                tensor = tensor.to(place)
                collectives.broadcast(tensor, src=self.coordinator_rank)
            for item in items.get(name, ()):
                planner.resolve_tensor(item).detach().copy_(narrowed(tensor, item.storage_offsets, item.lengths))
                planner.commit_tensor(item, tensor)
        done = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id) -> bool:
        """True if it is a file."""
        return os.path.isfile(checkpoint_id)


def main(args=None) -> None:
    """Converts a checkpoint by the command line, or reports that there is none."""
    parser = argparse.ArgumentParser("python -m rushlight.distributed.checkpoint.format_utils", description=__doc__)
    conversions = {"torch_to_dcp": (os.path.isfile, torch_save_to_dcp),
                   "dcp_to_torch": (os.path.isdir, dcp_to_torch_save)}
    parser.add_argument("mode", choices=conversions, help="the direction of the conversion")
    parser.add_argument("src", help="the checkpoint to read: a file of torch.save, or a directory")
    parser.add_argument("dst", help="the directory or file to write")
    options = parser.parse_args(args)
    is_there, convert = conversions[options.mode]
    print(f"Converting checkpoint from {options.src} to {options.dst} using method: '{options.mode}'")
    if is_there(options.src):
        convert(options.src, options.dst)
    else:
        print(f"No checkpoint found at {options.src}. Skipping conversion.")


if __name__ == "__main__":
    main()

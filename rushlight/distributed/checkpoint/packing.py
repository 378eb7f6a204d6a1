"""A state as a pickle and one block of memory that another process sees, too: the bytes of its tensors are copied
once."""
from __future__ import annotations

import io
import math
import pickle

import rushlight as torch

from ..._src.core.sharing import shared_bytes
from ..device_mesh import DeviceMesh

ALIGNED = 64  # bytes


class Packer(pickle.Pickler):
    """Replaces plain tensors in a pickle by their indices in ``tensors``, and leaves out the groups of meshes."""

    def __init__(self, file):
        super().__init__(file, 5)
        self.tensors, self.places = [], {}

    def persistent_id(self, value):
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided or vars(value):
            return None
        if id(value) not in self.places:
            self.places[id(value)] = len(self.tensors)
            self.tensors.append(value)
        return self.places[id(value)]

    def reducer_override(self, value):
        if not isinstance(value, DeviceMesh):
            return NotImplemented
        return elsewhere, (value.device_type, value.mesh.tolist(), value.mesh_dim_names, value.get_rank())


def elsewhere(device_type, ranks, names, rank) -> DeviceMesh:
    """Return the mesh of a process that has this rank, in another process."""
    return DeviceMesh(device_type, ranks, mesh_dim_names=names, _groups=[], _rank=rank)


class Unpacker(pickle.Unpickler):
    """Puts tensors back."""

    def __init__(self, file, tensors):
        super().__init__(file)
        self.tensors = tensors

    def persistent_load(self, place):
        return self.tensors[place]


def packed(value) -> tuple:
    """Return (the pickle, the block, each tensor's offset, shape and dtype): the arguments of ``unpacked`` in another
    process.  Tensors are copied, to the host's memory, before it returns."""
    file = io.BytesIO()
    packer = Packer(file)
    packer.dump(value)
    places, end = [], 0
    for tensor in packer.tensors:
        places.append((end, tuple(tensor.shape), tensor.dtype))
        end = math.ceil((end + tensor.nbytes) / ALIGNED) * ALIGNED
    block = shared_bytes(end)
    for tensor, room in zip(packer.tensors, rooms(block, places)):
        room.copy_(tensor.detach())
    return file.getvalue(), block, places


def unpacked(text: bytes, block, places):
    """Return the value given to ``packed``, over the block's memory."""
    return Unpacker(io.BytesIO(text), rooms(block, places)).load()


def rooms(block, places) -> list:
    """The tensors in a block."""
    return [block[start:start + math.prod(shape) * dtype.itemsize].view(dtype).view(shape)
            for start, shape, dtype in places]

"""NVIDIA's library of collectives, by which ``torch.distributed`` carries tensors of GPUs (``torch.cuda.nccl``)."""
from __future__ import annotations

from ..distributed.nccl.library import library as _library


def _found():
    found = _library()
    if found is None:
        raise RuntimeError("NCCL is not here: pip install rushlight[nccl]")
    return found


def version() -> tuple:
    """(major, minor, patch).  RuntimeError where the library is not there."""
    return _found().version


def unique_id() -> bytes:
    """Return an id by which the ranks of a communicator find one another."""
    return _found().unique_id()


def is_available(tensors) -> bool:
    """True if the library supports the tensors: dense ones, each on a GPU of its own."""
    tensors = list(tensors)
    places = {t.device for t in tensors}
    return _library() is not None and len(places) == len(tensors) and all(
        not t.is_sparse and t.is_contiguous() and not t._rush_meta.device.provider.on_host for t in tensors)

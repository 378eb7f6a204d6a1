"""Lists of samples as batches."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...core.native import Tensor


def default_collate(batch):
    """Samples stacked: tensors, arrays and numbers become tensors; containers are kept."""
    import rushlight as rl

    first = batch[0]
    if isinstance(first, Tensor):
        return rl.stack(batch)
    if isinstance(first, np.ndarray):
        if first.dtype.kind in "SUO":
            raise TypeError(f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {first.dtype}")
        return rl.stack([rl.as_tensor(b) for b in batch])
    if isinstance(first, np.generic):
        return rl.as_tensor(np.asarray(batch))
    if isinstance(first, float):
        return rl.tensor(batch, dtype=rl.float64)
    if isinstance(first, int):
        return rl.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return {key: default_collate([b[key] for b in batch]) for key in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(parts) for parts in zip(*batch)))
    if isinstance(first, Sequence):
        if any(len(b) != len(first) for b in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        return [default_collate(parts) for parts in zip(*batch)]
    raise TypeError(f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}")


def default_convert(data):
    """Arrays within containers as tensors."""
    import rushlight as rl

    if isinstance(data, np.ndarray) and data.dtype.kind not in "SUO":
        return rl.as_tensor(data)
    if isinstance(data, Mapping):
        return {k: default_convert(v) for k, v in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, (list, tuple)):
        return type(data)(map(default_convert, data)) if isinstance(data, list) else [default_convert(v) for v in data]
    return data

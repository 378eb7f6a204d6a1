"""Processes in a grid: here one, in as many dimensions as a program likes."""
from __future__ import annotations

import math

from .._src.core.errors import OneProcessError
from .membership import chosen, init_process_group, is_initialized

__all__ = ["init_device_mesh", "DeviceMesh"]


ENTERED: list = []  # meshes whose ``with`` blocks are open


class DeviceMesh:
    """A grid of processes, with a name for each dimension if ``mesh_dim_names`` are given.  ``mesh``: their ranks, in nested lists or a tensor.

    >>> import rushlight as torch
    >>> from rushlight.distributed.device_mesh import init_device_mesh
    >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    >>> mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "model"))
    >>> mesh["data"].size(), mesh.ndim, mesh.get_local_rank("model")
    (1, 2, 0)
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(self, device_type: str, mesh=None, *, mesh_dim_names=None, _init_backend=True):
        import rushlight as torch
        self.device_type, self.mesh = device_type, torch.as_tensor(mesh, dtype=torch.int, device="cpu")
        if self.mesh.numel() != 1 or self.mesh.sum().item() != 0:
            raise OneProcessError(f"a mesh of ranks {self.mesh.tolist()}", "the rank 0 alone", "tensors do not travel between processes yet; one process uses all processors of the machine")
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        if self.mesh_dim_names is not None and len(self.mesh_dim_names) != self.mesh.ndim:
            raise RuntimeError(f"mesh_shape and mesh_dim_names should have same length! Found {self.mesh.ndim} dimensions and {len(self.mesh_dim_names)} names")
        if device_type != "cpu":
            raise RuntimeError(f"a mesh of {device_type!r} devices: there is the cpu alone")
        if not is_initialized():
            init_process_group()

    @property
    def ndim(self) -> int:
        return self.mesh.ndim

    @property
    def shape(self) -> tuple:
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        return self.mesh.numel() if mesh_dim is None else self.mesh.size(mesh_dim)

    def place(self, mesh_dim) -> int:
        """A dimension by number or name.  KeyError for an unknown name."""
        if not isinstance(mesh_dim, str):
            return mesh_dim
        if mesh_dim not in (self.mesh_dim_names or ()):
            raise KeyError(f"Mesh dimension '{mesh_dim}' does not exist. Available mesh dimensions are: mesh_dim_names={self.mesh_dim_names}")
        return self.mesh_dim_names.index(mesh_dim)

    def get_group(self, mesh_dim=None):
        """The processes along a dimension.  RuntimeError where it is not said which of several."""
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.")
        self.place(mesh_dim)
        return chosen()

    def get_all_groups(self) -> list:
        return [chosen()] * self.ndim

    def get_rank(self) -> int:
        return 0

    def get_local_rank(self, mesh_dim=None) -> int:
        """The place of this process along a dimension."""
        self.get_group(mesh_dim)
        return 0

    def get_coordinate(self) -> list[int]:
        return [0] * self.ndim

    def __getitem__(self, mesh_dim_names) -> DeviceMesh:
        """The grid along some dimensions, by their names."""
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        for name in names:
            self.place(name)
        return type(self)(self.device_type, self.mesh.reshape([1] * len(names)), mesh_dim_names=names)

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """The grid as a row."""
        return type(self)(self.device_type, self.mesh.reshape(-1), mesh_dim_names=(mesh_dim_name or "_".join(self.mesh_dim_names or ("flat",)),))

    @classmethod
    def from_group(cls, group, device_type: str, mesh=None, *, mesh_dim_names=None) -> DeviceMesh:
        """The grid of groups that are there."""
        return cls(device_type, [0] if mesh is None else mesh, mesh_dim_names=mesh_dim_names)

    def __enter__(self):
        ENTERED.append(self)
        return self

    def __exit__(self, *error):
        ENTERED.pop()

    def __eq__(self, other):
        return self is other or isinstance(other, DeviceMesh) and self.identity() == other.identity()

    def __hash__(self):
        return hash(self.identity())

    def identity(self) -> tuple:
        return self.device_type, self.shape, self.mesh_dim_names

    def __repr__(self):
        shape = ", ".join(f"{name}=1" for name in self.mesh_dim_names) if self.mesh_dim_names else self.shape
        return f"DeviceMesh(({shape}), '{self.device_type}')" if self.mesh_dim_names else f"DeviceMesh({shape}, '{self.device_type}')"


def init_device_mesh(device_type: str, mesh_shape: tuple, *, mesh_dim_names=None, backend_override=None) -> DeviceMesh:
    """The grid of this shape over all processes.  RuntimeError for names that are not as many as dimensions, or not different; OneProcessError for more than one process."""
    if mesh_dim_names is not None and len(set(mesh_dim_names)) != len(mesh_dim_names):
        raise RuntimeError(f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in {mesh_dim_names}")
    if mesh_dim_names is not None and len(mesh_dim_names) != len(mesh_shape):
        raise RuntimeError(f"mesh_shape and mesh_dim_names should have same length! Found len(mesh_dim_names): {len(mesh_dim_names)} and len(mesh_shape): {len(mesh_shape)}.")
    if math.prod(mesh_shape) != 1:
        raise OneProcessError(f"a mesh of shape {tuple(mesh_shape)}", "one process in all", "tensors do not travel between processes yet; one process uses all processors of the machine")
    import rushlight as torch
    return DeviceMesh(device_type, torch.zeros(tuple(mesh_shape), dtype=torch.int, device="cpu"), mesh_dim_names=mesh_dim_names)

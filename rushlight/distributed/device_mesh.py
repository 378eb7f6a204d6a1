"""DeviceMesh: processes in an n-dimensional array, with a group for each row along each dimension."""
from __future__ import annotations

import math
import threading

from .._src.core.devices import is_host, provided
from . import membership
from .worlds import here

__all__ = ["init_device_mesh", "DeviceMesh"]


class Entered(threading.local):
    """Meshes whose ``with`` blocks are open in this thread."""

    def __init__(self):
        self.meshes = []


ENTERED = Entered()


def nested(flat: list, shape) -> list:
    """Return a flat list as nested lists of this shape."""
    if len(shape) <= 1:
        return flat if shape else flat[0]
    step = math.prod(shape[1:])
    return [nested(flat[k * step:(k + 1) * step], shape[1:]) for k in range(shape[0])]


class DeviceMesh:
    """An n-dimensional array of processes, with a name for each dimension if ``mesh_dim_names`` are given.  ``mesh``:
    their ranks, in nested lists or a tensor.

    All processes make it, in the same order as other groups.

    >>> import rushlight as torch
    >>> from rushlight.distributed.device_mesh import init_device_mesh
    >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    >>> mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "model"))
    >>> mesh["data"].size(), mesh.ndim, mesh.get_local_rank("model")
    (1, 2, 0)
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(self, device_type: str, mesh=None, *, mesh_dim_names=None, backend_override=None, _init_backend=True,
                 _groups=None, _root=None, _rank=None, _parts=None):
        import rushlight as torch
        if _rank is None:  # else it is a mesh of another world, in which this process has that rank's coordinate
            check_device(device_type)
        self.device_type, self.mesh = device_type, torch.as_tensor(mesh, dtype=torch.int, device="cpu").clone()
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        self._ranks = self.mesh.reshape(-1).tolist()
        self._sizes = tuple(self.mesh.shape)
        if self.mesh_dim_names is not None and len(self.mesh_dim_names) != self.mesh.ndim:
            raise RuntimeError(
                f"mesh_shape and mesh_dim_names should have same length! Found {self.mesh.ndim} dimensions and "
                f"{len(self.mesh_dim_names)} names")
        world = membership.get_world_size() if _rank is None else max(self._ranks) + 1
        if len(set(self._ranks)) != len(self._ranks) or any(not 0 <= r < world for r in self._ranks):
            raise RuntimeError(
                f"a mesh of the ranks {self._ranks}: each of them once, and below the world's size, which is {world}")
        rank = membership.get_rank() if _rank is None else _rank
        self._coordinate = coordinate_of(self._ranks.index(rank), self._sizes) if rank in self._ranks else None
        self._root, self._flat, self._flat_dims, self._slices = _root, {}, {}, {}
        self._all_parts = [self._ranks] if _parts is None else _parts
        self._identity = device_type, self._sizes, tuple(self._ranks), self.mesh_dim_names
        self._hash = hash(self._identity)
        self._specs, self._decisions = {}, {}  # of DTensors over it, and of operators on them
        if backend_override is not None and len(backend_override) != self.ndim:
            raise ValueError("backend_override should have the same length as the number of mesh dimensions, "
                             f"but got {len(backend_override)} and {self.ndim}.")
        self._groups = list(_groups) if _groups is not None else self._made_groups(
            backend_override or (OF_WORLD,) * self.ndim) if _init_backend else []

    def taken(self, tensor):
        """Return a tensor on a device of this mesh's type."""
        there = tensor.is_meta or tensor.device.type == self.device_type
        return tensor if there else tensor.to(self.device_type)

    def _made_groups(self, backends) -> list:
        """The group of this process along each dimension; every process makes every group."""
        return [own_group(self._rows(dim), backend) for dim, backend in enumerate(backends)]

    def _rows(self, dim: int) -> list:
        """The ranks of each row along a dimension."""
        return rows_along(self._ranks, self._sizes, dim)

    @property
    def ndim(self) -> int:
        return len(self._sizes)

    @property
    def shape(self) -> tuple:
        return self._sizes

    def size(self, mesh_dim: int | None = None) -> int:
        return len(self._ranks) if mesh_dim is None else self._sizes[mesh_dim]

    def place(self, mesh_dim) -> int:
        """Return the index of a dimension by index or name.  KeyError for an unknown name."""
        if not isinstance(mesh_dim, str):
            return mesh_dim
        if mesh_dim not in (self.mesh_dim_names or ()):
            raise KeyError(
                f"Mesh dimension '{mesh_dim}' does not exist. Available mesh dimensions are: "
                f"mesh_dim_names={self.mesh_dim_names}")
        return self.mesh_dim_names.index(mesh_dim)

    def get_group(self, mesh_dim=None):
        """Return the group along a dimension.  RuntimeError if ``mesh_dim`` is missing and there are several, or if
        this process is in none."""
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` needs to be specified "
                "when device_mesh.ndim > 1.")
        if mesh_dim in self._root_mesh()._flat and mesh_dim not in (self.mesh_dim_names or ()):
            return self._root_mesh()._flat[mesh_dim].get_group()
        if not self._groups:
            raise RuntimeError("DeviceMesh process groups not initialized!")
        return self._groups[0 if mesh_dim is None else self.place(mesh_dim)]

    def get_all_groups(self) -> list:
        return [self.get_group(dim) for dim in range(self.ndim)]

    def get_rank(self) -> int:
        return membership.get_rank()

    def get_local_rank(self, mesh_dim=None) -> int:
        """Return this process's coordinate along a dimension."""
        if self.ndim > 1 and mesh_dim is None:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` needs to be specified "
                "when device_mesh.ndim > 1.")
        if self._coordinate is None:
            return -1
        return self._coordinate[0 if mesh_dim is None else self.place(mesh_dim)]

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Return the coordinate of this process; None if it is not in the mesh."""
        return None if self._coordinate is None else tuple(self._coordinate)

    def _root_mesh(self) -> DeviceMesh:
        return self._root or self

    def _get_root_mesh(self) -> DeviceMesh:
        return self._root_mesh()

    def __getitem__(self, mesh_dim_names) -> DeviceMesh:
        """Return the submesh along the dimensions of these names that contains this process.  KeyError for unknown
        names."""
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if names == self.mesh_dim_names:
            return self
        if names in self._slices:
            return self._slices[names]
        if not self.mesh_dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        root = self._root_mesh()
        rows = {name: dims for name, dims in root._flat_dims.items() if name not in self.mesh_dim_names}
        unknown = [name for name in names if name not in self.mesh_dim_names and name not in rows]
        if unknown:
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are "
                           f"{[*self.mesh_dim_names, *rows]}.")
        if len(names) == 1 and names[0] in rows:
            return root._flat[names[0]]
        if any(name in rows for name in names):
            self = root
        found = self._slices[names] = self._slice(names, rows)
        return found

    def _slice(self, names: tuple, rows: dict) -> DeviceMesh:
        """Return the submesh along dimensions and along ``rows``, each of which flattens several dimensions."""
        parts = [rows.get(name) or (self.place(name),) for name in names]
        dims = [dim for part in parts for dim in part]
        if dims != sorted(set(dims)):
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Mesh dim indices should be in ascending order.")
        sizes, own, ranks = [self._sizes[d] for d in dims], list(self._coordinate or [0] * self.ndim), []
        for k in range(math.prod(sizes)):
            for dim, at in zip(dims, coordinate_of(k, sizes)):
                own[dim] = at
            ranks.append(self._ranks[sum(at * math.prod(self._sizes[d + 1:]) for d, at in enumerate(own))])
        groups = [self._flat[name].get_group() if name in rows else self._groups[self.place(name)]
                  for name in names] if self._groups else []
        shape = [math.prod(self._sizes[d] for d in part) for part in parts]
        return type(self)(self.device_type, nested(ranks, shape), mesh_dim_names=names, _groups=groups,
                          _root=self._root_mesh())

    def _flatten(self, mesh_dim_name: str | None = None, backend_override=None) -> DeviceMesh:
        """Return the mesh flattened to one dimension.  All processes of the mesh it was sliced from call it."""
        name, root = mesh_dim_name or "_".join(self.mesh_dim_names or ("flat",)), self._root_mesh()
        if name in (root.mesh_dim_names or ()) and not self.mesh_dim_names == (name,):
            raise RuntimeError(f"{name} already exists in the root mesh: choose another name")
        if self.mesh_dim_names == (name,):
            return self
        if name not in root._flat:
            backend = OF_WORLD if backend_override is None else overrides({0: backend_override}, 1)[0]
            mine = own_group(root._parts(self.mesh_dim_names or root.mesh_dim_names), backend, share=False)
            root._flat_dims[name] = tuple(root.place(n) for n in self.mesh_dim_names) if self.mesh_dim_names else tuple(
                range(root.ndim))
            root._flat[name] = type(self)(self.device_type, self._ranks, mesh_dim_names=(name,), _groups=[mine],
                                          _root=root)
        return root._flat[name]

    def _parts(self, names) -> list:
        """Return the ranks of each submesh along some dimensions, in all meshes that were sliced as this one."""
        dims = [dim for name in names for dim in self._flat_dims.get(name) or (self.place(name),)
                ] if names else list(range(self.ndim))
        parts: dict = {}
        for number, ranks in enumerate(self._all_parts):
            for k, rank in enumerate(ranks):
                at = coordinate_of(k, self._sizes)
                parts.setdefault((number, *(c for d, c in enumerate(at) if d not in dims)), []).append(rank)
        return list(parts.values())

    def _unflatten(self, dim: int | str, mesh_sizes, mesh_dim_names, backend_override=None) -> DeviceMesh:
        """Return the mesh with a dimension divided into several of these sizes and names; the last varies fastest.
        All processes of the mesh it was sliced from call it.

        Slices and rows of the new mesh belong to it.  ValueError for an invalid dimension, and for sizes whose product
        is not its size; RuntimeError if there are not as many sizes as names.
        """
        names, sizes = tuple(mesh_dim_names), tuple(mesh_sizes)
        if self.mesh_dim_names is None:
            raise TypeError("_unflatten() needs a DeviceMesh with mesh_dim_names")
        if isinstance(dim, str) and dim not in self.mesh_dim_names:
            raise ValueError(f"dim {dim} specified in `_unflatten` is not in {self.mesh_dim_names}")
        if not isinstance(dim, str) and not 0 <= dim < self.ndim:
            raise ValueError(f"dim {dim} specified in `_unflatten` is out of range {self.ndim}")
        if len(sizes) != len(names):
            raise RuntimeError("mesh_dim_names must have same length as mesh_sizes in _unflatten!")
        dim = self.place(dim)
        if math.prod(sizes) != self._sizes[dim]:
            raise ValueError(
                f"The product of mesh_sizes={sizes} is {math.prod(sizes)}, but the original dimension at dim={dim} has "
                f"size {self._sizes[dim]}. These must be equal for unflatten to work correctly.")
        backends = (OF_WORLD,) * len(sizes) if backend_override is None else overrides(
            backend_override, len(sizes), names)
        root = self._root_mesh()
        made = type(self)(
            self.device_type, nested(self._ranks, shape := (*self._sizes[:dim], *sizes, *self._sizes[dim + 1:])),
            mesh_dim_names=(*self.mesh_dim_names[:dim], *names, *self.mesh_dim_names[dim + 1:]), _init_backend=False,
            _parts=self._all_parts if root is self else root._parts(self.mesh_dim_names))
        if self._groups:
            new = [own_group([row for ranks in made._all_parts for row in rows_along(ranks, shape, dim + k)], backend)
                   for k, backend in enumerate(backends)]
            made._groups = [*self._groups[:dim], *new, *self._groups[dim + 1:]]
        return made

    @classmethod
    def from_group(cls, group, device_type: str, mesh=None, *, mesh_dim_names=None) -> DeviceMesh:
        """Return the mesh of existing groups: one dimension for one group; for several, ``mesh`` gives the ranks.
        ValueError if it does not."""
        if not isinstance(group, (list, tuple)):
            ranks = membership.get_process_group_ranks(group)
            if mesh is not None and list(map(int, getattr(mesh, "tolist", lambda: mesh)())) != ranks:
                raise ValueError(f"Invalid mesh {mesh} for ProcessGroup with ranks {ranks}")
            return cls(device_type, ranks, mesh_dim_names=mesh_dim_names, _groups=[group])
        if mesh is None:
            raise ValueError("Must pass mesh if passing multiple ProcessGroups")
        made = cls(device_type, mesh, mesh_dim_names=mesh_dim_names, _groups=group)
        if made.ndim != len(group):
            raise ValueError(
                f"Expects mesh with ndim equal to number of ProcessGroups but got mesh {made.mesh.tolist()} and "
                f"{len(group)} ProcessGroups")
        return made

    def __enter__(self):
        ENTERED.meshes.append(self)
        return self

    def __exit__(self, *error):
        ENTERED.meshes.pop()

    def __eq__(self, other):
        return self is other or isinstance(other, DeviceMesh) and self._identity == other._identity

    def __hash__(self):
        return self._hash

    def __repr__(self):
        if self.mesh_dim_names:
            sizes = ", ".join(f"{name}={size}" for name, size in zip(self.mesh_dim_names, self._sizes))
            return f"DeviceMesh(({sizes}), '{self.device_type}', stride={self._strides()})"
        return f"DeviceMesh({self._sizes}, '{self.device_type}', stride={self._strides()})"

    def _strides(self) -> tuple:
        """Return the differences between adjacent ranks along each dimension."""
        steps = [math.prod(self._sizes[d + 1:]) for d in range(self.ndim)]
        return tuple(self._ranks[step] - self._ranks[0] if size > 1 else step
                     for step, size in zip(steps, self._sizes))

    def __reduce__(self):
        return restored, (self.device_type, self.mesh.tolist(), self.mesh_dim_names,
                          [getattr(group, "group_name", None) for group in self._groups])


OF_WORLD = None, None  # the default backend of a dimension, and its options


def own_group(rows: list, backend: tuple, share: bool = True):
    """Return this process's group among groups of these ranks, which every process makes.  With ``share`` the default
    group is used for all ranks, unless ``backend`` (its name, its options) is another."""
    mine, (name, options) = None, backend
    for row in rows:
        if share and backend == OF_WORLD and row == list(range(membership.get_world_size())):
            made = membership.chosen()
        else:
            made = membership.new_group(row, timeout=getattr(options, "_timeout", None), backend=name,
                                        pg_options=options)
        if membership.get_rank() in row:
            mine = made
    return mine


def rows_along(ranks: list, sizes: tuple, dim: int) -> list:
    """Return the ranks of each row along a dimension of a mesh.

    >>> rows_along([0, 1, 2, 3], (2, 2), 0)
    [[0, 2], [1, 3]]
    """
    stride, size = math.prod(sizes[dim + 1:]), sizes[dim]
    starts = [k for k in range(len(ranks)) if k // stride % size == 0]
    return [[ranks[start + k * stride] for k in range(size)] for start in starts]


def overrides(given: dict, ndim: int, names=None) -> tuple:
    """Return (backend, options) of each dimension from ``{index or name: a name, options, or both}``.  RuntimeError for
    keys that are not a dimension, and for one that is given twice.

    >>> overrides({"data": "gloo"}, 2, ("data", "model"))
    (('gloo', None), (None, None))
    """
    left, found = dict(given), []
    for dim in range(ndim):
        keys = [key for key in (dim, *(names or ())[dim:dim + 1]) if key in left]
        if len(keys) > 1:
            raise RuntimeError(f"Found redundant dim index {keys[0]} and name {keys[1]} in backend_override")
        value = left.pop(keys[0]) if keys else OF_WORLD
        found.append((value, None) if isinstance(value, str) else value if isinstance(value, tuple) else (None, value))
    if left:
        raise RuntimeError(f"Found invalid keys in backend_override: got {list(left)}, expected integers in range "
                           f"[0, {ndim}) or one of {tuple(names or ())}")
    return tuple(found)


def check_device(device_type):
    """RuntimeError for devices that are not there.  Joins the world, if need be, and chooses a device."""
    if ":" in device_type:
        raise RuntimeError(f"Device type with index is not supported but got {device_type}. If you maintained a "
                           "'torch.device' object, it's recommended to pass in 'device.type'.")
    found = provided(device_type)
    if found is None or found.count() == 0:
        raise RuntimeError(f"a mesh of {device_type!r} devices: there are none here")
    if not membership.is_initialized():
        membership.init_process_group()
    if not is_host(device_type):
        own_device(found)


def own_device(provider):
    """Set the current device of a process that has not chosen one to the device of its local rank on the host."""
    if membership.chosen().bound_device_id is None and provider.current() == 0:
        provider.set_current(membership.get_node_local_rank(membership.get_rank()) % provider.count())


def restored(device_type: str, ranks, names, groups: list) -> DeviceMesh:
    """Return an unpickled mesh, with the groups that have the same names and ranks; if there are none, without groups
    until ``DeviceMesh`` makes them."""
    found = [here().names.get(name) for name in groups]
    made = DeviceMesh(device_type, ranks, mesh_dim_names=names, _init_backend=False)
    there = found and made.get_coordinate() is not None and all(
        group is not None and list(group.ranks) in made._rows(dim) for dim, group in enumerate(found))
    return DeviceMesh(device_type, ranks, mesh_dim_names=names, _groups=found) if there else made


def coordinate_of(place: int, sizes) -> tuple:
    """Return the coordinate of an index in row-major order.

    >>> coordinate_of(3, (2, 2))
    (1, 1)
    """
    found = []
    for size in reversed(sizes):
        found.append(place % size)
        place //= size
    return tuple(reversed(found))


def init_device_mesh(device_type: str, mesh_shape: tuple, *, mesh_dim_names=None, backend_override=None) -> DeviceMesh:
    """Return the mesh of this shape over all processes, in the order of ranks.

    ``backend_override``: {dimension, by number or name: a backend, ``ProcessGroup.Options``, or both} for groups with
    another backend than the world's.

    RuntimeError if the names are not unique or not as many as dimensions, for overrides of unknown dimensions, and for
    a mesh that needs more processes than there are.
    """
    if mesh_dim_names is not None and len(set(mesh_dim_names)) != len(mesh_dim_names):
        raise RuntimeError(f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names "
                           f"{tuple(mesh_dim_names)}")
    if mesh_dim_names is not None and len(mesh_dim_names) != len(mesh_shape):
        raise RuntimeError(
            f"mesh_shape and mesh_dim_names should have same length! Found len(mesh_dim_names): {len(mesh_dim_names)} "
            f"and len(mesh_shape): {len(mesh_shape)}.")
    if backend_override is not None:
        backend_override = overrides(backend_override, len(mesh_shape), mesh_dim_names)
    if not membership.is_initialized():
        membership.init_process_group()
    count, world = math.prod(mesh_shape), membership.get_world_size()
    if count > world:
        raise RuntimeError(f"Mesh should not be bigger than default world size {world}, but found {count} ranks!")
    return DeviceMesh(device_type, nested(list(range(count)), tuple(mesh_shape)), mesh_dim_names=mesh_dim_names,
                      backend_override=backend_override)

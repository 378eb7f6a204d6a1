"""The parameters of a layer: shards that are gathered together, and whose gradients are reduced together."""
from __future__ import annotations

import math

import rushlight as torch

from ..._src.core.log import logger

from .. import collectives, membership
from ..tensor import DTensor
from ..tensor.layout import box
from ..tensor.placement_types import Replicate, Shard, _StridedShard

log = logger("buckets")
LIVE: dict = {}  # id of a storage -> its unsharded parameter


class Member:
    """One parameter: ``sharded``, this process's part as a DTensor, and ``full``, all of it while its layer computes;
    ``places``: (module, name) of the modules that have it."""

    def __init__(self, parameter, places, mesh, shard_dim, dtype):
        self.places, self.dim, self.tensor_mesh = places, shard_dim, None
        whole = parameter.detach()
        local = whole._local_tensor if isinstance(whole, DTensor) else whole
        self.shape, self.dtype, self.needs = tuple(local.shape), local.dtype, parameter.requires_grad
        self.compute_dtype = dtype if dtype is not None and local.dtype.is_floating_point else local.dtype
        rows, self.shard_mesh = mesh.size(mesh.ndim - 1), mesh
        at = mesh.get_coordinate()[-1]
        self.lengths = [box(self.shape, (Shard(shard_dim),), (rows,), (k,))[0][shard_dim] for k in range(rows)]
        start = sum(self.lengths[:at])
        self.own = self.lengths[at]
        part = local.narrow(shard_dim, start if self.own else 0, self.own).clone()
        self.sharded = torch.nn.Parameter(self.placed(parameter, part, mesh), self.needs)
        self.placeholder = self.make_placeholder()
        self.full = torch.nn.Parameter(self.placeholder if self.tensor_mesh is None
                                       else DTensor.wrapped(self.placeholder, self.tensor_mesh,
                                                            self.tensor_placements, self.tensor_meta),
                                       self.needs)
        self.count = max(self.lengths) * math.prod(n for d, n in enumerate(self.shape) if d != shard_dim)

    def placed(self, parameter, part, mesh):
        """Return the shard as a DTensor over this layer's mesh, and over the tensor's own if it is a DTensor."""
        placements = (Replicate(),) * (mesh.ndim - 1) + (Shard(self.dim),)
        if not isinstance(parameter, DTensor):
            return DTensor.wrapped(part, mesh, placements, parameter._rush_meta)
        self.tensor_mesh, self.tensor_placements = parameter.device_mesh, parameter.placements
        meta = parameter._rush_meta
        self.tensor_meta = type(meta)(tuple(meta.shape), tuple(meta.strides), self.compute_dtype)
        root = mesh._get_root_mesh()
        both = root[(*(mesh.mesh_dim_names or ()), *(self.tensor_mesh.mesh_dim_names or ()))]
        split = math.prod(self.tensor_mesh.size(k) for k, p in enumerate(self.tensor_placements)
                          if p.is_shard(self.dim))
        own = _StridedShard(self.dim, split) if split > 1 else Shard(self.dim)
        return DTensor.wrapped(part, both, (*placements[:-1], own, *self.tensor_placements), meta)

    def make_placeholder(self):
        """Return a tensor of the shape of the parameter, NaN everywhere, without memory of that size: the data of the
        parameter between uses."""
        local = self.sharded._local_tensor
        where = torch.device(self.shard_mesh.device_type) if local.is_meta else local.device
        return torch.full((), math.nan if self.compute_dtype.is_floating_point else 0,
                          dtype=self.compute_dtype, device=where).expand(self.shape)

    def find_placeholder(self):
        """Return the placeholder: another one if the part has moved to another device."""
        local = self.sharded._local_tensor
        if not local.is_meta and local.device != self.placeholder.device:
            self.placeholder = self.make_placeholder()
        return self.placeholder

    @property
    def is_even(self) -> bool:
        """True if the parts of all processes have one size."""
        return self.lengths[0] == self.lengths[-1]

    def rows_of(self, tensor):
        """Return the padded parts of all processes as rows of a matrix."""
        if self.is_even:
            return (tensor.movedim(self.dim, 0) if self.dim else tensor).reshape(len(self.lengths), self.count)
        parts, start = [], 0
        for length in self.lengths:
            parts.append(self.padded(tensor.narrow(self.dim, start if length else 0, length)))
            start += length
        return torch.stack(parts)

    def join_rows(self, rows):
        """Return the full tensor from the rows that ``rows_of`` gives, in memory of its own."""
        if self.is_even:
            whole = self.part_of(rows.reshape(-1), sum(self.lengths))
            is_own = whole._rush_storage is not rows._rush_storage and whole.is_contiguous()
            return whole if is_own else whole.clone(memory_format=torch.contiguous_format)
        return torch.cat([self.part_of(row, length) for row, length in zip(rows.unbind(0), self.lengths)], self.dim)

    def padded(self, tensor):
        """A part, filled up to the size of the largest, as a vector."""
        flat = (tensor.movedim(self.dim, 0) if self.dim else tensor).reshape(-1)
        return flat if flat.numel() == self.count else torch.cat([flat, torch.zeros(self.count - flat.numel(),
                                                                                    dtype=flat.dtype,
                                                                                    device=flat.device)])

    def part_of(self, flat, length):
        """The inverse of ``padded``."""
        rest = [n for d, n in enumerate(self.shape) if d != self.dim]
        used = length * math.prod(rest)
        part = (flat if flat.numel() == used else flat[:used]).reshape([length, *rest])
        return part.movedim(0, self.dim) if self.dim else part

    def set_full(self, local):
        with torch.no_grad():
            if self.tensor_mesh is None:
                self.full.data = local
                LIVE[id(local._rush_storage)] = self
            else:
                self.full._local_tensor = local

    def drop_full(self):
        with torch.no_grad():
            if self.tensor_mesh is None:
                LIVE.pop(id(self.full._rush_storage), None)
                self.full.data = self.find_placeholder()
            else:
                self.full._local_tensor = self.find_placeholder()

    def follow(self):
        """Takes the part that the modules have now: loading with ``assign=True`` puts others there."""
        module, name = self.places[0]
        found = module._parameters[name]
        if found is not self.sharded:
            self.sharded = found
            self.show(found)

    def show(self, parameter):
        """Set the modules' parameter to the full one, or the shard."""
        for module, name in self.places:
            module._parameters[name] = parameter


class Group:
    """All parameters of a layer."""

    def __init__(self, members, mesh, policy):
        self.members, self.mesh, self.policy = members, mesh, policy
        self.shards, self.replicas = mesh.get_group(mesh.ndim - 1), mesh.get_group(0) if mesh.ndim == 2 else None
        self.size = mesh.size(mesh.ndim - 1)
        self.is_whole, self.coming, self.sync, self.reduce_replicas, self.divisor, self.arrived = (False, None, True,
                                                                                                   True, None, 0)
        self.held = False  # True if the program uses full parameters
        self.name = "layer"
        self.hook = None  # (gradients of a layer, output for this process's averages): in place of a collective
        for member in members:
            if member.needs:
                member.full.register_post_accumulate_grad_hook(lambda _: self.noted())

    def announce(self, name: str):
        """Set the layer's name, and log the sizes that are communicated together."""
        self.name, nbytes = name, {}
        for member in self.members:
            kind = member.compute_dtype.name
            nbytes[kind] = nbytes.get(kind, 0) + math.prod(member.shape) * member.compute_dtype.itemsize
        log.info("fully_shard of %s: %d parameters, %s bytes, travel together among %d processes", name,
                 len(self.members), nbytes, self.size)

    # --- whole --------------------------------------------------------------------------------------------------------
    def begin(self, wait=False):
        """Start gathering the shards."""
        if self.is_whole or self.coming is not None:
            return
        self.coming = []
        kinds: dict = {}
        for member in self.members:
            member.follow()
            kinds.setdefault(member.compute_dtype, []).append(member)
        with torch.no_grad():
            for kind, members in kinds.items():
                given = torch.cat([m.padded(m.sharded._local_tensor.to(kind)) for m in members])
                found = torch.empty(given.numel() * self.size, dtype=kind, device=given.device)
                log.debug("%s: %d parameters come, %d bytes of %s, %s", self.name, len(members), found.nbytes,
                          kind.name, "waited for" if wait else "ahead of their use")
                self.coming.append((members, found, given,
                                    collectives.all_gather_into_tensor(found, given, group=self.shards,
                                                                       async_op=not wait)))

    def unshard(self):
        """Unshard every parameter."""
        if self.is_whole:
            return
        self.begin(wait=True)
        with torch.no_grad():
            for members, found, _, work in self.coming:
                if work is not None:
                    work.wait()
                rows, start = found.reshape(self.size, -1), 0
                for member in members:
                    member.set_full(member.join_rows(rows[:, start:start + member.count]))
                    start += member.count
        self.coming, self.is_whole = None, True
        for member in self.members:
            member.show(member.full)

    def reshard(self):
        """Leaves the parts alone."""
        if not self.is_whole:
            return
        for member in self.members:
            member.show(member.sharded)
            member.drop_full()
        self.is_whole = False

    def put_away(self):
        """Reshard, unless the program uses full parameters."""
        if not self.held:
            self.reshard()

    # --- gradients ----------------------------------------------------------------------------------------------------
    def noted(self):
        """A gradient has arrived: with the last one all are summed."""
        self.arrived += 1
        if self.arrived == sum(m.needs for m in self.members):
            self.reduce()

    def reduce(self):
        """Sum gradients over processes; each keeps its shard."""
        self.arrived = 0
        members = [m for m in self.members if m.full.grad is not None]
        if not self.sync or not members:
            return
        kinds: dict = {}
        for member in members:
            kinds.setdefault(self.policy.reduce_dtype or member.full.grad.dtype, []).append(member)
        with torch.no_grad():
            for kind, some in kinds.items():
                self.reduce_kind(kind, some)

    def reduce_kind(self, kind, members):
        given = torch.cat([m.rows_of(self.local_gradient(m).to(kind)) for m in members], 1).reshape(-1)
        found = torch.empty(given.numel() // self.size, dtype=kind, device=given.device)
        log.debug("%s: %d gradients are summed, %d bytes of %s", self.name, len(members), given.nbytes, kind.name)
        if self.hook is not None:
            self.hook(given, found)
        else:
            collectives.reduce_scatter_tensor(found, given, group=self.shards)
            if self.replicas is not None and self.reduce_replicas:
                collectives.all_reduce(found, group=self.replicas)
            found = found / (self.divisor or self.mesh.size())
        start = 0
        for member in members:
            part = member.part_of(found[start:start + member.count], member.own).to(member.dtype).contiguous()
            spec = member.sharded._spec
            made = DTensor.wrapped(part, spec.mesh, spec.placements, member.sharded._rush_meta)
            member.sharded.grad = made if member.sharded.grad is None else member.sharded.grad + made
            member.full.grad = None
            start += member.count

    def local_gradient(self, member):
        """Return the full parameter's gradient, redistributed to the placements of the parameter's own mesh."""
        gradient = member.full.grad
        return gradient.redistribute(member.tensor_mesh,
                                     member.tensor_placements)._local_tensor if isinstance(
                                         gradient, DTensor) else gradient


def world_mesh(module):
    """Return the one-dimensional mesh of all processes, with the device type of a module's parameters."""
    from ..device_mesh import init_device_mesh
    where = next((p.device for p in module.parameters() if p.device.provider.has_data), torch.device("cpu"))
    return init_device_mesh(where.type, (membership.get_world_size(),))

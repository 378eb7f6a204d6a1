"""Tensors over several processes."""
from __future__ import annotations

import rushlight as torch

from ..._src.core.copying import copied_attributes
from ..._src.core.dtypes import float32
from ..._src.core.interpret import Unwatched
from ..._src.core.meta import Meta
from ..._src.core.later import later
from ..._src.core.native import Tensor
from ..._src.core.overriding import disabled
from ..._src.core.tensor import blank, empty_of

from .. import collectives
from ...serialization import add_safe_globals
from ..checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from .. import device_mesh
from ..device_mesh import ENTERED, DeviceMesh
from . import _dispatch, transport
from ._dtensor_spec import DTensorSpec, find_spec
from .layout import box, checked
from .placement_types import Partial, Replicate, Shard
from .transfer import redistributed

__all__ = ["DTensor", "distribute_tensor", "distribute_module", "ones", "empty", "full", "rand", "randn", "zeros"]

NOTHING = Meta.of((0,), float32, torch.device("meta"))  # of the memory that counts writes to a DTensor


class DTensor(Tensor):
    """A tensor that is sharded, replicated, or a partial sum in the processes of a mesh; ``placements`` has one entry
    for each mesh dimension.

    It supports every operator (docs/sharding.md): by the rules of the primitives in the operator's body, with
    redistributions if these need them.
    """

    __torch_function__ = classmethod(disabled)
    __within__ = _dispatch.Body
    __parts__ = ("_part", "_spec", "_shows", "_apart")
    __tensor_fixed__ = True  # which part a process has follows from sizes: compiled programs take these as they are

    def __new__(cls, local_tensor, spec: DTensorSpec, *, requires_grad=False):
        meta = spec.tensor_meta
        made = cls.wrapped(local_tensor, spec.mesh, spec.placements,
                           Meta(torch.Size(meta.shape), tuple(meta.stride), meta.dtype))
        made.requires_grad = requires_grad
        return made

    def __init__(self, *args, **kwargs):
        pass

    @classmethod
    def wrapped(cls, local, mesh, placements, meta) -> DTensor:
        """Return the tensor with this global Meta whose part in this process is ``local``."""
        return cls.with_spec(local, *find_spec(mesh, tuple(placements), meta))

    @classmethod
    def with_spec(cls, local, spec, meta) -> DTensor:
        """Return the tensor with a spec and a global Meta that ``find_spec`` gave."""
        made = blank(cls)
        with Unwatched():  # counts writes, independent of the memory of a program that is being traced
            made._rush_storage, made._rush_offset = empty_of(NOTHING)._rush_storage, 0
        made._rush_meta, made.itemsize, made._wraps = meta, meta.itemsize, True
        made._part, made._spec = local.detach() if local._rush_needs_grad else local, spec
        made._shows, made._apart = False, None
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func._opname == "_local_scalar_dense":
            return args[0].full_tensor().item()
        return cls.__operator__(func.op, args, kwargs)

    @staticmethod
    def __operator__(op, args, kwargs):
        """Answers an operator, whatever it is derived from."""
        if op.traits.get("fresh") and isinstance(args[0], DTensor):
            return _dispatch.fresh(op, args, kwargs)
        return _dispatch.answer(op, args, kwargs)

    # --- what it is ---------------------------------------------------------------------------------------------------
    @property
    def device_mesh(self):
        return self._spec.mesh

    @property
    def placements(self) -> tuple:
        return self._spec.placements

    @property
    def _local_tensor(self):
        """The part of this process.  That of a view in memory of its own is computed anew after writes to its base."""
        if self._apart is not None:
            _dispatch.refresh(self)
        return self._part

    @_local_tensor.setter
    def _local_tensor(self, value):
        self._part = value

    @property
    def data(self):
        """The tensor without its history, of the same memory."""
        return Tensor.data.fget(self)

    @data.setter
    def data(self, value):
        """Takes another DTensor's storage, device and placements.  RuntimeError for a plain tensor."""
        if not isinstance(value, DTensor):
            raise RuntimeError("a DTensor's data is a DTensor: distribute_tensor() or DTensor.from_local() makes one")
        Tensor.data.fset(self, value)
        self._local_tensor, self._spec = value._local_tensor.detach(), value._spec

    def _rush_become(self, view):
        """Become a view of itself (``t_()``): also this process's part.  NotImplementedError for a view in memory of
        its own, and while gradients are recorded: nodes read the shape that the tensor had."""
        if view._apart is not None or view._rush_grad_node is not None:
            raise NotImplementedError("t_, squeeze_ and other in-place views of a DTensor are not supported if the "
                                      "DTensor requires a gradient, or must be redistributed: use the operator that "
                                      "returns a view")
        Tensor._rush_become(self, view)
        self._local_tensor, self._spec = view._local_tensor, view._spec
        if self._base is not None:
            self._rush_views = view._rush_views

    def __repr__(self, *, tensor_contents=None):
        return (f"DTensor(local_tensor={self._local_tensor}, device_mesh={self._spec.mesh}, "
                f"placements={self._spec.placements})")

    def __format__(self, spec):
        return repr(self)

    __hash__ = Tensor.__hash__

    def __tensor_flatten__(self):
        return ["_local_tensor"], (self._spec, bool(self.requires_grad))

    @staticmethod
    def __tensor_unflatten__(inner, context, outer_size=None, outer_stride=None):
        spec, requires_grad = context
        return DTensor(inner["_local_tensor"], spec, requires_grad=requires_grad)

    def __coerce_tangent_metadata__(self):
        """Return a gradient as compiled programs take it: Partial is reduced, other placements stay."""
        return relaid(self, whole_gradient(self._spec.placements))

    def __coerce_same_metadata_as_tangent__(self, expected_metadata, expected_type=None):
        """This as a gradient with the placements that a compiled program expects; None if it expects another class."""
        return relaid(self, expected_metadata[0].placements) if expected_type in (None, DTensor) else None

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            made = memo[id(self)] = DTensor.wrapped(self._local_tensor.detach().clone(), self._spec.mesh,
                                                    self._spec.placements, self._rush_meta)
            made.requires_grad = bool(self._rush_needs_grad)
            made.__dict__.update({k: v for k, v in copied_attributes(self).items() if k not in made.__dict__})
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        return restored, (self._local_tensor.detach(), self._spec.mesh, self._spec.placements, tuple(self.shape),
                          tuple(self.stride()), bool(self.requires_grad))

    @property
    def is_meta(self) -> bool:
        return self._local_tensor.is_meta

    @property
    def device(self):
        return self._local_tensor.device

    def data_ptr(self):
        return self._local_tensor.data_ptr()

    def untyped_storage(self):
        return self._local_tensor.untyped_storage()

    def tolist(self):
        return self.full_tensor().tolist()

    # --- to and from --------------------------------------------------------------------------------------------------
    @staticmethod
    def from_local(local_tensor, device_mesh=None, placements=None, *, run_check=False, shape=None, stride=None,
                   grad_placements=None) -> DTensor:
        """The tensor whose part in this process is ``local_tensor``.  Without ``shape`` parts have the same size in all
        processes.  ``run_check`` broadcasts replicated parts from the first process."""
        mesh = device_mesh or current_mesh()
        placements = checked(placements, mesh, local_tensor.dim())
        return FromLocal.apply(local_tensor, mesh, placements, run_check, shape, stride, grad_placements)

    def to_local(self, *, grad_placements=None):
        """The part of this process.  Its gradient has the same placements, or ``grad_placements``."""
        if not (torch.is_grad_enabled() and self.requires_grad):
            return self._local_tensor
        return ToLocal.apply(self, grad_placements)

    def redistribute(self, device_mesh=None, placements=None, *, async_op=False, forward_dtype=None,
                     backward_dtype=None) -> DTensor:
        """The same tensor with other placements.  NotImplementedError for another mesh."""
        mesh = device_mesh or self._spec.mesh
        if mesh != self._spec.mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        placements = checked(placements, mesh, self.dim())
        if forward_dtype is not None:
            self = self.to(forward_dtype)
        if torch.is_grad_enabled() and self.requires_grad:
            return Redistribute.apply(self, placements, backward_dtype)
        return relaid(self, placements)

    def full_tensor(self, *, grad_placements=None):
        """Returns the full tensor, in every process."""
        return self.redistribute(self._spec.mesh,
                                 (Replicate(),) * self._spec.mesh.ndim).to_local(grad_placements=grad_placements)

    # --- checkpoints --------------------------------------------------------------------------------------------------
    def _box(self):
        coordinate = self._spec.mesh.get_coordinate()
        return None if coordinate is None else box(tuple(self.shape), self._spec.placements, self._spec.mesh.shape,
                                                   tuple(coordinate))

    def __create_chunk_list__(self):
        if any(isinstance(p, Partial) for p in self._spec.placements):
            raise RuntimeError("a DTensor of terms (Partial) is neither saved nor loaded: redistribute it first")
        found = self._box()
        return [] if found is None or 0 in found[0] and 0 not in self.shape else [
            ChunkStorageMetadata(torch.Size(found[1]), torch.Size(found[0]))]

    def __create_write_items__(self, fqn, object):
        from ..checkpoint.planner import TensorWriteData, WriteItem, WriteItemType
        properties = TensorProperties(self.dtype, torch.strided, bool(self.requires_grad))
        return [WriteItem(MetadataIndex(fqn, chunk.offsets), WriteItemType.SHARD,
                          tensor_data=TensorWriteData(chunk, properties, torch.Size(self.shape)))
                for chunk in self.__create_chunk_list__()]

    def __get_tensor_shard__(self, index):
        return self._local_tensor


def relaid(tensor, placements) -> DTensor:
    """Return a DTensor with other placements, without history."""
    spec = tensor._spec
    if spec.placements == placements:
        return DTensor.wrapped(tensor._local_tensor, spec.mesh, placements, tensor._rush_meta)
    local = redistributed(tensor._local_tensor, tuple(tensor.shape), spec.mesh, spec.placements, placements)
    return DTensor.wrapped(local, spec.mesh, placements, tensor._rush_meta)


def whole_gradient(placements) -> tuple:
    """Return the placements of a tensor's gradient: Partial becomes Replicate."""
    return tuple(Replicate() if isinstance(p, Partial) else p for p in placements)


def restored(local, mesh, placements, shape, stride, requires_grad) -> DTensor:
    """Return an unpickled DTensor: this process has the part of the process that pickled it."""
    return DTensor.wrapped(local, mesh, placements, Meta(shape, stride, local.dtype)).requires_grad_(requires_grad)


def current_mesh():
    """Return the mesh of the innermost ``with`` block.  RuntimeError outside of all."""
    if not ENTERED.meshes:
        raise RuntimeError("No device mesh is currently active!")
    return ENTERED.meshes[-1]


def same_everywhere(local, mesh, sizes: bool):
    """Raise ValueError if the parts of a mesh's processes differ in dtype, or in sizes and strides."""
    what = (str(local.dtype), str(local.layout), bool(local.requires_grad),
            (tuple(local.shape), local.stride()) if sizes else None)
    for k in range(mesh.ndim):
        group = mesh.get_group(k)
        told = [None] * transport.size(group)
        collectives.all_gather_object(told, what, group=group)
        if any(other != what for other in told):
            raise ValueError(f"Inconsistent tensor metadata {'(including shape and stride) ' if sizes else ''}across "
                             f"ranks: {told}")


class FromLocal(torch.autograd.Function):
    """A part as a DTensor."""

    @staticmethod
    def forward(ctx, local, mesh, placements, run_check, shape, stride, grad_placements):
        ctx.mesh, ctx.placements, ctx.grad_placements = mesh, placements, grad_placements
        beside = mesh.get_coordinate() is None  # this process has no part
        if run_check and not beside:
            same_everywhere(local, mesh, shape is None)
            for k, placement in enumerate(placements):
                if placement.is_replicate():
                    local = transport.sent(local, mesh.get_group(k))
        sizes = list(local.shape if shape is None else shape)
        strides = list(local.stride())
        for k, placement in enumerate(placements if shape is None else ()):
            if isinstance(placement, Shard):
                before = sizes[placement.dim]
                sizes[placement.dim] *= mesh.size(k)
                strides = [s * mesh.size(k) if s >= strides[placement.dim] * before and n != placement.dim else s
                           for n, s in enumerate(strides)]
        meta = (Meta.of(tuple(sizes), local.dtype) if shape is not None and stride is None
                else Meta(tuple(sizes), tuple(stride or strides), local.dtype))
        if beside:
            return DTensor.wrapped(local.new_empty(0), mesh, placements, meta)
        expected = box(tuple(sizes), placements, mesh.shape, tuple(mesh.get_coordinate()))[0]
        if tuple(local.shape) != expected:
            raise RuntimeError(
                f"from_local(shape={sizes}, placements={placements}): this process has a part of shape "
                f"{list(local.shape)}, where {list(expected)} is its part")
        return DTensor.wrapped(local.view_as(local), mesh, placements, meta)

    @staticmethod
    def backward(ctx, gradient):
        wanted = tuple(ctx.grad_placements or whole_gradient(ctx.placements))
        local = relaid(gradient, wanted)._local_tensor
        for k, placement in enumerate(ctx.placements):
            if placement.is_partial("avg"):
                local = local / ctx.mesh.size(k)
        return local, None, None, None, None, None, None


class ToLocal(torch.autograd.Function):
    """A DTensor's part."""

    @staticmethod
    def forward(ctx, tensor, grad_placements):
        ctx.spec, ctx.meta = tensor._spec, tensor._rush_meta
        ctx.grad_placements = grad_placements or whole_gradient(tensor._spec.placements)
        return tensor._local_tensor.view_as(tensor._local_tensor)

    @staticmethod
    def backward(ctx, gradient):
        return DTensor.wrapped(gradient, ctx.spec.mesh, ctx.grad_placements, ctx.meta), None


class Redistribute(torch.autograd.Function):
    """Changes the placements of a DTensor."""

    @staticmethod
    def forward(ctx, tensor, placements, backward_dtype):
        ctx.before, ctx.dtype, ctx.own = whole_gradient(tensor._spec.placements), backward_dtype, tensor.dtype
        return relaid(tensor, placements)

    @staticmethod
    def backward(ctx, gradient):
        if ctx.dtype is not None:
            gradient = gradient.to(ctx.dtype)
        return relaid(gradient, ctx.before).to(ctx.own), None, None


def distribute_tensor(tensor, device_mesh=None, placements=None, *, src_data_rank: int | None = 0) -> DTensor:
    """A leaf that each process has the same of, or that of process ``src_data_rank`` of each row (None: its own), as a
    DTensor.

    >>> import rushlight as torch
    >>> from rushlight.distributed.tensor import distribute_tensor, init_device_mesh, Shard
    >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    >>> x = distribute_tensor(torch.arange(4.0), init_device_mesh("cpu", (1,)), [Shard(0)])
    >>> (x * 2).sum().full_tensor()
    tensor(12.)
    >>> torch.distributed.destroy_process_group()
    """
    mesh = device_mesh or current_mesh()
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh:
            raise ValueError(
                f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a different device mesh {mesh}.")
        if tensor.placements != checked(placements, mesh, tensor.dim()):
            raise ValueError(
                f"Cannot distribute a DTensor with placements {tensor.placements} to a different placements "
                f"{placements}. do you want to call `redistribute` instead?")
        return tensor
    if not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!")
    if placements is not None and len(placements) != mesh.ndim:
        raise ValueError(
            "`placements` must have the same length as `device_mesh.ndim`! Found placements length: "
            f"{len(placements)}, and device_mesh.ndim: {mesh.ndim}.")
    placements = checked(placements, mesh, tensor.dim())
    local, whole = mesh.taken(tensor.detach()), (Replicate(),) * mesh.ndim
    if mesh.get_coordinate() is None:
        made = DTensor.wrapped(local.new_empty(0), mesh, placements, tensor._rush_meta)
    else:
        if src_data_rank is not None and not tensor.is_meta:
            for k in range(mesh.ndim):
                local = transport.sent(local, mesh.get_group(k), src_data_rank)
        made = DTensor.wrapped(redistributed(local, tuple(tensor.shape), mesh, whole, placements,
                                             "distribute_tensor").clone(), mesh, placements, tensor._rush_meta)
    return made.requires_grad_(tensor.requires_grad)


def made(name):
    """Return a factory of DTensors: each process has its part of the tensor that one process would make."""
    def make(*size, dtype=None, layout=torch.strided, requires_grad=False, device_mesh=None, placements=None, **more):
        mesh = device_mesh or current_mesh()
        sizes = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else tuple(size)
        whole = (Replicate(),) * mesh.ndim
        placements = checked(placements, mesh, len(sizes))
        meta = Meta.of(sizes, dtype or torch.get_default_dtype())
        more["device"] = mesh.device_type
        if mesh.get_coordinate() is None:  # a process outside the mesh has no part
            return DTensor.wrapped(torch.empty(0, dtype=dtype, device=mesh.device_type), mesh, placements,
                                   meta).requires_grad_(requires_grad)
        lengths = box(sizes, placements, mesh.shape, tuple(mesh.get_coordinate()))[0]
        if name in ("rand", "randn"):
            with _dispatch.Drawing(mesh):
                drawn = getattr(torch, name)(sizes, dtype=dtype, **more)
            local = redistributed(drawn, sizes, mesh, whole, placements).clone()
        else:
            local = getattr(torch, name)(lengths, dtype=dtype, **more)
            for k, placement in enumerate(placements):
                if placement.is_partial("sum") and mesh.get_coordinate()[k] and name != "empty":
                    local = torch.zeros_like(local)
        return DTensor.wrapped(local, mesh, placements, meta).requires_grad_(requires_grad)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"``torch.{name}`` as a DTensor: the same numbers as in one process."
    return make


ones, empty, zeros, rand, randn = map(made, ("ones", "empty", "zeros", "rand", "randn"))


def full(size, fill_value, *, dtype=None, requires_grad=False, device_mesh=None, placements=None,
         layout=torch.strided) -> DTensor:
    """``torch.full`` as a DTensor."""
    return made("full")(size, dtype=dtype or torch.full((), fill_value).dtype, fill_value=fill_value,
                        requires_grad=requires_grad, device_mesh=device_mesh, placements=placements)


__getattr__ = later(__name__, {"._modules": ("distribute_module",)})  # lazy: it imports this module
add_safe_globals([restored, DeviceMesh, device_mesh.restored, Partial, Replicate, Shard])

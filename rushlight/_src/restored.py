"""Rebuild tensors from the parts that a checkpoint's pickle stores."""
from __future__ import annotations

import math

from .core.convert import jagged, layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided
from .core.copying import OWN, slots_of
from .core.dtypes import bool_
from .core.errors import CorruptFileError
from .core.meta import CONJUGATED, NEGATED, Meta
from .core.native import Tensor, wrap
from .core.op import OPS
from .core.quantized import WHOLE, PerTensor, per_channel_affine, per_channel_affine_float_qparams, per_tensor_affine
from ..nn.parameter import Parameter

LAYOUTS = strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc
REMEDY = "copy or write the file again"
TURNED = {"conj": CONJUGATED, "neg": NEGATED}  # names of the bits of ``Meta.turned`` in files


class ScriptObject:
    """A pickled object of a PyTorch C++ class, a prepacked weight; ``made`` is the equivalent Rushlight object.

    CorruptFileError for other classes.
    """

    made = None

    def __setstate__(self, state):
        from .ops.quantized_recurrent import MAKERS
        parts, name = state
        if name not in MAKERS:
            raise CorruptFileError(f"an object of the class {name}", f"one of {', '.join(MAKERS)}")
        self.made = MAKERS[name](parts)


def found(value):
    """Return a value of a file; for a ScriptObject, its ``made``."""
    return value.made if type(value) is ScriptObject else value


def rebuild_tensor(storage, offset, size, stride, requires_grad=False, hooks=None, metadata=None):
    """Tensor over a storage.  CorruptFileError if it would exceed it."""
    return rebuild_as(storage, offset, size, stride, requires_grad, hooks, storage.dtype, metadata)


def rebuild_as(storage, offset, size, stride, requires_grad, hooks, dtype, metadata=None):
    """Tensor of this dtype over the bytes of a storage; ``metadata`` names the bits of ``Meta.turned`` that are set."""
    memory = storage.elements
    numbers = (offset, *size, *stride)
    if len(size) != len(stride) or not all(type(n) is int and n >= 0 for n in numbers):
        raise CorruptFileError(f"a tensor with sizes {size}, strides {stride} and start {offset}",
                               "one stride for each size, none below 0")
    turned = sum(bit for name, bit in TURNED.items() if type(metadata) is dict and metadata.get(name))
    if turned & CONJUGATED and not dtype.is_complex or turned and dtype is bool_:
        raise CorruptFileError(f"a tensor of {dtype} with the bits {' and '.join(metadata)}",
                               "a complex dtype for conjugated elements", REMEDY)
    meta, nbytes = Meta(tuple(size), tuple(stride), dtype, memory.device, turned), memory.numel() * memory.itemsize
    if offset * dtype.itemsize + meta.nbytes > nbytes and meta.numel:
        raise CorruptFileError(
            f"a tensor with sizes {list(size)}, strides {list(stride)} and start {offset} of {dtype} does not fit "
            "into its storage "
            f"of {nbytes} bytes", "a storage that contains it", REMEDY)
    tensor = wrap(memory._rush_storage, offset + memory._rush_offset * memory.itemsize // dtype.itemsize, meta,
                  meta.itemsize)
    return tensor.requires_grad_() if requires_grad else tensor


def quantizer_parts(tensor) -> tuple:
    """Quantization scheme of a tensor in the format of files: qscheme, scales, zero points, and their dimension."""
    found = tensor._rush_meta.dtype.scheme
    if type(found) is PerTensor:
        return found.kind, found.scale, found.zero_point
    return found.kind, tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points(), found.axis


def rebuild_quantized(storage, offset, size, stride, parts, requires_grad=False, hooks=None):
    """Quantized tensor over a storage of integers.  CorruptFileError if it exceeds the storage or has no valid
    scheme."""
    whole = rebuild_tensor(storage, offset, size, stride)
    base = next((base for base, found in WHOLE.items() if found is whole.dtype), None)
    kind = parts[0] if type(parts) is tuple and parts else None
    if base is None or kind not in (per_tensor_affine, per_channel_affine,
                                    per_channel_affine_float_qparams) or len(parts) != (3 if kind is per_tensor_affine
                                                                                        else 4):
        raise CorruptFileError(f"a quantized tensor of {whole.dtype} with {parts}",
                               "integers, and a scheme with its scales and zero points", REMEDY)
    if kind is per_tensor_affine:
        return OPS["_with_meaning"](whole, float(parts[1]), int(parts[2]), base)
    scales, zero_points, axis = parts[1:]  # PyTorch writes fractional zero points under the qscheme of integral ones
    floating = kind is per_channel_affine_float_qparams or zero_points.is_floating_point()
    return OPS["_with_meanings"](whole, (tuple(scales.tolist()), tuple(zero_points.tolist()), int(axis), floating),
                                 base)


def rebuild_meta(dtype, size, stride, requires_grad):
    """Return a meta tensor."""
    tensor = OPS["empty_strided"](tuple(size), tuple(stride), dtype=dtype, device="meta")
    return tensor.requires_grad_() if requires_grad else tensor


def rebuild_parameter(data, requires_grad=True, hooks=None):
    """Return a Parameter over the storage of a tensor."""
    return Parameter(data, requires_grad)


def rebuild_parameter_with_state(data, requires_grad, hooks, state):
    """Return a Parameter with additional attributes."""
    return with_state(Parameter(data, requires_grad), state)


def rebuild_from_type(function, kind, args, state):
    """Return a tensor of the user's class, with attributes.  CorruptFileError if the parts are not those of a
    tensor."""
    if function not in BUILDERS.values() or not (isinstance(kind, type) and issubclass(kind, Tensor)):
        raise CorruptFileError(f"{function!r} should make an object of {kind!r}", "a tensor's parts, and its class",
                               REMEDY)
    made = function(*args)
    if kind not in (Tensor, type(made)):
        made = made.as_subclass(kind)
    own = getattr(kind, "__setstate__", None)
    if own is None:
        return with_state(made, state)
    own(made, state)
    return made


def rebuild_wrapper(kind, dtype, size, stride, storage_offset, layout, device, requires_grad):
    """Return a tensor without storage of a class with ``__torch_dispatch__``."""
    if not (isinstance(kind, type) and issubclass(kind, Tensor)):
        raise CorruptFileError(f"{kind!r} should be the class of a tensor", "a subclass of Tensor", REMEDY)
    return Tensor._make_wrapper_subclass(kind, tuple(size), strides=tuple(stride), storage_offset=storage_offset,
                                         dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def with_state(made: Tensor, state):
    """Set attributes of a tensor: from a dict, or a pair of one and the values of ``__slots__``."""
    state, slots = state if isinstance(state, tuple) else (state, None)
    for name, value in {**(state or {}), **(slots or {})}.items():
        if name not in OWN:
            setattr(made, name, value)
    return made


def attributes(tensor: Tensor):
    """Attributes that a user gave a tensor; a pair of them and the values of ``__slots__``, if its class has some."""
    own = getattr(type(tensor), "__parts__", ())  # attributes that the class itself uses
    found = {name: value for name, value in vars(tensor).items()
             if name not in OWN and name != "_wraps" and name not in own}
    slots = slots_of(tensor)
    return (found, slots) if slots else found


def sparse_parts(tensor):
    """Components of a sparse tensor, in PyTorch's file format."""
    if tensor.layout is sparse_coo:
        return tensor._indices(), tensor._values().detach(), tensor.shape, tensor.is_coalesced()
    if tensor.layout in (sparse_csr, sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values().detach(), tensor.shape
    return tensor.ccol_indices(), tensor.row_indices(), tensor.values().detach(), tensor.shape


def layout_named(name) -> layout:
    """Return the layout of this name.  CorruptFileError for others."""
    found = {str(known): known for known in (*LAYOUTS, jagged)}.get(name)
    if found is None:
        raise CorruptFileError(f"a tensor with the layout {name}", "torch.strided, or one of those of sparse tensors",
                               "convert it with to_dense() before it is saved")
    return found


def rebuild_sparse(layout, parts):
    """Return a sparse tensor with the components of ``sparse_parts``; files from before PyTorch 2.0 do not say if it is
    coalesced."""
    from ..sparse.compressed import sparse_compressed_tensor
    from ..sparse.tensor import sparse_coo_tensor

    if layout is sparse_coo:
        indices, values, size, *coalesced = parts
        return sparse_coo_tensor(indices, values, tuple(size), is_coalesced=coalesced[0] if coalesced else None)
    return sparse_compressed_tensor(*parts[:3], tuple(parts[3]), layout=layout)


def rebuild_nested(rows, starts, lengths, at, layout):
    """Return a nested tensor from its parts.  RuntimeError for inconsistent parts."""
    from ..nested.tensor import restored
    made = restored(rows, starts, lengths, at, layout)
    made.ragged.check(rows.size(at - 1))
    return made


def rebuild_uneven(elements, sizes):
    """Return a nested tensor whose examples differ in several sizes.  RuntimeError if the sizes need another number of
    elements."""
    from ..nested.uneven import made_uneven
    sizes = [tuple(map(int, one)) for one in sizes]
    if elements.dim() != 1 or len({len(one) for one in sizes}) > 1 or any(min(one, default=0) < 0 for one in sizes) or (
            sum(map(math.prod, sizes)) != elements.numel()):
        raise RuntimeError(f"examples of sizes {sizes[:8]} do not have the elements of size {list(elements.shape)}")
    return made_uneven(elements, sizes)


BUILDERS = {"_rebuild_tensor_v2": rebuild_tensor, "_rebuild_tensor_v3": rebuild_as,
            "_rebuild_meta_tensor_no_storage": rebuild_meta, "_rebuild_qtensor": rebuild_quantized,
            "_rebuild_sparse_tensor": rebuild_sparse,
            "_rebuild_parameter": rebuild_parameter, "_rebuild_parameter_with_state": rebuild_parameter_with_state,
            "_rebuild_wrapper_subclass": rebuild_wrapper}

"""Questions about shapes, strides and dtypes, by the names of ``torch._prims_common``: the answers are those of
``core``."""
from __future__ import annotations

import functools
import operator
from enum import Enum

from ._src.core import dtypes as kinds
from ._src.core import meta as layout
from ._src.core.convert import channels_last, channels_last_3d, contiguous_format, preserve_format
from ._src.core.convert import strided as strided_layout
from ._src.core.devices import device as make_device, is_host
from ._src.core.kinds import layout_like
from ._src.core.native import Tensor

ELEMENTWISE_TYPE_PROMOTION_KIND = Enum("ELEMENTWISE_TYPE_PROMOTION_KIND", {n: (k,) for k, n in enumerate(
    "DEFAULT NO_OPMATH INT_TO_FLOAT ALWAYS_BOOL COMPLEX_TO_FLOAT BOOL_TO_LONG".split())}, module="torch._prims_common")
REDUCTION_OUTPUT_TYPE_KIND = Enum("REDUCTION_OUTPUT_TYPE_KIND",
                                  {n: (k,) for k, n in enumerate(
                                      "SAME COMPLEX_TO_FLOAT KEEP_PROMOTED_TYPE ALWAYS_BOOL".split())},
                                  module="torch._prims_common")
ORDERED = bool, int, float, complex
HALVES = kinds.float16, kinds.bfloat16, kinds.complex32


def check(b, s, exc_type=RuntimeError) -> None:
    """Raises an error of this type with the text of ``s()`` unless ``b``."""
    if not b:
        raise exc_type(s())


# Dimensions

def canonicalize_dim(rank: int, idx: int, wrap_scalar: bool = True) -> int:
    """A dimension counted from the front.  IndexError where there is none; a scalar has one unless ``wrap_scalar`` is
    False.

    >>> from rushlight._prims_common import canonicalize_dims
    >>> canonicalize_dims(3, (0, -1))
    (0, 2)
    """
    if rank < 0:
        raise IndexError(f"Rank cannot be negative but got {rank}")
    if rank == 0:
        if not wrap_scalar:
            raise IndexError(f"Dimension specified as {idx} but tensor has no dimensions")
        rank = 1
    if not -rank <= idx < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {idx})")
    return idx % rank


def canonicalize_dims(rank: int, indices, wrap_scalar: bool = True):
    """Dimensions counted from the front: one, or a tuple."""
    return canonicalize_dim(rank, indices,
                            wrap_scalar) if isinstance(indices, int) else tuple(canonicalize_dim(rank, k, wrap_scalar)
                                                                                for k in indices)


def is_valid_permutation(rank: int, perm) -> bool:
    return isinstance(perm, (tuple, list)) and sorted(perm) == list(range(rank))


def apply_perm(inp, perm) -> list:
    return [inp[k] for k in perm]


def invert_perm(perm) -> list:
    return sorted(range(len(perm)), key=perm.__getitem__)


def validate_no_repeating_dims(dims):
    check(len(dims) == len(set(dims)), lambda: "duplicate value in the list of dims")


def reduction_dims(shape, dims) -> tuple:
    """The dimensions of a reduction, all of them for None.  RuntimeError for one that is named twice."""
    if dims is None:
        return tuple(range(len(shape)))
    dims = tuple(canonicalize_dim(len(shape), k) for k in dims)
    validate_no_repeating_dims(dims)
    return dims


def set_correction(unbiased: bool | None = None, correction=None) -> float:
    """The correction of a variance, 1 where nothing is said.  RuntimeError where both are."""
    check(unbiased is None or correction is None, lambda: "cannot specify both correction and unbiased arguments")
    return 1.0 if correction is None and unbiased is None else float(unbiased) if correction is None else float(
        correction)


# Shapes

def validate_dim_length(length: int):
    check(length >= 0, lambda: f"a size must not be negative, but one is {length}")


def validate_shape(shape):
    for length in shape:
        validate_dim_length(length)


def validate_strides(strides):
    for stride in strides:
        check(stride >= 0, lambda: f"stride must be non-negative, got {stride}", AssertionError)


def is_same_shape(a, b) -> bool:
    return tuple(a) == tuple(b)


same_shape = is_same_shape


def extract_dims_from_varargs(dims):
    """Dimensions that were given one by one, or as one tuple."""
    return dims[0] if dims and isinstance(dims[0], (tuple, list)) else dims


def infer_size(shape, numel: int) -> tuple:
    """A shape in which -1 stands for what is left.  RuntimeError where elements do not come out."""
    known = layout.product([size for size in shape if size != -1])
    unknown = list(shape).count(-1)
    if unknown > 1 or (numel != known if not unknown else known == 0 or numel % known):
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    return tuple(numel // known if size == -1 else size for size in shape)


def extract_shape_from_varargs(shape, validate=True) -> tuple:
    """A shape that was given size by size, or as one tuple."""
    shape = tuple(extract_dims_from_varargs(shape))
    if validate:
        validate_shape(shape)
    return shape


def infer_size_shapes(a, b) -> tuple:
    """The shape that both expand to."""
    return layout.broadcast(tuple(a), tuple(b))


def is_expandable_to(shape, desired) -> bool:
    return len(shape) <= len(desired) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(desired)))


def compute_reduction_output_shape(shape, dimensions) -> tuple:
    return tuple(size for k, size in enumerate(shape) if k not in dimensions)


def prod(xs):
    return functools.reduce(operator.mul, xs, 1)


# Strides

def make_contiguous_strides_for(shape, row_major: bool = True) -> tuple:
    """Strides of elements that follow each other: rows, or (not ``row_major``) the last two dimensions by columns."""
    strides = layout.row_major(tuple(shape))
    if row_major or len(shape) < 2:
        return strides
    return *strides[:-2], 1, max(shape[-2], 1)


def channels_strides(rank):
    def strides_for(shape) -> tuple:
        check(len(shape) == rank, lambda: f"Only tensors of rank {rank} can use this memory format")
        return layout.channels_last_strides(tuple(max(size, 1) for size in shape))

    return strides_for


make_channels_last_1d_strides_for, make_channels_last_2d_strides_for, make_channels_last_3d_strides_for = map(
    channels_strides, (3, 4, 5))


def make_channels_last_strides_for(shape) -> tuple:
    """Return channels-last strides for 3, 4 or 5 dimensions."""
    check(len(shape) in (3, 4, 5), lambda: f"no channels last format strides exist in {len(shape)} dimensions")
    return channels_strides(len(shape))(shape)


def is_contiguous(a, false_if_dde=False) -> bool:
    return a.is_contiguous()


def is_channels_last_contiguous_2d(a, false_if_dde=False) -> bool:
    return a.dim() == 4 and a.is_contiguous(memory_format=channels_last)


def is_channels_last_contiguous_3d(a, false_if_dde=False) -> bool:
    return a.dim() == 5 and a.is_contiguous(memory_format=channels_last_3d)


def is_channels_last_contiguous(a) -> bool:
    return is_channels_last_contiguous_2d(a) or is_channels_last_contiguous_3d(a)


def is_contiguous_for_memory_format(a, *, memory_format, false_if_dde=False) -> bool:
    validate_memory_format(memory_format)
    return {contiguous_format: is_contiguous, channels_last: is_channels_last_contiguous_2d,
            channels_last_3d: is_channels_last_contiguous_3d}[memory_format](a)


is_contiguous_or_false, is_contiguous_for_memory_format_or_false = is_contiguous, is_contiguous_for_memory_format
is_channels_last_contiguous_or_false = is_channels_last_contiguous
is_channels_last_contiguous_or_false_2d, is_channels_last_contiguous_or_false_3d = (is_channels_last_contiguous_2d,
                                                                                    is_channels_last_contiguous_3d)


def validate_memory_format(memory_format):
    check(memory_format in (contiguous_format, channels_last, channels_last_3d, preserve_format),
          lambda: f"Received unknown memory format {memory_format}!")


def check_contiguous_sizes_strides(sizes, strides, false_if_dde=False) -> bool:
    return layout.is_contiguous(tuple(sizes), tuple(strides))


def is_non_overlapping_and_dense_or_false(a) -> bool:
    """Whether the elements of a tensor fill memory without gaps and none twice."""
    return a.numel() == 0 or layout.dense_strides(a.shape, a.stride()) is not None


def suggest_memory_format(x):
    return channels_last if is_channels_last_contiguous_2d(
        x) and not x.is_contiguous() else channels_last_3d if is_channels_last_contiguous_3d(
            x) and not x.is_contiguous() else contiguous_format


def compute_elementwise_output_strides(*tensors) -> tuple:
    """Strides of the result of an elementwise operator."""
    found = [t for t in tensors if isinstance(t, Tensor) and not is_cpu_scalar_tensor(t)] or [t for t in tensors
                                                                                              if isinstance(t, Tensor)]
    return layout_like(layout.broadcast(*(t.shape for t in found)), [t._rush_meta for t in found],
                       len(found) == 1) if found else ()


def compute_required_storage_length(shape, strides, storage_offset: int) -> int:
    """How many elements a storage needs."""
    reach = layout.span(tuple(shape), tuple(strides))
    return reach + storage_offset if reach else 0


def check_in_bounds_for_storage(a, shape, strides, storage_offset: int):
    needed = compute_required_storage_length(shape, strides, storage_offset)
    check(needed <= a.size(),
          lambda: f"Can't view a storage of size {a.size()} with an offset of {storage_offset}, shape of "
                  f"{tuple(shape)}, and strides of {tuple(strides)}, "
                                      f"which requires a storage of size {needed}", ValueError)


def clone_preserve_strides(x):
    """A copy with the strides of the tensor, gaps and overlaps included."""
    whole = x.as_strided((compute_required_storage_length(x.shape, x.stride(), 0),), (1,)).clone()
    return whole.as_strided(x.shape, x.stride(), 0)


def check_all_strides(a, b, *, only_cuda=True):
    """(True if two tensors have equal strides, the first dimension that differs); CPU only with ``only_cuda=False``."""
    differs = next((k for k, (m, n) in enumerate(zip(a.stride(), b.stride())) if m != n),
                   None) if not only_cuda else None
    return differs is None, differs


def check_significant_strides(a, b, *, only_cuda=True, allow_rhs_unbacked=False):
    """``check_all_strides`` in dimensions of more than one element."""
    if only_cuda or not a.numel():
        return True, None
    differs = next((k for k, (m, n, size) in enumerate(zip(a.stride(), b.stride(), a.shape)) if m != n and size > 1),
                   None)
    return differs is None, differs


# Dtypes

def is_boolean_dtype(dtype) -> bool:
    return dtype is kinds.bool_


def is_integer_dtype(dtype) -> bool:
    return dtype.category == kinds.INTEGER


def is_float_dtype(dtype) -> bool:
    return dtype.is_floating_point


def is_complex_dtype(dtype) -> bool:
    return dtype.is_complex


def is_grad_dtype(dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def is_low_precision_dtype(dtype) -> bool:
    return dtype in HALVES


def corresponding_real_dtype(dtype):
    return dtype.to_real()


def corresponding_complex_dtype(dtype):
    return dtype.to_complex()


def dtype_to_type(dtype) -> type:
    """Python's type of the numbers of a dtype."""
    return ORDERED[dtype.category]


dtype_to_type_ctor = dtype_to_type


def type_to_dtype(typ: type):
    """The dtype of a Python type, floats that of the default.  ValueError for other types."""
    if typ not in ORDERED:
        raise ValueError(f"Invalid type {typ}!")
    return kinds.default_of(ORDERED.index(typ))


def number_type(x) -> type:
    return next(kind for kind in ORDERED if isinstance(x, kind))


def get_dtype(x):
    return x.dtype if isinstance(x, Tensor) else type_to_dtype(type(x))


def get_higher_type(a: type, b: type) -> type:
    return max(a, b, key=ORDERED.index)


def is_weakly_lesser_type(a: type, b: type) -> bool:
    return ORDERED.index(a) <= ORDERED.index(b)


def get_higher_dtype(a, b):
    """Return the dtype that two dtypes, tensors or scalars promote to; the other one if one of them is None."""
    found = [x if x is None or isinstance(x, kinds.dtype) else get_dtype(x) for x in (a, b)]
    return found[0] or found[1] if None in found else kinds.promote(*found)


def can_safe_cast_to(*, cast_to, cast_from) -> bool:
    return kinds.can_cast(cast_from, cast_to)


def get_computation_dtype(dtype):
    """The dtype in which an operator computes with numbers of a dtype."""
    return {kinds.complex32: kinds.complex64}.get(dtype, kinds.float32) if dtype in HALVES else dtype


def get_acc_type(dtype, device):
    """The dtype in which sums of a dtype are carried in PyTorch."""
    wide = get_computation_dtype(dtype)
    return {kinds.float32: kinds.float64,
            kinds.complex64: kinds.complex128}.get(wide, wide) if is_host(make_device(device)) else wide


def elementwise_dtypes(*_args, type_promotion_kind):
    """(dtype in which an elementwise operator computes, dtype of its result) for these arguments.

    >>> import rushlight as torch
    >>> from rushlight._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
    >>> elementwise_dtypes(torch.ones(2, dtype=torch.int8), 2.5, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)
    (torch.float32, torch.float32)
    """
    values = [x for x in _args if x is not None]
    tensors = [x for x in values if isinstance(x, Tensor)]
    result = kinds.result_type([t.dtype for t in tensors if t.dim()], [t.dtype for t in tensors if not t.dim()],
                               [kinds.category_of(x) for x in values if not isinstance(x, Tensor)])
    kind, wide = type_promotion_kind.name, result
    if kind == "INT_TO_FLOAT" and result.category < kinds.FLOATING:
        wide = result = kinds.Defaults.floating
    if kind == "BOOL_TO_LONG" and result is kinds.bool_:
        wide = result = kinds.int64
    wide = wide if kind == "NO_OPMATH" else get_computation_dtype(wide)
    result = (result.to_real() if kind == "COMPLEX_TO_FLOAT" and result.is_complex else kinds.bool_
              if kind == "ALWAYS_BOOL" else result)
    return wide, result


def reduction_dtypes(arg, output_dtype_kind, dtype=None):
    """(dtype in which a reduction computes, dtype of its result; None where it is that in which it computes)."""
    given = arg.dtype if dtype is None else dtype
    result = {"SAME": given, "COMPLEX_TO_FLOAT": given.to_real() if given.is_complex else given,
              "KEEP_PROMOTED_TYPE": None, "ALWAYS_BOOL": kinds.bool_}[output_dtype_kind.name]
    return get_computation_dtype(given), result


# Tensors and devices

def is_cpu_scalar_tensor(a) -> bool:
    return isinstance(a, Tensor) and a.dim() == 0 and is_host(a.device)


def of_all(args, allow_cpu_scalar_tensors=False) -> list:
    """The tensors among arguments, but those of one number where these do not count."""
    return [x for x in args if isinstance(x, Tensor) and not (allow_cpu_scalar_tensors and is_cpu_scalar_tensor(x))]


def check_same_device(*args, allow_cpu_scalar_tensors):
    for x in (found := of_all(args, allow_cpu_scalar_tensors)):
        check(x.device == found[0].device,
              lambda: f"Tensor on device {x.device} is not on the expected device {found[0].device}!")


def check_same_shape(*args, allow_cpu_scalar_tensors: bool):
    for x in (found := of_all(args, allow_cpu_scalar_tensors)):
        check(x.shape == found[0].shape, lambda: f"Shape {x.shape} is not the expected shape {found[0].shape}!")


def check_same_dtype(*args):
    for x in (found := of_all(args)):
        check(x.dtype is found[0].dtype,
              lambda: f"Tensor with dtype {x.dtype} is not the expected dtype of {found[0].dtype}!")


def extract_shape(*args, allow_cpu_scalar_tensors: bool):
    """The shape that tensors have in common; None where they have not."""
    found = of_all(args, allow_cpu_scalar_tensors) or of_all(args)
    return found[0].shape if found and all(x.shape == found[0].shape for x in found) else None


def check_fp_or_complex(dtype, fn_name: str, allow_low_precision_dtypes: bool = True):
    check(is_grad_dtype(dtype), lambda: f"{fn_name}: Expected a floating point or complex tensor as input. Got {dtype}")
    check(allow_low_precision_dtypes or not is_low_precision_dtype(dtype),
          lambda: f"{fn_name}: Half precision dtypes not supported. Got {dtype}")


def check_is_matrix(A, f_name: str, arg_name: str = "A"):
    check(A.dim() >= 2, lambda: f"{f_name}: The input tensor {arg_name} must have at least 2 dimensions.")


def check_pin_memory(pin_memory: bool):
    check(not pin_memory, lambda: "pinned memory is not supported here", NotImplementedError)


def check_layout(layout):
    check(layout is strided_layout, lambda: f"layout={layout} is not supported here", NotImplementedError)


def canonicalize_device(device):
    return make_device(device)


def dtype_or_default(dtype):
    return kinds.Defaults.floating if dtype is None else dtype


def device_or_default(device):
    return make_device("cpu") if device is None else device


def layout_or_default(layout):
    return strided_layout if layout is None else layout


def mask_tensor(mask, t):
    """A tensor where ``mask`` holds, 0 elsewhere."""
    return t.where(mask, 0)


def compare_tensor_meta(a, b, check_sizes=True, check_strides=False, *, allow_rhs_unbacked=False, check_conj=True):
    """AssertionError unless both are tensors of one dtype and device and, as asked, one shape; RuntimeError where
    ``check_strides`` and ``check_conj`` ask for the same strides and marks of conjugates, and these differ."""
    assert isinstance(a, Tensor) and isinstance(b, Tensor), f"two tensors, not {type(a)} and {type(b)}"
    if check_sizes and not is_same_shape(a.shape, b.shape):
        raise AssertionError(f"Shapes {a.shape} and {b.shape} are not equal!")
    if a.dtype != b.dtype:
        raise AssertionError(f"Dtypes {a.dtype} and {b.dtype} are not equal!")
    if a.device != b.device:
        raise AssertionError(f"Devices {a.device} and {b.device} are not equal!")
    if check_strides and not check_significant_strides(a, b)[0]:
        raise RuntimeError(f"Stride mismatch! Strides are {a.stride()} and {b.stride()}")
    if check_strides and a.storage_offset() != b.storage_offset():
        raise RuntimeError(f"Storage offset mismatch! They are {a.storage_offset()} and {b.storage_offset()}")
    if check_conj and a.is_conj() != b.is_conj():
        raise RuntimeError(f"Conj mismatch! is_conj is set to {a.is_conj()} and {b.is_conj()}")
    if a.is_neg() != b.is_neg():
        raise RuntimeError(f"Neg mismatch! is_neg is set to {a.is_neg()} and {b.is_neg()}")


def maybe_remove_out_wrapper(fn):
    """The function within one that writes into ``out=``; here there is one function, which does both."""
    return fn

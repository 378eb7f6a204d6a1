"""In-place operators: ``foo_`` derived from ``foo``, and those without another form."""
from __future__ import annotations

from ..core.convert import UntypedStorage, channels_last, channels_last_3d, contiguous_format
from ..core.devices import on
from ..core.dtypes import FLOATING, bool_, complex128, float64, int64
from ..core.errors import NegativeSizeError
from ..core.kinds import P
from ..core.meta import broadcast, channels_last_strides, row_major, suggests_channels_last
from ..core.interpret import is_inference_mode_enabled, is_recording
from ..core.native import Tensor, sharing, wrap
from ..core.op import OPS, Scalar, declare, declared_scalars, op
from ..core.tensor import check_size, empty_of, expect_gradients, refuse_leaf, take_memory
from ..core.undefined import settled
from .former import ORDERS, former
from .promotion import as_dtype, held, is_number
from .rearrange import check_rank


def derive():
    """Declare ``foo_`` for every operator that has an in-place form: the body of ``foo``, written into its first
    argument."""
    for operator in list(OPS.values()):
        if operator.traits.get("inplace_view"):
            derive_view(operator)
        if operator.traits.get("inplace_too"):
            if operator.traits.get("composite"):
                derive_composite(operator)
                continue
            declare(operator.name + "_", operator.body, None, operator.signature, declared_scalars(operator), into=0,
                    method=True, namespace="",
                    samples=(), doc=f"In-place {operator.name}.", second=operator.traits.get("second"),
                    moves=operator.traits.get("moves"),
                    some=operator.traits.get("some"), out_exact=operator.traits.get("out_exact"),
                    aliases=operator.traits.get("aliases", {}),
                    out_of_range=operator.traits.get("out_of_range", IndexError),
                    otherwise=former(operator.name, operator.name + "_") if operator.name in ORDERS else None)
            OPS[operator.name + "_"].rules.update(operator.rules)


def derive_composite(operator):
    def body(input, *args, **kwargs):
        return input.copy_(operator(input, *args, **kwargs))
    body.__name__ = operator.name + "_"
    op(body, composite=True, inplace=True, doc=f"In-place {operator.name}.")


def derive_view(operator):
    """``foo_`` for a view ``foo``: the tensor itself becomes the view."""
    def body(input, *args, **kwargs):
        if input._rush_needs_grad and input.is_leaf and is_recording():
            refuse_leaf(input)
        input._rush_become(operator(input, *args, **kwargs))
        return input
    body.__name__, body.__doc__ = operator.name + "_", f"In-place {operator.name}: no element moves."
    op(body, composite=True, inplace=True)


def instead(input, value):
    """Replace every element of the input by a value: the result depends on the input formally, so that its gradient is
    zero, not undefined."""
    return P.where(P.full(shape=(), value=False, dtype=bool_), input, value)


@op(into=0, inplace=True, uniform=True)
def fill_(input, value: Scalar):
    """Set every element to one value."""
    if isinstance(value, Tensor) and not is_number(value):
        if value.shape:
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {len(value.shape)} dimensions.")
    return instead(input, held(value, input.dtype))


@op(method=False)
def fill(input, value: Scalar):
    """A tensor like the input with every element set to one value.

    >>> import rushlight as rl
    >>> rl.fill(rl.arange(3), 7).tolist()
    [7, 7, 7]
    """
    return fill_.body(input, value)


@op(into=0, inplace=True, uniform=True)
def zero_(input):
    """Set every element to zero."""
    return instead(input, 0)


WIDEST = {bool: bool_, int: int64, float: float64, complex: complex128}


def of_number(src, non_blocking=False):
    """``copy_`` of a Python number, converted to a tensor."""
    if type(src) not in WIDEST:
        return None
    return lambda x: copy_(x, OPS["_filled"](src, (), WIDEST[type(src)], *on(x.device)))


@op(into=0, inplace=True, otherwise=of_number)
def copy_(input, src, non_blocking=False):
    """Copy the elements of src, converted and broadcast, into this tensor."""
    if broadcast(tuple(input.shape), tuple(src.shape)) != tuple(input.shape):
        raise RuntimeError(
            f"The size of tensor a ({list(input.shape)}) must match the size of tensor b ({list(src.shape)})")
    return instead(input, as_dtype(src, input.dtype))


@op(into=0, inplace=True, some=True)
def masked_fill_(input, mask, value: Scalar):
    """Write ``value`` where mask holds."""
    return masked_fill.body(input, mask, value)


@op
def masked_fill(input, mask, value: Scalar):
    """``value`` where mask holds, else the input."""
    if mask.dtype is not bool_:
        raise RuntimeError("masked_fill only supports boolean masks, but got mask of dtype " + str(mask.dtype))
    if isinstance(value, Tensor) and not is_number(value) and value.shape:
        raise RuntimeError(
            f"masked_fill only supports a 0-dimensional value tensor, but got tensor with {len(value.shape)} "
            "dimension(s).")
    if isinstance(value, Tensor) and value.dtype.category > max(input.dtype.category, FLOATING):
        raise RuntimeError(
            f"masked_fill: a value of {value.dtype} cannot be converted to type {input.dtype} without overflow")
    return P.where(mask, held(value, input.dtype), input)


def strides_in(memory_format, shape) -> tuple:
    """Strides of a tensor of this shape in a memory format; row-major ones for None.

    RuntimeError for preserve_format, and for a format that is for another number of dimensions.
    """
    name = "contiguous_format" if memory_format is None else memory_format.name
    if name == "preserve_format":
        raise RuntimeError("Unsupported memory format Preserve: a new shape needs contiguous_format, channels_last or "
                           "channels_last_3d")
    if name == "contiguous_format":
        return row_major(shape)
    check_rank(memory_format, shape)
    return channels_last_strides(shape)


def require_memory(input, name: str):
    """Raise NotImplementedError for a tensor that stands for others, whose memory cannot be replaced."""
    if getattr(input, "_wraps", False):
        raise NotImplementedError(
            f"{name} is not supported for a {type(input).__name__}, which has no memory of its own")
    if input._rush_storage is None and hasattr(input, "level"):
        raise NotImplementedError(
            f"{name} is not supported inside of a function that is being transformed, where a tensor stands for others "
            "and has no memory of its own: use the tensor that another operator returns")


@op(composite=True, inplace=True)
def resize_(input, *sizes, memory_format=None):
    """Change the shape; the storage grows if necessary (new elements are uninitialized).  Row-major or in
    ``memory_format``."""
    from .shape import sizes_of
    require_memory(input, "resize_")
    shape = tuple(sizes_of(sizes))
    meta = input._rush_meta.like(shape, strides_in(memory_format, shape))
    if any(s < 0 for s in meta.shape):
        raise NegativeSizeError(f"resize_: a size is negative in {list(meta.shape)}", "sizes of 0 or more")
    if input.requires_grad and not is_inference_mode_enabled():
        raise RuntimeError("cannot resize variables that require grad")
    check_size(meta)
    if meta.shape == input._rush_meta.shape and memory_format is None:
        return input
    room = input._rush_storage.nbytes // input.itemsize - input._rush_offset
    if meta.numel > room:
        UntypedStorage(input).resize_(input._rush_offset * input.itemsize + meta.nbytes)
    sharing.count_write(input)
    expect_gradients(input)
    input._rush_meta = meta
    return settled(input, room) if meta.contiguous else input


@op(composite=True, inplace=True)
def fill_diagonal_(input, fill_value, wrap=False):
    """Set the main diagonal to one value; with ``wrap`` it starts again below the square top of a tall matrix."""
    if input.dim() < 2:
        raise RuntimeError("dimensions must larger than 1")
    if input.dim() > 2 and len(set(input.shape)) > 1:
        raise RuntimeError(f"all dimensions of input must be of equal length, got {list(input.shape)}")
    step, columns = sum(input.stride()), input.size(1)
    square = min(input.shape)
    input.as_strided((square,), (step,), input.storage_offset()).fill_(fill_value)
    if wrap and input.dim() == 2 and input.size(0) > columns + 1:
        fill_diagonal_(input[columns + 1:], fill_value, True)
    return input


@op(composite=True, inplace=True)
def resize_as_(input, the_template, memory_format=None):
    """Resize to the shape of another tensor, and to its memory format if ``memory_format`` is preserve_format."""
    shape = tuple(the_template.shape)
    if memory_format is not None and memory_format.name == "preserve_format":
        is_last = suggests_channels_last(the_template._rush_meta)
        memory_format = channels_last_of(shape) if is_last else contiguous_format
    return resize_(input, shape, memory_format=memory_format)


def channels_last_of(shape):
    """Channels-last format for tensors of this shape."""
    return channels_last if len(shape) == 4 else channels_last_3d


@op(composite=True, inplace=True)
def set_(input, source=None, storage_offset=0, size=None, stride=None):
    """Take over the storage of another tensor, with its shape and strides or those given."""
    require_memory(input, "set_")
    if source is None:
        source = empty_of(input._rush_meta.like((0,)))
    if source.dtype is not input.dtype:
        raise RuntimeError(f"Could not set tensor of type {source.dtype} to a tensor of type {input.dtype}")
    if source.device != input.device:
        raise RuntimeError(f'Attempted to set the storage of a tensor on device "{input.device}" to a storage on '
                           f'different device "{source.device}".  This is no longer allowed; the devices must match.')
    given = source
    if size is not None:
        size = (size,) if isinstance(size, int) else tuple(size)
        stride = row_major(size) if stride is None else tuple(stride)
        meta, nbytes = input._rush_meta.like(size, stride), source._rush_storage.nbytes
        if storage_offset < 0 or meta.numel and storage_offset * input.itemsize + meta.nbytes > nbytes:
            raise RuntimeError(
                f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {storage_offset}, and "
                f"itemsize {input.itemsize} are out of bounds for "
                f"storage of size {nbytes}")
        source = wrap(source._rush_storage, storage_offset, meta, input.itemsize)
    meta = source._rush_meta.plain.turning(input._rush_meta.turned)

    def take():
        if not is_inference_mode_enabled():
            input._rush_accumulator = None  # gradients accumulate in the new shape
        take_memory(input, source, 1)
        input._rush_meta = meta

    if is_recording() and (input.requires_grad or given.requires_grad):
        input._rush_write_underivable("set_", take, given)
    else:
        take()
    return input

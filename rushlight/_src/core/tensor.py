"""Tensor: the members of a tensor other than the operators that the registry attaches as methods."""
from __future__ import annotations

from . import dtypes
from .advice import warn
from .devices import device as Device, placed
from .epoch import Epoch
from .errors import DimensionError, InferenceTensorError, LeafWrittenError, NegativeSizeError, OutOfMemoryError
from .interpret import is_idle, is_inference_mode_enabled, top
from .meta import CONJUGATED, NEGATED, Meta, Size, is_channels_last
from .native import UNCOUNTED, Storage, Tensor, counter, heap, history, mine, objects, state, weights, wrap
from .native.hooks import connect

blank = Tensor.__new__  # makes an instance of Tensor or a subclass with empty fields


def attach(function):
    """Makes a function or property a member of Tensor."""
    name = function.fget.__name__ if isinstance(function, property) else function.__name__
    setattr(Tensor, name, function)
    return function


def described(shape, dtype, strides=None, device=None) -> Meta:
    """The Meta of a new tensor. Raises NegativeSizeError for sizes below 0."""
    shape = tuple(shape)
    if any(size < 0 for size in shape):
        raise NegativeSizeError(f"a size is negative in {list(shape)}", "sizes of 0 or more")
    where = placed(device)
    return Meta.of(shape, dtype, where) if strides is None else Meta(shape, tuple(strides), dtype, where)


def empty(shape, dtype, strides=None, device=None) -> Tensor:
    """Return an uninitialized tensor."""
    return empty_of(described(shape, dtype, strides, device))


def no_memory(nbytes: int):
    """Raise OutOfMemoryError for an allocation that the system cannot serve."""
    raise OutOfMemoryError(f"can't allocate memory: {nbytes} bytes", "at most what the machine has left",
                           "use smaller batches or dtypes, or delete tensors that are no longer needed")


heap.refuse = no_memory


def check_size(meta: Meta):
    """OutOfMemoryError for more bytes than any machine has."""
    if meta.nbytes >= 1 << 46:
        raise OutOfMemoryError(f"can't allocate {meta.nbytes} bytes for a tensor of shape {list(meta.shape)}",
                               "less than 64 TB", "check the sizes")


def empty_of(meta: Meta) -> Tensor:
    """Return an uninitialized tensor with this metadata."""
    interpreter = top()
    if interpreter is not None and (made := interpreter.empty(meta)) is not None:
        return made
    provider = meta.device.provider
    if provider.has_data:
        check_size(meta)
    if meta.turned:
        meta = meta.plain
    storage = provider.storage(meta.device.index, meta.nbytes)
    if mine.inference:
        storage.version = UNCOUNTED
    return wrap(storage, 0, meta, meta.itemsize)


def borrowed(address: int, nbytes: int, owner) -> Storage:
    """A storage of memory that another object keeps, and may write, and that is not resized."""
    storage = Storage()
    storage.address, storage.nbytes, storage.owner, storage.is_fixed = address, nbytes, owner, 1
    storage.shown = 1
    if mine.inference:
        storage.version = UNCOUNTED
    return storage


def alias(tensor: Tensor, meta: Meta | None = None, offset: int | None = None) -> Tensor:
    """Another tensor over the same memory, without history."""
    meta = meta or tensor._rush_meta
    return objects.part_of(tensor, tensor._rush_offset if offset is None else offset, meta, meta.itemsize)


def show(tensor: Tensor, other: Tensor):
    """Lets a tensor, of whatever class, show the memory that another shows; its writes count as those of that one."""
    tensor._rush_storage, tensor._rush_offset = other._rush_storage, other._rush_offset
    tensor._rush_meta, tensor.itemsize = other._rush_meta, other.itemsize
    tensor._rush_counter = other._rush_counter


def count_apart(tensor: Tensor, version: int):
    """Give a tensor and its views a version counter of their own, separate from other tensors over the same memory."""
    tensor._rush_counter = Storage()
    tensor._rush_counter.version = version


def take_memory(tensor: Tensor, other: Tensor, writes: int = 0):
    """Make a tensor share the storage of another; it, its views and all that share its version counter continue that
    counter, advanced by ``writes``."""
    own = None if tensor._rush_storage is None else movable(tensor)
    expect_gradients(tensor)
    show(tensor, other)
    if own is not None:
        tensor._rush_counter = own
        if own.version >= 0:
            own.version += writes


def expect_gradients(tensor: Tensor):
    """Record in the node of a tensor whose metadata are about to be replaced the metadata that its gradients must have:
    the tensor's current ones. The first record stays, since it describes what the node computed."""
    node = tensor._rush_grad_node
    if node is None and tensor._rush_accumulator is not None:
        node = tensor._rush_accumulator()
    if node is not None:
        node.expected = {} if node.expected is None else node.expected
        node.expected.setdefault(tensor._rush_output, tensor._rush_meta)


def movable(tensor: Tensor) -> Storage:
    """The version counter of a tensor, as an object that holds no memory."""
    found = counter(tensor)
    if found is tensor._rush_storage:
        found.counted = Storage()
        found.counted.version = found.version
    return counter(tensor)


def refuse_leaf(tensor: Tensor):
    """Raise LeafWrittenError for a leaf that requires a gradient and is about to be written in place while gradients
    are recorded."""
    kind = "a leaf" if tensor._base is None else "a view of a leaf"
    raise LeafWrittenError(f"{kind} Variable that requires grad is being used in an in-place operation.",
                           "a result, or a leaf without gradient", "change a clone(), or do it under no_grad()")


def resolved(tensor: Tensor) -> Tensor:
    """A tensor whose elements are the stored values: a copy if it is conjugated or negated, else the tensor itself."""
    return tensor.clone() if tensor._rush_meta.turned else tensor


def address(tensor: Tensor) -> int:
    """The address of the first element, for a caller that may write there later (``give_out``)."""
    give_out(tensor)
    return place(tensor)


def give_out(tensor: Tensor):
    """Record that a tensor's address is exposed, so that its memory may be written without being counted: nothing
    derived from the elements is cached (``native/weights.py``), and nodes get copies of the saved values that users may
    write (``autograd/lending.py``)."""
    weights.show(tensor._rush_storage)
    if tensor._rush_storage.lent is not None:
        state.copy_lent(tensor._rush_storage)


def place(tensor: Tensor) -> int:
    """The address of the first element, for callers that only compare it or read at once."""
    return tensor._rush_storage.address + tensor._rush_offset * tensor.itemsize


def flat(values):
    """Yield the items of nested lists and tuples, in order."""
    for v in values:
        if type(v) in (list, tuple):
            yield from flat(v)
        else:
            yield v


# --- metadata ---------------------------------------------------------------------------------------------------------
@attach
@property
def shape(self) -> Size:
    return self._rush_meta.shape


@attach
@property
def dtype(self) -> dtypes.dtype:
    return self._rush_meta.dtype.shown


@attach
@property
def device(self) -> Device:
    return self._rush_meta.device


@attach
@property
def ndim(self) -> int:
    return len(self._rush_meta.shape)


@attach
def dim(self) -> int:
    """The number of dimensions.

    >>> torch.zeros(2, 3).dim()
    2
    """
    return len(self._rush_meta.shape)


@attach
def size(self, dim=None):
    """The shape, or the size of one dimension."""
    if dim is None:
        return self._rush_meta.shape
    if not self._rush_meta.shape:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return self._rush_meta.shape[wrapped(dim, len(self._rush_meta.shape))]


def wrapped(dim: int, rank: int) -> int:
    """A dimension counted from the front; IndexError where there is none."""
    low = max(rank, 1)
    if not isinstance(dim, int):
        if not hasattr(dim, "__index__"):
            raise TypeError(f"a dimension is an int, not {type(dim).__name__}")
        dim = dim.__index__()
    if not -low <= dim < low:
        raise DimensionError(f"Dimension out of range (expected to be in range of [{-low}, {low - 1}], but got {dim})")
    return dim % low


def without_levels(condition: Tensor) -> Tensor:
    """The tensor below transforms, which has the elements of all examples; one that a program records as it is."""
    while condition._rush_storage is None and not hasattr(condition, "refuse") and isinstance(
            getattr(condition, "value", None), Tensor):
        condition = condition.value
    return condition


def refuse_where(condition: Tensor, error: Exception):
    """Raises the error where a condition holds for an element; a captured program does so when it runs.  Tensors
    without data meet every condition."""
    if not condition._rush_meta.device.provider.has_data:
        return
    condition = without_levels(condition)
    refuse = getattr(condition, "refuse", None)
    if refuse is not None:
        refuse(error)
    elif bool(condition.any()):
        raise error


def refuse_unless(condition: Tensor, error: Exception):
    """Raises the error unless a condition holds for all elements; all else as ``refuse_where``."""
    if not condition._rush_meta.device.provider.has_data:
        return
    condition = without_levels(condition)
    hold = getattr(condition, "hold", None)
    if hold is not None:
        hold(error)
    elif not bool(condition.all()):
        raise error


@attach
def stride(self, dim=None):
    """Strides in elements, or that of one dimension."""
    if dim is None:
        return tuple(self._rush_meta.strides)
    return self._rush_meta.strides[wrapped(dim, len(self._rush_meta.shape))]


@attach
def numel(self) -> int:
    """The number of elements.

    >>> torch.zeros(2, 3).numel()
    6
    """
    return self._rush_meta.numel


Tensor.nelement = numel


@attach
def element_size(self) -> int:
    """Bytes of one element."""
    return self._rush_meta.itemsize


@attach
@property
def nbytes(self) -> int:
    return self._rush_meta.numel * self._rush_meta.itemsize


@attach
def _is_view(self) -> bool:
    return self._base is not None and (self._rush_storage is None or self._rush_storage.version >= 0)


@attach
def _fix_weakref(self):
    """Does nothing: weak references to tensors are valid as long as the tensor lives."""


@attach
def _rush_holder(self):
    """The tensor whose memory ``as_strided`` views: this, or its base within a program."""
    return self


@attach
def _rush_memory_bytes(self):
    """Bytes of the storage; None for a value of a program, which has none."""
    return None if self._rush_storage is None else self._rush_storage.nbytes


@attach
def storage_offset(self) -> int:
    """The storage offset of the first element, in elements.

    >>> torch.zeros(2, 3)[1].storage_offset()
    3
    """
    return self._rush_offset


@attach
def data_ptr(self) -> int:
    """The address of the first element; 0 for an empty tensor."""
    return address(self) if self._rush_meta.numel and self._rush_meta.device.provider.has_data else 0


@attach
def is_contiguous(self, memory_format=None) -> bool:
    """True if elements are in row-major order, or in the order of ``memory_format``."""
    if memory_format is not None and memory_format.name.startswith("channels_last"):
        rank = 4 if memory_format.name == "channels_last" else 5
        return self.ndim == rank and is_channels_last(self._rush_meta)
    return self._rush_meta.contiguous


@attach
def is_same_size(self, other):
    """True if two tensors have the same shape."""
    return tuple(self.shape) == tuple(other.shape)


@attach
def is_set_to(self, other):
    """True if two tensors are the same elements of the same memory: equal storage, offset, shape and strides."""
    return (self._rush_storage is other._rush_storage and self._rush_meta is other._rush_meta
            and self._rush_offset == other._rush_offset)


@attach
def is_floating_point(self) -> bool:
    """True if the dtype is a floating one (complex ones are not)."""
    return self._rush_meta.dtype.is_floating_point


@attach
def is_complex(self) -> bool:
    """True if the dtype is complex."""
    return self._rush_meta.dtype.is_complex


@attach
def is_signed(self) -> bool:
    """True if the dtype has negative numbers."""
    return self._rush_meta.dtype.is_signed


Tensor._rush_turned = property(lambda self: self._rush_meta.turned)


@attach
def is_conj(self) -> bool:
    """True if the elements are the conjugates of the stored values."""
    return bool(self._rush_turned & CONJUGATED)


@attach
def is_neg(self) -> bool:
    """True if the elements are the negatives of the stored values."""
    return bool(self._rush_turned & NEGATED)


@attach
def get_device(self) -> int:
    """The index of the device; -1 where there is only one of its type."""
    index = self._rush_meta.device.index
    return -1 if index is None else index


@attach
def is_inference(self) -> bool:
    """True if the tensor's memory was allocated in inference mode, so that writes to it are not counted."""
    return counter(self).version < 0


@attach
@property
def _version(self) -> int:
    """How often the tensor's memory was written.  InferenceTensorError for an inference tensor."""
    if counter(self).version < 0:
        raise InferenceTensorError(
            "Inference tensors do not track version counter",
            "a tensor made outside of inference mode", CLONE)
    return counter(self).version


CLONE = "take a clone() of it outside of inference_mode(), or compute it under no_grad() instead"


def unwritable(tensor: Tensor):
    """Raise the error for a write into an inference tensor outside of inference mode."""
    raise InferenceTensorError(
        "Inplace update to inference tensor outside InferenceMode is not allowed: its memory has no version counter",
        "a tensor made outside of inference mode", CLONE)


def unsaveable(tensor: Tensor):
    """Raise the error for an operator that must save an inference tensor for its backward pass."""
    raise InferenceTensorError(
        f"Inference tensors cannot be saved for backward: {tensor._rush_meta.dtype} {list(tensor.shape)}, made in "
        "inference mode, is needed for a gradient",
        "tensors made outside of inference mode", CLONE)


connect("_src/core/tensor.py", unwritable=unwritable, unsaveable=unsaveable)


for _name in ("is_sparse", "is_quantized", "is_mkldnn", "is_nested", "is_sparse_csr"):
    setattr(Tensor, _name, False)
for _name in ("cuda", "mps", "xpu", "vulkan"):
    setattr(Tensor, f"is_{_name}", property(lambda self, kind=_name: self.device.type == kind))
Tensor.is_cpu = property(lambda self: self._rush_meta.device.provider.on_host)
Tensor.is_meta = property(lambda self: not self._rush_meta.device.provider.has_data)
Tensor.names = property(lambda self: (None,) * self.ndim)
Tensor.__array_priority__ = 1000
Tensor.__module__ = __name__.partition(".")[0]  # where users find it


# --- autograd ---------------------------------------------------------------------------------------------------------
def needs_gradient(tensor: Tensor) -> bool:
    """True if operators on a tensor are recorded: it requires a gradient, or its base does, perhaps since a write."""
    base = tensor._base
    return bool(tensor._rush_needs_grad) or base is not None and (
        bool(base._rush_needs_grad) if tensor._rush_storage is None else history.joins(tensor))


@attach
@property
def requires_grad(self) -> bool:
    """True if operators on this tensor are recorded for the backward pass."""
    return needs_gradient(self)


def _set_requires_grad(self, value):
    if value and not (self._rush_meta.dtype.is_floating_point or self._rush_meta.dtype.is_complex):
        raise RuntimeError(
            "Only Tensors of floating point and complex dtype can require gradients; "
            f"this one is {self._rush_meta.dtype}")
    if self._rush_grad_node is not None:
        if not value:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in "
                "a subgraph that doesn't require differentiation use var_no_grad = var.detach().")
        return
    if value and counter(self).version < 0 and not is_inference_mode_enabled():
        raise InferenceTensorError(
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed",
            "a tensor made outside of inference mode", CLONE)
    self._rush_needs_grad = 1 if value else 0
    if type(self) is state.parameter:
        Epoch.value += 1


def _keep_requires_grad(self):
    raise RuntimeError("requires_grad of a tensor cannot be deleted: set it to False")


Tensor.requires_grad = Tensor.requires_grad.setter(_set_requires_grad).deleter(_keep_requires_grad)


@attach
def requires_grad_(self, requires_grad=True):
    """Sets ``requires_grad`` in place."""
    self.requires_grad = requires_grad
    return self


@attach
@property
def is_leaf(self) -> bool:
    return self._rush_grad_node is None


Tensor.retains_grad = property(lambda self: None not in (self._rush_grad_node, self._rush_gradient_hook))
Tensor._rush_gradient_hook = None
Tensor._rush_is_setting = False  # True for a scalar that hardly ever changes: compiled code is made for its value


@attach
@property
def grad(self):
    """The gradient that backward passes have accumulated, or None."""
    if (self._rush_grad_node is not None and self._rush_gradient is None and self._rush_gradient_hook is None
            and is_idle()):
        warn("The .grad attribute of a Tensor that is not a leaf is read, and no backward pass sets it: call "
             "retain_grad() before backward() if the gradient of this tensor "
             "is wanted, or read that of the leaf it was computed from.")
    return self._rush_gradient


def _set_grad(self, value):
    if value is not None:
        if not isinstance(value, Tensor):
            raise TypeError(
                f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}")
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if tuple(value.shape) != tuple(self.shape):
            raise RuntimeError(
                f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size "
                f"'{list(self.shape)}'. Please ensure that the gradient and "
                "the tensor are the same size")
        if value._rush_meta.device is not self._rush_meta.device:
            raise RuntimeError(
                f"attempting to assign a gradient with device type '{value.device.type}' to a tensor with device type "
                f"'{self.device.type}'. Please ensure that the gradient and the tensor are on the same device")
        if value.dtype is not self.dtype:
            raise RuntimeError(
                f"attempting to assign a gradient with dtype '{value.dtype}' to a tensor with grad_dtype "
                f"'{self.dtype}': a gradient has the dtype of its tensor")
    self._rush_gradient = value


def _delete_grad(self):
    self._rush_gradient = None


Tensor.grad = Tensor.grad.setter(_set_grad).deleter(_delete_grad)
Tensor._grad = property(lambda self: self._rush_gradient, _set_grad, _delete_grad)


@attach
def __len__(self):
    if mine.modes:
        from .overriding import of_mode
        return of_mode("__len__", self)
    if not self._rush_meta.shape:
        raise TypeError("len() of a 0-d tensor")
    return self._rush_meta.shape[0]


@attach
def __hash__(self):
    return id(self)

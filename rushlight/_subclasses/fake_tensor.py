"""Fake tensors, which report a device: programs run on them for the shapes, dtypes and devices of results."""
from __future__ import annotations

import weakref

from .._src.capture.fake import Fake
from .._src.core import devices
from .._src.core.advice import warn
from .._src.core.copying import copied_memory
from .._src.core.interpret import Suspended, Unwatched
from .._src.core.native import Storage, Tensor, mine, wrap
from .._src.core.op import OPS
from .._src.core.overriding import DisableTorchFunction, disabled
from .._src.core.pytree import tree_flatten, tree_leaves, tree_unflatten
from .._src.core.tensor import alias, blank, show
from ..nn.parameter import Parameter
from ..overrides import TorchFunctionMode
from ..utils._python_dispatch import TorchDispatchMode, _disable_current_modes

__all__ = ["DataDependentOutputException", "DynamicOutputShapeException", "FakeTensor", "FakeTensorDeviceMismatchError",
           "FakeTensorMode", "UnsupportedFakeTensorException",
           "UnsupportedOperatorException", "is_fake", "maybe_get_fake_mode", "unset_fake_temporarily"]


class UnsupportedFakeTensorException(RuntimeError):
    """Raised for tensors that cannot be had without data."""


class FakeTensorDeviceMismatchError(RuntimeError):
    """Raised by operators whose arguments are on several devices."""


class OperatorError(RuntimeError):
    """An operator that cannot run without data: ``func`` is its overload."""

    def __init__(self, func):
        super().__init__(str(func))
        self.func = func


class DataDependentOutputException(OperatorError):
    """Raised when Python reads the elements of a fake tensor."""


class DynamicOutputShapeException(OperatorError):
    """Raised by operators whose results have data-dependent sizes."""


class UnsupportedOperatorException(OperatorError):
    """Raised by operators that have no meaning without data."""


def placed(where) -> devices.device:
    """Return the device of a fake tensor: accelerators need not exist, and have an index."""
    found = devices.device(where)
    provider = devices.provided(found)
    if provider is not None and (provider.on_host or not provider.has_data):
        return devices.device(found.type)
    return devices.device(found.type, 0) if found.index is None else found


class FakeTensor(Tensor):
    """A fake tensor on ``fake_device``, made by ``fake_mode``.  Results computed from it are fake, too.

    >>> import rushlight as rl
    >>> mode = FakeTensorMode()
    >>> x = mode.from_tensor(rl.ones(2, 3))
    >>> x.t() @ x
    FakeTensor(..., size=(3, 3))
    """

    __torch_function__ = classmethod(disabled)

    def __new__(cls, fake_mode, elem, device, constant=None):
        made = blank(cls)
        show(made, elem)
        made.fake_mode, made.fake_device, made.constant = fake_mode, placed(device), constant
        return made

    def __init__(self, *args, **kwargs):
        pass

    @staticmethod
    def from_tensor(t, fake_mode):
        return fake_mode.from_tensor(t)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        modes = [leaf.fake_mode for leaf in tree_leaves((args, kwargs or {})) if isinstance(leaf, FakeTensor)]
        return modes[0].computed(func, args, kwargs or {})

    device = property(lambda self: self.fake_device)
    is_cpu = property(lambda self: devices.is_host(self.fake_device))
    is_meta = property(lambda self: self.fake_device is devices.meta)

    def get_device(self):
        return -1 if self.fake_device.index is None else self.fake_device.index

    def data_ptr(self):
        return 0

    def to(self, *args, **kwargs):
        places, rest = [], []
        for value in args:
            (places if isinstance(value, (str, devices.device)) else rest).append(value)
        where = kwargs.pop("device", None) if kwargs.get("device") is not None else next(iter(places), None)
        others = [value for value in rest if isinstance(value, Tensor)]
        where = others[0].device if others else where
        rest = [value.dtype if isinstance(value, Tensor) else value for value in rest]
        made = Tensor.to(self, *rest, **{k: v for k, v in kwargs.items() if k != "device"})
        if where is None or placed(where) is self.fake_device or self.fake_mode.preferred is not None and placed(
                where) is devices.meta:
            # the last: a factory function moves what it made to the device that the mode gave it instead of its own
            return made
        moved = OPS["clone"](made) if made is self else made
        moved.fake_device = placed(where)
        return moved

    def tolist(self):
        return [row.tolist() for row in self] if self.dim() else self.item()

    def cpu(self, memory_format=None):
        return self.to("cpu")

    def cuda(self, device=None, non_blocking=False, memory_format=None):
        return self.to(devices.device("cuda", 0) if device is None else device)

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        storage, offset, meta = copied_memory(alias(self), memo)
        made = memo[id(self)] = FakeTensor(self.fake_mode, wrap(storage, offset, meta, meta.itemsize), self.fake_device,
                                           self.constant)
        made._rush_needs_grad = self._rush_needs_grad
        made.__dict__.update({k: v for k, v in self.__dict__.items() if k not in made.__dict__})
        return made

    def __reduce_ex__(self, protocol):
        raise TypeError("a FakeTensor cannot be pickled: it has no data")

    def __repr__(self, *, tensor_contents=None):
        from .._src.core.dtypes import Defaults
        facts = [f"device='{self.fake_device}'"] if not self.is_cpu else []
        facts.append(f"size=({', '.join(map(str, self.shape))}{',' if self.dim() == 1 else ''})")
        if self.dtype is not Defaults.floating and str(self.dtype) not in ("torch.int64",
                                                                           "torch.bool") or self.numel() and str(
                                                                               self.dtype) == "torch.int64":
            facts.append(f"dtype={self.dtype}")
        if self.grad_fn is not None:
            facts.append(f"grad_fn=<{self.grad_fn.name()}>")
        elif self.requires_grad:
            facts.append("requires_grad=True")
        return f"FakeTensor(..., {', '.join(facts)})"

    def __format__(self, spec):
        return repr(self)

    __hash__ = Tensor.__hash__


class FakeTensorMode(TorchDispatchMode):
    """A mode in which every operator returns fake tensors, on the requested device, even if it does not exist.

    ``allow_non_fake_inputs`` accepts real tensors as fake ones; else AssertionError.  Sizes are ints, whatever the
    ``shape_env``: a UserWarning if it wants symbols.  RuntimeErrors: DataDependentOutputException for reads of
    elements, DynamicOutputShapeException for data-dependent sizes, FakeTensorDeviceMismatchError for arguments on
    several devices.

    >>> import rushlight as rl
    >>> with FakeTensorMode() as mode:
    ...     x = rl.rand(2, 3, device="cuda") @ rl.ones(3, 4, device="cuda")
    >>> x, x.device
    (FakeTensor(..., device='cuda:0', size=(2, 4)), device(type='cuda', index=0))
    """

    _sees_memory = False  # what makes tensors is answered by its own layer

    def __init__(self, *, allow_fallback_kernels=True, allow_non_fake_inputs=False, shape_env=None, static_shapes=None,
                 export=False):
        super().__init__()
        if shape_env is not None and not static_shapes and not getattr(shape_env, "assume_static_by_default", False):
            warn("FakeTensorMode keeps sizes as numbers, whatever the shape_env: give static_shapes=True; symbols are "
                 "made while torch.compile or torch.export captures")
        self.shape_env, self.allow_non_fake_inputs, self.static_shapes, self.export = (shape_env, allow_non_fake_inputs,
                                                                                       True, export)
        # id of a tensor with data -> (a weak reference to it, how it looked, what stands for it)
        self.standing: dict = {}
        self.storages: dict = {}  # id of its storage -> (weak references to tensors over it, the storage without data)
        self.entered, self.preferred = [], None

    def __enter__(self):
        layer = Functions(self)
        super().__enter__()
        self.entered.append(layer)
        layer.__enter__()
        return self

    def __exit__(self, *exception):
        self.entered.pop().__exit__(*exception)
        super().__exit__(*exception)

    def from_tensor(self, tensor, *, static_shapes=None, source=None, symbolic_context=None, trace=True):
        """Return the fake of a tensor: the same one for the same tensor, over one storage for tensors that share
        theirs."""
        if isinstance(tensor, FakeTensor):
            self.check_own(tensor)
            return tensor
        if tensor.layout is not STRIDED or not isinstance(tensor._rush_storage, Storage):
            raise UnsupportedFakeTensorException(f"{tensor.layout} in FakeTensorMode")
        return self.made_of(tensor)

    def storage_for(self, tensor):
        """The storage without data that stands for a tensor's."""
        key = id(tensor._rush_storage)
        references, storage = self.storages.get(key, ([], None))
        alive = [r for r in references if (held := r()) is not None and held._rush_storage is tensor._rush_storage]
        if not alive:
            storage = OPS["empty"].body(0, device="meta")._rush_storage
            storage.nbytes = tensor._rush_storage.nbytes
        self.storages[key] = [*alive, weakref.ref(tensor)], storage
        return storage

    def made_of(self, tensor):
        key, looks, meta = id(tensor), (tensor._rush_meta, tensor._rush_offset,
                                        bool(tensor.requires_grad)), tensor._rush_meta
        reference, seen, made = self.standing.get(key, (None, None, None))
        if reference is not None and reference() is tensor and seen == looks:
            return made
        meta = type(meta)(tuple(meta.shape), tuple(meta.strides), meta.dtype, devices.meta)
        made = FakeTensor(self, wrap(self.storage_for(tensor), tensor._rush_offset, meta, meta.itemsize), tensor.device)
        made._rush_needs_grad = int(looks[2])
        if isinstance(tensor, Parameter):
            made._is_param = True
        self.standing[key] = weakref.ref(tensor, lambda _: self.standing.pop(key, None)), looks, made
        return made

    def check_own(self, tensor):
        if tensor.fake_mode is not self:
            raise AssertionError(f"Mixing fake modes NYI {tensor.fake_mode=} vs {self=}")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        args, kwargs = self.validated(func, args, kwargs or {})
        if any(isinstance(leaf, FakeTensor) for leaf in tree_leaves((args, kwargs))):
            return func(*args, **kwargs)
        with MetaDefault(self):
            return self.wrapped(func(*args, **kwargs), self.preferred)

    def validated(self, func, args, kwargs):
        """Check that all tensor arguments are fakes of this mode; return the arguments."""
        leaves, spec = tree_flatten((args, kwargs))
        for k, leaf in enumerate(leaves):
            if isinstance(leaf, FakeTensor):
                self.check_own(leaf)
            elif isinstance(leaf, Tensor) and not leaf.is_meta:
                if not self.allow_non_fake_inputs:
                    shown = ", ".join(described(v) for v in args) + "".join(f", {k}={described(v)}"
                                                                            for k, v in kwargs.items())
                    raise AssertionError(
                        "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with "
                        f"'allow_non_fake_inputs'. Found in {func}({shown})")
                leaves[k] = self.from_tensor(leaf)
        return tree_unflatten(leaves, spec)

    def computed(self, func, args, kwargs):
        """Run one operator on fakes by running it on meta tensors."""
        args, kwargs = self.validated(func, args, kwargs)
        op = func.op
        if func._opname == "_local_scalar_dense":
            if args[0].constant is None:
                raise DataDependentOutputException(func)
            with DisableTorchFunction(), Unwatched():
                return args[0].constant.item()
        leaves, spec = tree_flatten((args, kwargs))
        known = self.of_constants(op, leaves, spec)
        if known is None and func._opname in READ_ALL:
            raise DataDependentOutputException(func)
        if "unmeasured" in op.rules and sized_by_data(func, args, kwargs):
            raise DynamicOutputShapeException(func)
        where = kwargs.get("device")
        where = common_device(func, leaves) if where is None else placed(where)
        inner = [plain(leaf) for leaf in leaves]
        with MetaDefault(self):
            result = run_inner(func, *tree_unflatten([devices.meta if isinstance(v, devices.device) else v
                                                      for v in inner], spec))
        back = {id(one): leaf for one, leaf in zip(inner, leaves) if isinstance(leaf, FakeTensor)}
        for one, leaf in zip(inner, leaves):
            if isinstance(leaf, FakeTensor) and (leaf._rush_meta is not one._rush_meta
                                                 or leaf._rush_offset != one._rush_offset):
                leaf._rush_meta, leaf._rush_offset = one._rush_meta, one._rush_offset
        if op.traits.get("into") is not None and isinstance(args[0], FakeTensor):
            args[0].constant = None
        return self.wrapped(result, where, back, known)

    def of_constants(self, op, leaves, spec):
        """The result where every tensor among the arguments is a known number, None otherwise."""
        tensors = [leaf for leaf in leaves if isinstance(leaf, FakeTensor)]
        if any(t.constant is None for t in tensors) or op.traits.get("into") is not None or op.traits.get("random"):
            return None
        values = [leaf.constant if isinstance(leaf, FakeTensor) else devices.cpu if isinstance(leaf, devices.device)
                  else leaf for leaf in leaves]
        with DisableTorchFunction():
            args, kwargs = tree_unflatten(values, spec)
            found = op(*args, **kwargs)
        return found if isinstance(found, Tensor) and found.numel() <= CONSTANT_NUMEL_LIMIT else None

    def wrapped(self, result, where, back=None, known=None):
        """Wrap plain tensors in a result as fakes of this mode."""
        if isinstance(result, Tensor):
            if isinstance(result, FakeTensor):
                return result
            return back[id(result)] if back and id(result) in back else self.fresh(result, where, known, back)
        leaves, spec = tree_flatten(result)
        if not any(isinstance(leaf, Tensor) for leaf in leaves):
            return result
        return tree_unflatten([self.wrapped(leaf, where, back) if isinstance(leaf, Tensor) else leaf
                               for leaf in leaves], spec)

    def fresh(self, result, where, known=None, back=None):
        if not result.is_meta:
            known = alias(result) if result.numel() <= CONSTANT_NUMEL_LIMIT else None
            made = self.from_tensor(result)
        else:
            made = FakeTensor(self, result, where)
            made._rush_needs_grad = result._rush_needs_grad
        made.constant = known
        if result._base is not None and back and id(result._base) in back:
            base = back[id(result._base)]
            made._base = base if base._base is None else base._base
        if isinstance(result, Parameter):
            made._is_param = True
        return made


class Functions(TorchFunctionMode):
    """Above operators: functions that are given a device make tensors on it, those that are given numbers keep one."""

    def __init__(self, mode):
        super().__init__()
        self.mode = mode

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        where = kwargs.get("device")
        if where is not None and not isinstance(args[0] if args else None, FakeTensor | str):
            kwargs = {**kwargs, "device": devices.meta}
        name = getattr(func, "__name__", getattr(func, "name", ""))
        if where is not None and args and isinstance(args[0], FakeTensor) and name not in ("to",):
            made = func(*args, **{k: v for k, v in kwargs.items() if k != "device"})
            return made if not isinstance(made, FakeTensor) else made.to(where)
        if name in KNOWN_NUMBERS and not any(isinstance(v, Tensor) for v in tree_leaves(args)):
            return self.of_numbers(func, args, kwargs, where)
        if any(isinstance(leaf, Tensor) for leaf in tree_leaves((args, kwargs))):
            return func(*args, **kwargs)
        with MetaDefault(self.mode):
            return self.mode.wrapped(func(*args, **kwargs), self.mode.preferred if where is None else placed(where))

    def of_numbers(self, func, args, kwargs, where):
        """Return a fake of constant numbers; a single one stays known."""
        where = placed(self.mode.preferred or devices.preferred() if where is None else where)
        wanted = bool(kwargs.get("requires_grad"))
        with MetaDefault(self.mode, devices.cpu), Suspended(self.layer()):
            value = func(*args, **{k: v for k, v in kwargs.items() if k not in ("device", "requires_grad")})
        made = self.mode.from_tensor(value)
        made.fake_device, made._rush_needs_grad = where, int(wanted)
        made.constant = value if value.numel() <= CONSTANT_NUMEL_LIMIT else None
        return made

    def layer(self):
        return self.mode._place()


class MetaDefault:
    """A mode in which factory functions without a device argument make fake tensors; ``mode.preferred`` is the device
    that they would have had."""

    def __init__(self, mode, where=devices.meta):
        self.mode, self.where = mode, where

    def __enter__(self):
        self.before = mine.device, self.mode.preferred
        self.mode.preferred = self.mode.preferred or devices.preferred()
        devices.prefer(self.where)

    def __exit__(self, *exception):
        mine.device, self.mode.preferred = self.before


def described(value) -> str:
    """An argument as messages show it."""
    if isinstance(value, FakeTensor) or not isinstance(value, Tensor):
        return repr(value)
    sizes = ", ".join(map(str, value.shape)) + ("," if value.dim() == 1 else "")
    return f"{'Parameter' if isinstance(value, Parameter) else 'tensor'}([...], size=({sizes}))"


def plain(value):
    """Return a fake as a meta tensor over the same storage."""
    return alias(value) if isinstance(value, FakeTensor) else value


def run_inner(func, args, kwargs):
    """An operator on tensors of the meta device.  DataDependentOutputException where it reads elements."""
    try:
        return func(*args, **kwargs)
    except RuntimeError as error:
        if "cannot be called on meta tensors" in str(error):
            raise DataDependentOutputException(func) from None
        raise


def sized_by_data(func, args, kwargs) -> bool:
    """Whether an operator with a rule for unmeasured sizes has them with these arguments."""
    return func._opname not in ("bincount", "isin", "searchsorted", "bucketize", "histc")


def common_device(func, leaves) -> devices.device:
    """Return the device of results: that of the arguments, except 0-dim CPU tensors. FakeTensorDeviceMismatchError
    for several."""
    found, loose = None, True
    for leaf in leaves:
        if not isinstance(leaf, FakeTensor):
            continue
        single = leaf.is_cpu and not leaf.dim()
        if found is None or loose and not single:
            if found is not None and found is not leaf.fake_device and not loose:
                break
            found, loose = leaf.fake_device, single
        elif not single and leaf.fake_device is not found and func._opname.partition("_")[0] not in ("copy", "index"):
            raise FakeTensorDeviceMismatchError(
                f"Expected all tensors to be on the same device, but found at least two devices, {found} and "
                f"{leaf.fake_device}!")
    return found or devices.preferred()


def is_fake(x) -> bool:
    """Whether a tensor stands for one whose data is not known."""
    return isinstance(x, (FakeTensor, Fake))


def maybe_get_fake_mode(t):
    """Return the mode of a fake tensor, None for other values."""
    return t.fake_mode if isinstance(t, FakeTensor) else None


class unset_fake_temporarily(_disable_current_modes):
    """A block in which no mode is active."""

    def __enter__(self):
        super().__enter__()
        self.functions = DisableTorchFunction()
        self.functions.__enter__()

    def __exit__(self, *exception):
        self.functions.__exit__(*exception)
        super().__exit__(*exception)


CONSTANT_NUMEL_LIMIT = 1
KNOWN_NUMBERS = frozenset(("tensor", "scalar_tensor", "as_tensor", "asarray"))
READ_ALL = frozenset(("equal",))
STRIDED = OPS["empty"](0).layout

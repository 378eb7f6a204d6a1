"""Overrides of operator calls: classes with ``__torch_function__`` or ``__torch_dispatch__``, and modes.

Plain tensors never come here: an instance of another class, or an active mode, makes the hot path hand the call over.
"""
from __future__ import annotations

import enum
import inspect
import threading

from . import interpret
from .meta import Size, extent_of
from .naming import is_own
from .native import Scope, Tensor, held, mine, scopes
from .tensor import attach, blank, show

PLAIN, FUNCTION, DISPATCH = 0, 1, 2
KINDS: dict[type, int] = {}  # {class seen as an argument: its overrides}
FIELDS = ("_rush_storage", "_rush_offset", "itemsize", "_rush_meta", "_rush_needs_grad", "_rush_output",
          "_rush_grad_node", "_base", "_rush_seen", "_rush_counter")
READING = ("item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "__array__")


def disabled(cls, func, types, args=(), kwargs=None):
    """As a class's ``__torch_function__``: its instances are treated as plain tensors.  A call of it by name runs the
    function on all arguments as plain tensors."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def declared(kind: type, name: str):
    """The function under a classmethod of this name, or None."""
    found = getattr(kind, name, None)
    return getattr(found, "__func__", found)


def kind_of(kind: type) -> int:
    """The overrides of a class: of functions, dispatch, or nothing."""
    found = KINDS.get(kind)
    if found is None:
        found = KINDS[kind] = describe(kind)
    return found


def describe(kind: type) -> int:
    if kind is Tensor:
        return PLAIN
    function = declared(kind, "__torch_function__")
    if not issubclass(kind, Tensor):
        return FUNCTION if function is not None and not issubclass(kind, type) else PLAIN
    if function is default and is_own(kind):
        return PLAIN  # our own classes of tensors take part in other ways
    found = PLAIN if function is disabled else FUNCTION
    return found | (DISPATCH if declared(kind, "__torch_dispatch__") is not None else PLAIN)


def overriding(args, wanted: int, found=()) -> tuple:
    """The classes among arguments that override what is ``wanted``: subclasses before their bases, else from left to
    right."""
    for value in args:
        kind = type(value)
        if kind is list or kind is tuple:
            found = overriding(value, wanted, found)
        elif (KINDS.get(kind) if kind in KINDS else kind_of(kind)) & wanted and kind not in found:
            at = next((k for k, other in enumerate(found) if issubclass(kind, other)), len(found))
            found = (*found[:at], kind, *found[at:])
    return found


class Aside(Scope):
    """A block in which the innermost mode does not watch."""

    def __enter__(self):
        modes = mine.modes
        self.outer = held(scopes.MODES, self.outer, None)
        mine.modes = modes[:-1]
        return modes[-1]


class DisableTorchFunctionSubclass(Scope):
    """A block in which classes with ``__torch_function__`` are treated as plain tensors."""

    def __enter__(self):
        self.outer = held(scopes.PLAIN, self.outer, None)
        mine.plain += 1


class HiddenModes(tuple):
    """No modes, while a block hides those that are active around it."""

    hidden = 0  # how many


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """A block in which neither classes nor modes override functions."""

    def __enter__(self):
        none = HiddenModes()
        none.hidden = mode_count()
        self.outer = held(scopes.PLAIN | scopes.MODES, self.outer, None)
        mine.plain += 1
        mine.modes = none


class _EnableTorchFunction:
    """While an instance lives, classes with ``__torch_function__`` answer again in its thread."""

    def __init__(self):
        self.outer, mine.plain = mine.plain, 0

    def __del__(self):
        mine.plain = self.outer


def enabled() -> bool:
    """True if classes with ``__torch_function__`` answer operators here."""
    return not mine.plain


class TorchFunctionState(enum.Enum):
    """The overrides that are enabled in this thread."""

    ENABLED = 0
    SUBCLASSES_DISABLED = 1
    ALL_DISABLED = 2


def state() -> TorchFunctionState:
    """Return who may answer operators here."""
    if isinstance(mine.modes, HiddenModes):
        return TorchFunctionState.ALL_DISABLED
    return TorchFunctionState.ENABLED if enabled() else TorchFunctionState.SUBCLASSES_DISABLED


def mode_count() -> int:
    """Return how many TorchFunctionModes are active, those that DisableTorchFunction hides too."""
    return mine.modes.hidden if isinstance(mine.modes, HiddenModes) else len(mine.modes)


NOBODY = object()


def answered(function, args, kwargs, of_operators=False):
    """The result of a call from an active mode or an overriding class among the arguments; ``NOBODY`` if there is
    neither. ``of_operators``: the function is made of operators, which classes with ``by_operators`` answer instead."""
    values = (*args, *kwargs.values()) if kwargs else args
    kinds, mode = () if mine.plain else overriding(values, FUNCTION), None
    if of_operators:
        kinds = [kind for kind in kinds if not getattr(kind, "by_operators", False)]
    if mine.modes:
        with Aside() as mode:
            if inspect.ismethod(mode.__torch_function__) and mode.__torch_function__.__self__ is type(mode):
                raise RuntimeError("defining your mode's `__torch_function__` as a classmethod is not supported, please "
                                   "make it a plain method")
            result = mode.__torch_function__(function, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    for kind in kinds:
        result = kind.__torch_function__(function, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    if kinds or mode is not None:
        asked = [f"the mode {type(mode).__name__}"] * (mode is not None) + [k.__name__ for k in kinds]
        raise TypeError(
            f"Multiple dispatch failed for '{name_of(function)}'; all __torch_function__ handlers returned "
            f"NotImplemented: {', '.join(asked)}. Implement the function in one of them, or convert the arguments "
            "to tensors.")
    return NOBODY


def of_mode(name: str, *args, **kwargs):
    """The result of an active mode for a member of Tensor that is no operator."""
    return answered(getattr(Tensor, name), args, kwargs)


def read_by_mode(tensor):
    """The only element of a tensor, read through the innermost interpreter if it is a mode that sees operators; else
    ``NOBODY``."""
    reading = getattr(interpret.top(), "read_element", None)
    return NOBODY if reading is None else reading(tensor)


def name_of(function) -> str:
    return getattr(function, "name", None) or getattr(function, "__name__", repr(function))


def observed(function):
    """A function that is not an operator, but that modes see."""
    import functools

    @functools.wraps(function)
    def run(*args, **kwargs):
        if mine.modes:
            result = answered(run, args, kwargs)
            if result is not NOBODY:
                return result
        return function(*args, **kwargs)

    return run


def overridable(function):
    """A function that is not an operator, but that modes answer, and classes among its arguments that override
    functions; ``plain`` is the function itself, which capture follows."""
    import functools

    @functools.wraps(function)
    def run(*args, **kwargs):
        result = answered(run, args, kwargs, of_operators=True)
        return function(*args, **kwargs) if result is NOBODY else result

    run.plain = function
    return run


def reclassed(value, kind):
    """Plain tensors as instances of a subclass, within lists and tuples."""
    if kind is Tensor:
        return value
    if isinstance(value, Tensor):
        return value if isinstance(value, kind) else as_subclass(value, kind)
    if isinstance(value, (tuple, list)) and type(value) is not Size:
        made = [reclassed(v, kind) for v in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return value


@attach
def as_subclass(self, cls):
    """This tensor as an instance of a subclass of Tensor, with the same memory and history."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"as_subclass() takes a subclass of Tensor, not {cls!r}")
    from .op import OPS
    source = OPS["view_as"](
        self, self) if self._rush_needs_grad and self._rush_grad_node is None and interpret.is_recording() else self
    made = blank(cls)
    for name in FIELDS:
        setattr(made, name, getattr(source, name))
    if source._rush_views:
        made._rush_views = source._rush_views
    return made


class Running(threading.local):
    """The function that ``default`` runs in this thread: a function that comes back belongs to another library, which
    calls Rushlight again."""

    function = None


running = Running()


def default(cls, func, types, args=(), kwargs=None):
    """The default for a subclass: run the function unchanged, and wrap its results in the subclass."""
    if not all(issubclass(cls, kind) for kind in types) or running.function is func:
        return NotImplemented
    outer, running.function = running.function, func
    try:
        with DisableTorchFunctionSubclass():
            reads = kind_of(cls) & DISPATCH and getattr(func, "__name__", "") in READING
            result = Dispatch.read(func, args, kwargs or {}) if reads else func(*args, **(kwargs or {}))
    finally:
        running.function = outer
    if func in UNCHANGED or kind_of(cls) & DISPATCH and interpret.top() is not None:
        return result  # under a transform a result is the transform's, and wraps the subclass's result
    if kind_of(cls) & DISPATCH and any(isinstance(a, cls) and "_wraps" in vars(a)
                                       for a in (*args, *(kwargs or {}).values())):
        return result  # an instance over the memory of the result would wrap nothing
    return reclassed(result, cls)


Tensor.__torch_function__ = classmethod(default)
UNCHANGED: set = set()  # functions whose results stay plain tensors


def initialise(cls, **facts):
    """A new subclass: members that are no operators are overridden too, if it overrides."""
    super(Tensor, cls).__init_subclass__(**facts)
    found = describe(cls)
    if found & FUNCTION and declared(cls, "__torch_function__") is not default:
        overridden = MEMBERS
    elif found & DISPATCH:
        overridden = READING
    else:
        return
    for name in overridden:
        own = inspect.getattr_static(cls, name, None)
        if own is Tensor.__dict__.get(name) and own is not None:
            setattr(cls, name, member(own, name))


Tensor.__init_subclass__ = classmethod(initialise)
MEMBERS = ("shape", "dtype", "device", "ndim", "dim", "size", "stride", "numel", "nelement", "element_size",
           "storage_offset", "data_ptr", "is_contiguous",
           "is_floating_point", "is_complex", "requires_grad", "grad", "is_leaf", "grad_fn", "data", "T", "mT", "H",
           "mH", "real", "imag", "layout", "backward",
           "to", "cpu", "cuda", "float", "double", "half", "bfloat16", "long", "int", "short", "char", "byte", "bool",
           "type", "type_as", "requires_grad_",
           "detach_", "register_hook", "new_tensor", "split", "unflatten", "__len__", "__reversed__",
           "__getitem__", "__setitem__", "__contains__",
           "__repr__", "__format__", "__deepcopy__", "item", "tolist", "numpy", "__bool__", "__int__", "__float__",
           "__index__", "__array__")


def member(own, name):
    """A member of Tensor that an overriding subclass answers."""
    if isinstance(own, property):
        def read(self):
            return offered(own.__get__, (self,), {}, lambda: own.fget(self))

        read.stands_for = own

        def write(self, value):
            offered(own.__set__, (self, value), {}, lambda: own.fset(self, value))
        return property(read, write if own.fset else None, doc=own.__doc__)
    if not callable(own):  # the same for all tensors
        def __get__(self, *_):
            return own
        return property(lambda self: offered(__get__, (self,), {}, lambda: own))

    def call(self, *args, **kwargs):
        return offered(own, (self, *args), kwargs, lambda: own(self, *args, **kwargs))

    call.__name__, call.__doc__, call.stands_for = name, getattr(own, "__doc__", None), own
    return call


def offered(function, args, kwargs, run):
    """The result of a subclass override, or of the plain member without one."""
    found = kind_of(type(args[0]))
    if found & FUNCTION and not mine.plain:
        result = answered(function, args, kwargs)
        if result is not NOBODY:
            return result
    if found & DISPATCH and getattr(function, "__name__", "") in READING:
        return Dispatch.read(function, args, kwargs)
    return run()


class Dispatch:
    """The handler of classes with ``__torch_dispatch__``: ``autograd/dispatching.py`` installs itself here, since it
    records their results."""

    call = read = None


# --- instances of subclasses ------------------------------------------------------------------------------------------
def make_subclass(cls, data, require_grad=False, *, dispatch_sizes_strides_policy=None, dispatch_device=False,
                  dispatch_layout=False, device_for_backend_keys=None):
    """An instance of a subclass over the memory of ``data``, without its history."""
    if not isinstance(data, Tensor):
        raise TypeError(f"_make_subclass() takes a Tensor, not {type(data).__name__}")
    made = blank(cls)
    show(made, data)
    with DisableTorchFunction():  # the instance is incomplete: its class is not called yet
        made.requires_grad = require_grad
    return made


def unplaced(cls, meta, offset):
    """An instance of a subclass over memory that is never written, of the full size: the system allocates pages only
    when they are touched. With dynamic shapes there are no kernels, and the memory holds one element."""
    made, reach = blank(cls), extent_of(meta.shape, meta.strides)
    count = 1 if reach is None else offset + reach[1]
    made._rush_storage = meta.device.provider.storage(meta.device.index, count * meta.dtype.itemsize)
    made._rush_meta, made._rush_offset, made.itemsize, made._wraps = meta, offset, meta.dtype.itemsize, True
    return made


def make_wrapper_subclass(cls, size, strides=None, storage_offset=None, memory_format=None, dtype=None, layout=None,
                          device=None, pin_memory=False,
                          requires_grad=False, dispatch_sizes_strides_policy=None, dispatch_device=False,
                          dispatch_layout=False, _extra_dispatch_keys=None, storage_size=None):
    """An instance of a subclass that looks like a tensor of these sizes, and whose class answers every operator."""
    from .dtypes import Defaults
    from .tensor import check_size, described
    if declared(cls, "__torch_dispatch__") is None:
        raise RuntimeError(
            f"_make_wrapper_subclass() needs a class with __torch_dispatch__, which {cls.__name__} lacks: operators "
            "could only read memory that "
            "it does not have")
    meta = described(size, dtype or Defaults.floating, strides, device)
    check_size(meta)
    made = unplaced(cls, meta, storage_offset or 0)
    made.requires_grad = requires_grad
    return made


Tensor._make_subclass = staticmethod(make_subclass)
Tensor._make_wrapper_subclass = staticmethod(make_wrapper_subclass)

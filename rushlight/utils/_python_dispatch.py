"""Modes and classes below the recording of gradients: the protocol of ``__torch_dispatch__``."""
from __future__ import annotations

from .._src.autograd.dispatching import DispatchMode
from .._src.core import interpret
from .._src.core.native import Scope, Tensor, held, mine
from .._src.core.native.scopes import ONE, PUSHED, STACK
from .._src.core.overriding import DISPATCH, kind_of


class TorchDispatchMode(Scope):
    """Sees every operator that runs in its ``with`` block, as an overload of ``torch.ops``: override
    ``__torch_dispatch__``.

    >>> import rushlight as torch
    >>> from rushlight.utils._python_dispatch import TorchDispatchMode
    >>> class Names(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func)
    ...         return func(*args, **(kwargs or {}))
    >>> x = torch.ones(2)
    >>> with Names():
    ...     y = x.sin() + 1
    aten.sin.default
    aten.add.Tensor
    """

    _sees_memory = True  # True if it intercepts tensors that no operator makes: empty ones, and given elements
    _derives = False  # whether it has to see where what a backward pass reads comes from

    def __init__(self, _dispatch_key=None):
        super().__init__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError(
            f"{type(self).__name__} must define __torch_dispatch__(self, func, types, args=(), kwargs=None)")

    def __enter__(self):
        place = DispatchMode(self)
        self.outer = held(PUSHED, self.outer, place)
        mine.stack += (place,)
        return self

    def _place(self):
        """Return its index in the interpreter stack, within its innermost block."""
        return self.outer[ONE]

    @classmethod
    def push(cls, *args, **kwargs):
        return cls(*args, **kwargs)


def is_traceable_wrapper_subclass(t) -> bool:
    """Whether a tensor's class says what tensors it wraps: ``__tensor_flatten__`` and ``__tensor_unflatten__``."""
    return isinstance(t, Tensor) and kind_of(type(t)) & DISPATCH and hasattr(t, "__tensor_flatten__") and hasattr(
        t, "__tensor_unflatten__")


def is_traceable_wrapper_subclass_type(t) -> bool:
    return issubclass(t, Tensor) and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def transform_subclass(t, callback, outer_size=None, outer_stride=None):
    """A wrapper subclass with ``callback(name, inner)`` of each tensor it wraps."""
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    return type(t).__tensor_unflatten__(inner, context, t.size() if outer_size is None else outer_size,
                                        t.stride() if outer_stride is None else outer_stride)


def return_and_correct_aliasing(func, args, kwargs, out):
    """The result of a wrapper subclass's handler; for an operator in place, the argument that it wrote into."""
    if func._schema.is_mutable and args and isinstance(args[0], Tensor) and func._opname.endswith("_"):
        return args[0]
    return out


def _get_current_dispatch_mode():
    modes = _get_current_dispatch_mode_stack()
    return modes[-1] if modes else None


def _get_current_dispatch_mode_stack():
    return [i.mode for i in interpret.active() if isinstance(i, DispatchMode)]


class _disable_current_modes(Scope):
    """A block in which no TorchDispatchMode sees operators."""

    def __enter__(self):
        rest = tuple([i for i in mine.stack if not isinstance(i, DispatchMode)])
        self.outer = held(STACK, self.outer, None)
        mine.stack = rest

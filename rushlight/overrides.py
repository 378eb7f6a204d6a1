"""Classes and modes that give operators another meaning: the protocol of ``__torch_function__``."""
from __future__ import annotations

import contextlib

from ._src.core import overriding
from ._src.core.later import facade
from ._src.core.native import Op, Scope, Tensor, held, mine
from ._src.core.native.scopes import WATCHING
from ._src.core.op import OPS
from ._src.core.overriding import FUNCTION, answered, disabled

__all__ = ["get_ignored_functions", "get_overridable_functions", "get_testing_overrides", "handle_torch_function",
           "has_torch_function", "resolve_name", "is_tensor_like",
           "is_tensor_method_or_property", "wrap_torch_function", "enable_reentrant_dispatch", "TorchFunctionMode",
           "BaseTorchFunctionMode"]
_disabled_torch_function_impl = disabled


class TorchFunctionMode(Scope):
    """Sees every function of the framework that is called in its ``with`` block: override ``__torch_function__``.

    >>> import rushlight as torch
    >>> class Twice(torch.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         return func(*args, **(kwargs or {})) * 2
    >>> with Twice():
    ...     torch.ones(2)
    tensor([2., 2.])
    """

    inner: "TorchFunctionMode"

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError(
            f"{type(self).__name__} must define __torch_function__(self, func, types, args=(), kwargs=None)")

    def __enter__(self):
        self.outer = held(WATCHING, self.outer, self)
        mine.modes += (self,)
        return self

    @classmethod
    def push(cls, *args, **kwargs):
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def has_torch_function(relevant_args) -> bool:
    """Whether a mode is active, or one of these arguments is of a class that overrides functions.

    >>> import rushlight as torch
    >>> torch.overrides.has_torch_function((torch.ones(1), 2))
    False
    """
    return bool(mine.modes) or not mine.plain and bool(overriding.overriding(tuple(relevant_args), FUNCTION))


def has_torch_function_unary(argument) -> bool:
    return has_torch_function((argument,))


def has_torch_function_variadic(*arguments) -> bool:
    return has_torch_function(arguments)


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Calls the ``__torch_function__`` of an active mode or of the first class among ``relevant_args`` that answers;
    TypeError if none does.

    >>> import rushlight as torch
    >>> class Mine:
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         return "mine"
    >>> torch.overrides.handle_torch_function(torch.sin, (Mine(),), Mine())
    'mine'
    """
    relevant = tuple(relevant_args)
    if mine.modes:
        return answered(public_api, args, kwargs)
    kinds = overriding.overriding(relevant, FUNCTION)
    for kind in kinds:
        found = next(a for a in relevant if type(a) is kind).__torch_function__(public_api, kinds, args, kwargs)
        if found is not NotImplemented:
            return found
    raise TypeError(
        f"no implementation found for '{resolve_name(public_api)}' on types that implement __torch_function__: "
        f"{[k.__name__ for k in kinds]}")


def wrap_torch_function(dispatcher):
    """Makes a function overridable: ``dispatcher`` takes its arguments and gives those whose classes may answer.

    >>> import rushlight as torch
    >>> @torch.overrides.wrap_torch_function(lambda a: (a,))
    ... def twice(a):
    ...     return a + a
    >>> twice(torch.ones(1))
    tensor([2.])
    """
    import functools

    def decorate(function):
        @functools.wraps(function)
        def run(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(run, relevant, *args, **kwargs)
            return function(*args, **kwargs)
        return run

    return decorate


def is_tensor_like(inp) -> bool:
    """Whether an object is a tensor, or of a class with ``__torch_function__``."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def is_tensor_method_or_property(func) -> bool:
    """Whether a function handed to ``__torch_function__`` is a member of Tensor."""
    name = getattr(func, "__name__", "")
    return name == "__get__" or getattr(Tensor, name, None) is func


def resolve_name(f):
    """The name by which users call a function: ``torch.sin``."""
    if isinstance(f, Op):
        return f"torch.{f.name}" if not f.traits.get("method_only") else f"torch.Tensor.{f.name}"
    if str(f).startswith("<method-wrapper"):
        return f"torch.Tensor.{getattr(getattr(f.__self__, 'fget', None), '__name__', '?')}.{f.__name__}"
    module = getattr(f, "__module__", None)
    return f"{module}.{f.__name__}" if module and hasattr(f, "__name__") else None


def get_overridable_functions():
    """The functions that can be overridden, by the module or class that holds them."""
    torch, found = facade(), {}
    for holder in (torch, torch.nn.functional, torch.linalg, torch.special, torch.fft, Tensor):
        found[holder] = [v for k, v in vars(holder).items() if isinstance(v, Op) and not k.startswith("_")]
    return found


def get_ignored_functions():
    """Functions that never ask ``__torch_function__``."""
    torch = facade()
    return {torch.is_tensor, torch.is_grad_enabled, torch.set_grad_enabled, torch.get_default_dtype, torch.manual_seed,
            torch.typename}


def get_testing_overrides():
    """For each overridable function a function of the same parameters that returns -1."""
    import inspect
    found = {}
    for op in OPS.values():
        if op.signature is not None and not op.name.startswith("prims."):
            def dummy(*args, **kwargs):
                return -1
            dummy.__signature__ = op.signature if isinstance(op.signature, inspect.Signature) else None
            found[op] = dummy
    return found


@contextlib.contextmanager
def enable_reentrant_dispatch():
    """A block in which ``__torch_dispatch__`` may call operators that dispatch again: always so here."""
    yield


@contextlib.contextmanager
def _enable_torch_function():
    """A block in which classes override functions again."""
    before, mine.plain = mine.plain, 0
    try:
        yield
    finally:
        mine.plain = before


def _get_current_function_mode():
    return mine.modes[-1] if mine.modes else None


def _get_current_function_mode_stack():
    return list(mine.modes)

"""Classes and modes that give operators another meaning: the protocol of ``__torch_function__``."""
from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from types import FunctionType, MethodWrapperType

from ._src.core import overriding
from ._src.core.later import facade
from ._src.core.native import Op, Scope, Tensor, held, mine
from ._src.core.native.scopes import WATCHING
from ._src.core.overriding import FUNCTION, DisableTorchFunction, answered, disabled

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
    if passed.over:
        passed.over = False
        return False
    return bool(mine.modes) or not mine.plain and bool(overriding.overriding(tuple(relevant_args), FUNCTION))


class Passed(threading.local):
    """Flag of this thread: the next function that calls ``has_torch_function`` runs without overrides."""

    over = False


passed = Passed()


def redispatch_function(func, types, args, kwargs):
    """Run a function without dispatch to modes and classes; functions that it calls dispatch as usual.

    >>> import rushlight as torch
    >>> class Noting(torch.Tensor):
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return torch.overrides.redispatch_function(func, types, args, kwargs)
    >>> type(torch.neg(torch.ones(2).as_subclass(Noting))) is torch.Tensor
    neg
    True
    """
    if isinstance(func, (Op, MethodWrapperType)) or func in names():
        with DisableTorchFunction():
            return func(*args, **(kwargs or {}))
    passed.over = True
    try:
        return func(*args, **(kwargs or {}))
    finally:
        passed.over = False


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
    return name in ("__get__", "__set__") or getattr(Tensor, name, None) is func


def spaces():
    """Return the namespaces of overridable functions, by dotted name."""
    torch = facade()
    return {"torch": torch, "torch.functional": torch.functional, "torch.nn.functional": torch.nn.functional,
            "torch.nn.init": torch.nn.init, "torch.Tensor": Tensor, "torch.linalg": torch.linalg,
            "torch.fft": torch.fft, "torch.special": torch.special}


def members(space):
    """(name, function, whether it reads a property) of what can be overridden in a module or in Tensor."""
    for name in dir(space):
        value = getattr(space, name, None) if not name.startswith("_") or name in overriding.MEMBERS else None
        own = space is Tensor and name in overriding.MEMBERS
        if isinstance(value, property) and own:
            yield name, value.__get__, True
        elif isinstance(value, Op) or own and callable(value):
            yield name, value, False


@functools.lru_cache
def names() -> dict:
    """{function: the dotted name of where it is found first}, a method's after that of a module's function."""
    found = {}
    for where, space in sorted(spaces().items(), key=lambda item: item[1] is Tensor):
        for name, function, read in members(space):
            found.setdefault(function, f"{where}.{name}.__get__" if read else f"{where}.{name}")
    return found


def resolve_name(f):
    """The name by which users call a function; None for what is none of the framework's.

    >>> import rushlight as torch
    >>> torch.overrides.resolve_name(torch.sin), torch.overrides.resolve_name(torch.Tensor.shape.__get__)
    ('torch.sin', 'torch.Tensor.shape.__get__')
    """
    if isinstance(f, (Op, FunctionType, MethodWrapperType)) and f in names():
        return names()[f]
    if isinstance(f, Op):
        return f"torch.{f.name}" if not f.traits.get("method_only") else f"torch.Tensor.{f.name}"
    module = getattr(f, "__module__", None)
    return f"{module}.{f.__name__}" if module and hasattr(f, "__name__") else None


def get_overridable_functions():
    """The functions that can be overridden, by the module, class or property that holds them.

    >>> import rushlight as torch
    >>> torch.sin in torch.overrides.get_overridable_functions()[torch]
    True
    """
    found = {}
    for space in spaces().values():
        for _, function, read in members(space):
            found.setdefault(function.__self__ if read else space, []).append(function)
    return found


def get_ignored_functions():
    """Functions that never ask ``__torch_function__``."""
    torch = facade()
    return {torch.is_tensor, torch.is_grad_enabled, torch.set_grad_enabled, torch.get_default_dtype, torch.manual_seed,
            torch.typename}


def get_testing_overrides():
    """For each overridable function a function of the same parameters that returns -1.

    >>> import rushlight as torch
    >>> torch.overrides.get_testing_overrides()[torch.sin](torch.ones(1))
    -1
    """
    return {function: answering(function) for function in names()}


def answering(function):
    """A function of the same parameters that returns -1."""
    def dummy(*args, **kwargs):
        return -1

    with contextlib.suppress(TypeError, ValueError):  # what has no signature takes anything
        given, empty = inspect.signature(function), inspect.Signature.empty
        plain = [parameter.replace(annotation=empty) for parameter in given.parameters.values()]
        dummy.__signature__ = given.replace(parameters=plain, return_annotation=empty)
    return dummy


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

"""The vocabulary of the typed subset, with its plain Python semantics.

Modules of the framework's hot path are ordinary Python that runs anywhere. If `rushlight._src.core.native.activate`
compiles them, these markers say what to compile and with which types; without compilation they only give the source its
semantics: slots with defaults, `__call__`, `__del__`.

>>> @native
... class Point:
...     x: i64
...     label: object
>>> p = Point()
>>> (p.x, p.label)
(0, None)
"""

import functools
import threading
import types
from dataclasses import dataclass

from ..forking import guarded

i64 = int
f64 = float


class Args(tuple):
    """The type of a `@vectorcall` method's arguments: a tuple, or in compiled code the caller's own array."""


@dataclass(frozen=True)
class Traits:
    """The options of `@native(...)` for a class; functions carry the defaults."""

    weakref: bool = False
    freelist: int = 0
    subclassable: bool = False
    binds: bool = False
    attributes: bool = False
    acyclic: bool = False
    called: bool = False


def native(target=None, *, weakref=False, freelist=0, subclassable=False, binds=False, attributes=False, acyclic=False,
           called=False):
    """Mark a class or function for compilation; a class gets slots for its annotated fields, zero or None at first.

    `weakref`: instances may be weakly referenced. `freelist`: how many dead instances are kept for reuse.
    `subclassable`: Python classes may derive from it. `binds`: instances found on a class bind like functions (the
    class needs a `@vectorcall` method). `attributes`: instances have a `__dict__`, and Python may set attributes of the
    class. `acyclic`: no instance is part of a reference cycle, so instances are not tracked by the garbage collector.
    `called`: with arguments, calling the class calls its `_rush_construct`.

    >>> @native
    ... def double(n: i64) -> i64:
    ...     return n * 2
    >>> double(21)
    42
    """
    traits = Traits(weakref, freelist, subclassable, binds, attributes, acyclic, called)

    def mark(target):
        if isinstance(target, type):
            return _plain_class(target, traits)
        target.__native__ = traits
        return target

    return mark if target is None else mark(target)


def vectorcall(method):
    """Make `def call(self, args: Args, names: tuple)` the implementation of calls of an instance.

    `args` holds the positional values, then the keyword values; `names` is the tuple of keyword names, or None when
    there are none.

    >>> @native
    ... class Echo:
    ...     @vectorcall
    ...     def call(self, args: Args, names: tuple) -> object:
    ...         return args[0]
    >>> Echo()("hello")
    'hello'
    """
    method.__vectorcall__ = True
    return method


def cast(kind, value):
    """`value`, which the source guarantees to be a `kind`; compiled code does not check."""
    return value


def inline(function):
    """Ask that calls from compiled code are always expanded in place; changes nothing else."""
    function.__inline__ = True
    return function


def exclusive(function):
    """Let one thread at a time into `function`: compiled code is never interrupted anyway, plain Python between any two
    lines."""
    @functools.wraps(function)
    def alone(*args):
        with _alone:
            return function(*args)

    return alone


_alone = guarded("memory", threading.RLock())
_ZEROS = {"i64": 0, "int": 0, "f64": 0.0, "float": 0.0, "bool": False}


def field_name(annotation):
    """The written form of an annotation, which may be a type or (postponed or quoted) its name."""
    return annotation.strip("'\"") if isinstance(annotation, str) else annotation.__name__


def _plain_class(source, traits):
    """The same class with slots, defaults, and the subset's special methods under their Python names."""
    fields = {name: _ZEROS.get(field_name(kind)) for name, kind in source.__annotations__.items()}
    body = {name: value for name, value in source.__dict__.items() if name not in ("__dict__", "__weakref__")}
    body["__slots__"] = (*fields, *["__weakref__"] * traits.weakref, *["__dict__"] * traits.attributes)
    body["__native__"] = traits

    if traits.binds:
        body["__get__"] = _bind
    for name, value in list(body.items()):
        if getattr(value, "__vectorcall__", False):
            body["__call__"] = _call_through(value)
    if "finalize" in body:
        body["__del__"] = body["finalize"]
    made = type(source.__name__, source.__bases__, body)
    made.__new__ = _maker(made, fields, traits.called)
    return made


def _maker(made, fields, called):
    """`__new__` of a class, with one assignment written out for each field: objects are made all the time."""
    given = ["    if args or names:", "        return cls._rush_construct(*args, **names)"] if called else [
        "    if cls is made and (args or names):", "        raise TypeError(f'{cls.__name__}() takes no arguments')"]
    lines = ["def __new__(cls, *args, **names):", *given, "    instance = make(cls)",
             *(f"    instance.{name} = {zero!r}" for name, zero in fields.items()), "    return instance"]
    scope = {"made": made, "make": object.__new__}
    exec("\n".join(lines), scope)
    return staticmethod(scope["__new__"])


def _call_through(method):
    def __call__(self, /, *args, **names):
        return method(self, args + tuple(names.values()), tuple(names)) if names else method(self, args, None)

    return __call__


def _bind(self, instance, owner=None):
    return self if instance is None else types.MethodType(self, instance)


class PerThread:
    """Made by `per_thread`: stands for the calling thread's own instance of a native class."""

    __slots__ = ("kind", "initial", "local", "forget")

    def __init__(self, kind, initial):
        object.__setattr__(self, "initial", initial)
        self.become(kind, None)

    def become(self, kind, forget):
        """Switch to another class; every thread starts again with the initial values, and calls `forget()` when it
        ends."""
        for name, value in (("kind", kind), ("forget", forget), ("local", threading.local())):
            object.__setattr__(self, name, value)

    def current(self):
        """The calling thread's instance, made when first asked for."""
        try:
            return self.local.held.instance
        except AttributeError:
            instance = self.kind()
            for name, value in self.initial.items():
                setattr(instance, name, value)
            self.local.held = _Held(instance, self.forget)
            return instance

    def __getattr__(self, name):
        return getattr(self.current(), name)

    def __setattr__(self, name, value):
        setattr(self.current(), name, value)


class _Held:
    """A thread's instance; calls `forget` before it is destroyed, so that cached addresses of it are dropped."""

    def __init__(self, instance, forget):
        self.instance, self.forget = instance, forget

    def __del__(self):
        if self.forget is not None:
            self.forget()


def per_thread(kind, **initial):
    """State that each Python thread has for itself: an instance of a native class with the given field values at first.

    A module-level name for it reads and writes the calling thread's fields; compiled code does so in a few nanoseconds.

    >>> @native
    ... class Mode:
    ...     grad: bool
    >>> mode = per_thread(Mode, grad=True)
    >>> mode.grad
    True
    """
    return PerThread(kind, initial)


def forward(function, args: Args, names: tuple):
    """Call `function` with the arguments of a `@vectorcall` method.

    >>> forward(dict, (1, 2), ("a", "b"))
    {'a': 1, 'b': 2}
    """
    if names is None:
        return function(*args)
    positional = len(args) - len(names)
    return function(*args[:positional], **dict(zip(names, args[positional:])))


def forward_with(function, first, args: Args, names: tuple):
    """Call `function` with `first` before the arguments of a `@vectorcall` method."""
    return forward(function, (first, *args), names)


def new_tuple(size: i64) -> tuple:
    """A fresh tuple of `size` entries, to give values with `tuple_set` and to finish with `filled` before anything else
    sees it.

    >>> t = new_tuple(2); tuple_set(t, 0, "a"); tuple_set(t, 1, "b"); filled(t)
    ('a', 'b')
    """
    return [None] * size


def tuple_set(target: tuple, index: i64, value) -> None:
    """Store `value` in a tuple made by `new_tuple`; an index out of range raises IndexError."""
    if index < 0:
        raise IndexError(f"tuple index {index} out of range for {len(target)} entries")
    target[index] = value


def filled(target: tuple) -> tuple:
    """The finished tuple that `new_tuple` began; compiled code, which filled the tuple itself, does nothing here."""
    return tuple(target)

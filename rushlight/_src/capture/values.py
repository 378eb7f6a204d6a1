"""Captured values: every Python value under capture, by what is known about it."""
from __future__ import annotations

import types

from ..._ops import Callable
from ..core.devices import device
from ..core.dtypes import dtype

# immutable classes that users extend, and methods that return the plain value of an instance
PLAIN_VALUE = {int: int.__int__, float: float.__float__, str: str.__str__, bytes: bytes.__bytes__}
NUMBERS_AND_TEXT = tuple(PLAIN_VALUE)
PLAIN = (int, float, str, bytes, bool, complex, type(None), type(...), type(NotImplemented), types.CodeType, range)
IDENTITIES = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType,
              types.WrapperDescriptorType,
              types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType, dtype, device,
              Callable)


class Source:
    """The run-time location of a value, as a Python expression.

    ``covered``: the modules' epoch or a Snapshot reports changes, so guards on it are only checked then.
    """

    __slots__ = ("parent", "suffix", "covered", "text")

    def __init__(self, parent, suffix: str, covered=False):
        self.parent, self.suffix, self.covered = parent, suffix, covered
        self.text = suffix if parent is None else parent.text + suffix

    def over(self, parent: str) -> str:
        """Return the expression of this source over that of its parent."""
        return parent + self.suffix

    def attribute(self, name: str, covered=False) -> "Source":
        return Source(self, f".{name}", covered) if name.isidentifier() else Source(self, f".__dict__[{name!r}]",
                                                                                    covered)

    def item(self, key: str, covered=False) -> "Source":
        return Source(self, f"[{key}]", covered)

    def each_call(self) -> "Source":
        """Return the same source, with guards that are checked at each call."""
        return Source(self.parent, self.suffix)

    def chain(self) -> list:
        """Return the sources that this one is found through, outermost first, and itself."""
        return [self] if self.parent is None else [*self.parent.chain(), self]

    def __str__(self):
        return self.text

    def __eq__(self, other):
        return isinstance(other, Source) and self.text == other.text

    def __hash__(self):
        return hash(self.text)


class StoredItem(Source):
    """An item as stored by a builtin ``base``, regardless of a ``__getitem__`` of its owner's class."""

    __slots__ = ("base",)

    def __init__(self, parent, base: str, key: str):
        super().__init__(parent, f"[{key}]")
        self.base = base
        self.text = self.over(parent.text)

    def over(self, parent: str) -> str:
        return f"{self.base}.__getitem__({parent}, {self.suffix[1:-1]})"


class SlotValue(Source):
    """The value in a slot, read by its descriptor, regardless of a ``__getattr__`` of its owner's class."""

    __slots__ = ()

    def __init__(self, parent, descriptor: str):
        super().__init__(parent, descriptor)
        self.text = self.over(parent.text)

    def over(self, parent: str) -> str:
        return f"{self.suffix}.__get__({parent})"


class Value:
    """A value of the program under capture.  ``source``: its origin, None if it was made here."""

    source: Source | None = None


class Null(Value):
    """CPython's NULL on the value stack."""


NULL = Null()


class Constant(Value):
    """An immutable value that is known."""

    def __init__(self, value, source=None):
        self.value, self.source = value, source


class Offset(Value):
    """The offset of an instruction that raised, which CPython keeps on the stack of a handler."""

    def __init__(self, offset):
        self.offset = offset


class Handled(Value):
    """The slot for the exception that was handled ``before``, while a handler of ``error`` runs."""

    def __init__(self, before, error):
        self.before, self.error = before, error


class Number(Value):
    """A number that varies between calls; ``hint`` is its current value.

    Ints and comparisons of data-dependent ints are Exprs over symbols; any other number is Python source ``text`` over
    the inputs, or ``fake``, a value of the graph.  For data-dependent numbers only the type of ``hint`` is meaningful.
    """

    def __init__(self, hint, expr=None, text=None, fake=None):
        self.hint, self.expr, self.text, self.fake = hint, expr, text, fake


class Object(Value):
    """An object that exists outside the program; ``payload`` is the container it extends, for subclasses of list and
    dict."""

    loose = False  # True for a function whose code is assumed, but not yet its identity

    def __init__(self, value, source=None):
        self.value, self.source, self.payload = value, source, None


class Lazy(Value):
    """A value that nothing has inspected yet, so nothing is assumed of it."""

    def __init__(self, value, source):
        self.value, self.source = value, source


class Comparison(Value):
    """A comparison of dynamic sizes that nothing has depended on yet, so no guard decides it; ``condition``: an
    Expr."""

    def __init__(self, condition):
        self.condition = condition


class TensorValue(Value):
    """A tensor, recorded as ``fake``."""

    def __init__(self, fake, source=None):
        self.fake, self.source = fake, source


class WrapperValue(TensorValue):
    """A tensor of a class with ``__torch_dispatch__``: ``fake`` is an instance, over fake tensors."""


class NestedValue(WrapperValue):
    """A nested tensor: ``fake`` is a nested tensor over fake rows."""


class RaggedValue(Object):
    """The ragged dimension of nested tensors; ``starts`` are its offsets, a TensorValue."""


class ArrayValue(Value):
    """A NumPy array or scalar: ``array`` is the object that NumPy's functions receive."""

    def __init__(self, array, source=None):
        self.array, self.source = array, source


class Deferred(Value):
    """A string or a statement that Python makes after the graph has run: a ``template`` of its code, and its
    operands."""

    def __init__(self, template, operands):
        self.template, self.operands = template, operands


class Sequence(Value):
    """A list, tuple, deque or named tuple."""

    def __init__(self, kind, items, source=None):
        self.kind, self.items, self.source, self.changed = kind, items, source, False
        self.limit = None  # a deque's maxlen
        self.outer = None  # a named tuple with attributes, from outside


class Mapping(Value):
    """A dict: Python keys to Values.  ``factory`` is a defaultdict's, as a Value."""

    def __init__(self, items, source=None, kind=dict, factory=None):
        self.items, self.source, self.kind, self.factory, self.changed = items, source, kind, factory, False
        self.original = list(items)  # its keys when capture first saw it


class Identity(Value):
    """``id()`` of a Value."""

    def __init__(self, of):
        self.of = of


class Key:
    """A dict key for an object that Python cannot hash now: hashed by identity, or by the hash that its class computes.

    ``same(a, b)``: True if two Values are equal.
    """

    def __init__(self, value, number, same):
        self.value, self.number, self.same = value, number, same

    def __hash__(self):
        return self.number

    def __eq__(self, other):
        return self is other or isinstance(other, Key) and self.number == other.number and self.same(
            self.value, other.value)


class Namespace(Mapping):
    """The current ``__dict__`` of an object."""

    def __init__(self, items, owner):
        super().__init__(items)
        self.owner = owner


class View(Value):
    """The result of ``keys()``, ``values()`` or ``items()`` of a dict."""

    def __init__(self, mapping, part):
        self.mapping, self.part = mapping, part


class SetValue(Value):
    """A set: the items of a dict by their Python keys; ``order`` is a set with the same history, which has the
    iteration order."""

    def __init__(self, items, source=None, kind=set, order=None):
        self.items, self.source, self.kind, self.changed = items, source, kind, False
        self.order = set(items) if order is None else order
        self.original = frozenset(items)  # its content when capture first saw it


class Function(Value):
    """A function made by the program."""

    def __init__(self, code, namespace, defaults=(), keyword_defaults=None, closure=(), name=None):
        self.code, self.namespace, self.defaults, self.closure = code, namespace, defaults, closure
        self.keyword_defaults, self.name = keyword_defaults or {}, name or code.co_name
        self.attributes: dict = {}


class Method(Value):
    """A function bound to its first argument."""

    def __init__(self, function, owner):
        self.function, self.owner = function, owner


class ContainerMethod(Value):
    """A method of a container or of an immutable value, by name."""

    def __init__(self, owner, name):
        self.owner, self.name = owner, name


class Cell(Value):
    """A variable that closures share; ``content`` None while empty."""

    def __init__(self, content=None, source=None):
        self.content, self.source, self.changed = content, source, False


class IteratorValue(Value):
    """An iterator over a known sequence; ``watched`` is the dict, set or deque that must not change its size meanwhile,
    ``keys`` what it held, and ``made_at`` the instruction that made the iterator.

    ``of``: the object the program iterates over if that is not the sequence: ``iter(of)``, or ``reversed(of)`` if
    ``turned``. A list is read at each step as it is then; if ``turned``, ``position`` counts down.
    """

    watched, size, keys, made_at, of, turned = None, 0, (), None, None, False

    def __init__(self, sequence, position=0, of=None, turned=False):
        self.sequence, self.position, self.of, self.turned = sequence, position, of, turned


class Rows(IteratorValue):
    """``zip`` or ``enumerate`` (the ``kind``) of known iterators; ``position`` is the next number of an enumeration."""

    def __init__(self, kind, parts, position=0):
        super().__init__(None, position)
        self.kind, self.parts = kind, parts


class GeneratorValue(Value):
    """A generator: its frame, and how to make it again while it has not started.  ``kind``: the builtin that its
    function implements."""

    kind = None

    def __init__(self, frame, function, arguments):
        self.frame, self.function, self.arguments = frame, function, arguments
        self.started = self.finished = False


class Instance(Value):
    """An object made by the program; ``payload`` is the container it extends, for subclasses of list, dict or tuple."""

    def __init__(self, cls, payload=None):
        self.cls, self.payload = cls, payload


class ExceptionValue(Value):
    """An exception made by the program.  ``raised``: it has a traceback; ``suppress``: its context is not shown."""

    def __init__(self, cls, arguments):
        self.cls, self.arguments = cls, list(arguments)
        self.cause = self.context = None
        self.raised = self.suppress = False


class HookHandle(Value):
    """The result of ``register_hook`` of a tensor from outside, by the ``method`` of that name; ``removed`` again, or
    registered at the end of the segment."""

    removed = False

    def __init__(self, tensor, method, hook, place):
        self.tensor, self.method, self.hook, self.place = tensor, method, hook, place


class Super(Value):
    """``super()``: the class after which lookup starts, and the object."""

    def __init__(self, cls, owner):
        self.cls, self.owner = cls, owner


class Partial(Value):
    """``functools.partial`` made by the program."""

    def __init__(self, function, arguments, keywords):
        self.function, self.arguments, self.keywords = function, arguments, keywords

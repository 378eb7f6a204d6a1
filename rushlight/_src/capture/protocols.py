"""Special methods as builtins call them: results are checked and converted as CPython does."""
from __future__ import annotations

import functools
import operator
import types

from . import polyfills
from .classes import ABSENT, static
from .errors import Break
from .parts import CALLED, Part
from .values import Constant, Deferred, GeneratorValue, Instance, IteratorValue, Number, Object, TensorValue

ASKED = {"__len__": len, "__bool__": bool, "__contains__": lambda owner: 0 in owner, "__hash__": hash,
         "__index__": operator.index, "__int__": int,
         # the caller of the method
         "__float__": float, "__complex__": complex, "__str__": str, "__repr__": repr, "__iter__": iter,
         "__format__": format}
FITTING = {"__bool__": bool, "__contains__": bool, "__hash__": int, "__index__": int, "__int__": int,
           "__float__": float, "__complex__": complex,
           "__str__": str, "__repr__": str, "__format__": str}  # result types without conversion


def stand_in(cls, name, answer):
    """Return an object whose special method returns this answer; errors name the class."""
    return type(cls.__name__, (), {name: lambda self, *arguments: answer, "__qualname__": cls.__qualname__})()


@functools.cache
def unpacker(count):
    """Return a function that unpacks into ``count`` targets by CPython itself, for its version's error messages."""
    targets, namespace = "".join(f"v{k}, " for k in range(count)) or "()", {}
    exec(f"def unpack(value):\n    {targets} = value\n    return [{targets if count else ''}]", namespace)
    return namespace["unpack"]


def enter_context(manager):
    """Enter a context manager, for the error of an object that is not one."""
    with manager:
        pass


class Protocols(Part, part="protocols"):
    """Capture component that calls special methods."""

    needs = "absence", "arithmetic", "attributes", "calls", "classes", "numbers", "values"

    def has(self, value, name):
        """Return the special method of a user's class as a Value; None if it has none.  Break for one that is not a
        Python function."""
        cls = self.classes.user_class(value)
        if not cls:
            return None
        found = self.classes.class_attribute(cls, name)
        raw = ABSENT if found else self.absence.find(cls, name)
        if raw is not ABSENT and not isinstance(raw, (types.WrapperDescriptorType, types.MethodDescriptorType)):
            raise Break("RB004", f"{name} of a {cls.__name__}")
        return found

    def context_method(self, value, name):
        """Return ``__enter__`` or ``__exit__`` of a context manager, bound."""
        if isinstance(value, (TensorValue, Constant)):
            raise Break("RB004", f"with on a {self.values.describe(value)}")
        cls = self.classes.class_of(value)
        if self.absence.find(cls, name) is ABSENT:
            self.absence.lack_in_class(cls, name)
            has = {"__enter__": lambda self: None} if name == "__exit__" else {}
            self.arithmetic.fold(enter_context, [Constant(type(cls.__name__, (), {
                **has, "__qualname__": cls.__qualname__, "__module__": cls.__module__})())])
        return self.attributes.getattr(value, name)

    def answered(self, name, method, owner, *more):
        """Return a builtin's result from that of a special method; None if a frame was pushed."""
        return self.calls.call_python(polyfills.answered, [Constant(name), method, owner, *more])

    @CALLED.by(polyfills.conforming)
    def conforming(self, name, cls, answer):
        """Return the result of a special method as the calling builtin would."""
        name, cls, answer = self.values.known(name), self.values.known(cls), self.values.force(answer)
        if name == "__contains__":
            return Constant(self.arithmetic.truth(answer))
        if isinstance(answer, TensorValue) and name in ("__len__", "__index__", "__int__"):
            return self.numbers.number_in(answer, int)
        if isinstance(answer, Number) and name in ("__len__", "__index__", "__int__", "__float__"):
            if type(answer.hint) is FITTING.get(name, int) and not (name == "__len__"
                                                                    and self.arithmetic.truth(
                                                                        self.arithmetic.compare("<", answer,
                                                                          Constant(0)))):
                return answer
            answer = Constant(self.values.known(answer))
        if isinstance(answer, Deferred) and FITTING.get(name) is str:
            return answer
        if isinstance(answer, Constant) and type(answer.value) is FITTING.get(name) and name != "__hash__":
            return answer
        if name == "__iter__" and self.iterates(answer):
            return answer
        given = answer.value if isinstance(answer, Constant) else stand_in(self.classes.class_of(answer), "", None)
        return self.arithmetic.fold(ASKED[name], [Constant(stand_in(cls, name, given))])

    def iterates(self, value) -> bool:
        """True if a Value is an iterator."""
        return isinstance(value, (IteratorValue,
                                  GeneratorValue)) or isinstance(value, (Object, Instance)) and static(
                                      self.classes.class_of(value), "__next__") is not ABSENT

    def index_of(self, value):
        """Return a Value for use as an integer: the result of ``__index__`` of a user's class, or the value itself."""
        value = self.values.force(value)
        found = self.classes.user_class(value) and self.has(value, "__index__")
        return self.now_answered("__index__", found, value) if found else value

    def now_answered(self, name, method, owner, *more):
        """As ``answered``, within one instruction."""
        return self.machine.now(self.values.from_python(polyfills.answered), [Constant(name), method, owner, *more])

    def slice_bound(self, value):
        """Return a bound of a slice: a symbol if it varies."""
        value = self.values.force(value)
        if isinstance(value, TensorValue) and not value.fake._rush_meta.shape:
            value = self.values.force(self.numbers.number_in(value, int))
        return value.expr if isinstance(value, Number) and value.expr is not None else self.values.known(value)

"""The overloads of PyTorch's operators, by their schemas: what each takes, and which of them a call means."""
from __future__ import annotations

import ast
import functools
import pathlib
import re

from .._src.core.devices import device
from .._src.core.dtypes import dtype
from .._src.core.expr import Expr
from .._src.core.meta import Meta
from .._src.core.native import Tensor
from .._src.core.random import Generator
from .._src.graph.graph import Node
from .schema import split

TYPE = re.compile(r"^(?P<base>\w+)(?:\([^)]*\))?(?P<inner>\?)?(?P<list>\[(?P<count>\d*)\])?(?P<outer>\?)?$")
NUMBERS = {"Scalar": (int, float, complex, Expr), "float": (float, int, Expr), "int": (int, Expr),
           "SymInt": (int, Expr), "bool": (bool,), "str": (str,), "Device": (device, str), "ScalarType": (dtype,),
           "Generator": (Generator,)}
MISSING = object()


class Argument:
    """One argument of a schema: ``name``, ``type`` as schemas write it, ``default_value``, ``kwarg_only``, and whether
    the operator writes into it (``is_write``)."""

    def __init__(self, text: str, kwarg_only: bool):
        head, given, default = text.partition("=")
        self.type, _, self.name = head.rpartition(" ")
        found = TYPE.match(self.type)
        self.base, self.several, self.kwarg_only = found["base"], bool(found["list"]), kwarg_only
        self.optional = bool(found["outer"] or found["inner"] and not found["list"])
        self.holes = bool(found["inner"] and found["list"])
        self.N = int(found["count"]) if found["count"] else None
        self.is_write, self.required = "!" in self.type, not given
        self.default_value = None if not given else literal(default)

    def has_default_value(self) -> bool:
        return not self.required

    @property
    def alias_info(self):
        return self if "(" in self.type else None

    def fits(self, value):
        """How far a value is from this type: 0, 1 where it is converted, None where it cannot be taken."""
        if value is None:
            return 0 if self.optional else None
        if not self.several:
            return fits(value, self.base)
        if isinstance(value, (list, tuple)):
            found = [0 if v is None and self.holes else fits(v, self.base) for v in value]
            return None if None in found else max(found, default=0)
        return fits(value, self.base) if self.N or self.base == "Tensor" and is_tensor(value) and self.holes else None

    def written(self, value):
        """A value as PyTorch passes it on: lists for sizes, floats for floats."""
        if self.several and value is not None:
            value = list(value) if isinstance(value, (list, tuple)) else [value] * (self.N or 1)
            return value * self.N if self.N and len(value) == 1 and self.base != "Tensor" else value
        return float(value) if self.base == "float" and type(value) is int else value

    def is_default(self, value) -> bool:
        """Whether a value is the one that is taken where none is given."""
        wanted = self.written(self.default_value)
        if self.base == "Scalar" and type(value) in (int, float) and type(wanted) in (int, float):
            return not self.required and value == wanted
        return not self.required and type(value) is type(wanted) and same(value, wanted)

    def __repr__(self):
        return f"{self.type} {self.name}" + ("" if self.required else f"={self.default_value}")


class Overload:
    """One overload: ``name``, ``overload_name``, ``arguments``, ``returns``."""

    def __init__(self, line: str):
        head, _, rest = line.partition("(")
        body, _, self.result = rest.rpartition(") -> ")
        self.name, _, self.overload_name = head.partition(".")
        self.text, self.arguments, named = line, [], False
        for part in split(body):
            named = named or part == "*"
            if part != "*":
                self.arguments.append(Argument(part, named))
        self.by_name = {a.name: a for a in self.arguments}

    is_mutable = property(lambda self: any(a.is_write for a in self.arguments))

    @property
    def returns(self) -> list:
        inner = self.result.strip()
        parts = split(inner[1:-1]) if inner.startswith("(") else [inner]
        return [Argument(p if " " in p else f"{p} ", False) for p in parts]

    def call(self, values: dict) -> tuple:
        """Arguments by name as those of a call, without what is the default at its end."""
        args = [(a, a.written(values.get(a.name, a.default_value))) for a in self.arguments if not a.kwarg_only]
        while args and (args[-1][0].name not in values or args[-1][0].is_default(args[-1][1])):
            args.pop()
        kwargs = {a.name: a.written(values[a.name]) for a in self.arguments if a.kwarg_only and a.name in values
                  and not a.is_default(a.written(values[a.name]))}
        return tuple(value for _, value in args), kwargs

    def whole(self, args, kwargs) -> list | None:
        """All arguments of a call in order, defaults too; None where they do not fit."""
        found = self.bind(args, kwargs)
        return None if found is None else [a.written(found.get(a.name, a.default_value)) for a in self.arguments]

    def bind(self, args, kwargs) -> dict | None:
        """Arguments of a call by name; None where it has too many, unknown ones, or lacks some."""
        positional = [a.name for a in self.arguments if not a.kwarg_only]
        if len(args) > len(positional) or not set(kwargs) <= set(self.by_name):
            return None
        found = dict(zip(positional, args))
        if found.keys() & kwargs.keys():
            return None
        found.update(kwargs)
        return found if all(not a.required or a.name in found for a in self.arguments) else None

    def conversions(self, args, kwargs) -> int | None:
        """How many arguments of a call are converted; None where it does not take them."""
        bound = self.bind(args, kwargs)
        found = [None] if bound is None else [self.by_name[name].fits(value) for name, value in bound.items()]
        return None if None in found else sum(found)


def same(a, b) -> bool:
    """Whether values are equal, and of one type within lists, too."""
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and not isinstance(a, (Expr, Node, Tensor)) and a == b


def literal(text: str):
    """The value of a default."""
    return float(text) if text in ("inf", "nan") else ast.literal_eval(text)


def is_tensor(value) -> bool:
    return isinstance(value, (Tensor, Meta)) or isinstance(value, Node) and not value.weak


def fits(value, base: str):
    """How far a single value is from a type: see ``Argument.fits``."""
    if base == "Tensor":
        return 0 if is_tensor(value) else 1 if isinstance(value, (int, float, complex, Expr, Node)) else None
    if isinstance(value, Node):
        return 0 if base in ("Scalar", "float", "int", "SymInt", "bool") and value.weak else None
    if base not in NUMBERS:
        return None if isinstance(value, (Tensor, Meta, int, float, complex, str, list, tuple)) else 0
    if isinstance(value, bool) and base != "bool":
        return 0 if base == "Scalar" else None
    if not isinstance(value, NUMBERS[base]):
        return None
    return 1 if base == "float" and isinstance(value, int) else 0


@functools.cache
def lines() -> dict:
    """Name -> the lines of its overloads."""
    found: dict = {}
    for line in (pathlib.Path(__file__).parent / "aten.txt").read_text(encoding="utf-8").splitlines():
        found.setdefault(re.match(r"\w+", line)[0], []).append(line)
    return found


@functools.cache
def overloads(name: str) -> dict:
    """The overloads of ``aten::name`` by their names ("default" where it has none); empty where none is known."""
    made = map(Overload, lines().get(name, ()))
    return {o.overload_name or "default": o for o in made}

"""Schemas: ``foo(Tensor x, float scale=1.0) -> Tensor``, written by the user or read off a function's annotations."""
from __future__ import annotations

import inspect
import re
import typing

from .._src.core.devices import device
from .._src.core.dtypes import BY_NAME, dtype
from .._src.core.native import Tensor

NAMES = {Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", complex: "Scalar",
         dtype: "ScalarType", device: "Device"}
TYPES = {"Tensor": Tensor, "SymInt": int, "int": int, "float": float, "bool": bool, "str": str, "Scalar": float,
         "ScalarType": dtype, "Device": device, "complex": complex}
ARGUMENT = re.compile(
    r"^(?P<type>[\w.]+(?:\[\d*\])?\??(?:\[\d*\])?\??)(?:\((?P<alias>\w+!?)(?:\s*->\s*[^)]*)?\))?(?P<written>!)?"
    r"(?P<rest>[\[\]\d?]*)\s+(?P<name>\w+)(?:\s*=\s*(?P<default>.+))?$")


class Schema:
    """The parameters of an operator, which of them it writes into, and how many results it has.

    ``several``: whether results come as a tuple, or (``"list"``) as a list; None where there is none.
    """

    def __init__(self, name, text, signature, mutated, returns):
        self.name, self.text, self.signature, self.mutated, self.returns = name, text, signature, mutated, returns

    @property
    def is_mutable(self):
        return bool(self.mutated)

    def __str__(self):
        return f"{self.name}{self.text}"


def parse(schema: str) -> Schema:
    """A Schema from its text.  ValueError for what cannot be read."""
    found = re.match(r"^\s*(?P<name>[\w:.]+)?\s*\((?P<arguments>.*)\)\s*->\s*(?P<returns>.+?)\s*$", schema, re.S)
    if not found:
        raise ValueError(f"cannot read the schema {schema!r}: write it as 'name(Tensor x, int n=1) -> Tensor'")
    parameters, mutated, kind = [], [], inspect.Parameter.POSITIONAL_OR_KEYWORD
    for text in split(found["arguments"]):
        if text == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
            continue
        one = ARGUMENT.match(text)
        if not one:
            raise ValueError(
                f"cannot read the argument {text!r} of the schema {schema!r}: write it as 'type name' or 'type "
                "name=default'")
        default = inspect.Parameter.empty if one["default"] is None else literal(one["default"])
        parameters.append(inspect.Parameter(one["name"], kind, default=default,
                                            annotation=one["type"] + (one["rest"] or "")))
        if one["written"] or (one["alias"] or "").endswith("!"):
            mutated.append(one["name"])
    return Schema(found["name"] or "", schema[schema.index("("):].strip(), inspect.Signature(parameters),
                  tuple(mutated), found["returns"].strip())


def split(text: str) -> list:
    """A text at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for k, letter in enumerate(text):
        depth += letter in "([" or -(letter in ")]")
        if letter == "," and not depth:
            parts.append(text[start:k].strip())
            start = k + 1
    return [p for p in (*parts, text[start:].strip()) if p]


def literal(text: str):
    """The value that a default in a schema means."""
    import ast
    known = {"None": None, "True": True, "False": False, "Mean": 1}
    if text in known:
        return known[text]
    if text in BY_NAME:
        return BY_NAME[text]
    return ast.literal_eval(text)


def infer_schema(prototype_function, /, *, mutates_args=(), op_name=None) -> str:
    """The schema that a function's annotations say.  ValueError for a parameter without one, or of a type that schemas
    lack.

    >>> from rushlight import Tensor
    >>> from rushlight.library import infer_schema
    >>> def scaled(x: Tensor, by: float = 2.0) -> Tensor: ...
    >>> infer_schema(scaled, mutates_args=())
    '(Tensor x, float by=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function)
    hints = typing.get_type_hints(prototype_function)
    parts, starred = [], False
    for k, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ValueError(
                f"infer_schema(): the parameter {parameter} stands for any number of arguments: name each of them")
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        if name not in hints:
            raise ValueError(f"infer_schema(): Parameter {name} must have a type annotation, such as {name}: Tensor")
        written = mutates_args == "unknown" and hints[
            name] is Tensor or name in mutates_args and mutates_args != "unknown"
        text = name_of(hints[name], name)
        text = text.replace("Tensor", f"Tensor(a{k}!)", 1) if written else text
        parts.append(f"{text} {name}" + ("" if parameter.default is parameter.empty
                                         else f"={default_text(parameter.default)}"))
    missing = [n for n in mutates_args if n not in signature.parameters] if mutates_args != "unknown" else []
    if missing:
        raise ValueError(
            f"infer_schema(): mutates_args names {missing}, but the function has the parameters "
            f"{list(signature.parameters)}")
    if "return" not in hints:
        raise ValueError(
            "infer_schema(): No return type annotation was provided: write '-> Tensor', '-> tuple[Tensor, ...]' or "
            "'-> None'")
    return f"{op_name or ''}({', '.join(parts)}) -> {returns_text(hints['return'])}"


def default_text(value) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).replace("torch.", "")


def returns_text(hint) -> str:
    if hint in (None, type(None)):
        return "()"
    if typing.get_origin(hint) is tuple:
        return f"({', '.join(name_of(a, 'return') for a in typing.get_args(hint))})"
    return name_of(hint, "return")


def name_of(hint, name) -> str:
    """A type annotation as schemas write it."""
    if hint in NAMES:
        return NAMES[hint]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is not None and type(None) in inner and len(inner) > 1:
        return name_of(typing.Union[tuple(i for i in inner if i is not type(None))], name) + "?"
    if origin in (list, typing.get_origin(typing.Sequence[int])) and inner:
        return name_of(inner[0], name) + "[]"
    if origin is typing.Union and set(inner) <= {int, float, bool, complex}:
        return "Scalar"
    raise ValueError(
        f"infer_schema(): the parameter {name} has the unsupported type {hint}. Supported are Tensor, int, float, "
        "bool, str, dtype, device, "
        "Optional and lists of these.")

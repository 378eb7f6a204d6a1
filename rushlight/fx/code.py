"""A graph as Python: names, how each node is written, and the globals that the text needs."""
from __future__ import annotations

import builtins
import keyword
import math
import operator
import re

from .._src.autograd.mode import set_recording
from .._src.compat.homes import public_path
from .._src.core.convert import strided
from .._src.core.later import facade
from .._src.core.native import Op, Tensor
from .._src.core.random import default_generator
from .node import Node

MAGIC = {"eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}", "ge": "{} >= {}",
         "pos": "+{}", "neg": "-{}", "invert": "~{}"}
REFLECTABLE = {"add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}", "truediv": "{} / {}",
               "mod": "{} % {}", "pow": "{} ** {}",
               "lshift": "{} << {}", "rshift": "{} >> {}", "and_": "{} & {}", "or_": "{} | {}", "xor": "{} ^ {}",
               "matmul": "{} @ {}"}
MAGIC = MAGIC | REFLECTABLE
INPLACE = {"iadd": "{} += {}", "isub": "{} -= {}", "imul": "{} *= {}", "itruediv": "{} /= {}", "ifloordiv": "{} //= {}",
           "imod": "{} %= {}", "ipow": "{} **= {}",
           "iand": "{} &= {}", "ior": "{} |= {}", "ixor": "{} ^= {}", "ilshift": "{} <<= {}", "irshift": "{} >>= {}",
           "imatmul": "{} @= {}"}
RED, GREEN, BLUE, DIM, RESET = "\x1b[31m", "\x1b[32m", "\x1b[34m", "\x1b[2m", "\x1b[0m"
ABBREVIATIONS = {"bfloat": "bf", "float": "f", "complex": "c", "uint": "u", "int": "i", "bool": "b8"}
RESERVED = frozenset((*keyword.kwlist, *dir(builtins), "torch", "self", "device", "inf", "nan", "NoneType", "math",
                      "operator"))


def snake_case(text: str) -> str:
    """``BatchNorm2d`` as ``batch_norm2d``."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", text).lower()


class Namespace:
    """Names that are taken; ``create`` makes a new one out of a candidate."""

    def __init__(self):
        self.taken, self.counts, self.objects = set(), {}, {}

    def create(self, candidate: str, owner=None) -> str:
        """A name near the candidate that nothing else has; the same for the same ``owner``."""
        if owner is not None and id(owner) in self.objects:
            return self.objects[id(owner)]
        stem = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if stem[0].isdigit():
            stem = f"_{stem}"
        name = stem
        found = re.match(r"(.*)_(\d+)$", stem)
        if name in self.taken or name in RESERVED:
            stem, count = (found[1], int(found[2])) if found else (stem, 0)
            count = max(count, self.counts.get(stem, 0))
            while name in self.taken or name in RESERVED:
                count += 1
                name = f"{stem}_{count}"
            self.counts[stem] = count
        self.taken.add(name)
        if owner is not None:
            self.objects[id(owner)] = name
        return name


def qualified_name(function) -> str:
    """The name under which Python code reaches a function."""
    if function == default_generator.reserve:
        return "torch.default_generator.reserve"
    if function is set_recording:
        return "torch._C._set_grad_enabled"
    if isinstance(function, Op):
        return public_path(function) or f"torch.{function.name}"
    kind = type(function).__name__
    if kind in ("OpOverload", "OpOverloadPacket"):
        return f"torch.ops.{function}"
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__",
                                                                  None) or getattr(function, "__name__", repr(function))
    module = {"_operator": "operator", "builtins": ""}.get(module, module or "")
    if getattr(builtins, name, None) is function:
        return name
    if module == "math" or getattr(math, name, None) is function:
        return f"math.{name}"
    if module.split(".")[0] == "rushlight":
        module = "torch" if getattr(facade(), name, None) is function else "torch" + module[len("rushlight"):]
    return f"{module}.{name}" if module else name


def base_name(target) -> str:
    """Return the base name of the result of calling a target."""
    if isinstance(target, str):
        return target
    name = target.name if isinstance(target, Op) else getattr(target, "_opname", None) or getattr(target, "__name__",
                                                                                                  type(target).__name__)
    return name.rpartition(".")[2].strip("_") or "call"


class PythonCode:
    """``src``: the text; ``globals``: what it refers to by name."""

    def __init__(self, src: str, globals: dict, _lineno_map=None):
        self.src, self.globals, self._lineno_map = src, globals, _lineno_map or {}


class Writer:
    """Writes one graph as a function."""

    def __init__(self, graph, root: str, verbose=False, release=True, include_stride=False, include_device=False,
                 colored=False, expanded_def=False):
        self.graph, self.root, self.verbose, self.release = graph, root, verbose, release
        self.include_stride, self.include_device, self.expanded_def = include_stride, include_device, expanded_def
        self.colored = colored
        self.globals, self.names = {"torch": facade()}, {}
        self.taken = {node.name for node in graph.nodes}

    def named(self, function) -> str:
        """An expression for a function: a path from a module if it leads there, else a global of its own."""
        path = qualified_name(function)
        first, *rest = path.split(".")
        known = {"torch": self.globals["torch"], "math": math, "operator": operator}
        where = known.get(first) if rest else getattr(builtins, first, None)
        for part in rest:
            where = getattr(where, part, None)
        if where is function or rest and type(where) is type(function) and where == function:
            if first in known:
                self.globals[first] = known[first]
            return path
        return self.constant(function, path)

    def constant(self, value, hint: str) -> str:
        """A global that holds an object."""
        known = self.names.get(id(value))
        if known is None:
            stem = name = re.sub(r"[^0-9a-zA-Z_]+", "_", hint).strip("_") or "constant"
            count = 0
            while name in self.taken or name in self.globals or name in RESERVED or name[0].isdigit():
                count += 1
                name = f"{stem}_{count}" if not stem[0].isdigit() else f"_{stem}_{count}"
            known = self.names[id(value)] = name
            self.globals[name] = value
        return known

    def value(self, value) -> str:
        """An argument as Python."""
        if isinstance(value, Node):
            return value.name
        if isinstance(value, tuple):
            if hasattr(value, "_fields"):
                return f"{self.constant(type(value), type(value).__name__)}({', '.join(map(self.value, value))})"
            return f"({', '.join(map(self.value, value))}{',' if len(value) == 1 else ''})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.value, value))}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{k!r}: {self.value(v)}' for k, v in value.items())}}}"
        if isinstance(value, slice):
            return f"slice({self.value(value.start)}, {self.value(value.stop)}, {self.value(value.step)})"
        return self.leaf(value)

    def leaf(self, value) -> str:
        if value is None or value is Ellipsis or type(value) in (bool, int, str, bytes,
                                                                 complex) or type(value) is float and math.isfinite(
                                                                     value):
            return "..." if value is Ellipsis else repr(value)
        if type(value) is float:
            return f"float({str(value)!r})"
        if isinstance(value, self.globals["torch"].dtype):
            return repr(value)
        if isinstance(value, self.globals["torch"].device):
            return f"torch.{value!r}"
        if callable(value) and hasattr(value, "__name__") or isinstance(value, Op):
            return self.named(value)
        return self.constant(value, f"_{type(value).__name__}")

    def call(self, callee: str, args, kwargs) -> str:
        given = [self.value(a) for a in args] + [f"{k} = {self.value(v)}" for k, v in kwargs.items()]
        return f"{callee}({', '.join(given)})"

    def attribute(self, owner: str, path: str) -> str:
        """``self.layers.0`` as Python: names that are no identifiers by getattr."""
        for part in path.split("."):
            owner = f"{owner}.{part}" if part.isidentifier() and not keyword.iskeyword(
                part) else f'getattr({owner}, "{part}")'
        return owner

    def expression(self, node) -> str:
        """The right-hand side of a node."""
        if node.op == "get_attr":
            return self.attribute(self.root, node.target)
        if node.op == "call_module":
            return self.call(self.attribute(self.root, node.target), node.args, node.kwargs)
        if node.op == "call_method":
            return self.call(f"{self.operand(node.args[0])}.{node.target}", node.args[1:], node.kwargs)
        target, name = node.target, getattr(node.target, "__name__", "")
        if target is getattr and len(node.args) == 2 and isinstance(node.args[1], str) and node.args[1].isidentifier():
            return f"{self.operand(node.args[0])}.{node.args[1]}"
        if getattr(operator, name, None) is target and not node.kwargs:
            if name in MAGIC:
                return MAGIC[name].format(*map(self.operand, node.args))
            if name == "getitem":
                return f"{self.operand(node.args[0])}[{self.index(node.args[1])}]"
        return self.call(self.named(target), node.args, node.kwargs)

    def operand(self, value) -> str:
        text = self.value(value)
        return text if isinstance(value, (Node, tuple, list,
                                          dict)) or text.isidentifier() or text.isdigit() else f"({text})"

    def index(self, value) -> str:
        if isinstance(value, slice):
            shown = [("" if v is None else self.value(v)) for v in (value.start, value.stop, value.step)]
            return ":".join(shown if value.step is not None else shown[:2])
        if isinstance(value, tuple) and value and not hasattr(value, "_fields"):
            return ", ".join(map(self.index, value)) + ("," if len(value) == 1 else "")
        return self.value(value)

    def last_uses(self) -> dict:
        """For each node, the values that nothing reads after it."""
        seen, last = set(), {}
        for node in reversed(self.graph.nodes):
            for used in node.all_input_nodes:
                if used not in seen:
                    seen.add(used)
                    last.setdefault(node, []).append(used)
        return last

    def releases(self, node, last) -> str:
        """``;  x = None`` for what is not read again."""
        if not self.release or node.op in ("placeholder", "output"):
            return ""
        names = [used.name for used in last.get(node, ())]
        if not node.users:
            names.append(node.name)
        return ";  " + self.paint(f"{' = '.join(names)} = None", DIM) if names else ""

    def statement(self, node, last) -> list:
        if node.op == "output":
            return [f"return {self.value(node.args[0])}"]
        lines = [self.paint(f"# {line}", DIM) for line in origin(node)] if self.verbose else []
        annotation = self.annotation(node)
        name = getattr(node.target, "__name__", "")
        if node.op == "call_function" and getattr(operator, name,
                                                  None) is node.target and name in INPLACE and isinstance(node.args[0],
                                                                                                          Node):
            place = self.value(node.args[0])
            return [*lines, f"{INPLACE[name].format(place, self.operand(node.args[1]))};  {node.name}{annotation} = "
                            f"{place}{self.releases(node, last)}"]
        return [*lines, f"{node.name}{annotation} = {self.expression(node)}{self.releases(node, last)}"]

    def annotation(self, node) -> str:
        """Return the annotation of a node's name: what is known of its value when ``verbose``, else its type."""
        known = self.describe(node) if self.verbose else ""
        if known:
            return f': "{known}"'
        return f" : {annotation_text(self, node.type)}" if node.type is not None else ""

    def describe(self, node) -> str:
        """Return the dtype and sizes of a node's tensor, such as ``f32[2, 3]``, or ""."""
        value = node.meta.get("val", node.meta.get("tensor_meta", node.meta.get("example_value")))
        if not isinstance(value, Tensor):
            is_known = getattr(value, "dtype", None) is not None and hasattr(value, "shape")  # TensorMetadata
            return abbreviate(value.dtype) + list_text(value.shape) if is_known else ""
        strides = list_text(value.stride()) if self.include_stride and value.layout is strided else ""
        device = str(value.device) if self.include_device else ""
        core = "".join(map(self.paint, (abbreviate(value.dtype), list_text(value.shape), strides, device),
                           (RED, BLUE, DIM + BLUE, DIM + GREEN)))
        from .._subclasses import FakeTensor  # imports this package
        cls = getattr(value, "like", type(value))
        return core if cls in (Tensor, FakeTensor) else f"{cls.__name__}({core})"

    def paint(self, text: str, codes: str) -> str:
        return f"{codes}{text}{RESET}" if self.colored else text

    def parameter(self, node) -> str:
        shown = node.target + self.annotation(node)
        if node.args:
            shown += f" = {self.value(node.args[0])}"
        return shown

    def join_parameters(self, parameters) -> str:
        if not self.expanded_def:
            return ", ".join(parameters)
        return "".join(f"\n    {one}," if one != "*" else "\n    *," for one in parameters) + "\n"

    def write(self) -> PythonCode:
        last, lines, parameters = self.last_uses(), [], []
        for node in self.graph.nodes:
            if node.op == "placeholder":
                parameters.append(self.parameter(node))
                plain = node.target.lstrip("*")
                if plain != node.name:
                    lines.append(f"{node.name} = {plain}")
            else:
                lines += self.statement(node, last)
        body = "\n".join(f"    {line}" for line in lines or ["pass"])
        header = f"def forward({self.join_parameters([self.root, *parameters])}):"
        return PythonCode(f"\n\n\n{header}\n{body}\n    ", self.globals)


def annotation_text(writer, annotation) -> str:
    from .node import type_text
    text = type_text(annotation)
    if getattr(builtins, text, None) is annotation or annotation is writer.globals["torch"].Tensor:
        return text if annotation is not writer.globals["torch"].Tensor else "torch.Tensor"
    return writer.constant(annotation, text)


def abbreviate(dtype) -> str:
    """Return ``f32`` for float32, ``b8`` for bool.

    >>> import rushlight as torch
    >>> [abbreviate(d) for d in (torch.float32, torch.bfloat16, torch.uint8, torch.bool, torch.float8_e4m3fn)]
    ['f32', 'bf16', 'u8', 'b8', 'f8e4m3fn']
    """
    name = dtype.name.replace("_", "")
    for long, short in ABBREVIATIONS.items():
        name = name.replace(long, short)
    return name


def list_text(sizes) -> str:
    """Return sizes or strides as ``[2, 3]``."""
    return f"[{', '.join(map(str, sizes))}]"


def origin(node) -> list:
    """The user's file and line that a node comes from."""
    trace = node.meta.get("stack_trace")
    return [trace.strip().splitlines()[0].strip()] if trace else []

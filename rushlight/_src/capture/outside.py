"""Values from outside: inspected, with the guards that make this safe."""
from __future__ import annotations

import collections
import types
import weakref

import numpy as np

from ...nested.tensor import Nested
from ...nn.modules.module import Module
from ..core import overriding
from ..core.nodes import INFINITY
from ..core.native import Op, Tensor, mine
from . import marks
from .classes import is_framework
from .constraints import VaryingInt, constraints_of
from .containers import DICTS, LISTS
from .equality import is_immutable
from .errors import Again, Break
from .fake import Fake
from .guards import TensorCheck, root_of
from .module_state import is_told
from .parts import Part
from .values import (IDENTITIES, NUMBERS_AND_TEXT, PLAIN, PLAIN_VALUE, Cell, Constant, Lazy, Mapping, Number, Object,
                     Sequence, SetValue, Source, StoredItem, TensorValue)


class Outside(Part, part="outside"):
    """Capture component that wraps values from outside as Values."""

    needs = "arrays", "builtins", "calls", "guarding", "nesting", "subclasses", "values", "wrappers"

    def __init__(self, machine):
        super().__init__(machine)
        self.wrapped: dict = {}  # id of an outside object -> its Value
        self.alive: list = []
        self.graph_inputs: dict = {}  # graph input node -> (source of the expression, Source or None)
        self.modules: list = []  # (source, module) of modules that are values of the entry, or within these
        self.real: dict = {}  # graph input node -> its current tensor
        self.opened: dict = {}  # graph input node -> code that takes it from the instance that contains it
        self.checks: dict = {}  # graph input node -> TensorCheck

    def wrap(self, value, source: Source, fixed=False):
        """Return an outside value as a Value, with the guards that make this safe; ``fixed``: a tensor has static
        sizes."""
        kind = type(value)
        if kind in PLAIN:
            return self.wrap_plain(value, source)
        if kind is VaryingInt:
            return self.wrap_varying(value, source)
        known = self.wrapped.get(id(value))
        if known is not None:
            return self.again(known, value, source)
        made = (self.wrap_tensor(value, source, fixed) if fixed and isinstance(value, Tensor)
                else self.wrap_new(value, kind, source) if kind not in weakref.ProxyTypes
                else self.wrap_proxy(value, source))
        self.wrapped[id(value)] = made
        self.alive.append(value)  # while its id is a key
        return made

    def wrap_plain(self, value, source):
        kind = type(value)
        if kind in (int, float) and "static" not in self.machine.rules and self.machine.entry.varies(source, value):
            self.guarding.guard(f"type({{0}}) is {kind.__name__}", source)
            return Number(value, self.guarding.symbol(value, str(source),
                                             -INFINITY)) if kind is int else Number(value, text=str(source))
        self.guarding.guard(self.guarding.equality("{0}", value), source)
        return Constant(value, source)

    def wrap_varying(self, value, source):
        """Return an int argument that its caller declared dynamic."""
        self.guarding.guard("isinstance({0}, int)", source)
        number = int(value)
        if "static" in self.machine.rules:
            self.guarding.guard(f"{{0}} == {number}", source)
            self.guarding.constrained[str(source)] = number, value.constraint
            return Constant(number, source)
        low = -INFINITY if value.constraint.low is None else value.constraint.low
        return Number(number, self.guarding.free_size(number, str(source), value.constraint, low))

    def wrap_proxy(self, value, source):
        """Return the Value of a weak proxy, without accessing it: its object may be gone."""
        self.guarding.guard(f"type({{0}}) is {self.guarding.constant_name(type(value))}", source)
        return Object(value, source)

    def again(self, known, value, source):
        """Return the Value of an object that was already found at another source."""
        if getattr(known, "loose", False):
            if known.source != source:
                self.guarding.guard("{0} is {1}", source, known.source)
        elif isinstance(value, IDENTITIES) or isinstance(value, Module):
            if source.parent is not None or source.suffix.startswith("V"):
                self.guarding.guard(f"{{0}} is {self.guarding.constant_name(value)}", source)
        elif known.source is not None and known.source != source:
            self.guarding.guard("{0} is {1}", source, known.source)
        return known

    def wrap_new(self, value, kind, source):
        if isinstance(value, np.generic):
            self.guarding.guard(self.guarding.equality("{0}", value), source)
            return Constant(value, source)
        if isinstance(value, Tensor):
            return self.wrap_tensor(value, source)
        if isinstance(value, Module):
            self.guarding.guard(f"{{0}} is {self.guarding.constant_name(value)}", source)
            place = self.guarding.constant_source(value)
            self.guarding.guard(f"type({{0}}) is {self.guarding.constant_name(kind)}", place)
            if root_of(source).suffix.startswith("V"):
                self.modules.append((source, value))
            return Object(value, place)
        if kind is types.FunctionType and not source.covered and not value.__dict__ and not is_framework(
                value.__module__) and marks.of(value) is None:
            return self.wrap_function(value, source)
        if kind is np.ndarray:
            return self.arrays.wrap_array(value, source)
        if kind is slice:
            self.guarding.guard("type({0}) is slice", source)
            return self.builtins.builtin_slice(*(Lazy(getattr(value, name), source.attribute(name))
                                        for name in ("start", "stop", "step")))
        if isinstance(value, (*IDENTITIES, Op)) or value is mine:
            self.guarding.guard(f"{{0}} is {self.guarding.constant_name(value)}", source)
            return Object(value, source if not isinstance(value, (type, types.ModuleType))
                          else self.guarding.constant_source(value))
        if kind is types.CellType:
            return self.wrap_cell(value, source)
        wrapped = self.wrap_container(value, kind, source)
        if wrapped is not None:
            return wrapped
        if isinstance(value, types.MethodType):
            self.guarding.guard(f"type({{0}}) is {self.guarding.constant_name(kind)}", source)
            return self.calls.bound_method(value, source)
        if is_immutable(value):
            self.guarding.guard(self.guarding.equality("{0}", value), source)
            return Object(value, source)
        self.guarding.guard(f"type({{0}}) is {self.guarding.constant_name(kind)}", source)
        if isinstance(value, NUMBERS_AND_TEXT):
            plain = next(method for base, method in PLAIN_VALUE.items() if isinstance(value, base))
            self.guarding.guard(self.guarding.equality(f"{self.guarding.constant_name(plain)}({{0}})", plain(value)),
                                source)
        return Object(value, source)

    def wrap_function(self, value, source):
        """Return the Value of a function: another one from the same code is accepted, until its identity matters."""
        code, space = self.guarding.constant_name(value.__code__), self.guarding.constant_name(value.__globals__)
        self.guarding.guard(
            f"type({{0}}) is {self.guarding.constant_name(types.FunctionType)} and {{0}}.__code__ is {code} and "
            f"{{0}}.__globals__ is {space} and "
            f"len({{0}}.__defaults__ or ()) == {len(value.__defaults__ or ())} and list({{0}}.__kwdefaults__ "
            f"or ()) == {list(value.__kwdefaults__ or ())}", source)
        made = Object(value, source)
        made.loose = True
        return made

    def pin(self, value):
        """Assume the identity of a function from outside."""
        if type(value) is Object and value.loose:
            value.loose = False
            self.guarding.guard(f"{{0}} is {self.guarding.constant_name(value.value)}", value.source)

    def wrap_cell(self, value, source):
        self.guarding.guard(f"type({{0}}) is {self.guarding.constant_name(types.CellType)}", source)
        content = source.attribute("cell_contents")
        try:
            return Cell(Lazy(value.cell_contents, content), source)
        except ValueError:
            self.guarding.guard(f"{self.guarding.constant_name(empty_cell)}({{0}})", source)
            return Cell(None, source)

    def wrap_tensor(self, value, source, fixed=False):
        if isinstance(value, Nested):
            return self.nesting.wrap(value, source)
        if overriding.kind_of(type(value)) & overriding.DISPATCH:
            return self.wrappers.wrap(value, source)
        self.subclasses.met |= overriding.kind_of(type(value)) != overriding.PLAIN
        self.guarding.guard(
            f"type({{0}}) is {self.guarding.constant_name(type(value))} and "
            f"{{0}}._rush_needs_grad == {value._rush_needs_grad}",
            source)
        fixed = fixed or "static" in self.machine.rules
        free = frozenset() if fixed else self.machine.entry.free_sizes(source, value)
        if "static" in self.machine.rules and self.machine.entry.owner.exporting:
            self.guarding.constrained |= {f"{source}.shape[{k}]": (value.shape[k], constraint)
                                          for k, constraint in constraints_of(value).items()}
        fake = self.machine.recorder.input(self.guarding.symbolic(value._rush_meta, free, source,
                                                                  constraints_of(value)),
                                           value._rush_needs_grad,
                                   type(value))
        node = fake.node
        self.graph_inputs[node], self.real[node] = (str(source), source), value
        check = self.checks[node] = TensorCheck(value._rush_meta, free)
        name = self.guarding.constant_name(check)
        self.guarding.guard(f"{{0}}._rush_meta in {name}.seen or {name}({{0}}._rush_meta)", source)
        made = fake.value = TensorValue(fake, source)
        made.real = value
        if value._rush_is_setting:
            self.guarding.guard(f"{{0}}.item() == {self.machine.recorder.fix(fake, value)!r}", source)
        return made

    def lift(self, tensor) -> Fake:
        """Return an input for a tensor that framework code uses; it is the same at every call."""
        known = self.wrapped.get(id(tensor))
        if known is None:
            self.subclasses.met |= overriding.kind_of(type(tensor)) != overriding.PLAIN
            source = self.guarding.constant_source(tensor)
            fake = self.machine.recorder.input(tensor._rush_meta, tensor._rush_needs_grad, type(tensor))
            self.graph_inputs[fake.node] = str(source), source
            known = fake.value = self.wrapped[id(tensor)] = TensorValue(fake, source)
            known.real = tensor
        return known.fake

    def start_of_input(self, node) -> int:
        """Return ``storage_offset()`` of the tensor of a graph input, guarded."""
        source, found = self.graph_inputs[node][1], self.real.get(node)
        if found is None or source is None:
            raise Break("RB015", "storage_offset()")
        start = found.storage_offset()
        self.guarding.guard(f"{{0}}.storage_offset() == {start}", source.each_call())
        return start

    def wrap_container(self, value, kind, source):
        """Return the Value of a container from outside, its items lazy; None for another kind of object."""
        covered = source.covered
        if kind in LISTS or isinstance(value, tuple) and hasattr(kind, "_fields"):
            length = "len({0})" if kind in LISTS else "tuple.__len__({0})"
            self.guarding.guard(f"type({{0}}) is {self.guarding.type_name(kind)} and {length} == "
                                f"{len(value) if kind in LISTS else tuple.__len__(value)}", source)
            # read by name: the class may have a custom __getitem__
            fields = getattr(kind, "_fields", None)
            items = tuple.__iter__(value) if fields else value
            made = Sequence(kind, [Lazy(v, source.attribute(fields[k], covered and is_told(v)) if fields
                                        else source.item(str(k), covered and is_told(v)))
                                   for k, v in enumerate(items)], source)
            made.outer = value if fields and hasattr(value, "__dict__") else None
            if kind is collections.deque:
                made.limit = value.maxlen
                self.guarding.guard(f"{{0}}.maxlen == {value.maxlen}", source)
            return made
        if kind in DICTS or kind is types.MappingProxyType:
            if not all(isinstance(k, (str, bytes, int, float, bool, type(None), tuple, type, Tensor))
                       or type(k).__hash__ is object.__hash__ for k in value):
                return None
            order = [k for k, key in enumerate(value) if isinstance(key, Tensor)]
            if order and "tensors as keys" not in self.machine.rules:
                raise Again("tensors as keys")
            # tensors are compared by identity as keys
            same = (f"list(map(id, {{0}})) == {list(map(id, value))}" if order
                    else self.guarding.items("tuple({0})", value))
            self.guarding.guard(f"type({{0}}) is {self.guarding.type_name(kind)} and {same}", source)
            factory = getattr(value, "default_factory", None)
            items = {k: Lazy(v, source.item(self.guarding.literal(k), covered and is_told(v)))
                     for k, v in value.items()}
            if kind is collections.defaultdict:
                self.guarding.guard(f"{{0}}.default_factory is {self.guarding.constant_name(factory)}", source)
            return Mapping(items, source, kind, None if factory is None else self.values.from_python(factory))
        for base in (list, dict):
            if issubclass(kind, base) and not is_framework(kind.__module__):
                return self.wrap_extended(value, kind, source, base)
        if kind in (set, frozenset):
            if not all(isinstance(k, (str, int, float, bool, type(None), tuple, type)) for k in value):
                return None
            members = self.guarding.items("tuple({0})", value)
            self.guarding.guard(f"type({{0}}) is {self.guarding.type_name(kind)} and {members}", source)
            return SetValue({k: self.values.from_python(k) for k in value}, source, kind, value.copy())
        return None

    def wrap_extended(self, value, kind, source, base):
        """Return the Value of an object whose class extends list or dict: the container is its payload."""
        keys = list(dict.keys(value)) if base is dict else []
        if not all(isinstance(k, (str, int, float, bool, type(None))) for k in keys):
            return None
        self.guarding.guard(f"type({{0}}) is {self.guarding.type_name(kind)}", source)
        made = Object(value, source)

        def place(key):
            plain = kind.__getitem__ is base.__getitem__
            return source.item(key) if plain else StoredItem(source, base.__name__, key)

        if base is list:
            self.guarding.guard(f"list.__len__({{0}}) == {list.__len__(value)}", source)
            made.payload = Sequence(list, [Lazy(list.__getitem__(value, k), place(str(k)))
                                           for k in range(list.__len__(value))], source)
        else:
            self.guarding.guard(self.guarding.items("tuple(dict.keys({0}))", keys), source)
            items = {k: Lazy(dict.__getitem__(value, k), place(repr(k))) for k in keys}
            made.payload = Mapping(items, source, next(d for d in reversed(DICTS) if issubclass(kind, d)))
            if made.payload.kind is collections.defaultdict and value.default_factory is not None:
                made.payload.factory = Lazy(value.default_factory, source.attribute("default_factory"))
        return made


def empty_cell(cell) -> bool:
    try:
        cell.cell_contents
    except ValueError:
        return True
    return False


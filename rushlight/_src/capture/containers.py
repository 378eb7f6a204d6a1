"""Lists, tuples, dicts, sets, iterators and generators."""
from __future__ import annotations

import collections
import enum
import operator
import re

from ..core.meta import Size
from ..core.native import Tensor, mine
from ..core.op import OPS
from ..core.settings import settings
from . import polyfills
from .classes import ABSENT, static
from .errors import Break, Raised
from .parts import METHODS, VALUES_CALLED, Part
from .values import (ArrayValue, Comparison, Constant, ContainerMethod, ExceptionValue, GeneratorValue, HookHandle,
                     Instance, IteratorValue, Lazy, Mapping, Namespace, Number, Object, Sequence, SetValue, TensorValue,
                     View)

LISTS = (list, tuple, Size, collections.deque)
DICTS = (dict, collections.OrderedDict, collections.defaultdict)
BINARY = {"|": operator.or_, "&": operator.and_, "-": operator.sub, "^": operator.xor}
FAMILIES = Sequence, View, Mapping, SetValue, GeneratorValue, IteratorValue, HookHandle  # whose methods are modeled


def raised(cls, *arguments):
    return Raised(ExceptionValue(cls, [Constant(a) for a in arguments]))


class Containers(Part, part="containers"):
    """Capture component for containers."""

    needs = ("arithmetic", "arrays", "attributes", "calls", "classes", "framework", "guarding", "hooks",
             "iterators", "lists", "mappings", "output", "protocols", "sets", "subclasses", "values", "writes")

    def item(self, sequence, index):
        found = sequence.items[index]
        if type(found) in (Lazy, Comparison):
            found = sequence.items[index] = self.values.force(found)
        return found

    def items_of(self, sequence):
        return [self.item(sequence, k) for k in range(len(sequence.items))]

    def as_container(self, value):
        """Return the container that an object extends, or the value itself."""
        value = self.values.force(value)
        return value.payload if isinstance(value, (Instance, Object)) and value.payload is not None else value

    def subscript(self, owner, index):
        whole, owner = self.values.force(owner), self.as_container(owner)
        if whole is not owner:
            cls = self.classes.class_of(whole)
            found = self.classes.class_attribute(cls, "__getitem__")
            if found:
                return self.calls.call(found, [whole, index], {})
            missing = isinstance(owner, Mapping) and self.mappings.key(
                index) not in owner.items and self.classes.class_attribute(
                cls, "__missing__")
            if missing:
                return self.calls.call(missing, [whole, index], {})
        if isinstance(owner, Sequence):
            found = owner.kind not in LISTS and self.classes.class_attribute(owner.kind, "__getitem__")
            return self.calls.call(found, [owner, index], {}) if found else self.lists.subscript_sequence(owner, index)
        if isinstance(owner, Mapping):
            return self.mappings.subscript_mapping(owner, self.mappings.key(index))
        if isinstance(owner, (TensorValue, ArrayValue)):
            return self.framework.run_framework(operator.getitem, [owner, index], {})
        if isinstance(owner, Object) and type(owner.value).__module__ == "typing":
            return self.values.from_python(owner.value[self.values.known(index)])
        if isinstance(owner, (Object, Instance)) and self.classes.class_of(owner) is not re.Match:
            found = self.classes.class_attribute(self.classes.class_of(owner), "__getitem__")
            if found:
                return self.calls.call(found, [owner, index], {})
            if self.classes.is_class(owner):
                found = self.classes.class_attribute(type(owner.value), "__getitem__")
                return self.calls.call(found, [owner, index],
                                 {}) if found else self.values.from_python(owner.value[self.values.known(index)])
            raise Break("RB004", f"indexing a {self.values.describe(owner)}")
        return self.arithmetic.fold(lambda x, k: x[k], [owner, index])

    def contains(self, owner, item):
        whole, owner = self.values.force(owner), self.as_container(owner)
        if found := self.classes.is_class(whole) and not isinstance(whole.value,
                                                            enum.EnumMeta) and self.classes.class_attribute(
                                                                type(whole.value),
                                                                "__contains__"):
            return self.protocols.answered("__contains__", found, whole, item)
        if found := self.protocols.has(whole, "__contains__"):
            return self.protocols.answered("__contains__", found, whole, item)
        if isinstance(owner, (IteratorValue, GeneratorValue)):
            return self.calls.call_python(polyfills.contains, [owner, item])
        if isinstance(owner, View):
            if owner.part == "keys":
                return Constant(self.mappings.key(item) in owner.mapping.items)
            owner = Sequence(list, self.mappings.viewed(owner))
        if isinstance(owner, SetValue):
            return Constant(self.sets.element(item) in owner.items)
        if isinstance(owner, Mapping):
            return Constant(self.mappings.key(item) in owner.items)
        if isinstance(owner, Sequence):
            if self.arithmetic.decides_by_items(owner) or isinstance(self.values.force(item),
                                                                     (TensorValue, Number, Instance)):
                return self.calls.call_python(polyfills.contains, [owner, item])
            wanted = self.values.force(item)
            return Constant(any(self.arithmetic.matches(x, wanted) for x in self.items_of(owner)))
        if isinstance(owner, (Object, Instance)):
            if static(self.classes.class_of(owner), "__contains__") is ABSENT and (
                    self.protocols.has(owner, "__iter__") or self.protocols.has(owner, "__getitem__")):
                return self.calls.call_python(polyfills.contains_by_iterating, [owner, item])
        return self.arithmetic.fold(lambda x, k: k in x, [owner, item])

    def length(self, value):
        whole, value = self.values.force(value), self.as_container(value)
        if found := self.classes.is_class(whole) and not isinstance(whole.value,
                                                            enum.EnumMeta) and self.classes.class_attribute(
                                                                type(whole.value),
                                                                "__len__"):
            return self.protocols.answered("__len__", found, whole)
        if found := self.protocols.has(whole, "__len__"):
            return self.protocols.answered("__len__", found, whole)
        if isinstance(value, (Sequence, Mapping, SetValue)):
            return Constant(len(value.items))
        if isinstance(value, View):
            return Constant(len(value.mapping.items))
        if isinstance(value, ArrayValue):
            return self.values.from_python(value.array.shape[0]) if value.array.ndim else self.framework.run_framework(
                len, [value], {})
        if isinstance(value, TensorValue):
            if not value.fake._rush_meta.shape:
                return self.framework.run_framework(len, [value], {})
            return self.values.from_python(value.fake.shape[0]) if value.source is None else self.item(
                self.attributes.shape_of(value), 0)
        return self.arithmetic.fold(len, [value])

    def listed(self, value):
        """Return the items of an iterable if no code of the program has to run for them; else None."""
        whole, value = self.values.force(value), self.as_container(value)
        if self.classes.user_class(whole) and self.protocols.has(whole, "__iter__"):
            return None
        if isinstance(value, Sequence):
            return self.items_of(value)
        if isinstance(value, IteratorValue):
            return self.iterators.rest_of(value)
        if isinstance(value, Mapping):
            return [self.values.from_python(k) for k in value.items]
        if isinstance(value, View):
            return self.mappings.viewed(value)
        if isinstance(value, SetValue):
            return [value.items[k] for k in value.order]
        if isinstance(value, Constant) and isinstance(value.value, (str, bytes, range)):
            return [Constant(v) for v in value.value]
        if isinstance(value, TensorValue):
            split = unbound if self.subclasses.of(value) is None else OPS["unbind"]
            return self.items_of(self.values.force(self.framework.run_framework(split, [value], {})))
        if isinstance(value, ArrayValue) and value.array.ndim:
            return [self.framework.run_framework(operator.getitem, [value, Constant(k)], {})
                    for k in range(self.values.known(self.length(value)))]
        if self.classes.is_class(value) and hasattr(value.value, "__members__"):
            return [self.values.from_python(v) for v in value.value]
        return None

    def first_of(self, value, count):
        """Return the first items of an iterable, ``count`` at most, without consuming more."""
        value = self.values.force(value)
        if isinstance(value, (GeneratorValue, Instance, Object, IteratorValue)) or self.classes.user_class(value):
            return self.items_of(self.machine.now(self.values.from_python(polyfills.first_of),
                                                  [value, Constant(count)]))
        return self.expanded(value)

    def expanded(self, value):
        """Return the items of an iterable; code of the program runs now."""
        found = self.listed(value)
        if found is None:
            found = self.items_of(self.machine.now(self.values.from_python(polyfills.list_), [value]))
        return found

    def store_subscript(self, owner, index, value):
        whole, owner = self.values.force(owner), self.as_container(owner)
        if whole is not owner and (found := self.classes.class_attribute(self.classes.class_of(whole), "__setitem__")):
            self.writes.push_dropping(found, [whole, index, value])
        elif isinstance(owner, Mapping):
            key = self.mappings.key(index)
            if isinstance(owner, Namespace):
                self.writes.put(owner.owner, key, value, True)
            else:
                self.writes.mark(owner)
            owner.items[key] = value
        elif isinstance(owner, Sequence) and owner.kind in (list, collections.deque):
            self.lists.store_item(owner, self.values.known(index), value)
        elif isinstance(owner, (TensorValue, ArrayValue)):
            self.framework.run_framework(operator.setitem, [owner, index, value], {})
        elif isinstance(owner, (Object, Instance)) and (found := self.classes.class_attribute(
                self.classes.class_of(owner),
                "__setitem__")):
            self.writes.push_dropping(found, [owner, index, value])
        else:
            raise Break("RB004", f"item assignment to a {self.values.describe(owner)}")

    def delete_subscript(self, owner, index):
        whole, owner = self.values.force(owner), self.as_container(owner)
        if whole is not owner and (found := self.classes.class_attribute(self.classes.class_of(whole), "__delitem__")):
            return self.writes.push_dropping(found, [whole, index])
        if isinstance(owner, (Object, Instance)) and (found := self.classes.class_attribute(
                self.classes.class_of(owner),
                "__delitem__")):
            return self.writes.push_dropping(found, [owner, index])
        if not isinstance(owner, Mapping) and not (isinstance(owner, Sequence)
                                                   and owner.kind in (list, collections.deque)):
            raise Break("RB004", f"del of an item of a {self.values.describe(owner)}")
        at = self.mappings.key(index) if isinstance(owner, Mapping) else self.values.known(index)
        try:
            del owner.items[at]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            if isinstance(owner, Sequence):
                self.arithmetic.fold(operator.delitem, [self.lists.like(owner), Constant(at)])
            raise raised(type(error), *error.args) from None
        self.writes.mark(owner)

    def container_binary(self, symbol, a, b, inplace):
        if isinstance(a, View) or isinstance(b, View):
            a, b = self.sets.set_of(a), self.sets.set_of(b)
        if isinstance(a, Sequence) and symbol == "+":
            if inplace and a.kind in (list, collections.deque):
                found = self.expanded(b)
                self.writes.mark(a)
                a.items.extend(found)
                return a
            if isinstance(b, Sequence) and (a.kind is b.kind or issubclass(a.kind, tuple)
                                            and issubclass(b.kind, tuple)):
                return Sequence(a.kind if a.kind in LISTS else tuple, self.items_of(a) + self.items_of(b))
            if isinstance(b, (Instance, Object)):
                return None  # its __radd__ may handle it
            raise raised(
                TypeError, f'can only concatenate {a.kind.__name__} (not "{self.classes.class_of(b).__name__}") to '
                           f'{a.kind.__name__}')
        if symbol == "*" and (isinstance(a, Sequence) or isinstance(b, Sequence)):
            sequence, times = (a, b) if isinstance(a, Sequence) else (b, a)
            return Sequence(sequence.kind if sequence.kind in LISTS else tuple,
                            self.items_of(sequence) * self.values.known(times))
        if symbol == "|" and isinstance(a, Mapping) and isinstance(b, Mapping):
            if inplace:
                self.writes.mark(a)
                a.items.update(b.items)
                return a
            return Mapping({**a.items, **b.items}, None, a.kind, a.factory)
        if isinstance(a, SetValue) and isinstance(b, SetValue) and symbol in "|&-^":
            order = BINARY[symbol](a.order, b.order)
            items = {k: v for k, v in {**b.items, **a.items}.items() if k in order}
            if not inplace or a.kind is frozenset:
                return SetValue(items, kind=a.kind, order=order)
            self.writes.mark(a)
            a.items, a.order = items, order
            return a
        return None

    # --- methods ------------------------------------------------------------------------------------------------------
    @VALUES_CALLED.by(ContainerMethod)
    def call_container(self, method: ContainerMethod, arguments, keywords):
        owner, name = method.owner, method.name
        if isinstance(owner, Constant):
            return self.call_constant(owner, name, arguments, keywords)
        if isinstance(owner, ArrayValue):
            return self.framework.run_framework(getattr(owner.array, name), arguments, keywords)
        if isinstance(owner, TensorValue):
            if name == "numpy" and settings.trace_numpy:
                return self.arrays.array_of_tensor(owner)
            if name == "register_hook" and len(arguments) == 1 and not keywords:
                return self.hooks.register_hook(owner, *arguments)
            if name == "register_post_accumulate_grad_hook" and len(arguments) == 1 and not keywords:
                return self.hooks.hang(name, owner, *arguments)
            if name == "retain_grad":
                return self.hooks.retain_grad(owner)
            if name == "is_inference" and not arguments:
                if owner.source is not None:
                    self.guarding.guard(f"{{0}}.is_inference() is {owner.real.is_inference()}",
                                        owner.source.each_call())
                return Constant(owner.real.is_inference() if owner.source is not None else bool(mine.inference))
            if name == "as_subclass":
                return self.subclasses.as_subclass(owner, *arguments, **keywords)
            if self.subclasses.of(owner) is not None and not self.subclasses.disabled():
                return self.calls.call(self.values.from_python(static(Tensor, name)), [owner, *arguments], keywords)
            return self.framework.run_framework(getattr(type(owner.fake), name), [owner, *arguments], keywords)
        family = next((family for family in FAMILIES if isinstance(owner, family)), None)
        handler = METHODS.find(self.machine, (family, name))
        if isinstance(owner, ExceptionValue) and name == "with_traceback":
            return owner
        if handler is None:
            raise Break("RB004", f"{self.classes.class_of(owner).__name__}.{name}()")
        if isinstance(owner, Sequence) and issubclass(owner.kind, tuple) and name not in ("index", "count", "__len__",
                                                                                          "__getitem__", "__iter__",
                                                                                          "__contains__", "numel"):
            raise Break("RB004", f"{owner.kind.__name__}.{name}()")
        try:
            return handler(owner, *arguments, **keywords)
        except TypeError as error:
            if error.__traceback__.tb_next is None:  # the handler was not entered: the arguments do not fit
                raise Break("RB007", f"{self.classes.class_of(owner).__name__}.{name}() gets arguments that do not "
                                     "fit it") from error
            raise

    def call_constant(self, owner, name, arguments, keywords):
        if name == "join" and isinstance(owner.value, str):
            return self.arithmetic.fold(owner.value.join, [Sequence(list, self.expanded(arguments[0]))])
        if name == "format" and isinstance(owner.value, str):
            for v in (*arguments, *keywords.values()):
                if isinstance(self.values.force(v), TensorValue):
                    raise Break("RB003", "formatting a tensor")
            later = self.output.text_format(owner, arguments, keywords)
            if later is not None:
                return later
        return self.arithmetic.fold(getattr(owner.value, name), arguments, keywords)

    # --- making -------------------------------------------------------------------------------------------------------
    def make_container(self, kind, arguments, keywords):
        if kind in (dict, collections.OrderedDict):
            made = Mapping({}, None, kind)
            self.mappings.dict_update(made, *arguments, **keywords)
            return made
        if kind is collections.defaultdict:
            factory = arguments[0] if arguments else None
            made = Mapping({}, None, kind, None if isinstance(factory, Constant) else factory)
            self.mappings.dict_update(made, *arguments[1:], **keywords)
            return made
        items = self.expanded(arguments[0]) if arguments else []
        if kind in (set, frozenset):
            return SetValue(self.sets.distinct(items), kind=kind)
        made = Sequence(kind, items)
        if kind is collections.deque:
            limit = keywords.get("maxlen", arguments[1] if len(arguments) > 1 else Constant(None))
            made.limit = self.values.known(limit)
            if made.limit is not None:
                made.items = made.items[max(len(items) - made.limit, 0):]
        return made


def unbound(tensor):
    """Return the slices of a tensor along its first dimension."""
    return tuple(tensor.unbind(0))

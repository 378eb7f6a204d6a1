"""Lists, tuples, dicts, sets, iterators and generators."""
from __future__ import annotations

import collections
import enum
import operator
import re
import types

from ..core.meta import Size
from ..core.native import Tensor, mine
from ..core.settings import settings
from . import polyfills
from .attributes import is_framework
from .bytecode import PYTHON
from .errors import Again, Break, Raised
from .parts import METHODS, Part
from .values import (ArrayValue, Constant, ContainerMethod, ExceptionValue, GeneratorValue, Identity, Instance,
                     IteratorValue, Key, Lazy, Mapping, Namespace, Number, Object,
                     Sequence, SetValue, TensorValue, View)

LISTS = (list, tuple, Size, collections.deque)
DICTS = (dict, collections.OrderedDict, collections.defaultdict)


BINARY = {"|": operator.or_, "&": operator.and_, "-": operator.sub, "^": operator.xor}
FAMILIES = Sequence, View, Mapping, SetValue, GeneratorValue, IteratorValue  # whose methods are modelled


def raised(cls, *arguments):
    return Raised(ExceptionValue(cls, [Constant(a) for a in arguments]))


class Containers(Part):
    """How the machine models containers."""

    def wrap_container(self, value, kind, source):
        """A container from outside, its items lazy; None for another kind of object."""
        covered = source.covered
        if kind in LISTS or isinstance(value, tuple) and hasattr(kind, "_fields"):
            self.guard(f"type({{0}}) is {self.type_name(kind)} and len({{0}}) == {len(value)}", source)
            # which are read by name: the class may have a __getitem__ of its own
            fields = getattr(kind, "_fields", None)
            items = tuple.__iter__(value) if fields else value
            made = Sequence(kind, [Lazy(v, source.attribute(fields[k], covered) if fields
                                        else source.item(str(k), covered)) for k, v in enumerate(items)], source)
            made.outer = value if fields and hasattr(value, "__dict__") else None
            made.limit = getattr(value, "maxlen", None)
            return made
        if kind in DICTS or kind is types.MappingProxyType:
            if not all(isinstance(k, (str, bytes, int, float, bool, type(None), tuple, type, Tensor))
                       or type(k).__hash__ is object.__hash__ for k in value):
                return None
            keys, order = self.constant_name(tuple(value)), [k for k, key in enumerate(value)
                                                             if isinstance(key, Tensor)]
            if order and "tensors as keys" not in self.rules:
                raise Again("tensors as keys")
            # tensors are keys by what they are
            same = f"tuple({{0}}) == {keys}" if not order else f"list(map(id, {{0}})) == {list(map(id, value))}"
            self.guard(f"type({{0}}) is {self.type_name(kind)} and {same}", source)
            factory = getattr(value, "default_factory", None)
            items = {k: Lazy(v, source.item(self.literal(k), covered)) for k, v in value.items()}
            return Mapping(items, source, kind, None if factory is None else self.from_python(factory))
        for base in (list, dict):
            if issubclass(kind, base) and not is_framework(kind.__module__) and kind.__getitem__ is base.__getitem__:
                return self.wrap_extended(value, kind, source, base)
        if kind in (set, frozenset):
            if not all(isinstance(k, (str, int, float, bool, type(None), tuple, type)) for k in value):
                return None
            self.guard(f"type({{0}}) is {self.type_name(kind)} and list({{0}}) == {self.constant_name(list(value))}",
                       source)
            return SetValue({k: self.from_python(k) for k in value}, source, kind, value.copy())
        return None

    def wrap_extended(self, value, kind, source, base):
        """An object of a user's class that extends list or dict: the container is its payload."""
        if not all(isinstance(k, (str, int, float, bool, type(None))) for k in (value if base is dict else ())):
            return None
        self.guard(f"type({{0}}) is {self.type_name(kind)}", source)
        made = Object(value, source)
        if base is list:
            self.guard(f"list.__len__({{0}}) == {list.__len__(value)}", source)
            made.payload = Sequence(list, [Lazy(list.__getitem__(value, k), source.item(str(k)))
                                           for k in range(list.__len__(value))], source)
        else:
            self.guard(f"list(dict.keys({{0}})) == {self.constant_name(list(dict.keys(value)))}", source)
            made.payload = Mapping({k: Lazy(dict.__getitem__(value, k), source.item(repr(k)))
                                    for k in dict.keys(value)}, source)
        return made

    # --- reading ------------------------------------------------------------------------------------------------------
    def item(self, sequence, index):
        found = sequence.items[index]
        if type(found) is Lazy:
            found = sequence.items[index] = self.force(found)
        return found

    def items_of(self, sequence):
        return [self.item(sequence, k) for k in range(len(sequence.items))]

    def lookup(self, mapping, key):
        found = mapping.items[key]
        if type(found) is Lazy:
            found = mapping.items[key] = self.force(found)
        return found

    def key(self, value):
        """A dict key: a known value, or an object that is its own key."""
        value = self.force(value)
        self.pin(value)
        if isinstance(value, Object) and type(value.value).__hash__ is object.__hash__:
            if value.source is not None and not value.source.covered:
                self.guard(f"{{0}} is {self.constant_name(value.value)}", value.source)
            return value.value
        if isinstance(value, Sequence) and value.kind is tuple:
            return tuple(map(self.key, self.items_of(value)))
        if isinstance(value, TensorValue) and value.source is not None and "tensors as keys" in self.rules:
            if not value.source.covered:
                self.guard(f"{{0}} is {self.constant_name(value.real)}", value.source)
            return value.real
        if isinstance(value, TensorValue):
            return Key(value, id(value), operator.is_)
        if isinstance(value, Identity):
            return Key(value, id(value.of), lambda a, b: a.of is b.of)
        if isinstance(value, Instance):
            found = self.class_attribute(value.cls, "__hash__")
            if found:
                return Key(value, self.known(self.now_answered("__hash__", found, value)), self.matches)
            if value.cls.__hash__ is object.__hash__:
                return Key(value, id(value), operator.is_)
        return self.known(value)

    def as_container(self, value):
        """The container that an object extends, or the value itself."""
        value = self.force(value)
        return value.payload if isinstance(value, (Instance, Object)) and value.payload is not None else value

    def subscript(self, owner, index):
        whole, owner = self.force(owner), self.as_container(owner)
        if whole is not owner:
            cls = self.class_of(whole)
            found = self.class_attribute(cls, "__getitem__")
            if found:
                return self.call(found, [whole, index], {})
            missing = isinstance(owner, Mapping) and self.key(index) not in owner.items and self.class_attribute(
                cls, "__missing__")
            if missing:
                return self.call(missing, [whole, index], {})
        if isinstance(owner, Sequence):
            found = owner.kind not in LISTS and self.class_attribute(owner.kind, "__getitem__")
            return self.call(found, [owner, index], {}) if found else self.subscript_sequence(owner, index)
        if isinstance(owner, Mapping):
            return self.subscript_mapping(owner, self.key(index))
        if isinstance(owner, (TensorValue, ArrayValue)):
            return self.run_framework(operator.getitem, [owner, index], {})
        if isinstance(owner, Object) and type(owner.value).__module__ == "typing":
            return self.from_python(owner.value[self.known(index)])
        if isinstance(owner, (Object, Instance)) and self.class_of(owner) is not re.Match:
            found = self.class_attribute(self.class_of(owner), "__getitem__")
            if found:
                return self.call(found, [owner, index], {})
            if self.is_class(owner):
                found = self.class_attribute(type(owner.value), "__getitem__")
                return self.call(found, [owner, index],
                                 {}) if found else self.from_python(owner.value[self.known(index)])
            raise Break("RB004", f"indexing a {self.describe(owner)}")
        return self.fold(lambda x, k: x[k], [owner, index])

    def like(self, owner):
        """A sequence of the same kind and length, which raises the same errors."""
        return Constant(owner.kind(range(len(owner.items))) if owner.kind in LISTS else tuple(range(len(owner.items))))

    def subscript_sequence(self, owner, index):
        at = self.known(self.index_of(index))
        if isinstance(at, slice):
            found = self.items_of(owner)[at]
            return Sequence(owner.kind if owner.kind in LISTS else tuple, found)
        try:
            return self.item(owner, at)
        except (IndexError, TypeError):
            return self.fold(operator.getitem, [self.like(owner), Constant(at)])

    def subscript_mapping(self, owner, key):
        if key in owner.items:
            return self.lookup(owner, key)
        if owner.kind is collections.defaultdict and owner.factory is not None:
            made = self.now(owner.factory, [])
            self.mark(owner)
            owner.items[key] = made
            return made
        raise raised(KeyError, key)

    def contains(self, owner, item):
        whole, owner = self.force(owner), self.as_container(owner)
        if found := self.is_class(whole) and not isinstance(whole.value,
                                                            enum.EnumMeta) and self.class_attribute(type(whole.value),
                                                                                                    "__contains__"):
            return self.answered("__contains__", found, whole, item)
        if found := self.has(whole, "__contains__"):
            return self.answered("__contains__", found, whole, item)
        if isinstance(owner, (IteratorValue, GeneratorValue)):
            return self.call_python(polyfills.contains, [owner, item])
        if isinstance(owner, View):
            if owner.part == "keys":
                return Constant(self.key(item) in owner.mapping.items)
            owner = Sequence(list, self.viewed(owner))
        if isinstance(owner, (Mapping, SetValue)):
            return Constant(self.key(item) in owner.items)
        if isinstance(owner, Sequence):
            if self.decides_by_items(owner) or isinstance(self.force(item), (TensorValue, Number, Instance)):
                return self.call_python(polyfills.contains, [owner, item])
            wanted = self.force(item)
            return Constant(any(self.matches(x, wanted) for x in self.items_of(owner)))
        if isinstance(owner, (Object, Instance)):
            if self.has(owner, "__iter__") or self.has(owner, "__getitem__"):
                return self.call_python(polyfills.contains_by_iterating, [owner, item])
        return self.fold(lambda x, k: k in x, [owner, item])

    def length(self, value):
        whole, value = self.force(value), self.as_container(value)
        if found := self.is_class(whole) and not isinstance(whole.value,
                                                            enum.EnumMeta) and self.class_attribute(type(whole.value),
                                                                                                    "__len__"):
            return self.answered("__len__", found, whole)
        if found := self.has(whole, "__len__"):
            return self.answered("__len__", found, whole)
        if isinstance(value, (Sequence, Mapping, SetValue)):
            return Constant(len(value.items))
        if isinstance(value, View):
            return Constant(len(value.mapping.items))
        if isinstance(value, ArrayValue):
            return self.from_python(value.array.shape[0]) if value.array.ndim else self.run_framework(len, [value], {})
        if isinstance(value, TensorValue):
            if not value.fake._meta.shape:
                return self.run_framework(len, [value], {})
            return self.from_python(value.fake.shape[0]) if value.source is None else self.item(self.shape_of(value), 0)
        return self.fold(len, [value])

    def listed(self, value):
        """The items of anything that can be iterated now, without running the program's code; None where that is not
        so."""
        value = self.as_container(value)
        if isinstance(value, Sequence):
            return self.items_of(value)
        if isinstance(value, IteratorValue):
            return self.rest_of(value)
        if isinstance(value, Mapping):
            return [self.from_python(k) for k in value.items]
        if isinstance(value, View):
            return self.viewed(value)
        if isinstance(value, SetValue):
            return [value.items[k] for k in value.order]
        if isinstance(value, Constant) and isinstance(value.value, (str, bytes, range)):
            return [Constant(v) for v in value.value]
        if isinstance(value, TensorValue):
            return self.items_of(self.run_framework(unbound, [value], {}))
        if isinstance(value, ArrayValue) and value.array.ndim:
            return [self.run_framework(operator.getitem, [value, Constant(k)], {})
                    for k in range(self.known(self.length(value)))]
        if self.is_class(value) and hasattr(value.value, "__members__"):
            return [self.from_python(v) for v in value.value]
        return None

    def first_of(self, value, count):
        """The first items of an iterable, ``count`` at most, of which no more are taken."""
        if isinstance(self.force(value), (GeneratorValue, Instance, Object, IteratorValue)):
            return self.items_of(self.now(self.from_python(polyfills.first_of), [value, Constant(count)]))
        return self.expanded(value)

    def expanded(self, value):
        """The items of an iterable; what the program itself computes is run now."""
        found = self.listed(value)
        if found is None:
            found = self.items_of(self.now(self.from_python(polyfills.list_), [value]))
        return found

    # --- changing -----------------------------------------------------------------------------------------------------
    def mark(self, container):
        """Notes that a container from outside is changed; its contents are read first."""
        if isinstance(container, Namespace):
            raise Break("RB004", "changing the __dict__ of an object")
        if not container.changed:
            container.changed = True
            if container.source is not None:
                self.changed.append(container)

    def store_subscript(self, owner, index, value):
        whole, owner = self.force(owner), self.as_container(owner)
        if whole is not owner and (found := self.class_attribute(self.class_of(whole), "__setitem__")):
            self.push_dropping(found, [whole, index, value])
        elif isinstance(owner, Mapping):
            key = self.key(index)
            if isinstance(owner, Namespace):
                self.put(owner.owner, key, value, True)
            else:
                self.mark(owner)
            owner.items[key] = value
        elif isinstance(owner, Sequence) and owner.kind in (list, collections.deque):
            self.store_item(owner, self.known(index), value)
        elif isinstance(owner, (TensorValue, ArrayValue)):
            self.run_framework(operator.setitem, [owner, index, value], {})
        elif isinstance(owner, (Object, Instance)) and (found := self.class_attribute(self.class_of(owner),
                                                                                      "__setitem__")):
            self.push_dropping(found, [owner, index, value])
        else:
            raise Break("RB004", f"item assignment to a {self.describe(owner)}")

    def store_item(self, owner, at, value):
        items = self.expanded(value) if isinstance(at, slice) else value
        try:
            changed = list(owner.items)
            changed[at] = items
        except (IndexError, TypeError, ValueError):
            return self.fold(operator.setitem, [self.like(owner), Constant(at), Constant(items)])
        self.mark(owner)
        owner.items[:] = changed

    def delete_subscript(self, owner, index):
        whole, owner = self.force(owner), self.as_container(owner)
        if whole is not owner and (found := self.class_attribute(self.class_of(whole), "__delitem__")):
            return self.push_dropping(found, [whole, index])
        if isinstance(owner, (Object, Instance)) and (found := self.class_attribute(self.class_of(owner),
                                                                                    "__delitem__")):
            return self.push_dropping(found, [owner, index])
        if not isinstance(owner, Mapping) and not (isinstance(owner, Sequence)
                                                   and owner.kind in (list, collections.deque)):
            raise Break("RB004", f"del of an item of a {self.describe(owner)}")
        at = self.key(index)
        try:
            del owner.items[at]
        except (KeyError, IndexError) as error:
            if isinstance(owner, Sequence):
                self.fold(operator.delitem, [self.like(owner), Constant(at)])
            raise raised(type(error), *error.args) from None
        self.mark(owner)

    def container_binary(self, symbol, a, b, inplace):
        if isinstance(a, View) or isinstance(b, View):
            a, b = self.set_of(a), self.set_of(b)
        if isinstance(a, Sequence) and symbol == "+":
            if inplace and a.kind in (list, collections.deque):
                found = self.expanded(b)
                self.mark(a)
                a.items.extend(found)
                return a
            if isinstance(b, Sequence) and (a.kind is b.kind or issubclass(a.kind, tuple)
                                            and issubclass(b.kind, tuple)):
                return Sequence(a.kind if a.kind in LISTS else tuple, self.items_of(a) + self.items_of(b))
            if isinstance(b, (Instance, Object)):
                return None  # its __radd__ may know
            raise raised(
                TypeError, f'can only concatenate {a.kind.__name__} (not "{self.class_of(b).__name__}") to '
                           f'{a.kind.__name__}')
        if symbol == "*" and (isinstance(a, Sequence) or isinstance(b, Sequence)):
            sequence, times = (a, b) if isinstance(a, Sequence) else (b, a)
            return Sequence(sequence.kind, self.items_of(sequence) * self.known(times))
        if symbol == "|" and isinstance(a, Mapping) and isinstance(b, Mapping):
            if inplace:
                self.mark(a)
                a.items.update(b.items)
                return a
            return Mapping({**a.items, **b.items}, None, a.kind, a.factory)
        if isinstance(a, SetValue) and isinstance(b, SetValue) and symbol in "|&-^":
            order = BINARY[symbol](a.order, b.order)
            items = {k: v for k, v in {**b.items, **a.items}.items() if k in order}
            if not inplace or a.kind is frozenset:
                return SetValue(items, kind=a.kind, order=order)
            self.mark(a)
            a.items, a.order = items, order
            return a
        return None

    # --- methods ------------------------------------------------------------------------------------------------------
    def call_container(self, method: ContainerMethod, arguments, keywords):
        owner, name = method.owner, method.name
        if isinstance(owner, Constant):
            return self.call_constant(owner, name, arguments, keywords)
        if isinstance(owner, ArrayValue):
            return self.run_framework(getattr(owner.array, name), arguments, keywords)
        if isinstance(owner, TensorValue):
            if name == "numpy" and settings.trace_numpy:
                return self.array_of_tensor(owner)
            if name == "register_hook" and len(arguments) == 1 and not keywords:
                return self.register_hook(owner, *arguments)
            if name == "retain_grad":
                return self.retain_grad(owner)
            if name == "is_inference" and not arguments:
                if owner.source is not None:
                    self.guard(f"{{0}}.is_inference() is {owner.real.is_inference()}", owner.source)
                return Constant(owner.real.is_inference() if owner.source is not None else bool(mine.inference))
            return self.run_framework(getattr(type(owner.fake), name), [owner, *arguments], keywords)
        family = next((family for family in FAMILIES if isinstance(owner, family)), None)
        handler = METHODS.find(self, (family, name))
        if isinstance(owner, ExceptionValue) and name == "with_traceback":
            return owner
        if handler is None:
            raise Break("RB004", f"{self.class_of(owner).__name__}.{name}()")
        if isinstance(owner, Sequence) and issubclass(owner.kind, tuple) and name not in ("index", "count", "__len__",
                                                                                          "__getitem__", "__iter__",
                                                                                          "__contains__", "numel"):
            raise Break("RB004", f"{owner.kind.__name__}.{name}()")
        try:
            return handler(owner, *arguments, **keywords)
        except TypeError as error:
            if error.__traceback__.tb_next is None:  # the handler was not entered: the arguments do not fit
                raise Break("RB007", f"{self.class_of(owner).__name__}.{name}() gets arguments that do not fit it") from error
            raise

    def call_constant(self, owner, name, arguments, keywords):
        if name == "join" and isinstance(owner.value, str):
            return self.fold(owner.value.join, [Sequence(list, self.expanded(arguments[0]))])
        if name == "format" and isinstance(owner.value, str):
            for v in (*arguments, *keywords.values()):
                if isinstance(self.force(v), TensorValue):
                    raise Break("RB003", "formatting a tensor")
            later = self.text_format(owner, arguments, keywords)
            if later is not None:
                return later
        return self.fold(getattr(owner.value, name), arguments, keywords)

    @METHODS.by((Sequence, "__len__"))
    def list_len(self, owner):
        return Constant(len(owner.items))

    @METHODS.by((Sequence, "__getitem__"))
    def list_getitem(self, owner, index):
        return self.subscript_sequence(owner, index)

    @METHODS.by((Sequence, "__setitem__"))
    def list_setitem(self, owner, index, value):
        self.store_item(owner, self.known(index), value)
        return Constant(None)

    @METHODS.by((Sequence, "__iter__"))
    def list_iter(self, owner):
        return IteratorValue(owner)

    @METHODS.by((Sequence, "__contains__"))
    def list_contains(self, owner, item):
        return self.contains(owner, item)

    @METHODS.by((Sequence, "numel"))
    def list_numel(self, owner):
        return self.fold(lambda s: Size(s).numel(), [owner])

    @METHODS.by((Sequence, "append"))
    def list_append(self, owner, item):
        self.mark(owner)
        owner.items.append(item)
        if owner.limit is not None and len(owner.items) > owner.limit:
            del owner.items[0]
        return Constant(None)

    @METHODS.by((Sequence, "appendleft"))
    def list_appendleft(self, owner, item):
        self.mark(owner)
        owner.items.insert(0, item)
        if owner.limit is not None and len(owner.items) > owner.limit:
            del owner.items[-1]
        return Constant(None)

    @METHODS.by((Sequence, "extend"))
    def list_extend(self, owner, items):
        found = self.expanded(items)
        for one in found:
            self.list_append(owner, one)
        return Constant(None)

    @METHODS.by((Sequence, "insert"))
    def list_insert(self, owner, at, item):
        at = self.known(at)
        self.mark(owner)
        owner.items.insert(at, item)
        return Constant(None)

    @METHODS.by((Sequence, "pop"))
    def list_pop(self, owner, at=Constant(-1)):
        at = self.known(at)
        if type(at) is not int or not -len(owner.items) <= at < len(owner.items):
            return self.fold(owner.kind.pop, [self.like(owner), *([Constant(at)] if owner.kind is list else [])])
        found = self.item(owner, at)
        self.mark(owner)
        del owner.items[at]
        return found

    @METHODS.by((Sequence, "popleft"))
    def list_popleft(self, owner):
        return self.list_pop(owner, Constant(0))

    @METHODS.by((Sequence, "clear"))
    def list_clear(self, owner):
        self.mark(owner)
        owner.items.clear()
        return Constant(None)

    @METHODS.by((Sequence, "copy"))
    def list_copy(self, owner):
        made = Sequence(owner.kind, self.items_of(owner))
        made.limit = owner.limit
        return made

    @METHODS.by((Sequence, "reverse"))
    def list_reverse(self, owner):
        items = self.items_of(owner)
        self.mark(owner)
        owner.items[:] = items[::-1]
        return Constant(None)

    @METHODS.by((Sequence, "sort"))
    def list_sort(self, owner, **options):
        return self.call_python(polyfills.sort_, [owner], options)

    @METHODS.by((Sequence, "index"))
    def list_index(self, owner, item, *bounds):
        low, high, _ = slice(*map(self.known, bounds),
                             *(None,) * (2 - len(bounds))).indices(len(owner.items)) if bounds else (
                                 0, len(owner.items), 1)
        if len(bounds) == 1:
            low, high = range(len(owner.items))[self.known(bounds[0]):].start, len(owner.items)
        for k, one in list(enumerate(self.items_of(owner)))[low:high]:
            if self.matches(one, item):
                return Constant(k)
        item = self.force(item)
        if not isinstance(item, Constant):
            raise Break("RB007", "index() of what is not there")
        return self.fold(owner.kind.index, [Constant(owner.kind()), item])

    @METHODS.by((Sequence, "count"))
    def list_count(self, owner, item):
        return Constant(sum(self.matches(one, item) for one in self.items_of(owner)))

    @METHODS.by((Sequence, "remove"))
    def list_remove(self, owner, item):
        for at, one in enumerate(self.items_of(owner)):
            if self.matches(one, item):
                self.mark(owner)
                del owner.items[at]
                return Constant(None)
        if not isinstance(self.force(item), Constant):
            raise Break("RB007", "remove() of what is not there")
        return self.fold(owner.kind.remove, [Constant(owner.kind()), item])

    @METHODS.by((Sequence, "rotate"))
    def list_rotate(self, owner, steps=Constant(1)):
        turned = collections.deque(self.items_of(owner))
        turned.rotate(self.known(steps))
        self.mark(owner)
        owner.items[:] = turned
        return Constant(None)

    @METHODS.by((Sequence, "extendleft"))
    def list_extendleft(self, owner, items):
        for one in self.expanded(items):
            self.list_appendleft(owner, one)
        return Constant(None)

    @METHODS.by((Mapping, "__len__"))
    def dict_len(self, owner):
        return Constant(len(owner.items))

    @METHODS.by((Mapping, "__getitem__"))
    def dict_getitem(self, owner, key):
        return self.subscript_mapping(owner, self.key(key))

    @METHODS.by((Mapping, "__setitem__"))
    def dict_setitem(self, owner, key, value):
        self.store_subscript(owner, key, value)
        return Constant(None)

    @METHODS.by((Mapping, "__delitem__"))
    def dict_delitem(self, owner, key):
        self.delete_subscript(owner, key)
        return Constant(None)

    @METHODS.by((Mapping, "__contains__"))
    def dict_contains(self, owner, key):
        return Constant(self.key(key) in owner.items)

    @METHODS.by((Mapping, "__iter__"))
    def dict_iter(self, owner):
        return self.iterator(owner)

    @METHODS.by((Mapping, "__reversed__"))
    def dict_reversed(self, owner):
        return IteratorValue(Sequence(list, self.listed(owner)[::-1]), 0, owner, True)

    @METHODS.by((Mapping, "keys"))
    def dict_keys(self, owner):
        return View(owner, "keys")

    @METHODS.by((Mapping, "values"))
    def dict_values(self, owner):
        return View(owner, "values")

    @METHODS.by((Mapping, "items"))
    def dict_items(self, owner):
        return View(owner, "items")

    def viewed(self, view):
        """What a view of a dict shows."""
        mapping, part = view.mapping, view.part
        if part == "keys":
            return [self.from_python(k) for k in mapping.items]
        values = [self.lookup(mapping, k) for k in mapping.items]
        return values if part == "values" else [Sequence(tuple, [self.from_python(k), v])
                                                for k, v in zip(mapping.items, values)]

    def set_of(self, value):
        """A set, or a view of keys or items as one; other values as they are."""
        value = self.as_container(value)
        if isinstance(value, View) and value.part != "values":
            return SetValue(self.distinct(self.viewed(value)))
        return value

    @METHODS.by((View, "__len__"))
    def view_len(self, owner):
        return Constant(len(owner.mapping.items))

    @METHODS.by((View, "__iter__"))
    def view_iter(self, owner):
        return self.iterator(owner)

    @METHODS.by((View, "__contains__"))
    def view_contains(self, owner, item):
        return self.contains(owner, item)

    @METHODS.by((View, "isdisjoint"))
    def view_isdisjoint(self, owner, other):
        return self.set_isdisjoint(self.set_of(owner), other)

    @METHODS.by((Mapping, "get"))
    def dict_get(self, owner, key, default=Constant(None)):
        key = self.key(key)
        return self.lookup(owner, key) if key in owner.items else default

    @METHODS.by((Mapping, "pop"))
    def dict_pop(self, owner, key, default=None):
        key = self.key(key)
        if key not in owner.items:
            if default is None:
                raise raised(KeyError, key)
            return default
        found = self.lookup(owner, key)
        self.mark(owner)
        del owner.items[key]
        return found

    @METHODS.by((Mapping, "popitem"))
    def dict_popitem(self, owner, last=Constant(True)):
        if not owner.items:
            return self.fold(owner.kind.popitem, [Constant(owner.kind())])
        key = list(owner.items)[-1 if self.known(last) else 0]
        return Sequence(tuple, [self.from_python(key), self.dict_pop(owner, self.from_python(key))])

    @METHODS.by((Mapping, "setdefault"))
    def dict_setdefault(self, owner, key, default=Constant(None)):
        key = self.key(key)
        if key not in owner.items:
            self.mark(owner)
            owner.items[key] = default
        return self.lookup(owner, key)

    @METHODS.by((Mapping, "update"))
    def dict_update(self, owner, other=None, /, **named):
        added = dict(named)
        if other is not None:
            other = self.as_container(other)
            if isinstance(other, Mapping):
                added = {**{k: self.lookup(other, k) for k in other.items}, **added}
            else:
                pairs = [self.expanded(pair) for pair in self.expanded(other)]
                added = {**{self.key(k): v for k, v in pairs}, **added}
        if isinstance(owner, Namespace):
            for name, value in added.items():
                self.put(owner.owner, name, value, True)
        else:
            self.mark(owner)
        owner.items.update(added)
        return Constant(None)

    @METHODS.by((Mapping, "clear"))
    def dict_clear(self, owner):
        self.mark(owner)
        owner.items.clear()
        return Constant(None)

    @METHODS.by((Mapping, "copy"))
    def dict_copy(self, owner):
        return Mapping(dict(owner.items), None, owner.kind, owner.factory)

    @METHODS.by((Mapping, "move_to_end"))
    def dict_move_to_end(self, owner, key, last=Constant(True)):
        key, last = self.key(key), self.known(last)
        self.mark(owner)
        found = owner.items.pop(key)
        items = {**owner.items, key: found} if last else {key: found, **owner.items}
        owner.items.clear()
        owner.items.update(items)
        return Constant(None)

    @METHODS.by((SetValue, "add"))
    def set_add(self, owner, item):
        key = self.key(item)
        self.mark(owner)
        owner.items.setdefault(key, item)
        owner.order.add(key)
        return Constant(None)

    @METHODS.by((SetValue, "discard"))
    def set_discard(self, owner, item):
        key = self.key(item)
        self.mark(owner)
        owner.items.pop(key, None)
        owner.order.discard(key)
        return Constant(None)

    @METHODS.by((SetValue, "remove"))
    def set_remove(self, owner, item):
        if self.key(item) not in owner.items:
            raise raised(KeyError, self.key(item))
        return self.set_discard(owner, item)

    @METHODS.by((SetValue, "update"))
    def set_update(self, owner, *others):
        found = [one for other in others for one in self.expanded(other)]
        for one in found:
            self.set_add(owner, one)
        return Constant(None)

    @METHODS.by((SetValue, "pop"))
    def set_pop(self, owner):
        if not owner.items:
            return self.fold(set.pop, [Constant(set())])
        self.mark(owner)
        return owner.items.pop(owner.order.pop())

    @METHODS.by((SetValue, "clear"))
    def set_clear(self, owner):
        self.mark(owner)
        owner.items.clear()
        owner.order.clear()
        return Constant(None)

    @METHODS.by((SetValue, "copy"))
    def set_copy(self, owner):
        return SetValue(dict(owner.items), kind=owner.kind, order=set(owner.order))

    @METHODS.by((SetValue, "__contains__"))
    def set_contains(self, owner, item):
        return self.contains(owner, item)

    @METHODS.by((SetValue, "__len__"))
    def set_len(self, owner):
        return Constant(len(owner.items))

    @METHODS.by((SetValue, "__iter__"))
    def set_iter(self, owner):
        return self.iterator(owner)

    def keys_of(self, iterable):
        return self.distinct(self.expanded(iterable))

    def distinct(self, values):
        """Values by their keys, the first of equal ones."""
        found = {}
        for value in values:
            found.setdefault(self.key(value), value)
        return found

    def set_operation(self, symbol, owner, others):
        made = self.set_copy(owner)
        for other in others:
            made = self.container_binary(symbol, made, SetValue(self.keys_of(other)), False)
        return made

    @METHODS.by((SetValue, "union"))
    def set_union(self, owner, *others):
        return self.set_operation("|", owner, others)

    @METHODS.by((SetValue, "intersection"))
    def set_intersection(self, owner, *others):
        return self.set_operation("&", owner, others)

    @METHODS.by((SetValue, "difference"))
    def set_difference(self, owner, *others):
        return self.set_operation("-", owner, others)

    @METHODS.by((SetValue, "symmetric_difference"))
    def set_symmetric_difference(self, owner, other):
        return self.set_operation("^", owner, [other])

    @METHODS.by((SetValue, "issubset"))
    def set_issubset(self, owner, other):
        return Constant(set(owner.items) <= set(self.keys_of(other)))

    @METHODS.by((SetValue, "issuperset"))
    def set_issuperset(self, owner, other):
        return Constant(set(owner.items) >= set(self.keys_of(other)))

    @METHODS.by((SetValue, "isdisjoint"))
    def set_isdisjoint(self, owner, other):
        return Constant(set(owner.items).isdisjoint(self.keys_of(other)))

    # --- making -------------------------------------------------------------------------------------------------------
    def make_container(self, kind, arguments, keywords):
        if kind in (dict, collections.OrderedDict):
            made = Mapping({}, None, kind)
            self.dict_update(made, *arguments, **keywords)
            return made
        if kind is collections.defaultdict:
            factory = arguments[0] if arguments else None
            made = Mapping({}, None, kind, None if isinstance(factory, Constant) else factory)
            self.dict_update(made, *arguments[1:], **keywords)
            return made
        items = self.expanded(arguments[0]) if arguments else []
        if kind in (set, frozenset):
            return SetValue(self.distinct(items), kind=kind)
        made = Sequence(kind, items)
        if kind is collections.deque:
            limit = keywords.get("maxlen", arguments[1] if len(arguments) > 1 else Constant(None))
            made.limit = self.known(limit)
            if made.limit is not None:
                made.items = made.items[max(len(items) - made.limit, 0):]
        return made

    # --- generators ---------------------------------------------------------------------------------------------------
    def advance(self, generator: GeneratorValue, resume, sent=Constant(None)):
        """Goes on in a generator's body; ``resume`` says what the caller does when it is exhausted."""
        if generator.finished:
            return self.exhausted(resume, Constant(None))
        frame = generator.frame
        frame.resume = resume
        if generator.started:
            frame.stack.append(sent)
        generator.started = True
        self.push_frame(frame)

    @METHODS.by((GeneratorValue, "send"))
    def generator_send(self, owner, value):
        return self.advance(owner, ("next", None), value)

    @METHODS.by((GeneratorValue, "throw"))
    def generator_throw(self, owner, error, value=Constant(None), traceback=Constant(None)):
        error, value = self.force(error), self.force(value)
        if self.is_class(error) and issubclass(self.class_of(value), BaseException):
            error = value
        if self.is_class(error):
            error = self.call(error, [], {})
        if not issubclass(self.class_of(error), BaseException):
            raise Break("RB004", f"throwing a {self.describe(error)}")
        return self.thrown(owner, error, ("next", None))

    @METHODS.by((GeneratorValue, "close"))
    def generator_close(self, owner):
        if not owner.started or owner.finished:
            owner.finished = True
            return Constant(None)
        return self.thrown(owner, ExceptionValue(GeneratorExit, []), ("close", None))

    def thrown(self, generator, error, resume):
        """Goes on in a generator's body with an exception."""
        if not generator.started or generator.finished:
            generator.finished = True
            raise Raised(error)
        generator.frame.resume = resume
        self.push_frame(generator.frame)
        raise Raised(error, inside=True)

    def left(self, frame, error):
        """What an exception that left a generator's body is for its caller; None where ``close()`` takes it as the
        end."""
        frame.generator.finished = True
        cls = self.class_of(error)
        if frame.resume[0] == "close" and issubclass(cls, (GeneratorExit, StopIteration)):
            self.frames[-1].stack.append(Constant(None))
            return None
        if not issubclass(cls, StopIteration):
            return error
        made = ExceptionValue(RuntimeError, [Constant("generator raised StopIteration")])
        made.cause = made.context = error
        made.suppress = True
        return made

    def exhaust(self, frame, value):
        """A generator's body returned."""
        frame.generator.finished = True
        self.frames.pop()
        self.exhausted(frame.resume, value)

    def exhausted(self, resume, value):
        kind, detail = resume
        frame = self.frames[-1]
        if kind == "for":
            frame.stack.pop()
            frame.at = frame.listing.at[detail]
        elif kind == "send":
            self.end_send(frame, value, detail)
        elif kind == "close":
            frame.stack.append(Constant(None))
        elif detail is not None:
            frame.stack.append(detail)
        else:
            raise Raised(ExceptionValue(StopIteration, [] if isinstance(value, Constant) and value.value is None
                                        else [value]))

    def end_send(self, frame, value, target):
        """What ``yield from`` leaves: the result, on top of the iterator since 3.12."""
        if PYTHON < (3, 12):
            frame.stack.pop()
        frame.stack.append(value)
        frame.at = frame.listing.at[target]


def unbound(tensor):
    """The parts of a tensor along its first dimension."""
    return tuple(tensor.unbind(0))

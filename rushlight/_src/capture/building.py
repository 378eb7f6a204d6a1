"""Rules of instructions that build and unpack containers and strings."""
from __future__ import annotations

import collections.abc

from .classes import ABSENT, static
from .errors import Break, Raised
from .parts import INSTRUCTIONS, Part
from .protocols import unpacker
from .values import Constant, ExceptionValue, Mapping, Sequence, SetValue, TensorValue

CONVERSIONS = [None, str, repr, ascii]
# classes whose one positional pattern is the object itself
MATCHED_WHOLE = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


class Building(Part, part="building"):
    """Capture component for instructions that build, unpack and match."""

    needs = ("arithmetic", "attributes", "builtins", "calls", "classes", "containers", "mappings", "output",
             "sets", "values", "writes")

    @INSTRUCTIONS.by("BUILD_LIST")
    def do_build_list(self, frame, one):
        frame.stack.append(Sequence(list, frame.take(one.arg)))

    @INSTRUCTIONS.by("BUILD_TUPLE")
    def do_build_tuple(self, frame, one):
        frame.stack.append(Sequence(tuple, frame.take(one.arg)))

    @INSTRUCTIONS.by("BUILD_SET")
    def do_build_set(self, frame, one):
        frame.stack.append(SetValue(self.sets.distinct(frame.take(one.arg))))

    @INSTRUCTIONS.by("BUILD_MAP")
    def do_build_map(self, frame, one):
        parts = frame.take(2 * one.arg)
        frame.stack.append(Mapping({self.mappings.key(k): v for k, v in zip(parts[::2], parts[1::2])}))

    @INSTRUCTIONS.by("BUILD_CONST_KEY_MAP")
    def do_build_const_key_map(self, frame, one):
        keys = self.values.known(frame.stack.pop())
        frame.stack.append(Mapping(dict(zip(keys, frame.take(one.arg)))))

    @INSTRUCTIONS.by("BUILD_STRING")
    def do_build_string(self, frame, one):
        parts = frame.take(one.arg)
        text = self.output.joined(parts) if any(map(self.output.is_deferred,
                                                    parts)) else Constant("".join(map(self.values.known, parts)))
        frame.stack.append(text)

    @INSTRUCTIONS.by("CONVERT")
    def do_convert(self, frame, one):
        frame.give(self.builtins.builtin_text(CONVERSIONS[one.arg], frame.stack.pop()))

    @INSTRUCTIONS.by("FORMAT")
    def do_format(self, frame, one):
        self.format(frame, frame.stack.pop(), "")

    @INSTRUCTIONS.by("FORMAT_SPEC")
    def do_format_spec(self, frame, one):
        specification, value = self.values.known(frame.stack.pop()), frame.stack.pop()
        if one.arg:
            value = self.machine.now(self.values.from_python(CONVERSIONS[one.arg]), [value])
        self.format(frame, value, specification)

    def format(self, frame, value, specification):
        value = self.values.force(value)
        if isinstance(value, TensorValue) or self.output.is_deferred(value):
            frame.stack.append(self.output.formatted(value, specification))
            return
        cls = self.classes.user_class(value)
        found = cls and self.classes.class_attribute(cls, "__format__")
        if found:
            frame.give(self.calls.call(found, [value, Constant(specification)], {}))
        elif (cls or isinstance(value, ExceptionValue)) and not specification:
            frame.give(self.builtins.builtin_text(str, value))
        else:
            frame.stack.append(self.arithmetic.fold(format, [value, Constant(specification)]))

    @INSTRUCTIONS.by("LIST_TO_TUPLE")
    def do_list_to_tuple(self, frame, one):
        frame.stack.append(Sequence(tuple, self.containers.expanded(frame.stack.pop())))

    @INSTRUCTIONS.by("LIST_EXTEND")
    def do_list_extend(self, frame, one):
        items = self.containers.expanded(frame.stack[-1])
        frame.stack.pop()
        self.append_target(frame, one.arg).extend(items)

    @INSTRUCTIONS.by("SET_UPDATE")
    def do_set_update(self, frame, one):
        items = self.containers.expanded(frame.stack[-1])
        frame.stack.pop()
        target = frame.stack[-one.arg] = self.values.force(frame.stack[-one.arg])
        for item in items:
            self.sets.set_add(target, item)

    def append_target(self, frame, depth):
        """Return the container that a comprehension fills; after a break it is one from outside."""
        target = frame.stack[-depth] = self.values.force(frame.stack[-depth])
        self.writes.mark(target)
        return target.items

    @INSTRUCTIONS.by("LIST_APPEND")
    def do_list_append(self, frame, one):
        value = frame.stack.pop()
        self.append_target(frame, one.arg).append(value)

    @INSTRUCTIONS.by("SET_ADD")
    def do_set_add(self, frame, one):
        value = frame.stack.pop()
        target = frame.stack[-one.arg] = self.values.force(frame.stack[-one.arg])
        self.sets.set_add(target, value)

    @INSTRUCTIONS.by("MAP_ADD")
    def do_map_add(self, frame, one):
        value, key = frame.stack.pop(), self.mappings.key(frame.stack.pop())
        self.append_target(frame, one.arg)[key] = value

    @INSTRUCTIONS.by("DICT_UPDATE", "DICT_MERGE")
    def update_dict(self, frame, one):
        other = self.mappings.pairs_of(frame.stack[-1])
        if not isinstance(other, Mapping):
            if static(self.classes.class_of(frame.stack[-1]), "keys") is ABSENT:
                raise Break("RB007", f"unpacking a {self.values.describe(frame.stack[-1])} as a mapping")
            pairs = map(self.containers.expanded, self.containers.expanded(other))
            other = Mapping({self.mappings.key(k): v for k, v in pairs})
        frame.stack.pop()
        self.append_target(frame, one.arg).update({k: self.mappings.lookup(other, k) for k in other.items})

    @INSTRUCTIONS.by("UNPACK_SEQUENCE")
    def do_unpack_sequence(self, frame, one):
        value = self.containers.as_container(frame.stack[-1])
        items = self.containers.first_of(frame.stack[-1], one.arg + 1)
        frame.stack.pop()
        if len(items) != one.arg:
            like = getattr(value, "kind", None)
            like = (list if issubclass(like, list) else tuple if issubclass(like, tuple) else dict.fromkeys
                    if issubclass(like, dict) else iter) if like else iter
            self.arithmetic.fold(unpacker(one.arg), [Constant(like(range(len(items))))])
        frame.stack.extend(reversed(items))

    @INSTRUCTIONS.by("UNPACK_EX")
    def do_unpack_ex(self, frame, one):
        items, before, after = self.containers.expanded(frame.stack[-1]), one.arg & 255, one.arg >> 8
        frame.stack.pop()
        if len(items) < before + after:
            text = f"not enough values to unpack (expected at least {before + after}, got {len(items)})"
            raise Raised(ExceptionValue(ValueError, [Constant(text)]))
        middle = Sequence(list, items[before:len(items) - after])
        frame.stack.extend(reversed([*items[:before], middle, *items[len(items) - after:]]))

    # --- match --------------------------------------------------------------------------------------------------------
    @INSTRUCTIONS.by("GET_LEN")
    def do_get_len(self, frame, one):
        length = self.containers.length(frame.stack[-1])
        if length is None:
            raise Break("RB004", "matching an object with a custom __len__")
        frame.stack.append(length)

    @INSTRUCTIONS.by("MATCH_SEQUENCE")
    def do_match_sequence(self, frame, one):
        self.match_kind(frame, collections.abc.Sequence, (str, bytes, bytearray))

    @INSTRUCTIONS.by("MATCH_MAPPING")
    def do_match_mapping(self, frame, one):
        self.match_kind(frame, collections.abc.Mapping, ())

    def match_kind(self, frame, kind, but):
        cls = self.classes.class_of(frame.stack[-1])
        frame.stack.append(Constant(issubclass(cls, kind) and not issubclass(cls, but)))

    @INSTRUCTIONS.by("MATCH_KEYS")
    def do_match_keys(self, frame, one):
        keys, subject = self.containers.expanded(frame.stack[-1]), frame.stack[-2]
        owner = self.containers.as_container(subject)
        if not isinstance(owner, Mapping) or self.arithmetic.method(self.values.force(subject), "get"):
            raise Break("RB004", f"matching the keys of a {self.values.describe(subject)}")
        found = [self.mappings.lookup(owner, self.mappings.key(k)) for k in keys if self.mappings.key(k) in owner.items]
        frame.stack.append(Sequence(tuple, found) if len(found) == len(keys) else Constant(None))

    @INSTRUCTIONS.by("MATCH_CLASS")
    def do_match_class(self, frame, one):
        names, cls, subject = self.values.known(frame.stack.pop()), self.values.force(
            frame.stack.pop()), self.values.force(
            frame.stack.pop())
        frame.stack.append(self.matched(subject, cls.value, one.arg, names))

    def matched(self, subject, cls, count, names):
        """Return the attributes that a class pattern extracts, as a tuple; None if it does not match."""
        if not self.arithmetic.truth(self.builtins.builtin_isinstance(subject, self.values.from_python(cls))):
            return Constant(None)
        if count == 1 and cls in MATCHED_WHOLE and not hasattr(cls, "__match_args__"):
            places, itself = (), [subject]
        else:
            places, itself = getattr(cls, "__match_args__", ())[:count], []
            if len(places) < count:
                raise Break("RB007", f"a pattern of {cls.__name__} with {count} positions")
        try:
            return Sequence(tuple, itself + [self.attributes.attribute_now(subject, n) for n in (*places, *names)])
        except Raised as error:
            if not issubclass(error.value.cls, AttributeError):
                raise
            return Constant(None)

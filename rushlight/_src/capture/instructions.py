"""The rule of each instruction, and how a break at it is written as Python."""
from __future__ import annotations

import builtins
import collections.abc
import importlib.util
import sys
import types

from .attributes import is_framework
from .bytecode import NULL_FIRST
from .errors import Break, Raised
from .parts import BREAKS, INSTRUCTIONS, Part
from .polyfills import as_pairs, lacks
from .protocols import unpacker
from .values import (NULL, ArrayValue, Constant, ExceptionValue, Function, GeneratorValue, Handled, IteratorValue,
                     Mapping, Number, Object, Sequence, SetValue, Super,
                     TensorValue)

CONVERSIONS = [None, str, repr, ascii]
# whose one positional pattern is the object itself
MATCHED_WHOLE = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


class Placeholder(str):
    """A run-time name on the value stack of a break: what the breaking instruction gave."""


class Instructions(Part):
    """The rules of instructions: ``rule(frame, instruction)``."""

    def give(self, frame, value):
        """Pushes a result, unless a pushed frame will give it."""
        if value is not None:
            frame.stack.append(value)

    def take(self, frame, count):
        if not count:
            return []
        taken = frame.stack[-count:]
        del frame.stack[-count:]
        return taken

    # --- the stack ----------------------------------------------------------------------------------------------------
    @INSTRUCTIONS.by("NOP")
    def do_nop(self, frame, one):
        pass

    @INSTRUCTIONS.by("POP_TOP")
    def do_pop_top(self, frame, one):
        frame.stack.pop()

    @INSTRUCTIONS.by("PUSH_NULL")
    def do_push_null(self, frame, one):
        frame.stack.append(NULL)

    @INSTRUCTIONS.by("COPY")
    def do_copy(self, frame, one):
        frame.stack.append(frame.stack[-one.arg])

    @INSTRUCTIONS.by("SWAP")
    def do_swap(self, frame, one):
        stack = frame.stack
        stack[-1], stack[-one.arg] = stack[-one.arg], stack[-1]

    # --- variables ----------------------------------------------------------------------------------------------------
    @INSTRUCTIONS.by("LOAD_CONST")
    def do_load_const(self, frame, one):
        frame.stack.append(self.from_python(one.arg))

    @INSTRUCTIONS.by("LOAD_FAST")
    def do_load_fast(self, frame, one):
        name = one.arg
        if name in frame.cells and name not in frame.locals:  # 3.13 loads cells this way
            frame.stack.append(frame.cells[name])
            return
        if name not in frame.locals:
            raise self.unbound(name)
        value = frame.locals[name] = self.force(frame.locals[name])
        frame.stack.append(value)

    def unbound(self, name):
        return Raised(ExceptionValue(UnboundLocalError,
                                     [Constant(f"cannot access local variable '{name}' where it is not associated "
                                               "with a value")]))

    @INSTRUCTIONS.by("LOAD_FAST_AND_CLEAR")
    def do_load_fast_and_clear(self, frame, one):
        frame.stack.append(frame.locals.pop(one.arg, NULL))

    @INSTRUCTIONS.by("STORE_FAST")
    def do_store_fast(self, frame, one):
        value = frame.stack.pop()
        if value is NULL:
            frame.locals.pop(one.arg, None)
        else:
            frame.locals[one.arg] = value

    @INSTRUCTIONS.by("DELETE_FAST")
    def do_delete_fast(self, frame, one):
        if frame.locals.pop(one.arg, None) is None:
            raise self.unbound(one.arg)

    @INSTRUCTIONS.by("LOAD_CLOSURE")
    def do_load_closure(self, frame, one):
        frame.stack.append(frame.cells[one.arg])

    @INSTRUCTIONS.by("LOAD_DEREF")
    def do_load_deref(self, frame, one):
        cell = self.full_cell(frame, one.arg)
        cell.content = self.force(cell.content)
        frame.stack.append(cell.content)

    def full_cell(self, frame, name):
        """The cell of a variable that has a value."""
        cell = frame.cells[name]
        if cell.content is None:
            if name in frame.code.co_freevars:
                raise Raised(
                    ExceptionValue(
                        NameError, [Constant(
                            f"cannot access free variable '{name}' where it is not associated with a value in "
                            "enclosing scope")]))
            raise self.unbound(name)
        return cell

    @INSTRUCTIONS.by("DELETE_DEREF")
    def do_delete_deref(self, frame, one):
        cell = self.full_cell(frame, one.arg)
        cell.content = None
        self.mark(cell)

    @INSTRUCTIONS.by("STORE_DEREF")
    def do_store_deref(self, frame, one):
        cell = frame.cells[one.arg]
        cell.content = frame.stack.pop()
        self.mark(cell)

    @INSTRUCTIONS.by("LOAD_GLOBAL")
    def do_load_global(self, frame, one):
        name, namespace = one.arg, frame.namespace
        stored = self.stores.get((id(namespace), name))
        if stored is not None:
            frame.stack.append(self.force(stored[1]))
        elif name in namespace:
            frame.stack.append(self.load_global(namespace, name))
        elif hasattr(builtins, name):
            frame.stack.append(self.from_python(getattr(builtins, name)))
        else:
            raise Raised(ExceptionValue(NameError, [Constant(f"name '{name}' is not defined")]))

    def load_global(self, namespace, name):
        value = namespace[name]
        if is_framework(namespace.get("__name__")) and not isinstance(value, (dict, list)):
            return self.from_python(value)
        return self.wrap(value, self.constant_source(namespace).item(repr(name)))

    @INSTRUCTIONS.by("LOAD_NAME")
    def do_load_name(self, frame, one):
        self.do_load_global(frame, one)

    @INSTRUCTIONS.by("STORE_GLOBAL")
    def do_store_global(self, frame, one):
        self.stores[id(frame.namespace), one.arg] = frame.namespace, frame.stack.pop()

    # --- attributes and items -----------------------------------------------------------------------------------------
    @INSTRUCTIONS.by("LOAD_ATTR")
    def do_load_attr(self, frame, one):
        self.give(frame, self.getattr(frame.stack.pop(), one.arg))

    @INSTRUCTIONS.by("LOAD_METHOD")
    def do_load_method(self, frame, one):
        owner = frame.stack.pop()
        depth = len(self.frames)
        if NULL_FIRST:
            frame.stack.append(NULL)
        found = self.getattr(owner, one.arg)
        if found is None and not NULL_FIRST:
            del self.frames[depth:]
            found = self.attribute_now(owner, one.arg)
        self.give(frame, found)
        if not NULL_FIRST:
            frame.stack.append(NULL)

    @INSTRUCTIONS.by("LOAD_SUPER_ATTR")
    def do_load_super_attr(self, frame, one):
        name, method = one.arg
        owner, cls = self.force(frame.stack.pop()), self.force(frame.stack.pop())
        frame.stack.pop()
        found = self.getattr(Super(cls.value, owner), name)
        if found is None:
            raise Break("RB004", f"a property {name!r} of super()")
        frame.stack += ([NULL, found] if NULL_FIRST else [found, NULL]) if method else [found]

    @INSTRUCTIONS.by("LOAD_SPECIAL")
    def do_load_special(self, frame, one):
        frame.stack += [self.getattr(frame.stack.pop(), one.arg), NULL]

    @INSTRUCTIONS.by("STORE_ATTR")
    def do_store_attr(self, frame, one):
        owner, value = frame.stack.pop(), frame.stack.pop()
        self.setattr(owner, one.arg, value)

    @INSTRUCTIONS.by("DELETE_ATTR")
    def do_delete_attr(self, frame, one):
        self.delattr(frame.stack.pop(), one.arg)

    @INSTRUCTIONS.by("STORE_SUBSCR")
    def do_store_subscr(self, frame, one):
        index, owner, value = frame.stack.pop(), frame.stack.pop(), frame.stack.pop()
        self.store_subscript(owner, index, value)

    @INSTRUCTIONS.by("DELETE_SUBSCR")
    def do_delete_subscr(self, frame, one):
        index, owner = frame.stack.pop(), frame.stack.pop()
        self.delete_subscript(owner, index)

    @INSTRUCTIONS.by("BINARY_SUBSCR")
    def do_binary_subscr(self, frame, one):
        index, owner = frame.stack.pop(), frame.stack.pop()
        self.give(frame, self.subscript(owner, index))

    def slice_bound(self, value):
        """A bound of a slice: a symbol where it varies."""
        value = self.force(value)
        if isinstance(value, TensorValue) and not value.fake._meta.shape:
            value = self.force(self.number_in(value, int))
        return value.expr if isinstance(value, Number) and value.expr is not None else self.known(value)

    @INSTRUCTIONS.by("BINARY_SLICE")
    def do_binary_slice(self, frame, one):
        owner, start, stop = self.take(frame, 3)
        self.give(frame, self.subscript(owner, Constant(slice(self.slice_bound(start), self.slice_bound(stop)))))

    @INSTRUCTIONS.by("STORE_SLICE")
    def do_store_slice(self, frame, one):
        value, owner, start, stop = self.take(frame, 4)
        self.store_subscript(owner, Constant(slice(self.slice_bound(start), self.slice_bound(stop))), value)

    @INSTRUCTIONS.by("BUILD_SLICE")
    def do_build_slice(self, frame, one):
        bounds = self.take(frame, one.arg)
        frame.stack.append(Constant(slice(*map(self.slice_bound, bounds))))

    # --- operators ----------------------------------------------------------------------------------------------------
    @INSTRUCTIONS.by("BINARY")
    def do_binary(self, frame, one):
        b, a = frame.stack.pop(), frame.stack.pop()
        inplace = one.arg.endswith("=")
        self.give(frame, self.binary(one.arg[:-1] if inplace else one.arg, a, b, inplace))

    @INSTRUCTIONS.by("COMPARE")
    def do_compare(self, frame, one):
        b, a = frame.stack.pop(), frame.stack.pop()
        self.give(frame, self.compare(one.arg, a, b))

    @INSTRUCTIONS.by("IS_OP")
    def do_is_op(self, frame, one):
        b, a = frame.stack.pop(), frame.stack.pop()
        frame.stack.append(Constant(self.identical(a, b) is not bool(one.arg)))

    @INSTRUCTIONS.by("CONTAINS_OP")
    def do_contains_op(self, frame, one):
        owner, item = frame.stack.pop(), frame.stack.pop()
        depth = len(self.frames)
        found = self.contains(owner, item)
        if found is None:
            if one.arg:  # the answer of what was begun has to be turned
                del self.frames[depth:]
                self.give(frame, self.call_python(lacks, [owner, item]))
            return
        frame.stack.append(Constant(self.truth(found) is not bool(one.arg)))

    def unary(self, frame, function, method):
        value = self.force(frame.stack.pop())
        cls = self.user_class(value)
        found = cls and self.class_attribute(cls, method)
        if found:
            self.give(frame, self.call(found, [value], {}))
        elif isinstance(value, Number) and type(value.hint) is not bool and method != "__invert__":
            frame.stack.append(value if method == "__pos__" else self.binary("*", Constant(-1), value))
        else:
            frame.stack.append(self.run_framework(function, [value], {})
                               if isinstance(value, (TensorValue, ArrayValue)) else self.fold(function, [value]))

    @INSTRUCTIONS.by("UNARY_NEGATIVE")
    def do_unary_negative(self, frame, one):
        self.unary(frame, lambda x: -x, "__neg__")

    @INSTRUCTIONS.by("UNARY_POSITIVE")
    def do_unary_positive(self, frame, one):
        self.unary(frame, lambda x: +x, "__pos__")

    @INSTRUCTIONS.by("UNARY_INVERT")
    def do_unary_invert(self, frame, one):
        self.unary(frame, lambda x: ~x, "__invert__")

    @INSTRUCTIONS.by("UNARY_NOT")
    def do_unary_not(self, frame, one):
        frame.stack.append(Constant(not self.truth(frame.stack.pop())))

    @INSTRUCTIONS.by("TO_BOOL")
    def do_to_bool(self, frame, one):
        value, following = frame.stack.pop(), frame.listing.instructions[frame.at]
        checked = (following.op, following.arg) == ("POP_JUMP", "TRUE") and self.asserted(frame, value, frame.at + 1)
        frame.stack.append(Constant(checked or self.truth(value)))

    # --- making containers and text -----------------------------------------------------------------------------------
    @INSTRUCTIONS.by("BUILD_LIST")
    def do_build_list(self, frame, one):
        frame.stack.append(Sequence(list, self.take(frame, one.arg)))

    @INSTRUCTIONS.by("BUILD_TUPLE")
    def do_build_tuple(self, frame, one):
        frame.stack.append(Sequence(tuple, self.take(frame, one.arg)))

    @INSTRUCTIONS.by("BUILD_SET")
    def do_build_set(self, frame, one):
        frame.stack.append(SetValue(self.distinct(self.take(frame, one.arg))))

    @INSTRUCTIONS.by("BUILD_MAP")
    def do_build_map(self, frame, one):
        parts = self.take(frame, 2 * one.arg)
        frame.stack.append(Mapping({self.key(k): v for k, v in zip(parts[::2], parts[1::2])}))

    @INSTRUCTIONS.by("BUILD_CONST_KEY_MAP")
    def do_build_const_key_map(self, frame, one):
        keys = self.known(frame.stack.pop())
        frame.stack.append(Mapping(dict(zip(keys, self.take(frame, one.arg)))))

    @INSTRUCTIONS.by("BUILD_STRING")
    def do_build_string(self, frame, one):
        parts = self.take(frame, one.arg)
        text = self.joined(parts) if any(map(self.is_deferred, parts)) else Constant("".join(map(self.known, parts)))
        frame.stack.append(text)

    @INSTRUCTIONS.by("CONVERT")
    def do_convert(self, frame, one):
        self.give(frame, self.builtin_text(CONVERSIONS[one.arg], frame.stack.pop()))

    @INSTRUCTIONS.by("FORMAT")
    def do_format(self, frame, one):
        self.format(frame, frame.stack.pop(), "")

    @INSTRUCTIONS.by("FORMAT_SPEC")
    def do_format_spec(self, frame, one):
        specification, value = self.known(frame.stack.pop()), frame.stack.pop()
        if one.arg:
            value = self.now(self.from_python(CONVERSIONS[one.arg]), [value])
        self.format(frame, value, specification)

    def format(self, frame, value, specification):
        value = self.force(value)
        if isinstance(value, TensorValue) or self.is_deferred(value):
            frame.stack.append(self.formatted(value, specification))
            return
        cls = self.user_class(value)
        found = cls and self.class_attribute(cls, "__format__")
        if found:
            self.give(frame, self.call(found, [value, Constant(specification)], {}))
        elif (cls or isinstance(value, ExceptionValue)) and not specification:
            self.give(frame, self.builtin_text(str, value))
        else:
            frame.stack.append(self.fold(format, [value, Constant(specification)]))

    @INSTRUCTIONS.by("LIST_TO_TUPLE")
    def do_list_to_tuple(self, frame, one):
        frame.stack.append(Sequence(tuple, self.expanded(frame.stack.pop())))

    @INSTRUCTIONS.by("LIST_EXTEND")
    def do_list_extend(self, frame, one):
        items = self.expanded(frame.stack[-1])
        frame.stack.pop()
        self.append_target(frame, one.arg).extend(items)

    @INSTRUCTIONS.by("SET_UPDATE")
    def do_set_update(self, frame, one):
        items = self.expanded(frame.stack[-1])
        frame.stack.pop()
        target = frame.stack[-one.arg] = self.force(frame.stack[-one.arg])
        for item in items:
            self.set_add(target, item)

    def append_target(self, frame, depth):
        """The container that a comprehension fills; after a break it is one from outside."""
        target = frame.stack[-depth] = self.force(frame.stack[-depth])
        self.mark(target)
        return target.items

    @INSTRUCTIONS.by("LIST_APPEND")
    def do_list_append(self, frame, one):
        value = frame.stack.pop()
        self.append_target(frame, one.arg).append(value)

    @INSTRUCTIONS.by("SET_ADD")
    def do_set_add(self, frame, one):
        value = frame.stack.pop()
        target = frame.stack[-one.arg] = self.force(frame.stack[-one.arg])
        self.set_add(target, value)

    @INSTRUCTIONS.by("MAP_ADD")
    def do_map_add(self, frame, one):
        value, key = frame.stack.pop(), self.key(frame.stack.pop())
        self.append_target(frame, one.arg)[key] = value

    @INSTRUCTIONS.by("DICT_UPDATE", "DICT_MERGE")
    def update_dict(self, frame, one):
        other = self.as_container(frame.stack[-1])
        frame.stack.pop()
        if not isinstance(other, Mapping):
            pairs = self.expanded(self.now(self.from_python(as_pairs), [other]))
            other = Mapping({self.key(k): v for k, v in (self.expanded(p) for p in pairs)})
        self.append_target(frame, one.arg).update({k: self.lookup(other, k) for k in other.items})

    @INSTRUCTIONS.by("UNPACK_SEQUENCE")
    def do_unpack_sequence(self, frame, one):
        value = self.as_container(frame.stack[-1])
        items = self.first_of(value, one.arg + 1)
        frame.stack.pop()
        if len(items) != one.arg:
            like = getattr(value, "kind", None)
            like = (list if issubclass(like, list) else tuple if issubclass(like, tuple) else dict.fromkeys
                    if issubclass(like, dict) else iter) if like else iter
            self.fold(unpacker(one.arg), [Constant(like(range(len(items))))])
        frame.stack.extend(reversed(items))

    @INSTRUCTIONS.by("UNPACK_EX")
    def do_unpack_ex(self, frame, one):
        items, before, after = self.expanded(frame.stack[-1]), one.arg & 255, one.arg >> 8
        frame.stack.pop()
        if len(items) < before + after:
            raise Raised(
                ExceptionValue(
                    ValueError, [
                        Constant(f"not enough values to unpack (expected at least {before + after}, got {len(items)})")]))
        middle = Sequence(list, items[before:len(items) - after])
        frame.stack.extend(reversed([*items[:before], middle, *items[len(items) - after:]]))

    # --- match --------------------------------------------------------------------------------------------------------
    @INSTRUCTIONS.by("GET_LEN")
    def do_get_len(self, frame, one):
        length = self.length(frame.stack[-1])
        if length is None:
            raise Break("RB004", "matching an object with a __len__ of its own")
        frame.stack.append(length)

    @INSTRUCTIONS.by("MATCH_SEQUENCE")
    def do_match_sequence(self, frame, one):
        self.match_kind(frame, collections.abc.Sequence, (str, bytes, bytearray))

    @INSTRUCTIONS.by("MATCH_MAPPING")
    def do_match_mapping(self, frame, one):
        self.match_kind(frame, collections.abc.Mapping, ())

    def match_kind(self, frame, kind, but):
        cls = self.class_of(frame.stack[-1])
        frame.stack.append(Constant(issubclass(cls, kind) and not issubclass(cls, but)))

    @INSTRUCTIONS.by("MATCH_KEYS")
    def do_match_keys(self, frame, one):
        keys, subject = self.expanded(frame.stack[-1]), frame.stack[-2]
        owner = self.as_container(subject)
        if not isinstance(owner, Mapping):
            raise Break("RB004", f"matching the keys of a {self.describe(subject)}")
        found = [self.lookup(owner, self.key(k)) for k in keys if self.key(k) in owner.items]
        frame.stack.append(Sequence(tuple, found) if len(found) == len(keys) else Constant(None))

    @INSTRUCTIONS.by("MATCH_CLASS")
    def do_match_class(self, frame, one):
        names, cls, subject = self.known(frame.stack.pop()), self.force(frame.stack.pop()), self.force(
            frame.stack.pop())
        frame.stack.append(self.matched(subject, cls.value, one.arg, names))

    def matched(self, subject, cls, count, names):
        """The attributes that a class pattern takes apart, as a tuple; None where it does not match."""
        if not self.truth(self.builtin_isinstance(subject, self.from_python(cls))):
            return Constant(None)
        if count == 1 and cls in MATCHED_WHOLE and not hasattr(cls, "__match_args__"):
            places, itself = (), [subject]
        else:
            places, itself = getattr(cls, "__match_args__", ())[:count], []
            if len(places) < count:
                raise Break("RB007", f"a pattern of {cls.__name__} with {count} positions")
        try:
            return Sequence(tuple, itself + [self.attribute_now(subject, n) for n in (*places, *names)])
        except Raised as error:
            if not issubclass(error.value.cls, AttributeError):
                raise
            return Constant(None)

    # --- iteration ----------------------------------------------------------------------------------------------------
    @INSTRUCTIONS.by("GET_ITER")
    def do_get_iter(self, frame, one):
        self.give(frame, self.iterator(frame.stack.pop()))

    @INSTRUCTIONS.by("GET_YIELD_FROM_ITER")
    def do_get_yield_from_iter(self, frame, one):
        self.do_get_iter(frame, one)

    @INSTRUCTIONS.by("FOR_ITER")
    def do_for_iter(self, frame, one):
        iterator = self.force(frame.stack[-1])
        if isinstance(iterator, GeneratorValue):
            self.advance(iterator, ("for", one.target))
        elif isinstance(iterator, IteratorValue):
            found = self.step_of(iterator)
            if found is not None:
                frame.stack.append(found)
            else:
                frame.stack.pop()
                frame.at = frame.listing.at[one.target]
        else:
            self.next_of_object(frame, iterator, one)

    def next_of_object(self, frame, iterator, one):
        """An iterator of a user's class."""
        found = self.user_class(iterator) and self.class_attribute(self.class_of(iterator), "__next__")
        if not found:
            # an iterator that an earlier break left
            raise Break("RB004", f"iteration over a {self.describe(iterator)}", noted=False)
        try:
            frame.stack.append(self.now(found, [iterator]))
        except Raised as stop:
            if not issubclass(stop.value.cls, StopIteration):
                raise
            frame.stack.pop()
            frame.at = frame.listing.at[one.target]

    @INSTRUCTIONS.by("RETURN_GENERATOR")
    def do_return_generator(self, frame, one):
        frame.stack.append(Constant(None))  # popped by the instruction after it

    @INSTRUCTIONS.by("YIELD_VALUE")
    def do_yield_value(self, frame, one):
        value = frame.stack.pop()
        self.frames.pop()
        if frame.resume[0] == "close":
            raise Raised(ExceptionValue(RuntimeError, [Constant("generator ignored GeneratorExit")]))
        self.frames[-1].stack.append(value)

    @INSTRUCTIONS.by("SEND")
    def do_send(self, frame, one):
        sent, iterator = frame.stack.pop(), self.force(frame.stack[-1])
        if isinstance(iterator, GeneratorValue):
            self.advance(iterator, ("send", one.target), sent)
        elif isinstance(iterator, IteratorValue):
            found = self.step_of(iterator)
            if found is not None:
                frame.stack.append(found)
            else:
                self.end_send(frame, Constant(None), one.target)
        else:
            raise Break("RB010", "yield from an object that is not a generator")

    @INSTRUCTIONS.by("END_SEND")
    def do_end_send(self, frame, one):
        del frame.stack[-2]

    # --- jumps --------------------------------------------------------------------------------------------------------
    @INSTRUCTIONS.by("JUMP")
    def jump(self, frame, one):
        frame.at = frame.listing.at[one.target]

    @INSTRUCTIONS.by("POP_JUMP")
    def do_pop_jump(self, frame, one):
        value = frame.stack.pop()
        if one.arg in ("NONE", "NOT_NONE"):
            value = self.force(value)
            taken = (isinstance(value, Constant) and value.value is None) is (one.arg == "NONE")
        else:
            taken = one.arg == "TRUE" and self.asserted(frame, value,
                                                        frame.at) or self.truth(value) is (one.arg == "TRUE")
        if taken:
            self.jump(frame, one)

    @INSTRUCTIONS.by("JUMP_OR_POP")
    def do_jump_or_pop(self, frame, one):
        if self.truth(frame.stack[-1]) is (one.arg == "TRUE"):
            self.jump(frame, one)
        else:
            frame.stack.pop()

    # --- functions and calls ------------------------------------------------------------------------------------------
    @INSTRUCTIONS.by("MAKE_FUNCTION")
    def do_make_function(self, frame, one):
        code = self.known(frame.stack.pop())
        made = Function(code, frame.namespace)
        if one.arg & 8:
            made.closure = list(frame.stack.pop().items)
        if one.arg & 4:
            frame.stack.pop()
        if one.arg & 2:
            made.keyword_defaults = dict(frame.stack.pop().items)
        if one.arg & 1:
            made.defaults = list(frame.stack.pop().items)
        frame.stack.append(made)

    @INSTRUCTIONS.by("SET_FUNCTION_ATTRIBUTE")
    def do_set_function_attribute(self, frame, one):
        function, value = frame.stack.pop(), frame.stack.pop()
        if one.arg == 8:
            function.closure = list(value.items)
        elif one.arg == 1:
            function.defaults = list(value.items)
        elif one.arg == 2:
            function.keyword_defaults = dict(value.items)
        frame.stack.append(function)

    def callee(self, frame, count):
        """The function and the arguments of a call with ``count`` arguments on the stack."""
        arguments = self.take(frame, count)
        second, first = frame.stack.pop(), frame.stack.pop()
        if NULL_FIRST:
            return (second, arguments) if first is NULL else (first, [second, *arguments])
        return (first, arguments) if second is NULL else (first, [second, *arguments])

    def split(self, arguments, names):
        at = len(arguments) - len(names)
        return arguments[:at], dict(zip(names, arguments[at:]))

    @INSTRUCTIONS.by("CALL")
    def do_call(self, frame, one):
        count, names = one.arg
        function, arguments = self.callee(frame, count)
        self.give(frame, self.call(function, *self.split(arguments, names)))

    @INSTRUCTIONS.by("CALL_KW")
    def do_call_kw(self, frame, one):
        names = self.known(frame.stack.pop())
        function, arguments = self.callee(frame, one.arg)
        self.give(frame, self.call(function, *self.split(arguments, names)))

    def star_call(self, frame, one):
        keywords = None
        if one.arg == "null":
            keywords = frame.stack.pop()
            keywords = None if keywords is NULL else keywords
        elif one.arg:
            keywords = frame.stack.pop()
        positional = frame.stack.pop()
        function, _ = self.callee(frame, 0)
        return function, positional, keywords

    @INSTRUCTIONS.by("CALL_EX")
    def do_call_ex(self, frame, one):
        function, positional, keywords = self.star_call(frame, one)
        named = {}
        if keywords is not None:
            keywords = self.as_container(keywords)
            if not isinstance(keywords, Mapping):
                raise Break("RB004", f"** of a {self.describe(keywords)}")
            named = {k: self.lookup(keywords, k) for k in keywords.items}
        self.give(frame, self.call(function, self.expanded(positional), named))

    @INSTRUCTIONS.by("IMPORT_NAME")
    def do_import_name(self, frame, one):
        names, level = self.known(frame.stack.pop()), self.known(frame.stack.pop())
        full = one.arg
        if level:
            full = importlib.util.resolve_name("." * level + one.arg, frame.namespace.get("__package__"))
        if full not in sys.modules and not self.import_own(full):
            raise Break("RB001", f"import of {full}")
        frame.stack.append(self.from_python(sys.modules[full if names or level else full.split(".")[0]]))

    def import_own(self, full) -> bool:
        """Whether a module is the framework's (under whichever name), and so can be imported here: that has no effect a
        program sees."""
        top = sys.modules.get(full.partition(".")[0])
        if top is None or not is_framework(top.__name__):
            return False
        try:
            importlib.import_module(full)
        except ImportError:
            return False
        return True

    @INSTRUCTIONS.by("IMPORT_FROM")
    def do_import_from(self, frame, one):
        self.give(frame, self.getattr(frame.stack[-1], one.arg))

    # --- with and exceptions ------------------------------------------------------------------------------------------
    @INSTRUCTIONS.by("BEFORE_WITH")
    def do_before_with(self, frame, one):
        manager = self.force(frame.stack.pop())
        frame.stack.append(self.special(manager, "__exit__"))
        self.give(frame, self.call(self.special(manager, "__enter__"), [], {}))

    def special(self, value, name):
        if isinstance(value, TensorValue) or isinstance(value, Constant):
            raise Break("RB004", f"with on a {self.describe(value)}")
        return self.getattr(value, name)

    @INSTRUCTIONS.by("WITH_EXCEPT_START")
    def do_with_except_start(self, frame, one):
        error = self.force(frame.stack[-1])
        leave = frame.stack[-4 if sys.version_info < (3, 14) else -5]
        self.give(frame, self.call(leave, [self.from_python(self.class_of(error)), error, Constant(None)], {}))

    @INSTRUCTIONS.by("PUSH_EXC_INFO")
    def do_push_exc_info(self, frame, one):
        error = frame.stack.pop()
        frame.stack += [Handled(self.handling[-1] if self.handling else Constant(None), error), error]
        self.handling.append(error)

    @INSTRUCTIONS.by("POP_EXCEPT")
    def do_pop_except(self, frame, one):
        frame.stack.pop()
        if self.handling:
            self.handling.pop()

    @INSTRUCTIONS.by("CHECK_EXC_MATCH")
    def do_check_exc_match(self, frame, one):
        wanted = self.known(frame.stack.pop())
        frame.stack.append(Constant(issubclass(self.class_of(frame.stack[-1]), wanted)))

    @INSTRUCTIONS.by("RERAISE")
    def do_reraise(self, frame, one):
        raise Raised(self.force(frame.stack.pop()))

    @INSTRUCTIONS.by("RAISE_VARARGS")
    def do_raise_varargs(self, frame, one):
        if one.arg == 0:
            if not self.handling:
                if sys.exc_info()[0] is not None:
                    raise Break("RB004", "raising again what a caller handles")
                self.guard(f"{self.constant_name(sys.exc_info)}()[0] is None")
                raise Raised(ExceptionValue(RuntimeError, [Constant("No active exception to reraise")]))
            raise Raised(self.handling[-1])
        cause = self.force(frame.stack.pop()) if one.arg == 2 else None
        error = self.force(frame.stack.pop())
        if self.is_class(error):
            error = self.call(error, [], {})
        if not isinstance(error, ExceptionValue):
            raise Break("RB004", f"raising a {self.describe(error)}")
        if cause is not None:
            error.suppress = True
            error.cause = None if isinstance(cause, Constant) else cause
        if self.handling and self.handling[-1] is not error:
            error.context = self.handling[-1]
        raise Raised(error)

    @INSTRUCTIONS.by("STOPITERATION_ERROR")
    def do_stopiteration_error(self, frame, one):
        error = self.force(frame.stack[-1])
        if issubclass(self.class_of(error), StopIteration):
            frame.stack[-1] = ExceptionValue(RuntimeError, [Constant("generator raised StopIteration")])

    @INSTRUCTIONS.by("LOAD_BUILD_CLASS")
    def do_load_build_class(self, frame, one):
        frame.stack.append(self.from_python(builtins.__build_class__))

    # --- breaks -------------------------------------------------------------------------------------------------------
    def break_ending(self, frame, one):
        """How the breaking instruction is written: an ending for ``emit``; None where its frame has to run natively."""
        writer = BREAKS.find(self, one.op)
        return writer(frame, one) if writer else None

    def ending(self, template, operands, gives=True, null_after=False):
        return "operation", template, operands, gives, null_after

    def call_ending(self, function, arguments, names):
        function = self.compiled_callee(function)
        positional, named = self.split(arguments, names)
        parts = [f"{{{k + 1}}}" for k in range(len(positional))] + [f"{n}={{{len(positional) + 1 + k}}}"
                                                                    for k, n in enumerate(named)]
        return self.ending(f"{{0}}({', '.join(parts)})", [function, *arguments])

    def compiled_callee(self, function):
        """A Python function that could not be inlined is called as a compiled function of its own."""
        try:
            function = self.force(function)
        except Break:  # it cannot be looked at: Python calls it as it is
            return function
        if type(function) is Object and isinstance(function.value, types.FunctionType) and not self.whole:
            self.pin(function)
            return self.from_python(self.entry.owner.compiled(function.value))
        return function

    @BREAKS.by("CALL")
    def break_call(self, frame, one):
        count, names = one.arg
        function, arguments = self.callee(frame, count)
        return self.call_ending(function, arguments, names)

    @BREAKS.by("CALL_KW")
    def break_call_kw(self, frame, one):
        names = self.known(frame.stack.pop())
        function, arguments = self.callee(frame, one.arg)
        return self.call_ending(function, arguments, names)

    @BREAKS.by("CALL_EX")
    def break_call_ex(self, frame, one):
        function, positional, keywords = self.star_call(frame, one)
        operands = [self.compiled_callee(function), positional]
        if keywords is None:
            return self.ending("{0}(*{1})", operands)
        return self.ending("{0}(*{1}, **{2})", [*operands, keywords])

    @BREAKS.by("BINARY")
    def break_binary(self, frame, one):
        b, a = frame.stack.pop(), frame.stack.pop()
        return self.ending(f"{{0}} {one.arg} {{1}}" if not one.arg.endswith("=")
                           else f"INPLACE[{one.arg[:-1]!r}]({{0}}, {{1}})", [a, b])

    @BREAKS.by("COMPARE")
    def break_compare(self, frame, one):
        b, a = frame.stack.pop(), frame.stack.pop()
        return self.ending(f"{{0}} {one.arg} {{1}}", [a, b])

    @BREAKS.by("BINARY_SUBSCR")
    def break_binary_subscr(self, frame, one):
        b, a = frame.stack.pop(), frame.stack.pop()
        return self.ending("{0}[{1}]", [a, b])

    @BREAKS.by("BINARY_SLICE")
    def break_binary_slice(self, frame, one):
        return self.ending("{0}[{1}:{2}]", self.take(frame, 3))

    @BREAKS.by("CONTAINS_OP")
    def break_contains_op(self, frame, one):
        owner, item = frame.stack.pop(), frame.stack.pop()
        return self.ending("{0} not in {1}" if one.arg else "{0} in {1}", [item, owner])

    @BREAKS.by("LOAD_ATTR")
    def break_load_attr(self, frame, one):
        return self.ending(f"{{0}}.{one.arg}", [frame.stack.pop()])

    @BREAKS.by("LOAD_METHOD")
    def break_load_method(self, frame, one):
        owner = frame.stack.pop()
        if NULL_FIRST:
            frame.stack.append(NULL)
        return self.ending(f"{{0}}.{one.arg}", [owner], null_after=not NULL_FIRST)

    @BREAKS.by("STORE_ATTR")
    def break_store_attr(self, frame, one):
        owner, value = frame.stack.pop(), frame.stack.pop()
        return self.ending(f"setattr({{0}}, {one.arg!r}, {{1}})", [owner, value], gives=False)

    @BREAKS.by("DELETE_ATTR")
    def break_delete_attr(self, frame, one):
        return self.ending(f"delattr({{0}}, {one.arg!r})", [frame.stack.pop()], gives=False)

    @BREAKS.by("STORE_SUBSCR")
    def break_store_subscr(self, frame, one):
        index, owner, value = frame.stack.pop(), frame.stack.pop(), frame.stack.pop()
        return self.ending("SET({0}, {1}, {2})", [owner, index, value], gives=False)

    @BREAKS.by("DELETE_SUBSCR")
    def break_delete_subscr(self, frame, one):
        index, owner = frame.stack.pop(), frame.stack.pop()
        return self.ending("DELETE({0}, {1})", [owner, index], gives=False)

    @BREAKS.by("FORMAT")
    def break_format(self, frame, one):
        return self.ending("format({0})", [frame.stack.pop()])

    @BREAKS.by("CONVERT")
    def break_convert(self, frame, one):
        return self.ending(f"{CONVERSIONS[one.arg].__name__}({{0}})", [frame.stack.pop()])

    @BREAKS.by("FORMAT_SPEC")
    def break_format_spec(self, frame, one):
        specification, value = frame.stack.pop(), frame.stack.pop()
        inner = f"{CONVERSIONS[one.arg].__name__}({{0}})" if one.arg else "{0}"
        return self.ending(f"format({inner}, {{1}})", [value, specification])

    @BREAKS.by("BUILD_STRING")
    def break_build_string(self, frame, one):
        parts = ", ".join(f"{{{k}}}" for k in range(one.arg))
        return self.ending(f"''.join([{parts}])", self.take(frame, one.arg))

    @BREAKS.by("BUILD_SLICE")
    def break_build_slice(self, frame, one):
        return self.ending("slice({0}, {1})" if one.arg == 2 else "slice({0}, {1}, {2})", self.take(frame, one.arg))

    @BREAKS.by("GET_ITER")
    def break_get_iter(self, frame, one):
        return self.ending("iter({0})", [frame.stack.pop()])

    @BREAKS.by("UNARY_NOT")
    def break_unary_not(self, frame, one):
        return self.ending("not {0}", [frame.stack.pop()])

    @BREAKS.by("UNARY_NEGATIVE")
    def break_unary_negative(self, frame, one):
        return self.ending("-{0}", [frame.stack.pop()])

    @BREAKS.by("TO_BOOL")
    def break_to_bool(self, frame, one):
        return self.ending("bool({0})", [frame.stack.pop()])

    @BREAKS.by("IMPORT_NAME")
    def break_import_name(self, frame, one):
        names, level = frame.stack.pop(), frame.stack.pop()
        return self.ending(f"__import__({one.arg!r}, {{2}}, None, {{1}}, {{0}})",
                           [level, names, self.from_namespace(frame.namespace)])

    def from_namespace(self, namespace):
        return Object(namespace, self.constant_source(namespace))

    @BREAKS.by("UNPACK_SEQUENCE")
    def break_unpack_sequence(self, frame, one):
        return "unpack", one.arg, frame.stack.pop()

    @BREAKS.by("FOR_ITER")
    def break_for_iter(self, frame, one):
        return "for", one.target, frame.stack[-1]

    @BREAKS.by("POP_JUMP")
    def break_pop_jump(self, frame, one):
        template = {"TRUE": "bool({0})", "FALSE": "not {0}", "NONE": "{0} is None",
                    "NOT_NONE": "{0} is not None"}[one.arg]
        return "jump", one.target, template, frame.stack.pop(), False

    @BREAKS.by("JUMP_OR_POP")
    def break_jump_or_pop(self, frame, one):
        return "jump", one.target, "bool({0})" if one.arg == "TRUE" else "not {0}", frame.stack[-1], True

    @BREAKS.by("BEFORE_WITH")
    def break_before_with(self, frame, one):
        return "with", frame.stack.pop()

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


class Instructions:
    """One method ``do_X`` for each instruction X."""

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
    def do_NOP(self, frame, one):
        pass

    def do_POP_TOP(self, frame, one):
        frame.stack.pop()

    def do_PUSH_NULL(self, frame, one):
        frame.stack.append(NULL)

    def do_COPY(self, frame, one):
        frame.stack.append(frame.stack[-one.arg])

    def do_SWAP(self, frame, one):
        stack = frame.stack
        stack[-1], stack[-one.arg] = stack[-one.arg], stack[-1]

    # --- variables ----------------------------------------------------------------------------------------------------
    def do_LOAD_CONST(self, frame, one):
        frame.stack.append(self.from_python(one.arg))

    def do_LOAD_FAST(self, frame, one):
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

    def do_LOAD_FAST_AND_CLEAR(self, frame, one):
        frame.stack.append(frame.locals.pop(one.arg, NULL))

    def do_STORE_FAST(self, frame, one):
        value = frame.stack.pop()
        if value is NULL:
            frame.locals.pop(one.arg, None)
        else:
            frame.locals[one.arg] = value

    def do_DELETE_FAST(self, frame, one):
        if frame.locals.pop(one.arg, None) is None:
            raise self.unbound(one.arg)

    def do_LOAD_CLOSURE(self, frame, one):
        frame.stack.append(frame.cells[one.arg])

    def do_LOAD_DEREF(self, frame, one):
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

    def do_DELETE_DEREF(self, frame, one):
        cell = self.full_cell(frame, one.arg)
        cell.content = None
        self.mark(cell)

    def do_STORE_DEREF(self, frame, one):
        cell = frame.cells[one.arg]
        cell.content = frame.stack.pop()
        self.mark(cell)

    def do_LOAD_GLOBAL(self, frame, one):
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

    def do_LOAD_NAME(self, frame, one):
        self.do_LOAD_GLOBAL(frame, one)

    def do_STORE_GLOBAL(self, frame, one):
        self.stores[id(frame.namespace), one.arg] = frame.namespace, frame.stack.pop()

    # --- attributes and items -----------------------------------------------------------------------------------------
    def do_LOAD_ATTR(self, frame, one):
        self.give(frame, self.getattr(frame.stack.pop(), one.arg))

    def do_LOAD_METHOD(self, frame, one):
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

    def do_LOAD_SUPER_ATTR(self, frame, one):
        name, method = one.arg
        owner, cls = self.force(frame.stack.pop()), self.force(frame.stack.pop())
        frame.stack.pop()
        found = self.getattr(Super(cls.value, owner), name)
        if found is None:
            raise Break("RB004", f"a property {name!r} of super()")
        frame.stack += ([NULL, found] if NULL_FIRST else [found, NULL]) if method else [found]

    def do_LOAD_SPECIAL(self, frame, one):
        frame.stack += [self.getattr(frame.stack.pop(), one.arg), NULL]

    def do_STORE_ATTR(self, frame, one):
        owner, value = frame.stack.pop(), frame.stack.pop()
        self.setattr(owner, one.arg, value)

    def do_DELETE_ATTR(self, frame, one):
        self.delattr(frame.stack.pop(), one.arg)

    def do_STORE_SUBSCR(self, frame, one):
        index, owner, value = frame.stack.pop(), frame.stack.pop(), frame.stack.pop()
        self.store_subscript(owner, index, value)

    def do_DELETE_SUBSCR(self, frame, one):
        index, owner = frame.stack.pop(), frame.stack.pop()
        self.delete_subscript(owner, index)

    def do_BINARY_SUBSCR(self, frame, one):
        index, owner = frame.stack.pop(), frame.stack.pop()
        self.give(frame, self.subscript(owner, index))

    def slice_bound(self, value):
        """A bound of a slice: a symbol where it varies."""
        value = self.force(value)
        if isinstance(value, TensorValue) and not value.fake._meta.shape:
            value = self.force(self.number_in(value, int))
        return value.expr if isinstance(value, Number) and value.expr is not None else self.known(value)

    def do_BINARY_SLICE(self, frame, one):
        owner, start, stop = self.take(frame, 3)
        self.give(frame, self.subscript(owner, Constant(slice(self.slice_bound(start), self.slice_bound(stop)))))

    def do_STORE_SLICE(self, frame, one):
        value, owner, start, stop = self.take(frame, 4)
        self.store_subscript(owner, Constant(slice(self.slice_bound(start), self.slice_bound(stop))), value)

    def do_BUILD_SLICE(self, frame, one):
        bounds = self.take(frame, one.arg)
        frame.stack.append(Constant(slice(*map(self.slice_bound, bounds))))

    # --- operators ----------------------------------------------------------------------------------------------------
    def do_BINARY(self, frame, one):
        b, a = frame.stack.pop(), frame.stack.pop()
        inplace = one.arg.endswith("=")
        self.give(frame, self.binary(one.arg[:-1] if inplace else one.arg, a, b, inplace))

    def do_COMPARE(self, frame, one):
        b, a = frame.stack.pop(), frame.stack.pop()
        self.give(frame, self.compare(one.arg, a, b))

    def do_IS_OP(self, frame, one):
        b, a = frame.stack.pop(), frame.stack.pop()
        frame.stack.append(Constant(self.identical(a, b) is not bool(one.arg)))

    def do_CONTAINS_OP(self, frame, one):
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

    def do_UNARY_NEGATIVE(self, frame, one):
        self.unary(frame, lambda x: -x, "__neg__")

    def do_UNARY_POSITIVE(self, frame, one):
        self.unary(frame, lambda x: +x, "__pos__")

    def do_UNARY_INVERT(self, frame, one):
        self.unary(frame, lambda x: ~x, "__invert__")

    def do_UNARY_NOT(self, frame, one):
        frame.stack.append(Constant(not self.truth(frame.stack.pop())))

    def do_TO_BOOL(self, frame, one):
        value, following = frame.stack.pop(), frame.listing.instructions[frame.at]
        checked = (following.op, following.arg) == ("POP_JUMP", "TRUE") and self.asserted(frame, value, frame.at + 1)
        frame.stack.append(Constant(checked or self.truth(value)))

    # --- making containers and text -----------------------------------------------------------------------------------
    def do_BUILD_LIST(self, frame, one):
        frame.stack.append(Sequence(list, self.take(frame, one.arg)))

    def do_BUILD_TUPLE(self, frame, one):
        frame.stack.append(Sequence(tuple, self.take(frame, one.arg)))

    def do_BUILD_SET(self, frame, one):
        frame.stack.append(SetValue(self.distinct(self.take(frame, one.arg))))

    def do_BUILD_MAP(self, frame, one):
        parts = self.take(frame, 2 * one.arg)
        frame.stack.append(Mapping({self.key(k): v for k, v in zip(parts[::2], parts[1::2])}))

    def do_BUILD_CONST_KEY_MAP(self, frame, one):
        keys = self.known(frame.stack.pop())
        frame.stack.append(Mapping(dict(zip(keys, self.take(frame, one.arg)))))

    def do_BUILD_STRING(self, frame, one):
        parts = self.take(frame, one.arg)
        text = self.joined(parts) if any(map(self.is_deferred, parts)) else Constant("".join(map(self.known, parts)))
        frame.stack.append(text)

    def do_CONVERT(self, frame, one):
        self.give(frame, self.builtin_text(CONVERSIONS[one.arg], frame.stack.pop()))

    def do_FORMAT(self, frame, one):
        self.format(frame, frame.stack.pop(), "")

    def do_FORMAT_SPEC(self, frame, one):
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

    def do_LIST_TO_TUPLE(self, frame, one):
        frame.stack.append(Sequence(tuple, self.expanded(frame.stack.pop())))

    def do_LIST_EXTEND(self, frame, one):
        items = self.expanded(frame.stack[-1])
        frame.stack.pop()
        self.append_target(frame, one.arg).extend(items)

    def do_SET_UPDATE(self, frame, one):
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

    def do_LIST_APPEND(self, frame, one):
        value = frame.stack.pop()
        self.append_target(frame, one.arg).append(value)

    def do_SET_ADD(self, frame, one):
        value = frame.stack.pop()
        target = frame.stack[-one.arg] = self.force(frame.stack[-one.arg])
        self.set_add(target, value)

    def do_MAP_ADD(self, frame, one):
        value, key = frame.stack.pop(), self.key(frame.stack.pop())
        self.append_target(frame, one.arg)[key] = value

    def do_DICT_UPDATE(self, frame, one):
        other = self.as_container(frame.stack[-1])
        frame.stack.pop()
        if not isinstance(other, Mapping):
            pairs = self.expanded(self.now(self.from_python(as_pairs), [other]))
            other = Mapping({self.key(k): v for k, v in (self.expanded(p) for p in pairs)})
        self.append_target(frame, one.arg).update({k: self.lookup(other, k) for k in other.items})

    do_DICT_MERGE = do_DICT_UPDATE

    def do_UNPACK_SEQUENCE(self, frame, one):
        value = self.as_container(frame.stack[-1])
        items = self.first_of(value, one.arg + 1)
        frame.stack.pop()
        if len(items) != one.arg:
            like = getattr(value, "kind", None)
            like = (list if issubclass(like, list) else tuple if issubclass(like, tuple) else dict.fromkeys
                    if issubclass(like, dict) else iter) if like else iter
            self.fold(unpacker(one.arg), [Constant(like(range(len(items))))])
        frame.stack.extend(reversed(items))

    def do_UNPACK_EX(self, frame, one):
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
    def do_GET_LEN(self, frame, one):
        length = self.length(frame.stack[-1])
        if length is None:
            raise Break("RB004", "matching an object with a __len__ of its own")
        frame.stack.append(length)

    def do_MATCH_SEQUENCE(self, frame, one):
        self.match_kind(frame, collections.abc.Sequence, (str, bytes, bytearray))

    def do_MATCH_MAPPING(self, frame, one):
        self.match_kind(frame, collections.abc.Mapping, ())

    def match_kind(self, frame, kind, but):
        cls = self.class_of(frame.stack[-1])
        frame.stack.append(Constant(issubclass(cls, kind) and not issubclass(cls, but)))

    def do_MATCH_KEYS(self, frame, one):
        keys, subject = self.expanded(frame.stack[-1]), frame.stack[-2]
        owner = self.as_container(subject)
        if not isinstance(owner, Mapping):
            raise Break("RB004", f"matching the keys of a {self.describe(subject)}")
        found = [self.lookup(owner, self.key(k)) for k in keys if self.key(k) in owner.items]
        frame.stack.append(Sequence(tuple, found) if len(found) == len(keys) else Constant(None))

    def do_MATCH_CLASS(self, frame, one):
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
    def do_GET_ITER(self, frame, one):
        self.give(frame, self.iterator(frame.stack.pop()))

    def do_GET_YIELD_FROM_ITER(self, frame, one):
        self.do_GET_ITER(frame, one)

    def do_FOR_ITER(self, frame, one):
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

    def do_RETURN_GENERATOR(self, frame, one):
        frame.stack.append(Constant(None))  # popped by the instruction after it

    def do_YIELD_VALUE(self, frame, one):
        value = frame.stack.pop()
        self.frames.pop()
        if frame.resume[0] == "close":
            raise Raised(ExceptionValue(RuntimeError, [Constant("generator ignored GeneratorExit")]))
        self.frames[-1].stack.append(value)

    def do_SEND(self, frame, one):
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

    def do_END_SEND(self, frame, one):
        del frame.stack[-2]

    # --- jumps --------------------------------------------------------------------------------------------------------
    def jump(self, frame, one):
        frame.at = frame.listing.at[one.target]

    do_JUMP = jump

    def do_POP_JUMP(self, frame, one):
        value = frame.stack.pop()
        if one.arg in ("NONE", "NOT_NONE"):
            value = self.force(value)
            taken = (isinstance(value, Constant) and value.value is None) is (one.arg == "NONE")
        else:
            taken = one.arg == "TRUE" and self.asserted(frame, value,
                                                        frame.at) or self.truth(value) is (one.arg == "TRUE")
        if taken:
            self.jump(frame, one)

    def do_JUMP_OR_POP(self, frame, one):
        if self.truth(frame.stack[-1]) is (one.arg == "TRUE"):
            self.jump(frame, one)
        else:
            frame.stack.pop()

    # --- functions and calls ------------------------------------------------------------------------------------------
    def do_MAKE_FUNCTION(self, frame, one):
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

    def do_SET_FUNCTION_ATTRIBUTE(self, frame, one):
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

    def do_CALL(self, frame, one):
        count, names = one.arg
        function, arguments = self.callee(frame, count)
        self.give(frame, self.call(function, *self.split(arguments, names)))

    def do_CALL_KW(self, frame, one):
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

    def do_CALL_EX(self, frame, one):
        function, positional, keywords = self.star_call(frame, one)
        named = {}
        if keywords is not None:
            keywords = self.as_container(keywords)
            if not isinstance(keywords, Mapping):
                raise Break("RB004", f"** of a {self.describe(keywords)}")
            named = {k: self.lookup(keywords, k) for k in keywords.items}
        self.give(frame, self.call(function, self.expanded(positional), named))

    def do_IMPORT_NAME(self, frame, one):
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

    def do_IMPORT_FROM(self, frame, one):
        self.give(frame, self.getattr(frame.stack[-1], one.arg))

    # --- with and exceptions ------------------------------------------------------------------------------------------
    def do_BEFORE_WITH(self, frame, one):
        manager = self.force(frame.stack.pop())
        frame.stack.append(self.special(manager, "__exit__"))
        self.give(frame, self.call(self.special(manager, "__enter__"), [], {}))

    def special(self, value, name):
        if isinstance(value, TensorValue) or isinstance(value, Constant):
            raise Break("RB004", f"with on a {self.describe(value)}")
        return self.getattr(value, name)

    def do_WITH_EXCEPT_START(self, frame, one):
        error = self.force(frame.stack[-1])
        leave = frame.stack[-4 if sys.version_info < (3, 14) else -5]
        self.give(frame, self.call(leave, [self.from_python(self.class_of(error)), error, Constant(None)], {}))

    def do_PUSH_EXC_INFO(self, frame, one):
        error = frame.stack.pop()
        frame.stack += [Handled(self.handling[-1] if self.handling else Constant(None), error), error]
        self.handling.append(error)

    def do_POP_EXCEPT(self, frame, one):
        frame.stack.pop()
        if self.handling:
            self.handling.pop()

    def do_CHECK_EXC_MATCH(self, frame, one):
        wanted = self.known(frame.stack.pop())
        frame.stack.append(Constant(issubclass(self.class_of(frame.stack[-1]), wanted)))

    def do_RERAISE(self, frame, one):
        raise Raised(self.force(frame.stack.pop()))

    def do_RAISE_VARARGS(self, frame, one):
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

    def do_STOPITERATION_ERROR(self, frame, one):
        error = self.force(frame.stack[-1])
        if issubclass(self.class_of(error), StopIteration):
            frame.stack[-1] = ExceptionValue(RuntimeError, [Constant("generator raised StopIteration")])

    def do_LOAD_BUILD_CLASS(self, frame, one):
        frame.stack.append(self.from_python(builtins.__build_class__))

    # --- breaks -------------------------------------------------------------------------------------------------------
    def break_ending(self, frame, one):
        """How the breaking instruction is written: an ending for ``emit``; None where its frame has to run natively."""
        writer = getattr(self, f"break_{one.op}", None)
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

    def break_CALL(self, frame, one):
        count, names = one.arg
        function, arguments = self.callee(frame, count)
        return self.call_ending(function, arguments, names)

    def break_CALL_KW(self, frame, one):
        names = self.known(frame.stack.pop())
        function, arguments = self.callee(frame, one.arg)
        return self.call_ending(function, arguments, names)

    def break_CALL_EX(self, frame, one):
        function, positional, keywords = self.star_call(frame, one)
        operands = [self.compiled_callee(function), positional]
        if keywords is None:
            return self.ending("{0}(*{1})", operands)
        return self.ending("{0}(*{1}, **{2})", [*operands, keywords])

    def break_BINARY(self, frame, one):
        b, a = frame.stack.pop(), frame.stack.pop()
        return self.ending(f"{{0}} {one.arg} {{1}}" if not one.arg.endswith("=")
                           else f"INPLACE[{one.arg[:-1]!r}]({{0}}, {{1}})", [a, b])

    def break_COMPARE(self, frame, one):
        b, a = frame.stack.pop(), frame.stack.pop()
        return self.ending(f"{{0}} {one.arg} {{1}}", [a, b])

    def break_BINARY_SUBSCR(self, frame, one):
        b, a = frame.stack.pop(), frame.stack.pop()
        return self.ending("{0}[{1}]", [a, b])

    def break_BINARY_SLICE(self, frame, one):
        return self.ending("{0}[{1}:{2}]", self.take(frame, 3))

    def break_CONTAINS_OP(self, frame, one):
        owner, item = frame.stack.pop(), frame.stack.pop()
        return self.ending("{0} not in {1}" if one.arg else "{0} in {1}", [item, owner])

    def break_LOAD_ATTR(self, frame, one):
        return self.ending(f"{{0}}.{one.arg}", [frame.stack.pop()])

    def break_LOAD_METHOD(self, frame, one):
        owner = frame.stack.pop()
        if NULL_FIRST:
            frame.stack.append(NULL)
        return self.ending(f"{{0}}.{one.arg}", [owner], null_after=not NULL_FIRST)

    def break_STORE_ATTR(self, frame, one):
        owner, value = frame.stack.pop(), frame.stack.pop()
        return self.ending(f"setattr({{0}}, {one.arg!r}, {{1}})", [owner, value], gives=False)

    def break_DELETE_ATTR(self, frame, one):
        return self.ending(f"delattr({{0}}, {one.arg!r})", [frame.stack.pop()], gives=False)

    def break_STORE_SUBSCR(self, frame, one):
        index, owner, value = frame.stack.pop(), frame.stack.pop(), frame.stack.pop()
        return self.ending("SET({0}, {1}, {2})", [owner, index, value], gives=False)

    def break_DELETE_SUBSCR(self, frame, one):
        index, owner = frame.stack.pop(), frame.stack.pop()
        return self.ending("DELETE({0}, {1})", [owner, index], gives=False)

    def break_FORMAT(self, frame, one):
        return self.ending("format({0})", [frame.stack.pop()])

    def break_CONVERT(self, frame, one):
        return self.ending(f"{CONVERSIONS[one.arg].__name__}({{0}})", [frame.stack.pop()])

    def break_FORMAT_SPEC(self, frame, one):
        specification, value = frame.stack.pop(), frame.stack.pop()
        inner = f"{CONVERSIONS[one.arg].__name__}({{0}})" if one.arg else "{0}"
        return self.ending(f"format({inner}, {{1}})", [value, specification])

    def break_BUILD_STRING(self, frame, one):
        parts = ", ".join(f"{{{k}}}" for k in range(one.arg))
        return self.ending(f"''.join([{parts}])", self.take(frame, one.arg))

    def break_BUILD_SLICE(self, frame, one):
        return self.ending("slice({0}, {1})" if one.arg == 2 else "slice({0}, {1}, {2})", self.take(frame, one.arg))

    def break_GET_ITER(self, frame, one):
        return self.ending("iter({0})", [frame.stack.pop()])

    def break_UNARY_NOT(self, frame, one):
        return self.ending("not {0}", [frame.stack.pop()])

    def break_UNARY_NEGATIVE(self, frame, one):
        return self.ending("-{0}", [frame.stack.pop()])

    def break_TO_BOOL(self, frame, one):
        return self.ending("bool({0})", [frame.stack.pop()])

    def break_IMPORT_NAME(self, frame, one):
        names, level = frame.stack.pop(), frame.stack.pop()
        return self.ending(f"__import__({one.arg!r}, {{2}}, None, {{1}}, {{0}})",
                           [level, names, self.from_namespace(frame.namespace)])

    def from_namespace(self, namespace):
        return Object(namespace, self.constant_source(namespace))

    def break_UNPACK_SEQUENCE(self, frame, one):
        return "unpack", one.arg, frame.stack.pop()

    def break_FOR_ITER(self, frame, one):
        return "for", one.target, frame.stack[-1]

    def break_POP_JUMP(self, frame, one):
        template = {"TRUE": "bool({0})", "FALSE": "not {0}", "NONE": "{0} is None",
                    "NOT_NONE": "{0} is not None"}[one.arg]
        return "jump", one.target, template, frame.stack.pop(), False

    def break_JUMP_OR_POP(self, frame, one):
        return "jump", one.target, "bool({0})" if one.arg == "TRUE" else "not {0}", frame.stack[-1], True

    def break_BEFORE_WITH(self, frame, one):
        return "with", frame.stack.pop()

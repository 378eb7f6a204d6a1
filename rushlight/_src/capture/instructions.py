"""Rules of instructions, and their Python code at a break."""
from __future__ import annotations

import builtins
import importlib.util
import sys

from .bytecode import NULL_FIRST
from .classes import ABSENT, is_framework
from .errors import Break, Raised
from .parts import INSTRUCTIONS, Part
from .polyfills import lacks
from .stack import split
from .values import (NULL, ArrayValue, Comparison, Constant, ExceptionValue, Function, Mapping, Number, Super,
                     TensorValue)


class Instructions(Part, part="instructions"):
    """Capture component with the rules of instructions: ``rule(frame, instruction)``."""

    needs = ("absence", "arithmetic", "attributes", "calls", "classes", "containers", "framework", "guarding",
             "mappings", "numbers", "outside", "protocols", "values", "writes")

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
        frame.stack.append(self.values.from_python(one.arg))

    @INSTRUCTIONS.by("LOAD_FAST")
    def do_load_fast(self, frame, one):
        name = one.arg
        if name in frame.cells and name not in frame.locals:  # 3.13 loads cells this way
            frame.stack.append(frame.cells[name])
            return
        if name not in frame.locals:
            raise self.unbound(name)
        value = frame.locals[name]
        if not isinstance(value, Comparison):  # its use decides it
            value = frame.locals[name] = self.values.force(value)
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
        cell.content = self.values.force(cell.content)
        frame.stack.append(cell.content)

    def full_cell(self, frame, name):
        """Return the cell of a variable that has a value."""
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
        self.writes.mark(cell)

    @INSTRUCTIONS.by("STORE_DEREF")
    def do_store_deref(self, frame, one):
        cell = frame.cells[one.arg]
        cell.content = frame.stack.pop()
        self.writes.mark(cell)

    @INSTRUCTIONS.by("LOAD_GLOBAL")
    def do_load_global(self, frame, one):
        name, namespace = one.arg, frame.namespace
        stored = self.writes.set_globals.get((id(namespace), name))
        if stored is not None:
            frame.stack.append(self.values.force(stored[1]))
        elif name in namespace:
            frame.stack.append(self.load_global(namespace, name))
        elif (found := self.absence.find_builtin(namespace, name)) is not ABSENT:
            frame.stack.append(self.values.from_python(found))
        else:
            raise Raised(ExceptionValue(NameError, [Constant(f"name '{name}' is not defined")]))

    def load_global(self, namespace, name):
        value = namespace[name]
        if is_framework(namespace.get("__name__")) and not isinstance(value, (dict, list)):
            return self.values.from_python(value)
        return self.outside.wrap(value, self.guarding.constant_source(namespace).item(repr(name)))

    @INSTRUCTIONS.by("LOAD_NAME")
    def do_load_name(self, frame, one):
        self.do_load_global(frame, one)

    @INSTRUCTIONS.by("STORE_GLOBAL")
    def do_store_global(self, frame, one):
        self.writes.set_globals[id(frame.namespace), one.arg] = frame.namespace, frame.stack.pop()

    # --- attributes and items -----------------------------------------------------------------------------------------
    @INSTRUCTIONS.by("LOAD_ATTR")
    def do_load_attr(self, frame, one):
        frame.give(self.attributes.getattr(frame.stack.pop(), one.arg))

    @INSTRUCTIONS.by("LOAD_METHOD")
    def do_load_method(self, frame, one):
        owner = frame.stack.pop()
        depth = len(self.machine.frames)
        if NULL_FIRST:
            frame.stack.append(NULL)
        found = self.attributes.getattr(owner, one.arg)
        if found is None and not NULL_FIRST:
            del self.machine.frames[depth:]
            found = self.attributes.attribute_now(owner, one.arg)
        frame.give(found)
        if not NULL_FIRST:
            frame.stack.append(NULL)

    @INSTRUCTIONS.by("LOAD_SUPER_ATTR")
    def do_load_super_attr(self, frame, one):
        name, method = one.arg
        owner, cls = self.values.force(frame.stack.pop()), self.values.force(frame.stack.pop())
        frame.stack.pop()
        found = self.attributes.getattr(Super(cls.value, owner), name)
        if found is None:
            raise Break("RB004", f"a property {name!r} of super()")
        frame.stack += ([NULL, found] if NULL_FIRST else [found, NULL]) if method else [found]

    @INSTRUCTIONS.by("LOAD_SPECIAL")
    def do_load_special(self, frame, one):
        frame.stack += [self.protocols.context_method(self.values.force(frame.stack.pop()), one.arg), NULL]

    @INSTRUCTIONS.by("STORE_ATTR")
    def do_store_attr(self, frame, one):
        owner, value = frame.stack.pop(), frame.stack.pop()
        self.writes.setattr(owner, one.arg, value)

    @INSTRUCTIONS.by("DELETE_ATTR")
    def do_delete_attr(self, frame, one):
        self.writes.delattr(frame.stack.pop(), one.arg)

    @INSTRUCTIONS.by("STORE_SUBSCR")
    def do_store_subscr(self, frame, one):
        index, owner, value = frame.stack.pop(), frame.stack.pop(), frame.stack.pop()
        self.containers.store_subscript(owner, index, value)

    @INSTRUCTIONS.by("DELETE_SUBSCR")
    def do_delete_subscr(self, frame, one):
        index, owner = frame.stack.pop(), frame.stack.pop()
        self.containers.delete_subscript(owner, index)

    @INSTRUCTIONS.by("BINARY_SUBSCR")
    def do_binary_subscr(self, frame, one):
        index, owner = frame.stack.pop(), frame.stack.pop()
        frame.give(self.containers.subscript(owner, index))

    @INSTRUCTIONS.by("BINARY_SLICE")
    def do_binary_slice(self, frame, one):
        owner, start, stop = frame.take(3)
        frame.give(self.containers.subscript(owner, Constant(slice(self.protocols.slice_bound(start),
                                                                   self.protocols.slice_bound(stop)))))

    @INSTRUCTIONS.by("STORE_SLICE")
    def do_store_slice(self, frame, one):
        value, owner, start, stop = frame.take(4)
        self.containers.store_subscript(owner, Constant(slice(self.protocols.slice_bound(start),
                                                              self.protocols.slice_bound(stop))), value)

    @INSTRUCTIONS.by("BUILD_SLICE")
    def do_build_slice(self, frame, one):
        bounds = frame.take(one.arg)
        frame.stack.append(Constant(slice(*map(self.protocols.slice_bound, bounds))))

    # --- operators ----------------------------------------------------------------------------------------------------
    @INSTRUCTIONS.by("BINARY")
    def do_binary(self, frame, one):
        b, a = frame.stack.pop(), frame.stack.pop()
        inplace = one.arg.endswith("=")
        frame.give(self.arithmetic.binary(one.arg[:-1] if inplace else one.arg, a, b, inplace))

    @INSTRUCTIONS.by("COMPARE")
    def do_compare(self, frame, one):
        b, a = frame.stack.pop(), frame.stack.pop()
        frame.give(self.arithmetic.compare_lazily(one.arg, a, b))

    @INSTRUCTIONS.by("IS_OP")
    def do_is_op(self, frame, one):
        b, a = frame.stack.pop(), frame.stack.pop()
        frame.stack.append(Constant(self.arithmetic.is_same_object(a, b) is not bool(one.arg)))

    @INSTRUCTIONS.by("CONTAINS_OP")
    def do_contains_op(self, frame, one):
        owner, item = frame.stack.pop(), frame.stack.pop()
        depth = len(self.machine.frames)
        found = self.containers.contains(owner, item)
        if found is None:
            if one.arg:  # the pending result has to be negated
                del self.machine.frames[depth:]
                frame.give(self.calls.call_python(lacks, [owner, item]))
            return
        frame.stack.append(Constant(self.arithmetic.truth(found) is not bool(one.arg)))

    def unary(self, frame, function, method):
        value = self.values.force(frame.stack.pop())
        cls = self.classes.user_class(value)
        found = cls and self.classes.class_attribute(cls, method)
        if found:
            frame.give(self.calls.call(found, [value], {}))
        elif isinstance(value, Number) and type(value.hint) is not bool and method != "__invert__":
            frame.stack.append(value if method == "__pos__" else self.arithmetic.binary("*", Constant(-1), value))
        else:
            frame.stack.append(self.framework.run_framework(function, [value], {})
                               if isinstance(value, (TensorValue, ArrayValue))
                               else self.arithmetic.fold(function, [value]))

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
        frame.stack.append(self.arithmetic.opposite(frame.stack.pop()))

    @INSTRUCTIONS.by("TO_BOOL")
    def do_to_bool(self, frame, one):
        value, following = frame.stack.pop(), frame.listing.instructions[frame.at]
        checked = (following.op, following.arg) == ("POP_JUMP", "TRUE") and self.numbers.asserted(frame, value,
                                                                                                  frame.at + 1)
        frame.stack.append(Constant(checked or self.arithmetic.truth(value)))

    # --- functions and calls ------------------------------------------------------------------------------------------
    @INSTRUCTIONS.by("MAKE_FUNCTION")
    def do_make_function(self, frame, one):
        code = self.values.known(frame.stack.pop())
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

    @INSTRUCTIONS.by("CALL")
    def do_call(self, frame, one):
        count, names = one.arg
        function, arguments = frame.callee(count)
        frame.give(self.calls.call(function, *split(arguments, names)))

    @INSTRUCTIONS.by("CALL_KW")
    def do_call_kw(self, frame, one):
        names = self.values.known(frame.stack.pop())
        function, arguments = frame.callee(one.arg)
        frame.give(self.calls.call(function, *split(arguments, names)))

    @INSTRUCTIONS.by("CALL_EX")
    def do_call_ex(self, frame, one):
        function, positional, keywords = frame.star_call(one.arg)
        named = {}
        if keywords is not None:
            keywords = self.containers.as_container(keywords)
            if not isinstance(keywords, Mapping):
                raise Break("RB004", f"** of a {self.values.describe(keywords)}")
            named = {k: self.mappings.lookup(keywords, k) for k in keywords.items}
        frame.give(self.calls.call(function, self.containers.expanded(positional), named))

    @INSTRUCTIONS.by("IMPORT_NAME")
    def do_import_name(self, frame, one):
        names, level = self.values.known(frame.stack.pop()), self.values.known(frame.stack.pop())
        full = one.arg
        if level:
            full = importlib.util.resolve_name("." * level + one.arg, frame.namespace.get("__package__"))
        if full not in sys.modules and not self.import_own(full):
            raise Break("RB001", f"import of {full}")
        frame.stack.append(self.values.from_python(sys.modules[full if names or level else full.split(".")[0]]))

    def import_own(self, full) -> bool:
        """True if a module is the framework's (under any name), and so can be imported here: that has no effect a
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
        frame.give(self.attributes.getattr(frame.stack[-1], one.arg))

    @INSTRUCTIONS.by("LOAD_BUILD_CLASS")
    def do_load_build_class(self, frame, one):
        frame.stack.append(self.values.from_python(builtins.__build_class__))

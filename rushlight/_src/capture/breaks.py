"""Breaks: the instruction that ends a segment, as Python code."""
from __future__ import annotations

import types

from .building import CONVERSIONS
from .bytecode import NULL_FIRST
from .errors import Break
from .parts import BREAKS, Part
from .stack import split
from .values import NULL, Object


class Placeholder(str):
    """A run-time name on the value stack of a break: the result of the breaking instruction."""


class Breaks(Part, part="breaks"):
    """Capture component with one method for each instruction that Python can execute between two segments."""

    needs = "guarding", "outside", "values"

    def break_ending(self, frame, one):
        """Return the ending for ``emit`` of the breaking instruction; None if its frame has to run natively."""
        writer = BREAKS.find(self.machine, one.op)
        return writer(frame, one) if writer else None

    def ending(self, template, operands, gives=True, null_after=False):
        return "operation", template, operands, gives, null_after

    def call_ending(self, function, arguments, names):
        function = self.compiled_callee(function)
        positional, named = split(arguments, names)
        parts = [f"{{{k + 1}}}" for k in range(len(positional))] + [f"{n}={{{len(positional) + 1 + k}}}"
                                                                    for k, n in enumerate(named)]
        return self.ending(f"{{0}}({', '.join(parts)})", [function, *arguments])

    def compiled_callee(self, function):
        """Call a Python function that could not be inlined as a compiled function of its own."""
        try:
            function = self.values.force(function)
        except Break:  # it cannot be inspected: Python calls it unchanged
            return function
        if type(function) is Object and isinstance(function.value, types.FunctionType) and not self.machine.whole:
            self.outside.pin(function)
            return self.values.from_python(self.machine.entry.owner.compiled(function.value))
        return function

    @BREAKS.by("CALL")
    def break_call(self, frame, one):
        count, names = one.arg
        function, arguments = frame.callee(count)
        return self.call_ending(function, arguments, names)

    @BREAKS.by("CALL_KW")
    def break_call_kw(self, frame, one):
        names = self.values.known(frame.stack.pop())
        function, arguments = frame.callee(one.arg)
        return self.call_ending(function, arguments, names)

    @BREAKS.by("CALL_EX")
    def break_call_ex(self, frame, one):
        function, positional, keywords = frame.star_call(one.arg)
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
        return self.ending("{0}[{1}:{2}]", frame.take(3))

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
        return self.ending(f"''.join([{parts}])", frame.take(one.arg))

    @BREAKS.by("BUILD_SLICE")
    def break_build_slice(self, frame, one):
        return self.ending("slice({0}, {1})" if one.arg == 2 else "slice({0}, {1}, {2})", frame.take(one.arg))

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
        return Object(namespace, self.guarding.constant_source(namespace))

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

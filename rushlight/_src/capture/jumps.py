"""Rules of control flow instructions: jumps, loops, generators, with and exceptions."""
from __future__ import annotations

import sys

from .errors import Break, Raised
from .parts import INSTRUCTIONS, Part
from .values import Constant, ExceptionValue, GeneratorValue, Handled, IteratorValue


class Jumps(Part, part="jumps"):
    """Capture component for control flow instructions."""

    needs = "arithmetic", "calls", "classes", "generators", "guarding", "iterators", "numbers", "protocols", "values"

    @INSTRUCTIONS.by("GET_ITER")
    def do_get_iter(self, frame, one):
        frame.give(self.iterators.iterator(frame.stack.pop()))

    @INSTRUCTIONS.by("GET_YIELD_FROM_ITER")
    def do_get_yield_from_iter(self, frame, one):
        self.do_get_iter(frame, one)

    @INSTRUCTIONS.by("FOR_ITER")
    def do_for_iter(self, frame, one):
        iterator = self.values.force(frame.stack[-1])
        if isinstance(iterator, GeneratorValue):
            self.generators.advance(iterator, ("for", one.target))
        elif isinstance(iterator, IteratorValue):
            found = self.iterators.step_of(iterator)
            if found is not None:
                frame.stack.append(found)
            else:
                frame.stack.pop()
                frame.at = frame.listing.at[one.target]
        else:
            self.next_of_object(frame, iterator, one)

    def next_of_object(self, frame, iterator, one):
        """Advance an iterator of a user's class."""
        found = self.classes.user_class(iterator) and self.classes.class_attribute(self.classes.class_of(iterator),
                                                                                   "__next__")
        if not found:
            # an iterator that an earlier break left
            raise Break("RB004", f"iteration over a {self.values.describe(iterator)}", noted=False)
        try:
            frame.stack.append(self.machine.now(found, [iterator]))
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
        self.machine.frames.pop()
        if frame.resume[0] == "close":
            raise Raised(ExceptionValue(RuntimeError, [Constant("generator ignored GeneratorExit")]))
        self.machine.frames[-1].stack.append(value)

    @INSTRUCTIONS.by("SEND")
    def do_send(self, frame, one):
        sent, iterator = frame.stack.pop(), self.values.force(frame.stack[-1])
        if isinstance(iterator, GeneratorValue):
            self.generators.advance(iterator, ("send", one.target), sent)
        elif isinstance(iterator, IteratorValue):
            found = self.iterators.step_of(iterator)
            if found is not None:
                frame.stack.append(found)
            else:
                self.generators.end_send(frame, Constant(None), one.target)
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
            value = self.values.force(value)
            taken = (isinstance(value, Constant) and value.value is None) is (one.arg == "NONE")
        else:
            wanted = one.arg == "TRUE"  # the jump passes over the error of an assert, or leads to it
            place = frame.at if wanted else frame.listing.at[one.target]
            taken = (self.numbers.asserted(frame, value, place) or self.arithmetic.truth(value)) is wanted
        if taken:
            self.jump(frame, one)

    @INSTRUCTIONS.by("JUMP_OR_POP")
    def do_jump_or_pop(self, frame, one):
        if self.arithmetic.truth(frame.stack[-1]) is (one.arg == "TRUE"):
            self.jump(frame, one)
        else:
            frame.stack.pop()

    # --- with and exceptions ------------------------------------------------------------------------------------------
    @INSTRUCTIONS.by("BEFORE_WITH")
    def do_before_with(self, frame, one):
        manager = self.values.force(frame.stack.pop())
        enter = self.protocols.context_method(manager, "__enter__")
        frame.stack.append(self.protocols.context_method(manager, "__exit__"))
        frame.give(self.calls.call(enter, [], {}))

    @INSTRUCTIONS.by("WITH_EXCEPT_START")
    def do_with_except_start(self, frame, one):
        error = self.values.force(frame.stack[-1])
        leave = frame.stack[-4 if sys.version_info < (3, 14) else -5]
        frame.give(self.calls.call(leave, [self.values.from_python(self.classes.class_of(error)), error,
                                           Constant(None)], {}))

    @INSTRUCTIONS.by("PUSH_EXC_INFO")
    def do_push_exc_info(self, frame, one):
        error = frame.stack.pop()
        frame.stack += [Handled(self.machine.handling[-1] if self.machine.handling else Constant(None), error), error]
        self.machine.handling.append(error)

    @INSTRUCTIONS.by("POP_EXCEPT")
    def do_pop_except(self, frame, one):
        frame.stack.pop()
        if self.machine.handling:
            self.machine.handling.pop()

    @INSTRUCTIONS.by("CHECK_EXC_MATCH")
    def do_check_exc_match(self, frame, one):
        wanted = self.values.known(frame.stack.pop())
        frame.stack.append(Constant(issubclass(self.classes.class_of(frame.stack[-1]), wanted)))

    @INSTRUCTIONS.by("RERAISE")
    def do_reraise(self, frame, one):
        raise Raised(self.values.force(frame.stack.pop()))

    @INSTRUCTIONS.by("RAISE_VARARGS")
    def do_raise_varargs(self, frame, one):
        if one.arg == 0:
            if not self.machine.handling:
                if sys.exc_info()[0] is not None:
                    raise Break("RB004", "raising again what a caller handles")
                self.guarding.guard(f"{self.guarding.constant_name(sys.exc_info)}()[0] is None")
                raise Raised(ExceptionValue(RuntimeError, [Constant("No active exception to reraise")]))
            raise Raised(self.machine.handling[-1])
        cause = self.values.force(frame.stack.pop()) if one.arg == 2 else None
        error = self.values.force(frame.stack.pop())
        if self.classes.is_class(error):
            error = self.calls.call(error, [], {})
        if not isinstance(error, ExceptionValue):
            raise Break("RB004", f"raising a {self.values.describe(error)}")
        if cause is not None:
            error.suppress = True
            error.cause = None if isinstance(cause, Constant) else cause
        if self.machine.handling and self.machine.handling[-1] is not error:
            error.context = self.machine.handling[-1]
        raise Raised(error)

    @INSTRUCTIONS.by("STOPITERATION_ERROR")
    def do_stopiteration_error(self, frame, one):
        error = self.values.force(frame.stack[-1])
        if issubclass(self.classes.class_of(error), StopIteration):
            frame.stack[-1] = self.generators.stopped(error)

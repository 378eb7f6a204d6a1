"""Generators: their bodies are suspended frames."""
from __future__ import annotations

import builtins

from .bytecode import PYTHON
from .errors import Again, Break, Raised
from .parts import METHODS, Part
from .values import Constant, ExceptionValue, GeneratorValue


# instructions of handlers that pass an exception on
PASSING = frozenset(("PUSH_EXC_INFO", "LOAD_GLOBAL", "BUILD_TUPLE", "COPY", "POP_EXCEPT", "NOP", "LOAD_CONST",
                     "STORE_FAST", "DELETE_FAST"))


class Generators(Part, part="generators"):
    """Capture component for generators."""

    needs = "calls", "classes", "values"

    def __init__(self, machine):
        super().__init__(machine)
        self.made: list = []

    def check_dropped(self):
        """Restart capture without generators if one was left suspended within ``finally`` or ``with``: Python runs
        their exits when it drops the last reference, which is not modeled."""
        if any(made.started and not made.finished and self.handles_exit(made.frame) for made in self.made):
            raise Again("dropped")

    def handles_exit(self, frame) -> bool:
        """True if a GeneratorExit at the point where a frame waits runs more than handlers that pass it on."""
        listing, found = frame.listing, frame.listing.handler(frame.now.offset)
        while found is not None:
            at = listing.at[found[0]]
            while (one := listing.instructions[at]).op not in ("RERAISE", "STOPITERATION_ERROR"):
                if one.op == "CHECK_EXC_MATCH" and not self.catches_exit(frame, at):
                    at = listing.at[listing.instructions[at + 1].target]
                elif one.op in PASSING:
                    at += 1
                else:
                    return True
            found = listing.handler(one.offset)
        return False

    def catches_exit(self, frame, at) -> bool:
        """True if the ``except`` whose test is at an index may catch a GeneratorExit."""
        instructions, names = frame.listing.instructions, []
        while instructions[at - 1].op in ("LOAD_GLOBAL", "BUILD_TUPLE"):
            at -= 1
            names += [instructions[at].arg] * (instructions[at].op == "LOAD_GLOBAL")
        classes = [frame.namespace.get(name, getattr(builtins, name, None)) for name in names]
        return not classes or instructions[at - 1].op not in ("PUSH_EXC_INFO", "POP_JUMP") or any(
            not isinstance(cls, type) or issubclass(GeneratorExit, cls) for cls in classes)

    def advance(self, generator: GeneratorValue, resume, sent=Constant(None)):
        """Continue a generator's body; ``resume``: what the caller does when it is exhausted."""
        if generator.finished:
            return self.exhausted(resume, Constant(None))
        frame = generator.frame
        if any(running is frame for running in self.machine.frames):
            raise Raised(ExceptionValue(ValueError, [Constant("generator already executing")]))
        frame.resume = resume
        if generator.started:
            frame.stack.append(sent)
        generator.started = True
        self.machine.push_frame(frame)

    @METHODS.by((GeneratorValue, "send"))
    def generator_send(self, owner, value):
        return self.advance(owner, ("next", None), value)

    @METHODS.by((GeneratorValue, "throw"))
    def generator_throw(self, owner, error, value=Constant(None), traceback=Constant(None)):
        error, value = self.values.force(error), self.values.force(value)
        if self.classes.is_class(error) and issubclass(self.classes.class_of(value), BaseException):
            error = value
        if self.classes.is_class(error):
            error = self.calls.call(error, [], {})
        if not issubclass(self.classes.class_of(error), BaseException):
            raise Break("RB004", f"throwing a {self.values.describe(error)}")
        return self.thrown(owner, error, ("next", None))

    @METHODS.by((GeneratorValue, "close"))
    def generator_close(self, owner):
        if not owner.started or owner.finished:
            owner.finished = True
            return Constant(None)
        return self.thrown(owner, ExceptionValue(GeneratorExit, []), ("close", None))

    def thrown(self, generator, error, resume):
        """Continue a generator's body with an exception."""
        if not generator.started or generator.finished:
            generator.finished = True
            raise Raised(error)
        generator.frame.resume = resume
        self.machine.push_frame(generator.frame)
        raise Raised(error, inside=True)

    def left(self, frame, error):
        """Return the error that a caller sees for an exception that left a generator's body; None if ``close()`` takes
        it as the end."""
        frame.generator.finished = True
        cls = self.classes.class_of(error)
        if frame.resume[0] == "close" and issubclass(cls, GeneratorExit):
            self.machine.frames[-1].stack.append(Constant(None))
            return None
        return self.stopped(error) if issubclass(cls, StopIteration) else error

    def stopped(self, error):
        """Return the RuntimeError that a StopIteration becomes when it leaves a generator's body."""
        made = ExceptionValue(RuntimeError, [Constant("generator raised StopIteration")])
        made.cause = made.context = error
        made.suppress = True
        return made

    def exhaust(self, frame, value):
        """Handle the return of a generator's body."""
        frame.generator.finished = True
        self.machine.frames.pop()
        self.exhausted(frame.resume, value)

    def exhausted(self, resume, value):
        kind, detail = resume
        frame = self.machine.frames[-1]
        if kind == "for":
            frame.stack.pop()
            frame.at = frame.listing.at[detail]
        elif kind == "send":
            self.end_send(frame, value, detail)
        elif kind == "close":
            frame.stack.append(value if PYTHON >= (3, 13) else Constant(None))
        elif detail is not None:
            frame.stack.append(detail)
        else:
            raise Raised(ExceptionValue(StopIteration, [] if isinstance(value, Constant) and value.value is None
                                        else [value]))

    def end_send(self, frame, value, target):
        """Push the result of ``yield from``: on top of the iterator since 3.12."""
        if PYTHON < (3, 12):
            frame.stack.pop()
        frame.stack.append(value)
        frame.at = frame.listing.at[target]

"""Generators: their bodies are frames that wait."""
from __future__ import annotations

from .bytecode import PYTHON
from .errors import Break, Raised
from .parts import METHODS, Part
from .values import Constant, ExceptionValue, GeneratorValue


class Generators(Part, part="generators"):
    """How the machine runs generators."""

    needs = "calls", "classes", "values"

    def advance(self, generator: GeneratorValue, resume, sent=Constant(None)):
        """Goes on in a generator's body; ``resume`` says what the caller does when it is exhausted."""
        if generator.finished:
            return self.exhausted(resume, Constant(None))
        frame = generator.frame
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
        """Goes on in a generator's body with an exception."""
        if not generator.started or generator.finished:
            generator.finished = True
            raise Raised(error)
        generator.frame.resume = resume
        self.machine.push_frame(generator.frame)
        raise Raised(error, inside=True)

    def left(self, frame, error):
        """What an exception that left a generator's body is for its caller; None where ``close()`` takes it as the
        end."""
        frame.generator.finished = True
        cls = self.classes.class_of(error)
        if frame.resume[0] == "close" and issubclass(cls, (GeneratorExit, StopIteration)):
            self.machine.frames[-1].stack.append(Constant(None))
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

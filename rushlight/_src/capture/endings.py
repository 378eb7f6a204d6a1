"""Endings of segments: the entry that follows, and the code that leads there."""
from __future__ import annotations

from .breaks import Placeholder
from .errors import Again
from .parts import Part, Table
from .segment import ResumePoint
from .values import NULL, Handled, Offset

ENDINGS = Table("the ending")


def recorded(statements) -> list[str]:
    """Return statements that run in grad mode."""
    return ["with GRAD(1):", *(f"    {s}" for s in statements)] if statements else []


class Endings(Part):
    """Writer of the last lines of a segment."""

    # --- entries ------------------------------------------------------------------------------------------------------
    def entry(self, frames, offset, native=False) -> str:
        """``(entry, values)`` to continue with at an offset of the last of these frames."""
        places, values = [], []
        for k, frame in enumerate(frames):
            last = k == len(frames) - 1
            if frame.generator is not None:
                raise Again("generators")
            where = offset if last else frame.now.next
            stack = tuple(map(kind_of, frame.stack))
            places.append(ResumePoint(frame.code, where, tuple(frame.locals), tuple(frame.cells), stack, frame.discard,
                                None if last else frame.now.offset))
            values += [*frame.locals.values(), *frame.cells.values(),
                       *(v for slot in frame.stack for v in carried(slot))]
        found = self.machine.entry.owner.entry(tuple(places), tuple(f.namespace for f in frames), native)
        self.entries.append(found)
        written = "".join(self.write(v) + ", " for v in values)
        return f"E[{len(self.entries) - 1}], ({written})"

    def handler(self):
        """Return the entry of the handler of the breaking instruction, or None."""
        frames = self.machine.frames
        for k in range(len(frames) - 1, -1, -1):
            found = frames[k].listing.handler(frames[k].now.offset)
            if found:
                target, depth, push = found
                frame, stack = frames[k], frames[k].stack
                frame.stack = stack[:depth] + ([Offset(frame.now.offset)] if push else []) + [Placeholder("error")]
                written = self.entry(frames[:k + 1], target)
                frame.stack = stack
                return written
        return None

    def guarded(self, statements) -> list[str]:
        """Wrap statements that run user code: an exception goes to its handler, which also sees the one that is being
        handled."""
        handler, handling = self.handler(), self.machine.handling
        if handling and statements:
            statements = [f"try: raise {self.write(handling[-1])}", "except BaseException:",
                          *(f"    {s}" for s in statements)]
        if handler is None:
            return statements
        return ["try:", *(f"    {s}" for s in statements), "except BaseException as caught:", "    error = caught",
                f"    return {handler}"]

    # --- endings ------------------------------------------------------------------------------------------------------
    def finish(self, ending) -> list[str]:
        frames, frame = self.machine.frames, self.machine.frames[-1] if self.machine.frames else None
        kind = ending[0]
        if kind == "return":
            return [f"return None, {self.write(ending[1])}"]
        if kind == "raise":
            return [f"raise {self.write(ending[1])}"]
        if kind == "native":
            return [f"return {self.entry(frames, ending[1], True)}"]
        return ENDINGS.find(self, kind)(frames, frame, frame.now, *ending[1:])

    @ENDINGS.by("operation")
    def finish_operation(self, frames, frame, one, template, operands, gives, null_after):
        written = template.format(*map(self.write, operands))
        if gives:
            frame.stack.append(Placeholder("result"))
        if null_after:
            frame.stack.append(NULL)
        after = self.entry(frames, one.next)
        if gives:
            del frame.stack[-1 - null_after:]
        return [*self.guarded([("result = " if gives else "") + written]), f"return {after}"]

    @ENDINGS.by("jump")
    def finish_jump(self, frames, frame, one, target, template, operand, keep):
        test = template.format(self.write(operand))
        taken = self.entry(frames, target)
        if keep:
            frame.stack.pop()
        return [*self.guarded([f"test = {test}"]), f"if test: return {taken}", f"return {self.entry(frames, one.next)}"]

    @ENDINGS.by("for")
    def finish_for(self, frames, frame, one, target, iterator):
        written = self.write(iterator)
        frame.stack[-1:] = [Placeholder("iterator"), Placeholder("result")]
        more = self.entry(frames, one.next)
        del frame.stack[-2:]
        return [f"iterator = {written}", *self.guarded(["result = next(iterator, END)"]),
                f"if result is END: return {self.entry(frames, target)}", f"return {more}"]

    @ENDINGS.by("unpack")
    def finish_unpack(self, frames, frame, one, count, operand):
        written = self.write(operand)
        frame.stack += [Placeholder(f"items[{k}]") for k in reversed(range(count))]
        after = self.entry(frames, one.next)
        del frame.stack[len(frame.stack) - count:]
        return [*self.guarded([f"items = UNPACK({written}, {count})"]), f"return {after}"]

    @ENDINGS.by("with")
    def finish_with(self, frames, frame, one, manager):
        written = self.write(manager)
        frame.stack += [Placeholder("leave"), Placeholder("result")]
        after = self.entry(frames, one.next)
        del frame.stack[-2:]
        return [*self.guarded([f"manager = {written}", "leave = manager.__exit__", "result = manager.__enter__()"]),
                f"return {after}"]


def kind_of(slot):
    """Return how a slot of the value stack is passed on: see ResumePoint."""
    if isinstance(slot, Offset):
        return slot.offset
    return "N" if slot is NULL else "H" if isinstance(slot, Handled) else "V"


def carried(slot):
    """Return the values to pass on for a slot of the value stack."""
    kind = kind_of(slot)
    return (slot,) if kind == "V" else (slot.before, slot.error) if kind == "H" else ()

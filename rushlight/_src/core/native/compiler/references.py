"""Values in flight: the Python objects that code mentions, the ways it can fail, and who owns which reference."""

from .ir import INVARIANT, UNLIKELY
from .types import BOOL, FRAGILE, NONE, OBJECT, OWNED, PERMANENT, Value, result_type


class References:
    """The references of a function being compiled; `code`, `program`, `live`, `failures` and `handler` belong to the
    function."""

    # -- constants

    def object(self, *description, type=OBJECT):
        """A Python object from the table of constants."""
        value = self.code.op(f"load ptr, ptr {self.program.constants.address(*description)}, {INVARIANT}", "constant")
        return Value(type, value, PERMANENT, present=description != ("builtin", "None"))

    def builtin(self, name):
        return self.object("builtin", name)

    def literal(self, value):
        return self.object("literal", repr(value))

    def none(self):
        return Value(NONE, "null", PERMANENT, raw=True)

    # -- failures

    def failure(self):
        """The label of a block that releases everything in `live` and jumps to the current handler."""
        key = (tuple(value.ir for value in self.live), self.handler)
        if key not in self.failures:
            self.failures[key] = self.code.label("fail")
        return self.failures[key]

    def fail_if(self, condition):
        """Fail, with an exception already set, when an i1 is true."""
        good = self.code.label("good")
        self.code.fork(condition, self.failure(), good, UNLIKELY)
        self.code.start(good)

    def raise_if(self, condition, helper, *arguments):
        """Set an exception with a runtime helper and fail, when an i1 is true."""
        bad, good = self.code.label("bad"), self.code.label("good")
        self.code.fork(condition, bad, good, UNLIKELY)
        self.code.start(bad)
        self.code.call("void", f"@{helper}", *arguments)
        self.code.jump(self.failure())
        self.code.start(good)

    def new_reference(self, type, ir):
        """An owned value from a call that returns null on failure."""
        self.fail_if(self.code.op(f"icmp eq ptr {ir}, null"))
        return self.own(Value(type, ir, OWNED))

    def check_status(self, ir):
        """Fail when a C function returned a negative int."""
        self.fail_if(self.code.op(f"icmp slt i32 {ir}, 0"))

    def flagged(self, type, ir):
        """The value of a number returned with a failure flag."""
        pair = result_type(type)
        self.fail_if(self.code.op(f"extractvalue {pair} {ir}, 1"))
        return Value(type, self.code.op(f"extractvalue {pair} {ir}, 0"))

    def truth_value(self, ir):
        """The bool in an i8 that is 2 on failure."""
        self.fail_if(self.code.op(f"icmp eq i8 {ir}, 2"))
        return Value(BOOL, self.code.op(f"icmp ne i8 {ir}, 0"))

    # -- ownership

    def own(self, value):
        """Register a new reference as live."""
        value.hold = OWNED
        self.live.append(value)
        return value

    def release(self, *values):
        """Give up values that are no longer needed."""
        for value in values:
            if value.hold == OWNED:
                self.live.remove(value)
                self.code.call("void", "@decref", f"ptr {value.ir}")

    def take(self, value):
        """A reference to hand over to a new owner."""
        value = self.solid(value)
        if value.hold == OWNED:
            self.live.remove(value)
        else:
            self.code.call("void", "@incref", f"ptr {value.ir}")
        return value.ir

    def keep(self, value):
        """The same value, valid even if other code runs."""
        if value.type.is_reference and value.hold == FRAGILE:
            value = self.solid(value)
            self.code.call("void", "@incref", f"ptr {value.ir}")
            return self.own(value)
        return value

    def solid(self, value):
        """The same value as an object pointer, None included."""
        if not value.raw:
            return value
        none = self.builtin("None").ir
        if value.ir == "null":
            return Value(value.type, none, PERMANENT)
        empty = self.code.op(f"icmp eq ptr {value.ir}, null")
        return Value(value.type, self.code.select(empty, "ptr", none, value.ir), value.hold)

    def is_none(self, value):
        """An i1: whether a reference is None."""
        if value.present:
            return "false"
        if value.raw and value.type is not OBJECT:
            return self.code.op(f"icmp eq ptr {value.ir}, null")
        return self.code.op(f"icmp eq ptr {self.solid(value).ir}, {self.builtin('None').ir}")

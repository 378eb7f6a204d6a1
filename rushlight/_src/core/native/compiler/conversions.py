"""Between static types: machine values and Python objects, checks at run time, truth."""

from . import layout
from .types import ARGS, BOOL, F64, I64, NONE, OBJECT, OWNED, PERMANENT, SCALARS, STABLE, Value, result_type


class Conversions:
    """Conversions of a function being compiled between values of different types."""

    def convert(self, value, type, what):
        """A value as another type, with a check at run time if the types don't imply it; `what` names it in errors."""
        if value.type is type:
            return value
        if value.type is NONE and type.is_reference:
            return Value(type, value.ir, PERMANENT, raw=True)
        if type in SCALARS:
            return self._to_scalar(value, type, what)
        if value.type in SCALARS:
            if type is not OBJECT:
                raise self.unsupported(self.node, f"storing {value.type} in {what}, which is {type},")
            return self.box(value)
        if value.type is ARGS or type is ARGS:
            return self._to_arguments(value, type, what)
        if type is OBJECT or type is NONE:
            return Value(type, value.ir, value.hold, value.raw,
                         value.present) if value.hold != OWNED else self.retype(value, type)
        if value.type is not OBJECT:
            raise self.unsupported(self.node, f"storing {value.type} in {what}, which is {type},")
        return self._checked(value, type, what)

    def retype(self, value, type):
        """The same owned value under another type."""
        other = Value(type, value.ir, OWNED, value.raw, value.present)
        self.live[self.live.index(value)] = other
        return other

    def _to_scalar(self, value, type, what):
        if value.type is I64 and type is F64:
            return Value(F64, self.code.op(f"sitofp i64 {value.ir} to double"))
        if value.type is BOOL and type is I64:
            return Value(I64, self.code.op(f"zext i1 {value.ir} to i64"))
        if value.type is BOOL and type is F64:
            return Value(F64, self.code.op(f"uitofp i1 {value.ir} to double"))
        if value.type in SCALARS or value.type is NONE:
            raise self.unsupported(self.node, f"storing {value.type} in {what}, which is {type},")
        return self.unbox(value, type)

    def unbox(self, value, type):
        """A machine number or truth from a Python object."""
        if type is BOOL:
            return self.truth(value)
        value = self.keep(value)  # conversion may call __index__ or __float__
        found = self.code.call(result_type(type), f"@unbox_{type}", f"ptr {self.solid(value).ir}")
        number = self.flagged(type, found)
        self.release(value)
        return number

    def box(self, value):
        """A Python object from a machine number or truth."""
        if value.type is BOOL:
            yes, no = self.builtin("True").ir, self.builtin("False").ir
            return Value(OBJECT, self.code.select(value.ir, "ptr", yes, no), PERMANENT, present=True)
        if value.constant is not None:
            return self.literal(value.constant)
        maker = "PyLong_FromLongLong" if value.type is I64 else "PyFloat_FromDouble"
        return self.new_reference(OBJECT, self.code.call("ptr", f"@{maker}", f"{value.type.ir} {value.ir}"))

    def boxed(self, value):
        """Any value as a Python object."""
        return self.convert(value, OBJECT, "an object")

    def _to_arguments(self, value, type, what):
        if type is ARGS:
            if value.type is OBJECT:
                value = self._checked(value, self.program.static_type(tuple), what)
            value = self.solid(self.keep(value))
            self.require(value, "__len__")
            size = self.code.load("i64", self.code.offset(value.ir, layout.SIZE))
            return Value(ARGS, self.code.offset(value.ir, layout.TUPLE_ITEMS), STABLE, length=size)
        made = self.new_reference(self.program.static_type(tuple),
                                  self.code.call("ptr", "@PyTuple_New", f"i64 {value.length}"))
        index = self.code.slot("i64", "index")
        self.code.store("i64", "0", index, None)
        head, body, done = (self.code.label(hint) for hint in ("head", "copy", "done"))
        self.code.start(head)
        at = self.code.load("i64", index, None)
        self.code.fork(self.code.op(f"icmp slt i64 {at}, {value.length}"), body, done)
        self.code.start(body)
        item = self.code.load("ptr", self.code.item(value.ir, at))
        self.code.call("void", "@incref", f"ptr {item}")
        self.code.store("ptr", item, self.code.item(self.code.offset(made.ir, layout.TUPLE_ITEMS), at))
        self.code.store("i64", self.code.op(f"add i64 {at}, 1"), index, None)
        self.code.jump(head)
        self.code.start(done)
        return made if type is not OBJECT else self.retype(made, OBJECT)

    def _checked(self, value, type, what):
        """An object as an instance of a class, or None; TypeError otherwise."""
        value = self.solid(value)
        none = self.is_none(value)
        look, good = self.code.label("look"), self.code.label("good")
        self.code.fork(none, good, look)
        self.code.start(look)
        right = self.instance_test(value, type)
        self.raise_if(
            self.code.op(f"xor i1 {right}, true"), "raise_wrong_type",
            f"ptr {self.literal(what).ir}", f"ptr {self.literal(type.name).ir}", f"ptr {value.ir}",
        )
        self.code.start(good)
        return self.retype(value, type) if value.hold == OWNED else Value(type, value.ir, value.hold)

    def instance_test(self, value, type):
        """An i1: whether an object that is not None is an instance of a class."""
        if type.cls is None:
            return self.code.call("i1", "@has_flag", f"ptr {value.ir}", f"i64 {type.flag}")
        helper = "@has_type" if type.cls.traits.subclassable else "@is_exactly"
        return self.code.call("i1", helper, f"ptr {value.ir}", f"ptr {self.class_object(type.cls).ir}")

    def class_object(self, declared):
        return self.object("global", declared.module.__name__, declared.name)

    def require(self, value, attribute):
        """Raise AttributeError (TypeError for a special method) where a reference is None."""
        if value.present:
            return
        if attribute.startswith("__"):
            texts = (f"ptr {self.literal(text).ir}" for text in ("the operand", value.type.name))
            self.raise_if(self.is_none(value), "raise_wrong_type", *texts, f"ptr {self.builtin('None').ir}")
        else:
            self.raise_if(self.is_none(value), "raise_no_attribute", f"ptr {self.literal(attribute).ir}")

    def truth(self, value):
        """The truth of a value, releasing it."""
        if value.type is BOOL:
            return value
        if value.type is I64:
            return Value(BOOL, self.code.op(f"icmp ne i64 {value.ir}, 0"))
        if value.type is F64:
            return Value(BOOL, self.code.op(f"fcmp une double {value.ir}, 0.0"))
        if value.type is ARGS:
            return Value(BOOL, self.code.op(f"icmp ne i64 {value.length}, 0"))
        if value.type is NONE:
            return Value(BOOL, "false")
        if value.type.cls is not None and not {"__bool__", "__len__"} & set(value.type.cls.methods):
            answer = Value(BOOL, self.code.op(f"xor i1 {self.is_none(value)}, true"))
        else:
            value = self.keep(value)
            answer = self.truth_value(self.code.call("i8", "@truth", f"ptr {self.solid(value).ir}"))
        self.release(value)
        return answer

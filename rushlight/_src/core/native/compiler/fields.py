"""Reading and writing the fields of native objects."""

from .types import BOOL, FRAGILE, OBJECT, OWNED, Value


def read_field(f, base, field):
    at = f.code.offset(base.ir, field.offset)
    if field.type is BOOL:
        value = Value(BOOL, f.code.op(f"icmp ne i8 {f.code.load('i8', at)}, 0"))
    else:
        value = Value(field.type, f.code.load(field.type.ir, at), FRAGILE, raw=field.type.is_reference)
    return borrowed_from(f, base, value)


def borrowed_from(f, base, value):
    """A value read out of another: made to own its reference if its origin is about to be released."""
    if base.hold == OWNED:
        value = f.keep(value)
        f.release(base)
    return value


def write_scalar(f, base, field, value):
    at = f.code.offset(base.ir, field.offset)
    if field.type is BOOL:
        f.code.store("i8", f.code.op(f"zext i1 {value.ir} to i8"), at)
    else:
        f.code.store(field.type.ir, value.ir, at)


def write_reference(f, base, field, value):
    """Store in a field, where null means None; the old value is released last, since its destruction may run other
    code."""
    base = f.keep(base)
    at = f.code.offset(base.ir, field.offset)
    if value.type is not OBJECT and not value.present and value.hold != OWNED:
        new = value.ir if value.raw else f.code.select(f.is_none(value), "ptr", "null", value.ir)
        if new != "null":
            f.code.call("void", "@xincref", f"ptr {new}")
    elif value.raw and value.ir == "null":
        new = "null"
    elif value.type is OBJECT or value.present:
        new = f.take(value)
    else:
        none = f.is_none(value)
        new = f.code.select(none, "ptr", "null", value.ir)
        f.live.remove(value)
        f.code.call("void", "@xdecref", f"ptr {f.code.select(none, 'ptr', value.ir, 'null')}")
    old = f.code.load("ptr", at)
    f.code.store("ptr", new, at)
    f.code.call("void", "@xdecref", f"ptr {old}")

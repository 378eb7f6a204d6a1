"""Compiling statements: each handler takes the function being compiled and a syntax node, and appends code."""

import ast

from . import layout
from .expressions import item, length, read_attribute
from .fields import write_reference, write_scalar
from .handlers import registry
from .operators import apply
from .types import DICT, FRAGILE, I64, LIST, OWNED, SCALARS, STABLE, TUPLE, Value

HANDLERS, handles = registry()


def execute(f, body):
    """Compile statements up to the first that leaves."""
    for node in body:
        if not f.code.open:
            return
        handler = HANDLERS.get(type(node))
        if handler is None:
            raise f.unsupported(node, f"the statement {type(node).__name__}")
        f.node = node
        handler(f, node)


@handles(ast.Pass)
def nothing(f, node):
    pass


@handles(ast.Expr)
def expression(f, node):
    if not isinstance(node.value, ast.Constant):
        f.discard(f.value(node.value))


@handles(ast.Return)
def give(f, node):
    f.leave(_moved(f, node.value) if node.value else f.none())


def _moved(f, node):
    """The value of a returned expression; a local variable that is dead afterwards gives up its reference instead of
    sharing it."""
    local = f.locals.get(node.id) if isinstance(node, ast.Name) and node.id in f.known else None
    if local is None or not local.owned or f.handler != f.root:
        return f.value(node)
    value = f.read(node)
    f.code.store("ptr", "null", local.slot, None)
    return f.own(value)


# -- assignment

@handles(ast.Assign)
def assignment(f, node):
    value = f.value(node.value)
    for target in node.targets[:-1]:
        value = f.keep(value)
        store(f, target, Value(**{**vars(value), "hold": STABLE if value.hold == OWNED else value.hold}))
    store(f, node.targets[-1], value)


@handles(ast.AnnAssign)
def annotated(f, node):
    kind = f.program.annotation(f.module, node.annotation)
    name = node.target.id
    f.annotated[name] = kind
    if name not in f.locals:
        permanent = f.learned.get(name, (None, False))[1]
        f.variable(name, kind, owned=kind.is_reference and not permanent)
    if node.value is not None:
        store(f, node.target, f.value(node.value))


@handles(ast.AugAssign)
def augmented(f, node):
    target = node.target
    if isinstance(target, ast.Name):
        left = f.read(target)
        f.assign(target.id, _combined(f, node, left))
    elif isinstance(target, ast.Attribute):
        base = f.keep(f.value(target.value))
        shared = Value(**{**vars(base), "hold": STABLE if base.hold == OWNED else base.hold})
        value = _combined(f, node, f.keep(read_attribute(f, shared, target.attr)))
        write_attribute(f, base, target.attr, value)
    else:
        raise f.unsupported(node, "an augmented assignment to an item")


def _combined(f, node, left):
    return apply(f, node, node.op, left, f.value(node.value), in_place=True)


def store(f, target, value):
    """Assign a value, giving up its reference."""
    if isinstance(target, ast.Name):
        f.assign(target.id, value)
    elif isinstance(target, ast.Attribute):
        value = f.keep(value)
        write_attribute(f, f.value(target.value), target.attr, value)
    elif isinstance(target, ast.Subscript):
        write_item(f, target, f.keep(value))
    elif isinstance(target, (ast.Tuple, ast.List)):
        unpack(f, target, value)
    else:
        raise f.unsupported(target, "this target of an assignment")


def write_attribute(f, base, attr, value):
    """`base.attr = value`: a field in place, anything else through setattr."""
    cls = base.type.cls
    if not cls or attr not in cls.fields:
        base, value = f.keep(f.boxed(base)), f.keep(f.boxed(value))
        arguments = (f"ptr {f.solid(base).ir}", f"ptr {f.literal(attr).ir}", f"ptr {f.solid(value).ir}")
        f.check_status(f.code.call("i32", "@PyObject_SetAttr", *arguments))
        f.release(base, value)
        return
    field = cls.fields[attr]
    f.require(base, attr)
    if field.type in SCALARS:
        if value.type not in SCALARS:
            base = f.keep(base)
        write_scalar(f, base, field, f.convert(value, field.type, f"{cls.name}.{attr}"))
    else:
        write_reference(f, base, field, f.convert(value, field.type, f"{cls.name}.{attr}"))
    f.release(base)


def write_item(f, target, value):
    base = f.keep(f.value(target.value))
    if isinstance(target.slice, ast.Slice):
        raise f.unsupported(target, "assignment to a slice")
    index = f.value(target.slice)
    if base.type is LIST and index.type is I64:
        value = f.keep(f.boxed(value))
        f.require(base, "__setitem__")
        size = length(f, base)
        place = f.code.call("i64", "@place", f"i64 {index.ir}", f"i64 {size}")
        f.raise_if(f.code.op(f"icmp uge i64 {place}, {size}"), "raise_index")
        at = f.code.item(f.code.load("ptr", f.code.offset(base.ir, layout.LIST_ITEMS)), place)
        old = f.code.load("ptr", at)
        f.code.store("ptr", f.take(value), at)
        f.code.call("void", "@xdecref", f"ptr {old}")
        f.release(base)
        return
    index, value = f.keep(f.boxed(index)), f.keep(f.boxed(value))
    helper = "@PyObject_SetItem"
    if base.type is DICT:
        f.require(base, "__setitem__")
        helper = "@PyDict_SetItem"
    base = f.boxed(base)
    arguments = (f"ptr {f.solid(part).ir}" for part in (base, index, value))
    f.check_status(f.code.call("i32", helper, *arguments))
    f.release(index, base, value)


def unpack(f, target, value):
    """Assign the entries of a tuple or list of known length."""
    value = f.keep(value)
    if value.type not in (TUPLE, LIST):
        made = f.new_reference(TUPLE, f.code.call("ptr", "@as_tuple", f"ptr {f.solid(f.boxed(value)).ir}"))
        f.release(value)
        value = made
    f.require(value, "__iter__")
    size = length(f, value)
    wanted = len(target.elts)
    f.raise_if(f.code.op(f"icmp ne i64 {size}, {wanted}"), "raise_unpack", f"i64 {size}", f"i64 {wanted}")
    entries = []
    for position in range(wanted):
        shared = Value(value.type, value.ir, STABLE if value.hold == OWNED else value.hold, present=True)
        entry = item(f, shared, Value(I64, str(position), constant=position))
        if entry.hold != OWNED and wanted > 1 or value.hold == OWNED:
            entry.hold = FRAGILE
            entry = f.keep(entry)
        entries.append(entry)
    f.release(value)
    for element, entry in zip(target.elts, entries):
        store(f, element, entry)


@handles(ast.Delete)
def delete(f, node):
    for target in node.targets:
        if not isinstance(target, ast.Subscript):
            raise f.unsupported(node, "del of anything but an item")
        base, index = f.keep(f.boxed(f.value(target.value))), f.keep(f.boxed(f.value(target.slice)))
        f.check_status(f.code.call("i32", "@PyObject_DelItem", f"ptr {f.solid(base).ir}", f"ptr {f.solid(index).ir}"))
        f.release(index, base)


# -- choices

@handles(ast.If)
def choice(f, node):
    yes, no, after = (f.code.label(hint) for hint in ("then", "else", "after"))
    f.code.fork(f.condition(node.test), yes, no)
    before, outcomes = set(f.known), []
    for label, body in ((yes, node.body), (no, node.orelse)):
        f.code.start(label)
        f.known = set(before)
        execute(f, body)
        if f.code.open:
            outcomes.append(f.known)
            f.code.jump(after)
    f.known = set.intersection(*outcomes) if outcomes else before
    if outcomes:
        f.code.start(after)

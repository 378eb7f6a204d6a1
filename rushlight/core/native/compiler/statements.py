"""Compiling statements: each handler takes the function being compiled and a syntax node, and appends code."""

import ast

from . import layout
from .expressions import apply, item, length, read_attribute
from .types import ARGS, BOOL, DICT, FRAGILE, I64, LIST, NONE, OBJECT, OWNED, SCALARS, STABLE, TUPLE, Value

HANDLERS = {}


def handles(*kinds):
    """Register a handler for kinds of syntax node."""

    def register(handler):
        HANDLERS.update(dict.fromkeys(kinds, handler))
        return handler

    return register


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
    """The value of a returned expression; a local variable gives up its reference instead of sharing it."""
    if isinstance(node, ast.Name) and node.id in f.locals and node.id in f.known and f.locals[node.id].owned and not f.finalizers:
        local = f.locals[node.id]
        value = f.read(node)
        f.code.store("ptr", "null", local.slot, None)
        return f.own(value)
    return f.value(node)


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


def write_scalar(f, base, field, value):
    at = f.code.offset(base.ir, field.offset)
    if field.type is BOOL:
        f.code.store("i8", f.code.op(f"zext i1 {value.ir} to i8"), at)
    else:
        f.code.store(field.type.ir, value.ir, at)


def write_reference(f, base, field, value):
    """Store in a field, where null means None; the old value goes last, since its end may run other code."""
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


# -- choices and loops

@handles(ast.If)
def choice(f, node):
    yes, no, after = (f.code.label(hint) for hint in ("then", "else", "after"))
    f.code.branch(f.condition(node.test), yes, no)
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


class Loop:
    """Where `continue` and `break` go, and how many `finally` blocks lay around the loop."""

    def __init__(self, f, again):
        self.again, self.done, self.depth, self.broken = again, f.code.label("done"), len(f.finalizers), []


@handles(ast.While)
def repeat(f, node):
    head, body = f.code.label("while"), f.code.label("body")
    f.code.start(head)
    endless = isinstance(node.test, ast.Constant) and node.test.value
    loop = Loop(f, head)
    otherwise = f.code.label("otherwise") if node.orelse else loop.done
    if endless:
        f.code.start(body)
    else:
        f.code.branch(f.condition(node.test), body, otherwise)
        f.code.start(body)
    _loop(f, node, loop, otherwise, set(f.known), lambda: None, endless)


def _loop(f, node, loop, otherwise, before, again, endless=False):
    """The statements inside a loop, how it goes on (`again`), its `else`, and what is known after it."""
    f.loops.append(loop)
    execute(f, node.body)
    if f.code.open:
        f.code.jump(loop.again)
    f.loops.pop()
    again()
    f.known, exits = set(before), list(loop.broken)
    if node.orelse and not endless:
        f.code.start(otherwise)
        execute(f, node.orelse)
        if f.code.open:
            f.code.jump(loop.done)
            exits.append(f.known)
    elif not endless:
        exits.append(before)
    if exits:
        f.known = set.intersection(*exits)
        f.code.start(loop.done)


@handles(ast.Break)
def stop(f, node):
    loop = f.loops[-1]
    f.run_finalizers(loop.depth)
    loop.broken.append(set(f.known))
    f.code.jump(loop.done)


@handles(ast.Continue)
def skip(f, node):
    f.run_finalizers(f.loops[-1].depth)
    f.code.jump(f.loops[-1].again)


@handles(ast.For)
def each(f, node):
    over = node.iter
    is_range = isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range" and "range" not in f.assigned
    if is_range and f.program.find(f.module, over.func)[0] is range:
        return _each_number(f, node)
    values = f.keep(f.value(over))
    if values.type in (TUPLE, LIST, ARGS):
        return _each_item(f, node, values)
    return _each_yielded(f, node, values)


def _each_number(f, node):
    """`for i in range(...)`: the bounds are evaluated once, the counter is the loop's own."""
    bounds = [f.convert(f.value(argument), I64, "range()") for argument in node.iter.args]
    start, stop, step = {1: (None, 0, None), 2: (0, 1, None), 3: (0, 1, 2)}[len(bounds)]
    first = bounds[start].ir if start is not None else "0"
    stride = bounds[step] if step is not None else Value(I64, "1", constant=1)
    if stride.constant in (None, 0):
        raise f.unsupported(node, "a range whose step is not a constant other than 0")
    _count(f, node, first, lambda: bounds[stop].ir, stride.ir, "slt" if stride.constant > 0 else "sgt", lambda at: Value(I64, at))


def _each_item(f, node, values):
    """A tuple, a list (its length looked at again each time) or Args."""
    f.require(values, "__iter__")
    if values.type is ARGS:
        entry = lambda at: Value(OBJECT, f.code.load("ptr", f.code.item(values.ir, at)), values.hold)
        return _count(f, node, "0", lambda: values.length, "1", "slt", entry)
    hidden = f.hidden(values)
    local = lambda: Value(values.type, f.code.load("ptr", f.locals[hidden].slot, None), STABLE, present=True)

    def entry(at):
        base = local()
        start = f.code.offset(base.ir, layout.TUPLE_ITEMS) if base.type is TUPLE else f.code.load("ptr", f.code.offset(base.ir, layout.LIST_ITEMS))
        return Value(OBJECT, f.code.load("ptr", f.code.item(start, at)), FRAGILE)

    _count(f, node, "0", lambda: length(f, local()), "1", "slt", entry)
    if f.code.open:
        f.drop(hidden)


def _count(f, node, first, last, step, order, entry):
    """A loop over a hidden counter, which `entry` turns into the value of the target."""
    counter = f.code.slot("i64", "counter")
    f.code.store("i64", first, counter, None)
    head, body, advance = (f.code.label(hint) for hint in ("for", "body", "advance"))
    loop = Loop(f, advance)
    otherwise = f.code.label("otherwise") if node.orelse else loop.done
    f.code.start(head)
    at = f.code.load("i64", counter, None)
    f.code.branch(f.code.op(f"icmp {order} i64 {at}, {last()}"), body, otherwise)
    known = set(f.known)
    f.code.start(body)
    store(f, node.target, entry(at))

    def again():
        f.code.start(advance)
        f.code.store("i64", f.code.op(f"add i64 {f.code.load('i64', counter, None)}, {step}"), counter, None)
        f.code.jump(head)

    _loop(f, node, loop, otherwise, known, again)


def _each_yielded(f, node, values):
    """Any iterable, through the iterator protocol."""
    values = f.boxed(values)
    iterator = f.new_reference(OBJECT, f.code.call("ptr", "@PyObject_GetIter", f"ptr {f.solid(values).ir}"))
    f.release(values)
    hidden = f.hidden(iterator)
    head, empty, body = (f.code.label(hint) for hint in ("for", "empty", "body"))
    loop = Loop(f, head)
    otherwise = f.code.label("otherwise") if node.orelse else loop.done
    f.code.start(head)
    found = f.code.call("ptr", "@PyIter_Next", f"ptr {f.code.load('ptr', f.locals[hidden].slot, None)}")
    f.code.branch(f.code.op(f"icmp eq ptr {found}, null"), empty, body)
    f.code.start(empty)
    f.fail_if(f.code.op(f"icmp ne ptr {f.code.call('ptr', '@PyErr_Occurred')}, null"))
    f.code.jump(otherwise)
    f.code.start(body)
    known = set(f.known)
    store(f, node.target, f.own(Value(OBJECT, found)))
    _loop(f, node, loop, otherwise, known, lambda: None)
    if f.code.open:
        f.drop(hidden)


# -- exceptions

@handles(ast.Raise)
def fail(f, node):
    if node.exc is None:
        if not f.caught:
            raise f.unsupported(node, "raise without an exception outside `except`")
        _restore(f, f.caught[-1])
    else:
        value = f.keep(f.boxed(f.value(node.exc)))
        if node.cause is not None:
            cause = f.take(f.boxed(f.value(node.cause)))
            f.code.call("void", "@PyException_SetCause", f"ptr {value.ir}", f"ptr {cause}")
        f.code.call("void", "@raise_object", f"ptr {f.solid(value).ir}")
        f.release(value)
    f.code.jump(f.failure())


@handles(ast.Assert)
def check(f, node):
    message = [node.msg] if node.msg else []
    error = ast.Call(ast.Name("AssertionError", ast.Load()), message, [])
    alarm = ast.fix_missing_locations(ast.copy_location(ast.Raise(error, None), node))
    choice(f, ast.copy_location(ast.If(ast.UnaryOp(ast.Not(), node.test), [alarm], []), node))


def _error_slots(f):
    """Three hidden variables for a fetched exception: its type, value and traceback."""
    names = []
    for _ in range(3):
        names.append(f".{len(f.locals)}")
        f.variable(names[-1], OBJECT, owned=True)
    return names


def _fetch(f, slots):
    for name in slots:
        f.drop(name)
    f.code.call("void", "@PyErr_Fetch", *(f"ptr {f.locals[name].slot}" for name in slots))


def _restore(f, slots):
    values = [f.code.load("ptr", f.locals[name].slot, None) for name in slots]
    for name in slots:
        f.code.store("ptr", "null", f.locals[name].slot, None)
    f.code.call("void", "@PyErr_Restore", *(f"ptr {value}" for value in values))


@handles(ast.Try)
def attempt(f, node):
    if node.finalbody:
        _with_cleanup(f, node)
    else:
        _with_handlers(f, node)


def _with_cleanup(f, node):
    """`finally`: its body is compiled once for each way out."""
    outer, slots = f.handler, _error_slots(f)
    f.handler = f.code.label("finally")
    mine, before = f.handler, set(f.known)
    f.finalizers = [*f.finalizers, (node.finalbody, outer)]
    inner = ast.copy_location(ast.Try(node.body, node.handlers, node.orelse, []), node)
    _with_handlers(f, inner) if node.handlers else execute(f, node.body)
    f.finalizers, f.handler = f.finalizers[:-1], outer
    after = f.code.label("after")
    known = None
    if f.code.open:
        execute(f, node.finalbody)
        known = f.known
        if f.code.open:
            f.code.jump(after)
    f.code.start(mine)
    f.known = before
    _fetch(f, slots)
    execute(f, node.finalbody)
    if f.code.open:
        _restore(f, slots)
        f.code.jump(f.failure())
    if known is not None:
        f.known = known
        f.code.start(after)


def _with_handlers(f, node):
    outer, slots = f.handler, _error_slots(f)
    f.handler = f.code.label("except")
    mine, before, after = f.handler, set(f.known), f.code.label("after")
    execute(f, node.body)
    f.handler = outer
    outcomes = []
    if f.code.open:
        execute(f, node.orelse)
        _leave_try(f, outcomes, after)
    f.code.start(mine)
    f.known = set(before)
    _fetch(f, slots)
    for handler in node.handlers:
        _one_handler(f, handler, slots, before, outcomes, after)
        if handler.type is None:
            break
    if f.code.open:
        _restore(f, slots)
        f.code.jump(f.failure())
    f.known = set.intersection(*outcomes) if outcomes else before
    if outcomes:
        f.code.start(after)


def _leave_try(f, outcomes, after):
    if f.code.open:
        outcomes.append(set(f.known))
        f.code.jump(after)


def _one_handler(f, handler, slots, before, outcomes, after):
    """One `except` clause; afterwards the code continues where the clause does not match."""
    other = f.code.label("other")
    load = lambda name: f.code.load("ptr", f.locals[name].slot, None)
    if handler.type is not None:
        kind = f.keep(f.boxed(f.value(handler.type)))
        matches = f.code.call("i32", "@PyErr_GivenExceptionMatches", f"ptr {load(slots[0])}", f"ptr {kind.ir}")
        f.release(kind)
        here = f.code.label("matching")
        f.code.branch(f.code.op(f"icmp ne i32 {matches}, 0"), here, other)
        f.code.start(here)
    if handler.name:
        f.code.call("void", "@PyErr_NormalizeException", *(f"ptr {f.locals[name].slot}" for name in slots))
        f.assign(handler.name, Value(OBJECT, load(slots[1]), FRAGILE))
    f.caught.append(slots)
    execute(f, handler.body)
    f.caught.pop()
    if f.code.open:
        for name in slots:
            f.drop(name)
    _leave_try(f, outcomes, after)
    f.known = set(before)
    if handler.type is not None:
        f.code.start(other)

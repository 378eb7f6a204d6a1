"""Compiling loops: `while`, and `for` over ranges, tuples, lists, arguments and any iterable."""

import ast

from . import layout
from .expressions import length
from .statements import execute, handles, store
from .types import ARGS, FRAGILE, I64, LIST, OBJECT, STABLE, TUPLE, Value


class Loop:
    """The targets of `continue` and `break`, and the number of `finally` blocks around the loop."""

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
        f.code.fork(f.condition(node.test), body, otherwise)
        f.code.start(body)
    _loop(f, node, loop, otherwise, set(f.known), lambda: None, endless)


def _loop(f, node, loop, otherwise, before, again, endless=False):
    """The statements inside a loop, its continuation (`again`), its `else`, and the facts that hold after it."""
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
    is_range = isinstance(over, ast.Call) and isinstance(
        over.func, ast.Name) and over.func.id == "range" and "range" not in f.assigned
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
    _count(f, node, first, lambda: bounds[stop].ir, stride.ir, "slt" if stride.constant > 0 else "sgt",
           lambda at: Value(I64, at))


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
        start = f.code.offset(base.ir, layout.TUPLE_ITEMS) if base.type is TUPLE else f.code.load(
            "ptr", f.code.offset(base.ir, layout.LIST_ITEMS))
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
    f.code.fork(f.code.op(f"icmp {order} i64 {at}, {last()}"), body, otherwise)
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
    f.code.fork(f.code.op(f"icmp eq ptr {found}, null"), empty, body)
    f.code.start(empty)
    f.fail_if(f.code.op(f"icmp ne ptr {f.code.call('ptr', '@PyErr_Occurred')}, null"))
    f.code.jump(otherwise)
    f.code.start(body)
    known = set(f.known)
    store(f, node.target, f.own(Value(OBJECT, found)))
    _loop(f, node, loop, otherwise, known, lambda: None)
    if f.code.open:
        f.drop(hidden)

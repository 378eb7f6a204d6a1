"""Compiling exceptions: `raise`, `assert`, `try` with `except` and `finally`."""

import ast

from .statements import choice, execute, handles
from .types import FRAGILE, OBJECT, Value


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
        f.code.fork(f.code.op(f"icmp ne i32 {matches}, 0"), here, other)
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

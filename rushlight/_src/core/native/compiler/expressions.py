"""Compile expressions: each handler takes the function being compiled and a syntax node, and returns a `Value`."""

import ast
import struct

from ..language import PerThread
from . import layout
from .calls import call, call_expression
from .fields import borrowed_from, read_field
from .handlers import registry
from .types import (ARGS, BOOL, BYTES, DICT, F64, FRAGILE, I64, LIST, NONE, OBJECT, OWNED, PERMANENT, SCALARS, STABLE,
                    STR, TUPLE, Value)

HANDLERS, handles = registry()


def evaluate(f, node):
    """The value of an expression."""
    handler = HANDLERS.get(type(node))
    if handler is None:
        raise f.unsupported(node, f"{type(node).__name__} as an expression")
    return handler(f, node)


def is_simple(node):
    """True if evaluating an expression can run no other code, so that references read before it stay valid."""
    return isinstance(node, (ast.Name, ast.Constant))


def operands(f, *nodes):
    """The values of several expressions, each valid until all have been used."""
    values = []
    for position, node in enumerate(nodes):
        value = f.value(node)
        values.append(value if all(is_simple(later) for later in nodes[position + 1 :]) else f.keep(value))
    return values


@handles(ast.Constant)
def constant(f, node):
    value = node.value
    if value is None:
        return f.none()
    if isinstance(value, bool):
        return Value(BOOL, str(value).lower(), constant=value)
    if isinstance(value, int):
        if -(2**63) <= value < 2**63:
            return Value(I64, str(value), constant=value)
        return f.literal(value)
    if isinstance(value, float):
        return Value(F64, f64_text(value), constant=value)
    kind = {str: STR, bytes: BYTES}.get(type(value), OBJECT)
    return f.object("literal", repr(value), type=kind)


def f64_text(value):
    """A double as LLVM writes it: the hexadecimal form of its bits."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


@handles(ast.Name)
def name(f, node):
    if node.id in f.values or node.id in f.locals:
        return f.read(node)
    if node.id in f.assigned:
        raise f.unsupported(node, f"reading {node.id!r} where it may have no value")
    return global_object(f, node)


def global_object(f, node):
    """A global: numbers, strings and flags become part of the code, other objects are looked up again when the code is
    linked."""
    found = f.program.find(f.module, node)
    if found is None:
        raise f.unsupported(node, f"the unknown name {ast.unparse(node)}")
    value, description = found
    if type(value) in (int, float, bool) and description[0] == "global":
        f.program.assumptions[description] = value
        if type(value) is not int or -(2**63) <= value < 2**63:
            return constant(f, ast.Constant(value))
    if isinstance(value, PerThread):
        return mine(f, value)
    kind = f.program.static_type(type(value))
    return f.object(*description, type=kind if kind.is_reference else OBJECT)


def mine(f, state):
    """The calling thread's instance of per-thread state; the thread keeps it alive."""
    instance = f.code.call("ptr", f"@mine.{list(f.program.per_thread.values()).index(state)}")
    f.fail_if(f.code.op(f"icmp eq ptr {instance}, null"))
    return Value(f.program.static_type(state.kind), instance, PERMANENT, present=True)


@handles(ast.Attribute)
def attribute(f, node):
    if f.program.find(f.module, node) and isinstance(root(node), ast.Name) and root(node).id not in f.assigned:
        return global_object(f, node)
    return read_attribute(f, f.value(node.value), node.attr)


def root(node):
    while isinstance(node, ast.Attribute):
        node = node.value
    return node


def read_attribute(f, base, attr):
    """`base.attr`: a field in place, a native property directly, anything else through getattr."""
    cls = base.type.cls
    if cls and attr in cls.fields:
        f.require(base, attr)
        return read_field(f, base, cls.fields[attr])
    if cls and attr in cls.methods and cls.methods[attr].is_property:
        f.require(base, attr)
        return call(f, cls.methods[attr], [base])
    base = f.keep(f.boxed(base))
    found = f.new_reference(OBJECT, f.code.call("ptr", "@PyObject_GetAttr", f"ptr {f.solid(base).ir}",
                                                f"ptr {f.literal(attr).ir}"))
    f.release(base)
    return found


@handles(ast.Subscript)
def subscript(f, node):
    if isinstance(node.slice, ast.Slice):
        return read_slice(f, node)
    base, index = operands(f, node.value, node.slice)
    if base.type is OBJECT and index.type is I64:
        base = f.keep(base)
        found = f.new_reference(OBJECT, f.code.call("ptr", "@item", f"ptr {f.solid(base).ir}", f"i64 {index.ir}"))
        f.release(base)
        return found
    if base.type is DICT:
        return dict_item(f, base, index)
    if base.type in (TUPLE, LIST, ARGS) and index.type is not TUPLE:
        return item(f, base, f.convert(index, I64, "an index"))
    base, index = f.keep(base), f.boxed(index)
    arguments = (f"ptr {f.solid(base).ir}", f"ptr {f.solid(index).ir}")
    found = f.new_reference(OBJECT, f.code.call("ptr", "@PyObject_GetItem", *arguments))
    f.release(index, base)
    return found


def item(f, base, index):
    """One entry of a tuple, list or Args, with its bounds checked."""
    f.require(base, "__getitem__")
    size = length(f, base)
    negative = index.constant is None or index.constant < 0
    place = f.code.call("i64", "@place", f"i64 {index.ir}", f"i64 {size}") if negative else index.ir
    f.raise_if(f.code.op(f"icmp uge i64 {place}, {size}"), "raise_index")
    value = Value(OBJECT, f.code.load("ptr", f.code.item(items(f, base), place)), base.hold if base.hold != OWNED
                  else FRAGILE)
    if base.type is LIST:
        value.hold = FRAGILE
    elif base.type is ARGS:
        value.hold = base.hold
    return borrowed_from(f, base, value)


def items(f, base):
    """The address of the items of a tuple, list or Args."""
    if base.type is ARGS:
        return base.ir
    if base.type is TUPLE:
        return f.code.offset(base.ir, layout.TUPLE_ITEMS)
    return f.code.load("ptr", f.code.offset(base.ir, layout.LIST_ITEMS))


def length(f, base):
    """The number of entries of a sized built-in that is not None."""
    return base.length if base.type is ARGS else f.code.load("i64", f.code.offset(base.ir, layout.SIZE))


def dict_item(f, base, key):
    f.require(base, "__getitem__")
    base, key = f.keep(base), f.keep(f.boxed(key))
    found = f.code.call("ptr", "@dict_item", f"ptr {base.ir}", f"ptr {f.solid(key).ir}")
    f.fail_if(f.code.op(f"icmp eq ptr {found}, null"))
    value = f.keep(Value(OBJECT, found, FRAGILE))
    f.release(key, base)
    return value


def read_slice(f, node):
    base = f.keep(f.value(node.value))
    if base.type in (TUPLE, LIST, ARGS) and node.slice.step is None:
        f.require(base, "__getitem__")
        size = length(f, base)
        start = bound(f, node.slice.lower, size, "0")
        stop = bound(f, node.slice.upper, size, size)
        if base.type is ARGS:
            some = f.code.call("i64", "@llvm.smax.i64", f"i64 {f.code.op(f'sub i64 {stop}, {start}')}", "i64 0")
            return f.convert(Value(ARGS, f.code.item(base.ir, start), STABLE, length=some), TUPLE, "a slice")
        maker = "@PyTuple_GetSlice" if base.type is TUPLE else "@PyList_GetSlice"
        found = f.new_reference(base.type, f.code.call("ptr", maker, f"ptr {base.ir}", f"i64 {start}", f"i64 {stop}"))
    else:
        base = f.keep(f.boxed(base))
        parts = [f.keep(f.boxed(f.value(part) if part else f.none()))
                 for part in (node.slice.lower, node.slice.upper, node.slice.step)]
        index = f.new_reference(OBJECT, f.code.call("ptr", "@PySlice_New",
                                                    *(f"ptr {f.solid(part).ir}" for part in parts)))
        found = f.new_reference(OBJECT, f.code.call("ptr", "@PyObject_GetItem", f"ptr {f.solid(base).ir}",
                                                    f"ptr {index.ir}"))
        f.release(index, *reversed(parts))
    f.release(base)
    return found


def bound(f, node, size, default):
    if node is None:
        return default
    index = f.convert(f.value(node), I64, "a slice bound")
    return f.code.call("i64", "@bound", f"i64 {index.ir}", f"i64 {size}")


@handles(ast.Tuple)
def tuple_display(f, node):
    if all(isinstance(element, ast.Constant) for element in node.elts):
        return f.object("literal", ast.unparse(node), type=TUPLE)
    return make_tuple(f, [f.keep(f.boxed(f.value(element))) for element in _plain_elements(f, node)])


def _plain_elements(f, node):
    for element in node.elts:
        if isinstance(element, ast.Starred):
            raise f.unsupported(element, "* in a display")
        yield element


def make_tuple(f, values):
    """A new tuple of boxed values, which it takes."""
    made = f.new_reference(TUPLE, f.code.call("ptr", "@PyTuple_New", f"i64 {len(values)}"))
    made.present = True
    for position, value in enumerate(values):
        f.code.store("ptr", f.take(value), f.code.offset(made.ir, layout.TUPLE_ITEMS + 8 * position))
    return made


@handles(ast.List)
def list_display(f, node):
    values = [f.keep(f.boxed(f.value(element))) for element in _plain_elements(f, node)]
    made = f.new_reference(LIST, f.code.call("ptr", "@PyList_New", f"i64 {len(values)}"))
    made.present = True
    if values:
        start = items(f, made)
        for position, value in enumerate(values):
            f.code.store("ptr", f.take(value), f.code.offset(start, 8 * position))
    return made


@handles(ast.Dict)
def dict_display(f, node):
    made = f.new_reference(DICT, f.code.call("ptr", "@PyDict_New"))
    made.present = True
    for key_node, value_node in zip(node.keys, node.values):
        if key_node is None:
            raise f.unsupported(node, "** in a display")
        key = f.keep(f.boxed(f.value(key_node)))
        value = f.keep(f.boxed(f.value(value_node)))
        f.check_status(f.code.call("i32", "@PyDict_SetItem", f"ptr {made.ir}", f"ptr {f.solid(key).ir}",
                                   f"ptr {f.solid(value).ir}"))
        f.release(value, key)
    return made


@handles(ast.JoinedStr)
def formatted(f, node):
    pieces = make_tuple(f, [_piece(f, piece) for piece in node.values])
    joined = f.new_reference(STR, f.code.call("ptr", "@PyUnicode_Join", f"ptr {f.literal('').ir}", f"ptr {pieces.ir}"))
    f.release(pieces)
    return joined


def _piece(f, piece):
    if isinstance(piece, ast.Constant):
        return f.literal(piece.value)
    value = f.keep(f.boxed(f.value(piece.value)))
    if piece.conversion != -1:
        helper = {"r": "@PyObject_Repr", "s": "@PyObject_Str"}.get(chr(piece.conversion))
        if helper is None:
            raise f.unsupported(piece, "the !a conversion")
        shown = f.new_reference(OBJECT, f.code.call("ptr", helper, f"ptr {f.solid(value).ir}"))
        f.release(value)
        value = shown
    style = f.value(piece.format_spec) if piece.format_spec else f.literal("")
    text = f.new_reference(OBJECT, f.code.call("ptr", "@PyObject_Format", f"ptr {f.solid(value).ir}",
                                               f"ptr {style.ir}"))
    f.release(style, value)
    return text


# -- choices

@handles(ast.BoolOp)
def deciding(f, node):
    """The value that decides an `and` or `or`."""
    result = f.value(node.values[0])
    for other in node.values[1:]:
        kept = f.keep(result)
        test = f.truth(_borrow(kept)).ir
        more, stay = (lambda other=other: f.value(other)), (lambda kept=kept: kept)
        result = choose(f, test, *((more, stay) if isinstance(node.op, ast.And) else (stay, more)), pending=kept)
    return result


def condition(f, node):
    """An i1: the truth of an expression, short-circuiting."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return f.code.op(f"xor i1 {condition(f, node.operand)}, true")
    if not isinstance(node, ast.BoolOp):
        return f.truth(f.value(node)).ir
    out, done = f.code.slot("i1", "choice"), f.code.label("done")
    for position, part in enumerate(node.values):
        answer = condition(f, part)
        f.code.store("i1", answer, out, None)
        more = f.code.label("more") if position + 1 < len(node.values) else done
        if more != done:
            f.code.fork(answer, *((more, done) if isinstance(node.op, ast.And) else (done, more)))
        f.code.start(more)
    return f.code.load("i1", out, None)


def _borrow(value):
    """A view of a value that does not own it."""
    return Value(**{**vars(value), "hold": STABLE if value.hold == OWNED else value.hold})


def choose(f, test, yes, no, pending=None):
    """The value of one of two computations. `pending` is a live value that one of them gives; the other path drops
    it."""
    labels = [f.code.label(hint) for hint in ("yes", "no", "chosen")]
    f.code.fork(test, *labels[:2])
    before, ends = f.live, []
    for label, compute in zip(labels, (yes, no)):
        f.code.start(label)
        f.live = list(before)
        value = compute()
        if pending is not None and value is not pending:
            f.release(pending)
        ends.append((value, f.code.suspend(), f.live))
    kind = _common([value.type for value, _, _ in ends])
    owned = kind.is_reference and any(value.hold != PERMANENT or value.type in SCALARS for value, _, _ in ends)
    out = f.code.slot(kind.ir, "choice")
    for value, block, f.live in ends:
        f.code.resume(block)
        value = f.convert(value, kind, "a conditional expression")
        f.code.store(kind.ir, f.take(value) if owned else f.solid(value).ir, out, None)
        f.code.jump(labels[2])
    f.live = [value for value in before if value is not pending]
    f.code.start(labels[2])
    result = Value(kind, f.code.load(kind.ir, out, None))
    return f.own(result) if owned else result


def _common(kinds):
    kinds = set(kinds)
    if len(kinds) == 1 and kinds != {NONE}:
        return kinds.pop()
    if kinds <= {I64, F64}:
        return F64
    if kinds <= {I64, BOOL}:
        return OBJECT
    references = kinds - {NONE}
    if len(references) == 1 and not references & set(SCALARS):
        return references.pop()
    return OBJECT


@handles(ast.IfExp)
def conditional(f, node):
    return choose(f, condition(f, node.test), lambda: f.value(node.body), lambda: f.value(node.orelse))


HANDLERS[ast.Call] = call_expression

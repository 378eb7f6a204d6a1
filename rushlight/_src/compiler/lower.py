"""Graph of primitives -> the scalar Expr of every element: what ``fuse.py`` groups into kernels.

Elementwise operators, views, gathers and creations are read through; reductions, scatters and outputs are stored.
"""
from __future__ import annotations

from ..core import expr
from ..core.dtypes import INTEGER, bool_, float64, int64
from ..core.expr import Expr, apply, convert, load, number, scalar_of
from ..core.meta import Meta, is_one, row_major, same
from ..core.narrow import as_held
from ..graph.graph import Graph, Node
from . import math
from .kernel import Buffer


class NotLowerable(Exception):
    """A node that kernels cannot compute; the caller falls back to NumPy."""

    def __init__(self, node: Node, reason: str):
        super().__init__(f"{node.op.name if node.op else node.name}: {reason}")
        self.node = node


class BufferView:
    """A value in memory: ``buffer[offset + sum(index * strides)]``."""

    __slots__ = ("buffer", "strides", "offset")

    def __init__(self, buffer: Buffer, strides, offset=0):
        self.buffer, self.strides, self.offset = buffer, tuple(strides), offset

    def at(self, index):
        """The position of an element."""
        total = self.offset
        for i, stride in zip(index, self.strides):
            total = total + i * stride
        return total

    def element(self, index, dtype) -> Expr:
        return load(self.buffer, self.at(index), dtype)


class Misaligned(Exception):
    """The kernel being built needs a reduction at another index than the reduction's own."""

    def __init__(self, node: Node):
        self.node = node


# read through; reductions, scans and scatters are placed by ``fuse.py``
READABLE = ("elementwise", "view", "join", "gather", "create")


DIVISIONS = ("floor_divide", "remainder", "fmod")


def may_fail(node: Node) -> bool:
    """True if a node divides integers by a divisor that may be 0, so that its kernel needs the error flag."""
    if node.op.name.split(".")[-1] not in DIVISIONS or node.dtype.category != INTEGER:
        return False
    return isinstance(node.args[1], Node) or node.args[1] == 0


def is_empty(node: Node) -> bool:
    """True if a value certainly has no elements."""
    return any(type(size) is int and size == 0 for size in node.shape)


def obstacle(node: Node) -> str:
    """Why kernels cannot compute a node from its arguments; empty if they can."""
    if node.op is None or node.op.kind.name not in (*READABLE, "reduce", "scan", "scatter"):
        return "no kernel form"
    without = next((n.dtype for n in (node, *node.used) if not n.dtype.has_kernels), None)
    if without is not None or isinstance(node.params.get("value"), complex):
        return f"numbers of {without or 'complex types'}"
    if node.op.kind.name == "gather" and is_empty(node) and not is_empty(node.args[1]):
        return "positions of an empty result: none would be checked"
    if node.op.kind.name != "elementwise":
        return ""
    name, kind = node.op.name.split(".")[-1], computing_dtype(node)
    if node.op.kind.passes:
        return ""
    if name not in math.INSTRUCTIONS and not (kind.is_floating_point and math.known(name)):
        return f"no instructions for {name} of {kind}"
    return f"{name} of integers" if name in math.OF_FLOATS and not kind.is_floating_point else ""


def stands_alone(node: Node) -> bool:
    """True if templates leave an elementwise node to kernels: it has no scalar equivalent in a template, may fail, or
    is so long that computing it in every store costs more than memory."""
    return bool(obstacle(node)) or may_fail(node) or math.work(node.op.name.split(".")[-1]) >= math.LONG_WORK


def operand_dtype(node: Node):
    """The dtype that Python numbers among the operands of an elementwise node take."""
    return next((a.dtype for a in reversed(node.args) if isinstance(a, Node) and not a.weak), node.dtype)


def computing_dtype(node: Node):
    """The dtype of an elementwise node's last operand, which names its instruction."""
    last = node.args[-1]
    if node.op.name == "prims.where":
        return node.dtype
    return last.dtype if isinstance(last, Node) and (len(node.args) == 1 or not last.weak) else operand_dtype(node)


class Reader:
    """The element of any node at an index, as an Expr.

    ``places``: nodes that are in memory. ``results``: {node: (result, index)} of the kernel being built.
    """

    def __init__(self, graph: Graph):
        self.places, self.results, self.memo, self.checked = {}, {}, {}, False

    def read(self, node, index, like=None) -> Expr:
        """The element; Python numbers, and numbers that follow from sizes, take the dtype ``like``."""
        if not isinstance(node, Node):
            return scalar_of(node, like)
        index = tuple(0 if is_one(size) else i for i, size in zip(index, node.shape))
        key = (node, index)
        found = self.memo.get(key)
        if found is None:
            found = self._read(node, index)
            if found.op != "result":
                self.memo[key] = found
        return found

    def _read(self, node, index):
        if not node.dtype.has_kernels:
            raise NotLowerable(node, f"numbers of {node.dtype}")
        place = self.places.get(node)
        if place is not None:
            return place if isinstance(place, Expr) else place.element(index, node.dtype)
        if node in self.results:
            result, own = self.results[node]
            if len(own) == len(index) and all(a is b or (isinstance(a, int) and isinstance(b, int) and a == b)
                                              for a, b in zip(own, index)):
                return result
            raise Misaligned(node)
        reason = obstacle(node) or ("" if node.op.kind.name in READABLE else "it is read before it is computed")
        if reason:
            raise NotLowerable(node, reason)
        return getattr(self, "read_" + node.op.kind.name)(node, index)

    def reset(self):
        """Clear the memo, because another kernel is being built."""
        self.memo.clear()

    # -- one method a kind ---------------------------------------------------------------------------------------------

    def read_elementwise(self, node, index):
        name, args = node.op.name.split(".")[-1], node.args
        like = operand_dtype(node)
        read = [self.broadcast(a, index, node, like) for a in args]
        if node.op.kind.passes:
            return convert(read[0], node.dtype)
        if name == "where":
            read[1:] = [convert(r, node.dtype) for r in read[1:]]
        elif len(read) > 1:
            read = [convert(r, like) if isinstance(a, Node) and a.weak else r for a, r in zip(args, read)]
        if name in DIVISIONS and read[1].dtype.category == INTEGER:
            read[1] = expr.divisor(read[1])
            self.checked = self.checked or read[1].op == "divisor"
        if read[-1].dtype is bool_ and name in ("add", "mul"):
            name = {"add": "logical_or", "mul": "logical_and"}[name]
        made = apply(name, *read)
        return made if made.dtype is node.dtype else convert(made, node.dtype)

    def broadcast(self, a, index, node, like):
        if not isinstance(a, Node):
            return scalar_of(a, like)
        if a.weak:
            return self.places[a]
        return self.read(a, index[len(index) - len(a.shape):])

    def read_view(self, node, index):
        source = node.args[0]
        place = self.places.get(source)
        if isinstance(place, BufferView):
            meta = Meta(tuple(source.shape), place.strides, source.dtype, source.meta.device)
            shared = node.op.kind.strided(node.op, meta, **node.params)
            if shared is not None:
                return BufferView(place.buffer, shared[0].strides, place.offset + shared[1]).element(index, node.dtype)
        inner, mask = node.op.kind.source(index, source.shape, **node.params)
        found = self.read(source, inner)
        return found if mask is None else self.masked(found, mask, node)

    def masked(self, found, mask, node):
        """``found`` where the mask holds, else the view's value; memory outside is not touched."""
        guarded = guard(found, mask, {})
        return expr.where(mask, guarded, scalar_of(node.params.get("value", 0), guarded.dtype))

    def read_join(self, node, index):
        dim, out, start = node.params["dim"], None, 0
        tensors = node.args[0] if isinstance(node.args[0], tuple) else node.args
        pieces = []
        for t in tensors:
            if isinstance(t.shape[dim], int) and t.shape[dim] == 0:
                continue
            pieces.append((start, t))
            start = start + t.shape[dim]
        for begin, t in reversed(pieces):
            at = (*index[:dim], index[dim] - begin, *index[dim + 1:])
            inside = expr.logical_and(expr.le(begin, index[dim]), expr.lt(index[dim], begin + t.shape[dim]))
            piece = guard(self.read(t, at), inside, {})
            out = piece if out is None else expr.where(inside, piece, out)
        return out

    def position(self, index_node, index, limit):
        found = expr.position(self.read(index_node, index), limit)
        self.checked = self.checked or isinstance(found, Expr) and found.op == "position"
        return found

    def at_position(self, x, before, found, after, limit):
        """The element of x at a position between other indices."""
        element = self.read(x, (*before, found, *after))
        if is_one(limit) and isinstance(found, Expr) and found.op == "position":  # it was not read: it is checked here
            inside = apply("lt", expr.value(found, int64), number(1, int64))
            return expr.where(inside, element, number(0, element.dtype))
        return element

    def read_gather(self, node, index):
        x, positions = node.args[:2]
        dim, rank = node.params["dim"], len(positions.shape)
        if node.op.name.endswith("take"):
            at = self.position(positions, index[dim:dim + rank], x.shape[dim])
            return self.at_position(x, index[:dim], at, index[dim + rank:], x.shape[dim])
        at = self.position(positions, index, x.shape[dim])
        return self.at_position(x, index[:dim], at, index[dim + 1:], x.shape[dim])

    def read_create(self, node, index):
        name = node.op.name.split(".")[-1]
        if name == "full":
            value = node.params["value"]
            return scalar_of(as_held(value, node.dtype) if node.dtype.is_half and not isinstance(value, Expr)
                             else value, node.dtype)
        if name == "iota":
            return convert(expr.value(index[0], int64), node.dtype)
        return self.random(node, index)

    def random(self, node, index):
        """Word k of the stream from block ``offset`` on."""
        seed, offset = (self.read(a, (), int64) for a in node.args)
        at = 0
        for i, stride in zip(index, row_major(node.shape)):
            at = at + i * stride
        return apply("philox", seed, offset, expr.value(at, int64))


def guard(e: Expr, mask: Expr, memo: dict) -> Expr:
    """``e`` with every load made under the mask, and every position and divisor checked only there."""
    if e.op == "result" or not e.args:
        return e
    found = memo.get(e)
    if found is None:
        if e.op == "load":
            # an earlier mask may look into memory, too
            both = mask if len(e.args) == 1 else expr.logical_and(guard(e.args[1], mask, memo), mask)
            found = load(e.arg, expr.plain(guard(e.args[0], mask, memo)), e.dtype, both)
        elif e.op == "position":
            value = guard(e.args[0], mask, memo)
            found = expr.position(expr.where(mask, value, number(0, value.dtype)), expr.plain(e.args[1]))
        elif e.op == "divisor":
            value = guard(e.args[0], mask, memo)
            found = expr.divisor(expr.where(mask, value, number(1, value.dtype)))
        else:
            found = expr.rebuild(e, [guard(a, mask, memo) for a in e.args])
        memo[e] = found
    return found


def scalar_input(node: Node) -> Expr:
    """A run-time scalar: its 8-byte slot."""
    dtype = float64 if node.dtype.is_floating_point else bool_ if node.dtype is bool_ else int64
    return Expr("scalar", (), node.name, dtype)


def squeezed(shape):
    return tuple(s for s in shape if not is_one(s))


def same_shape(a, b) -> bool:
    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))

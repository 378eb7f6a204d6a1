"""Lower programs over complex numbers to programs over real ones: each complex value becomes two.

Memory holds the two interleaved, so an input is two real tensors with doubled strides (``P.half``), and a value that
must be in memory is written as two (``P.complex``). Kernels, templates and fusion then see real numbers only, wherever
an operator is lowered below; other operators (linear algebra) take complex memory as it is. Each part gets half the
lanes, rather than pairs of lanes, since nearly every operation treats the two in different ways.
"""
from __future__ import annotations

import math

from ..core.dtypes import bool_
from ..core.kinds import P
from ..graph.graph import Graph, Node, Store, map_nodes
from ..ops import prims  # noqa: F401 - declares the primitives named below
from ..transforms.trace import Trace, traced

SPLIT: dict = {}  # {operator: its lowering on pairs}


def in_pairs(graph: Graph) -> Graph:
    """An equal program in which only inputs, results and operators without a lowering rule are complex."""
    if not any(is_complex(n) for n in (*graph.inputs, *graph.nodes)):
        return graph
    return Splitting(graph).run().prune()


def is_complex(node: Node) -> bool:
    metas = node.meta if isinstance(node.meta, tuple) else (node.meta,)
    return any(m.dtype.is_complex for m in metas)


class Splitting:
    """The rewriting of one program. ``made``: {node: the replacement of a real value or of complex memory}; ``pairs``:
    {node: the two parts of a complex value}."""

    def __init__(self, graph: Graph):
        self.graph, self.trace = graph, Trace()
        self.made, self.pairs = {n: n for n in graph.inputs}, {}

    def run(self) -> Graph:
        with self.trace:
            for node in self.graph.nodes:
                self.enter(node)
            outputs = [Store(self.whole(o.node), o.into) if isinstance(o, Store) else self.whole(o)
                       for o in self.graph.outputs]
        return Graph(self.graph.inputs, self.trace.nodes, outputs)

    def enter(self, node: Node):
        """Record the replacement of a node."""
        rule = SPLIT.get(node.op) or SPLIT.get(node.op.kind.name)
        if rule is None or not is_complex(node) and not any(map(is_complex, node.used)):
            self.keep(node)
            return
        found = rule(node, *map_nodes(node.args, self.pair))
        if found is NotImplemented:
            self.keep(node)
        elif isinstance(found, tuple):
            self.pairs[node] = found
        else:
            self.made[node] = found.node

    def keep(self, node: Node):
        """The same call on whole values."""
        args = map_nodes(node.args, self.whole)
        made = Node(self.trace.fresh("t"), node.op, args, node.params, node.meta, node.inside, node.where, node.weak,
                    node.constant)
        self.trace.nodes.append(made)
        self.made[node] = made

    def pair(self, node: Node):
        """The parts of a complex value, or a real one."""
        if not is_complex(node):
            return traced(self.made[node])
        if node not in self.pairs:
            memory = traced(self.made[node])
            self.pairs[node] = P.half(memory, which=0), P.half(memory, which=1)
        return self.pairs[node]

    def whole(self, node: Node) -> Node:
        """A value as one complex node."""
        if node not in self.made:
            made = Node(self.trace.fresh("t"), P.complex, tuple(part.node for part in self.pairs[node]), meta=node.meta,
                        where=node.where)
            self.trace.nodes.append(made)
            self.made[node] = made
        return self.made[node]


def rule(*operators):
    """Register a lowering rule of operators (or of all of a kind): ``f(node, *args)``, with complex arguments as pairs,
    returns a pair, a real value, or NotImplemented."""
    def enter(function):
        SPLIT.update(dict.fromkeys(operators, function))
        return function
    return enter


def pair_of(value):
    """Any argument as a pair; the parts of a Python number are Python numbers."""
    if isinstance(value, tuple):
        return value
    if isinstance(value, (bool, int, float, complex)):
        return complex(value).real, complex(value).imag
    return value, P.full(shape=tuple(value.shape), value=0, dtype=value.dtype)


# --- kinds: operators that move elements move both parts equally ------------------------------------------------------
def both(node, args, params=lambda k: {}):
    """The operator on real parts, and on imaginary parts."""
    return tuple(node.op(*(part(a, k) for a in args), **{**node.params, **params(k)}) for k in (0, 1))


def part(value, k):
    """Part k of an argument; a real one (an index, a condition) unchanged."""
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return tuple(part(v, k) for v in value)
    return value[k] if isinstance(value, tuple) else value


@rule("view")
def view(node, x):
    if node.op in (P.strided, P.part):  # said in terms of memory
        return NotImplemented
    return both(node, (x,), (lambda k: {"value": pair_of(node.params["value"])[k]}) if node.op is P.pad
                else lambda k: {})


@rule("join")
def join(node, tensors):
    return both(node, (tensors,))


@rule("gather", "scatter", "scan", "reduce")
def moved(node, *args):
    linear = node.op in (P.sum, P.cumsum) or node.op.kind.name == "gather" or node.params.get("combine") in (
        "add", "set")
    return both(node, args) if linear else NotImplemented


@rule(P.full)
def full(node):
    return tuple(P.full(shape=node.shape, value=v, dtype=node.dtype.to_real()) for v in pair_of(node.params["value"]))


@rule("contract")
def contract(node, x, y):
    """Linear in both arguments: four real contractions."""
    (a, b), (c, d) = pair_of(x), pair_of(y)

    def product(u, v):
        return node.op(u, v, **node.params)

    return P.sub(product(a, c), product(b, d)), P.add(product(a, d), product(b, c))


# --- arithmetic -------------------------------------------------------------------------------------------------------
@rule(P.add, P.sub)
def add(node, x, y):
    return both(node, (pair_of(x), pair_of(y)))


@rule(P.neg, P.copy)
def alike(node, x):
    return both(node, (x,))


@rule(P.after)
def after(node, x, mark):
    return both(node, (x, mark))


@rule(P.mul)
def mul(node, x, y):
    return times(pair_of(x), pair_of(y))


def times(x, y):
    (a, b), (c, d) = x, y
    return P.sub(P.mul(a, c), P.mul(b, d)), P.add(P.mul(a, d), P.mul(b, c))


@rule(P.div)
def div(node, x, y):
    return over(pair_of(x), pair_of(y))


def over(x, y):
    """By the larger part of the divisor first (Smith 1962), so that squares do not overflow."""
    (a, b), (c, d) = x, y
    if not any(hasattr(v, "_rush_meta") for v in y):
        return over_number(x, complex(c, d))
    first = P.ge(P.abs(c), P.abs(d))
    large, small = P.where(first, c, d), P.where(first, d, c)
    ratio = P.where(P.eq(large, 0), 0.0, P.div(small, large))
    below = P.add(large, P.mul(small, ratio))
    re = P.where(first, P.add(a, P.mul(b, ratio)), P.add(P.mul(a, ratio), b))
    im = P.where(first, P.sub(b, P.mul(a, ratio)), P.sub(P.mul(b, ratio), a))
    return P.div(re, below), P.div(im, below)


def over_number(x, y):
    if not y.imag:
        return tuple(P.div(v, y.real) for v in x)
    like = x[0].dtype
    return over(x, tuple(P.full(shape=(), value=v, dtype=like) for v in (y.real, y.imag)))


@rule(P.reciprocal)
def reciprocal(node, x):
    return over((1.0, 0.0), x)


@rule(P.conj)
def conj(node, x):
    return x[0], P.neg(x[1])


@rule(P.real)
def real(node, x):
    return x[0]


@rule(P.imag)
def imag(node, x):
    return x[1]


@rule(P.view_as_real)
def view_as_real(node, x):
    return P.cat(tuple(P.reshape(v, shape=(*v.shape, 1)) for v in x), dim=len(x[0].shape))


@rule(P.view_as_complex)
def view_as_complex(node, x):
    rank, shape = len(x.shape), tuple(x.shape[:-1])
    return tuple(P.reshape(P.slice(x, starts=(0,) * (rank - 1) + (k,), steps=(1,) * rank, shape=(*shape, 1)),
                           shape=shape) for k in (0, 1))


@rule(P.complex)
def complex_(node, a, b):
    return tuple(v if tuple(v.shape) == tuple(node.shape) else P.expand(v, shape=tuple(node.shape)) for v in (a, b))


@rule(P.convert)
def convert(node, x):
    dtype = node.params["dtype"]
    if dtype.is_complex:
        return tuple(P.convert(v, dtype=dtype.to_real()) for v in pair_of(x))
    if dtype is bool_:
        return P.logical_or(P.ne(x[0], 0), P.ne(x[1], 0))
    return P.convert(x[0], dtype=dtype)


@rule(P.where)
def where(node, c, x, y):
    if isinstance(c, tuple):
        return NotImplemented
    return both(node, (c, pair_of(x), pair_of(y)))


@rule(P.eq)
def eq(node, x, y):
    (a, b), (c, d) = pair_of(x), pair_of(y)
    return P.logical_and(P.eq(a, c), P.eq(b, d))


@rule(P.ne)
def ne(node, x, y):
    (a, b), (c, d) = pair_of(x), pair_of(y)
    return P.logical_or(P.ne(a, c), P.ne(b, d))


# --- size and direction -----------------------------------------------------------------------------------------------
@rule(P.abs)
def abs_(node, x):
    return size_of(x)


def size_of(x):
    """The absolute value, as high * sqrt(1 + (low / high)^2) of the larger and the smaller part, so that squares do not
    overflow."""
    a, b = (P.abs(v) for v in x)
    high, low = P.maximum(a, b), P.minimum(a, b)
    ratio = P.where(P.eq(high, 0), 0.0, P.div(low, high))
    found = P.mul(high, P.sqrt(P.add(P.mul(ratio, ratio), 1.0)))
    return P.where(P.logical_or(P.eq(a, math.inf), P.eq(b, math.inf)), math.inf, found)


@rule(P.angle)
def angle(node, x):
    return P.atan2(x[1], x[0])


@rule(P.sgn)
def sgn(node, x):
    size = size_of(x)
    return tuple(P.where(P.eq(size, 0), 0.0, P.div(v, size)) for v in x)


# --- transcendental functions (Kahan 1987) ----------------------------------------------------------------------------
@rule(P.exp)
def exp(node, x):
    return exponential(x)


def exponential(x):
    size, (_, b) = P.exp(x[0]), x
    return tuple(P.where(P.eq(size, 0), 0.0, v)
                 for v in (P.mul(size, P.cos(b)), P.where(P.eq(b, 0), b, P.mul(size, P.sin(b)))))


@rule(P.log)
def log(node, x):
    return logarithm(x)


def logarithm(x, scale=1.0):
    """Near the unit circle from how far the square of the size is from 1."""
    a, b = (P.abs(v) for v in x)
    high, low = P.maximum(a, b), P.minimum(a, b)
    size = size_of(x)
    near = P.logical_and(P.gt(size, 0.5), P.lt(size, 2.0))
    beyond = P.add(P.mul(P.sub(high, 1.0), P.add(high, 1.0)), P.mul(low, low))
    found = P.where(near, P.mul(0.5, P.log1p(beyond)), P.log(size)), P.atan2(x[1], x[0])
    return found if scale == 1.0 else tuple(P.mul(v, scale) for v in found)


@rule(P.log2)
def log2(node, x):
    return logarithm(x, 1 / math.log(2))


@rule(P.log10)
def log10(node, x):
    return logarithm(x, 1 / math.log(10))


@rule(P.sqrt)
def sqrt(node, x):
    return square_root(x)


def square_root(x):
    (a, b), size = x, size_of(x)
    half = P.sqrt(P.mul(0.5, P.add(P.abs(a), size)))
    other = P.where(P.eq(half, 0), 0.0, P.div(P.mul(0.5, P.abs(b)), half))
    right = P.ge(a, 0)
    found = P.where(right, half, other), P.copysign(P.where(right, other, half), b)
    return tuple(P.where(P.eq(P.abs(b), math.inf), edge, v) for v, edge in zip(found, (math.inf, b)))


@rule(P.rsqrt)
def rsqrt(node, x):
    return over((1.0, 0.0), square_root(x))


MOST_FACTORS = 8  # of a power that is multiplied out


@rule(P.pow)
def pow_(node, x, y):
    if isinstance(y, (int, float)) and y == int(y) and 1 <= abs(y) <= MOST_FACTORS:
        return integer_power(x, int(y))
    x, y = pair_of(x), pair_of(y)
    if not any(hasattr(v, "_rush_meta") for v in x):
        x = tuple(P.full(shape=(), value=v, dtype=node.dtype.to_real()) for v in x)
    nothing = P.logical_and(P.eq(x[0], 0), P.eq(x[1], 0))
    found = exponential(times(logarithm(x), y))
    edge = P.convert(P.eq(y[0], 0), dtype=y[0].dtype) if hasattr(y[0], "_rush_meta") else float(y[0] == 0)
    return P.where(nothing, edge, found[0]), P.where(nothing, 0.0, found[1])


def integer_power(x, n):
    if n < 0:
        return over((1.0, 0.0), integer_power(x, -n))
    if n == 1:
        return x
    half = integer_power(x, n // 2)
    square = times(half, half)
    return times(square, x) if n % 2 else square


@rule(P.sin)
def sin(node, x):
    a, b = x
    return P.mul(P.sin(a), P.cosh(b)), P.mul(P.cos(a), P.sinh(b))


@rule(P.cos)
def cos(node, x):
    a, b = x
    return P.mul(P.cos(a), P.cosh(b)), P.neg(P.mul(P.sin(a), P.sinh(b)))


@rule(P.sinh)
def sinh(node, x):
    a, b = x
    return P.mul(P.sinh(a), P.cos(b)), P.mul(P.cosh(a), P.sin(b))


@rule(P.cosh)
def cosh(node, x):
    a, b = x
    return P.mul(P.cosh(a), P.cos(b)), P.mul(P.sinh(a), P.sin(b))


@rule(P.tanh)
def tanh(node, x):
    return hyperbolic_tangent(x)


def hyperbolic_tangent(x):
    a, b = x
    u, t, wide = P.tanh(a), P.tan(b), P.cosh(a)
    square = P.mul(t, t)
    below = P.add(P.mul(P.mul(u, u), square), 1.0)
    re, im = P.div(P.mul(u, P.add(square, 1.0)), below), P.div(P.div(P.div(t, wide), wide), below)
    far = P.eq(P.abs(a), math.inf)  # the limit, whatever b is
    re = P.where(far, u, P.where(P.eq(a, 0.0), a, re))
    return re, P.where(P.eq(b, 0.0), b, P.where(P.logical_and(far, P.ne(im, im)), 0.0, im))


@rule(P.tan)
def tan(node, x):
    """tan z = -i tanh(i z)."""
    re, im = hyperbolic_tangent((P.neg(x[1]), x[0]))
    return im, P.neg(re)


@rule(P.sigmoid)
def sigmoid(node, x):
    re, im = exponential(tuple(P.neg(v) for v in x))
    return over((1.0, 0.0), (P.add(re, 1.0), im))

"""Tensor-level rewriting of programs of primitives: common subexpressions, and rewrite rules that are each specified by
two functions.

A rule looks at one node, whose arguments are simplified already, and returns an equal value: a Node, a call ``(op,
args, params)``, or None; ``make(op, args, params)`` makes nodes that the call needs. ``before`` and ``after`` compute
the same; tests run both.
"""
from __future__ import annotations

import math

from ..core.dtypes import bool_, float64, int64
from ..core.expr import Expr
from ..core.kinds import P
from ..core.meta import is_one, product, same
from ..core.narrow import as_held
from ..graph.graph import Graph, Node, Store, map_nodes
from ..graph.views import is_part
from ..ops import prims  # noqa: F401 - declares the primitives named below
from ..ops.prims.contractions import places

RULES: dict = {}  # operator: its rules
SHOWN: list = []  # (rule, before, after)
MOST_STEPS = 8  # of rules after one another at one node


def rule(*operators, before, after):
    """Enters a rule for some operators."""
    def enter(function):
        for operator in operators:
            RULES.setdefault(operator, []).append(function)
        SHOWN.append((function, before, after))
        return function
    return enter


def simplify(graph: Graph, fixed: int | None = None) -> Graph:
    """An equal program with fewer nodes.  The first ``fixed`` outputs (default: all) keep their strides; an output that
    equals an input is still a value of its own."""
    made, table = {n: n for n in graph.inputs}, {}
    for node in graph.nodes:
        args = map_nodes(node.args, made.__getitem__)
        made[node] = settle(node, node.op, args, node.params, table)

    def own(node: Node, fixed: bool) -> Node:
        found = made[node]
        if (found.meta is node.meta or not fixed) and (found.op is not None or node.op is None):
            return found
        return Node(node.name, node.op, map_nodes(node.args, made.__getitem__), node.params, node.meta,
                    where=node.where)

    outputs = [Store(made[o.node], o.into) if isinstance(o, Store) else own(o, fixed is None or k < fixed)
               for k, o in enumerate(graph.outputs)]
    known = {*graph.inputs, *table.values()}
    extra = [n for n in outputs if isinstance(n, Node) and n not in known]
    return with_less(Graph(graph.inputs, [*table.values(), *extra], outputs).prune())


def with_less(graph: Graph) -> Graph:
    """If only one of several results is read and a cheaper operator computes it, use that operator: eigenvalues without
    vectors."""
    parts: dict = {}
    for node in graph.nodes:
        if is_part(node) and "alone" in node.args[0].op.traits:
            parts.setdefault(node.args[0], []).append(node)
    for whole, found in parts.items():
        index, less = whole.op.traits["alone"]
        if len(found) == 1 and found[0].params["index"] == index:
            found[0].become(less, whole.args, whole.params)
    return graph.prune() if parts else graph


def settle(node: Node, op, args, params, table: dict) -> Node:
    """The node that a call becomes when no rule applies any more."""
    def make(op, args, params) -> Node:
        part = Node(f"{node.name}_part", None, meta=op.kind.meta(op, *map_metas(args), **params), where=node.where)
        return settle(part, op, args, params, table)

    for _ in range(MOST_STEPS):
        found = next((r for r in (f(node, args, params, make) for f in RULES.get(op, ())) if r is not None), None)
        if found is None:
            break
        if isinstance(found, Node):
            return found
        op, args, params = found
        node = Node(node.name, op, args, params, op.kind.meta(op, *map_metas(args), **params), where=node.where)
    key = op, form(args), tuple((k, form(v)) for k, v in params.items())
    known = table.get(key)
    if known is None:
        meta = node.meta if op is node.op else op.kind.meta(op, *map_metas(args), **params)
        known = table[key] = Node(node.name, op, args, params, meta, where=node.where)
    return known


def form(value):
    """Equal for equal arguments; 1, 1.0 and True differ."""
    if isinstance(value, tuple):
        return tuple(map(form, value))
    return value if isinstance(value, Node) else (type(value), repr(value) if type(value) is float else value)


def map_metas(value):
    if isinstance(value, Node):
        return value.meta
    return tuple(map(map_metas, value)) if isinstance(value, tuple) else value


def is_number(value, *wanted) -> bool:
    """True if an argument is one of these Python numbers, or a tensor filled with it."""
    if isinstance(value, Node):
        return value.op is P.full and is_number(value.params["value"], *wanted)
    return isinstance(value, (int, float)) and value in wanted


def is_negative_zero(value) -> bool:
    """True if an argument is -0.0, or a tensor filled with it."""
    if isinstance(value, Node):
        return value.op is P.full and is_negative_zero(value.params["value"])
    return type(value) is float and value == 0 and math.copysign(1, value) < 0


def same_type(a: Node, b: Node) -> bool:
    return isinstance(a, Node) and of_one_shape(a, b) and a.dtype is b.dtype


# --- arithmetic -------------------------------------------------------------------------------------------------------
@rule(P.mul, before=lambda x: P.mul(x, 1.0), after=lambda x: x)
@rule(P.div, before=lambda x: P.div(x, 1.0), after=lambda x: x)
@rule(P.add, before=lambda x: P.add(x, -0.0), after=lambda x: x)
@rule(P.sub, before=lambda x: P.sub(x, 0.0), after=lambda x: x)
def neutral(node, args, params, make):
    if does_nothing(node, args[1]) and same_type(args[0], node):
        return args[0]
    return args[1] if node.op in (P.mul, P.add) and does_nothing(node, args[0]) and same_type(args[1], node) else None


def does_nothing(node: Node, value) -> bool:
    """True if an operand leaves the other one unchanged: -0.0 + 0.0 is 0.0, and so is -0.0 - -0.0; in a complex
    multiplication the parts meet zeros."""
    if node.op in (P.mul, P.div):
        return is_number(value, 1) and not node.dtype.is_complex
    return is_number(value, 0) and (not node.dtype.is_inexact or is_negative_zero(value) == (node.op is P.add))


@rule(P.where, before=lambda x: P.where(P.full(shape=(), value=False, dtype=bool_), x, P.neg(x)),
      after=lambda x: P.neg(x))
def never_chosen(node, args, params, make):
    if not is_number(args[0], 0):
        return None
    chosen, shape = args[2], tuple(node.shape)
    if not isinstance(chosen, Node):
        return P.full, (), {"shape": shape, "value": chosen, "dtype": node.dtype}
    return chosen if tuple(chosen.shape) == shape else (P.expand, (chosen,), {"shape": shape})


@rule(P.neg, before=lambda x: P.neg(P.neg(x)), after=lambda x: x)
def twice_negated(node, args, params, make):
    return args[0].args[0] if args[0].op is P.neg else None


EXACT = {("float16", "float32"), ("float16", "float64"), ("bfloat16", "float32"), ("bfloat16", "float64"),
         ("float32", "float64"), ("int32", "int64")}


@rule(P.convert, before=lambda x: P.convert(P.convert(x, dtype=x.dtype), dtype=x.dtype), after=lambda x: x)
def converted_again(node, args, params, make):
    x, dtype = args[0], params["dtype"]
    if x.dtype is dtype and not x.weak:
        return x
    if x.op is P.convert and (x.args[0].dtype.name, x.dtype.name) in EXACT:
        return P.convert, x.args, params
    return None


# --- images with channels last ----------------------------------------------------------------------------------------
def at_end(rank: int) -> tuple:
    """The order of dimensions with that of channels last."""
    return (0, *range(2, rank), 1)


def in_front(rank: int) -> tuple:
    """Its inverse."""
    return (0, rank - 1, *range(1, rank - 1))


def image(x):
    """A batch of four channels by two rows of two pixels."""
    return P.reshape(P.slice(x, starts=(0, 0), steps=(1, 1), shape=(4, 4)), shape=(1, 4, 2, 2))


def kernels(x):
    """Weights of single pixels, of four channels by four."""
    return P.reshape(P.slice(x, starts=(1, 1), steps=(1, 1), shape=(4, 4)), shape=(4, 4, 1, 1))


ALONE = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}


def over_pixels(operand: Node, weight: Node, groups: int) -> bool:
    """True if a floating-point convolution is computed with channels last."""
    sizes = weight.shape[0], weight.shape[1]
    return all(type(n) is int
               for n in sizes) and operand.meta.device.provider.target().pays_with_channels_last(operand.dtype.name,
                                                                                                 sizes[1], sizes[0]
                                                                                                 // groups, groups)


@rule(P.copy, before=lambda x: P.copy(P.permute(P.conv(image(x), kernels(x), **ALONE), dims=at_end(4))),
      after=lambda x: P.conv_last(P.permute(image(x), dims=at_end(4)), kernels(x), **ALONE))
def convolved_with_channels_last(node, args, params, make):
    """A convolution whose result is written with channels last reads its image so."""
    view = args[0]
    if view.op is not P.permute or view.params["dims"] != at_end(len(view.shape)):
        return None
    root, bias = view.args[0], None
    if root.op is P.add and isinstance(root.args[0], Node) and isinstance(root.args[1],
                                                                          Node) and len(root.args[1]
                                                                                        .shape) == len(root.shape):
        root, bias = root.args
    if root.op is not P.conv or not over_pixels(*root.args, root.params["groups"]):
        return None
    order, (x, weight) = {"dims": at_end(len(view.shape))}, root.args
    found = P.conv_last, (make(P.permute, (x,), order), weight), root.params
    return found if bias is None else (P.add, (make(*found), make(P.permute, (bias,), order)), {})


@rule(P.conv_input, before=lambda x: P.conv_input(P.permute(P.permute(image(x), dims=at_end(4)), dims=in_front(4)),
                                                  kernels(x), shape=(1, 4, 2, 2), **ALONE),
      after=lambda x: P.conv_input(image(x), kernels(x), shape=(1, 4, 2, 2), **ALONE))
def gradient_with_channels_last(node, args, params, make):
    """The gradient of an image is computed with channels last if that of the result is."""
    g, weight = args
    if not lasting(g) or not over_pixels(g, weight, params["groups"]) or not fits(node, g, weight, params):
        return None
    rank = len(g.shape)
    shape = tuple(params["shape"][d] for d in at_end(rank))
    found = make(P.conv_last_input, (g.args[0], weight), {**params, "shape": shape})
    return P.permute, (found,), {"dims": in_front(rank)}


def fits(node: Node, g: Node, weight: Node, p) -> bool:
    """True if the gradient has one element for each window, for constant sizes."""
    sizes = [*node.shape, *g.shape, *weight.shape]
    return all(type(n) is int for n in sizes) and places(
        node.shape[2:], weight.shape[2:], p["stride"], p["padding"], p["dilation"]) == tuple(g.shape[2:])


LASTING = 64  # operations that are looked at, behind a convolution


def lasting(x) -> bool:
    """True if a value is a view of one that is computed with channels last."""
    return isinstance(x, Node) and x.op is P.permute and len(x.shape) in (4, 5) and x.params["dims"] == in_front(
        len(x.shape)) and from_pixels(x.args[0], LASTING)


def from_pixels(x: Node, steps: int) -> bool:
    """True if a value is computed elementwise from results of channels-last convolutions."""
    seen, waiting = {x}, [x]
    while waiting and len(seen) < steps:
        x = waiting.pop()
        if x.op in (P.conv_last, P.conv_last_input) or is_turned(x):
            return True
        if x.op is not None and x.op.kind.name == "elementwise":
            waiting += [a for a in x.used if a not in seen and a.op is not None and of_one_shape(a, x)]
            seen.update(waiting)
    return False


def of_one_shape(a: Node, b: Node) -> bool:
    """True if two values certainly have the same shape."""
    return len(a.shape) == len(b.shape) and all(map(same, a.shape, b.shape))


def is_turned(x: Node) -> bool:
    """True if a value is a copy with channels last."""
    return x.op is P.copy and len(x.shape) in (4, 5) and x.args[0].op is P.permute and x.args[0].params[
        "dims"] == at_end(len(x.shape))


def with_channels_last(node, args, params, make):
    """Elementwise operations on a channels-first view run with channels last, and their result is viewed."""
    rank = len(node.shape)
    if rank not in (4, 5) or not any(lasting(a) for a in args if isinstance(a, Node) and of_one_shape(a, node)):
        return None

    def turned(a):
        if not isinstance(a, Node) or not a.shape:
            return a
        if len(a.shape) < rank:
            a = make(P.reshape, (a,), {"shape": (1,) * (rank - len(a.shape)) + tuple(a.shape)})
        return make(P.permute, (a,), {"dims": at_end(rank)})

    return P.permute, (make(node.op, tuple(map(turned, args)), params),), {"dims": in_front(rank)}


@rule(P.sum, before=lambda x: P.sum(P.permute(P.conv_last(P.permute(image(x), dims=at_end(4)), kernels(x), **ALONE),
                                              dims=in_front(4)), dims=(0, 2)),
      after=lambda x: P.permute(P.sum(P.conv_last(P.permute(image(x), dims=at_end(4)), kernels(x), **ALONE),
                                      dims=(0, 1)), dims=in_front(4)))
def summed_with_channels_last(node, args, params, make):
    """So are sums."""
    x, order = args[0], in_front(len(args[0].shape))
    if not lasting(x):
        return None
    return P.permute, (make(P.sum, (x.args[0],), {**params, "dims": tuple(sorted(order[d] for d in params["dims"]))}),
                       ), {"dims": order}


for _operator in vars(P).values():
    if _operator.kind.name == "elementwise" and _operator is not P.copy:
        RULES.setdefault(_operator, []).append(with_channels_last)
SHOWN.append((with_channels_last,
              lambda x: P.neg(P.permute(P.conv_last(P.permute(image(x), dims=at_end(4)), kernels(x), **ALONE),
                                        dims=in_front(4))),
              lambda x: P.permute(P.neg(P.conv_last(P.permute(image(x), dims=at_end(4)), kernels(x), **ALONE)),
                                  dims=in_front(4))))


# --- views ------------------------------------------------------------------------------------------------------------
@rule(P.permute, before=lambda x: P.permute(P.permute(x, dims=(1, 0)), dims=(1, 0)), after=lambda x: x)
def permuted_again(node, args, params, make):
    x, dims = args[0], params["dims"]
    if dims == tuple(range(len(dims))):
        return x
    if x.op is P.permute:
        return P.permute, x.args, {"dims": tuple(x.params["dims"][d] for d in dims)}
    return None


@rule(P.permute, before=lambda x: P.permute(P.matmul(x, x[:, :2]), dims=(1, 0)),
      after=lambda x: P.matmul(x[:, :2].mT, x.mT))
def transposed_product(node, args, params, make):
    """(A B)' = B' A': a matmul is equally fast for all operand strides, and its result needs no copy."""
    product_, rank = args[0], len(params["dims"])
    if product_.op is not P.matmul or params["dims"] != swapped(rank):
        return None
    left, right = (make(P.permute, (x,), {"dims": swapped(rank)}) for x in product_.args)
    return P.matmul, (right, left), {}


@rule(P.permute, before=lambda x: P.permute(P.convert(P.matmul(x, x[:, :2]), dtype=float64), dims=(1, 0)),
      after=lambda x: P.convert(P.matmul(x[:, :2].mT, x.mT), dtype=float64))
def transposed_conversion(node, args, params, make):
    """Transpose a matmul before its conversion: autocast converts the gradients of weights."""
    x = args[0]
    if x.op is not P.convert or x.args[0].op is not P.matmul or params["dims"] != swapped(len(params["dims"])):
        return None
    return P.convert, (make(P.permute, x.args, params),), x.params


def swapped(rank: int) -> tuple:
    """The order of dimensions with the last two exchanged."""
    return (*range(rank - 2), rank - 1, rank - 2)


@rule(P.reshape, before=lambda x: P.reshape(P.reshape(x, shape=(product(x.shape),)), shape=tuple(x.shape)),
      after=lambda x: x)
def reshaped_again(node, args, params, make):
    x = args[0]
    if tuple(params["shape"]) == tuple(x.shape):
        return x
    return (P.reshape, x.args, params) if x.op is P.reshape else None


@rule(P.expand, before=lambda x: P.expand(x, shape=tuple(x.shape)), after=lambda x: x)
def expanded_to_itself(node, args, params, make):
    return args[0] if tuple(params["shape"]) == tuple(args[0].shape) else None


@rule(P.slice, before=lambda x: P.slice(x, starts=(0, 0), steps=(1, 1), shape=tuple(x.shape)), after=lambda x: x)
def whole_slice(node, args, params, make):
    # where that is sure: a slice is right, too, for the one length at which it is all
    return args[0] if all(map(same, params["shape"], args[0].shape)) and not any(params["starts"]) else None


@rule(P.pad, before=lambda x: P.pad(x, low=(0, 0), high=(0, 0), inner=(0, 0), value=0), after=lambda x: x)
def nothing_padded(node, args, params, make):
    return args[0] if not any((*params["low"], *params["high"], *params["inner"])) else None


@rule(P.reshape, P.permute, P.expand, P.convert,
      before=lambda x: P.add(x, P.reshape(P.full(shape=(1, 1), value=2, dtype=x.dtype), shape=())),
      after=lambda x: P.add(x, P.full(shape=(), value=2, dtype=x.dtype)))
def full_of_one_number(node, args, params, make):
    x = args[0]
    if x.op is not P.full or node.op is P.convert and not (x.dtype.category <= node.dtype.category
                                                           and not x.dtype.is_complex):
        return None
    value = x.params["value"]
    if x.dtype is not node.dtype and not isinstance(value, Expr):
        value = as_held(value, x.dtype)
    return P.full, (), {"shape": tuple(node.shape), "value": value, "dtype": node.dtype}


@rule(P.sum, before=lambda x: P.sum(P.reshape(x, shape=(1, *x.shape)), dims=(0,)),
      after=lambda x: P.add(P.reshape(x, shape=(1, *x.shape)), 0.0))
@rule(P.prod, P.amax, P.amin, before=lambda x: P.amax(P.reshape(x, shape=(1, *x.shape)), dims=(0,)),
      after=lambda x: P.reshape(x, shape=(1, *x.shape)))
def reduced_over_nothing(node, args, params, make):
    x = args[0]
    if not all(is_one(x.shape[d]) for d in params["dims"]) or x.dtype is not node.dtype:
        return None
    return (P.add, (x, 0.0), {}) if node.op is P.sum and node.dtype.is_inexact else x  # a sum of -0.0 is 0.0


# --- gradients of parts -----------------------------------------------------------------------------------------------
def padded_along(x):
    """(dimension, low, high) of a value that is zero beyond a region along one dimension."""
    if not isinstance(x, Node) or x.op is not P.pad or any(x.params["inner"]) or x.params["value"] != 0:
        return None
    low, high = x.params["low"], x.params["high"]
    if any(v < 0 for v in (*low, *high)):
        return None
    along = [k for k, pair in enumerate(zip(low, high)) if any(pair)]
    return (along[0], low[along[0]], high[along[0]]) if len(along) == 1 else None


@rule(P.add, before=lambda x: P.add(P.pad(x, low=(0, 0), high=(3, 0), inner=(0, 0), value=0),
                                    P.pad(x[:3], low=(x.shape[0], 0), high=(0, 0), inner=(0, 0), value=0)),
      after=lambda x: P.cat((x, x[:3]), dim=0))
def side_by_side(node, args, params, make):
    """Two parts that are adjacent: their sum joins them."""
    first, second = map(padded_along, args)
    if first is None or second is None or first[0] != second[0]:
        return None
    dim = first[0]
    (_, low, _), (_, begin, high), left, right = first, second, *args
    if low > begin:
        (low, begin, high), left, right = (begin, low, first[2]), right, left
    if low + left.args[0].shape[dim] != begin:
        return None
    pieces = (*pieces_of(left.args[0], dim), *pieces_of(right.args[0], dim))
    if not low and not high:
        return P.cat, (pieces,), {"dim": dim}
    rank = len(node.shape)
    sides = {name: tuple(size if k == dim else 0 for k in range(rank)) for name, size in (("low", low), ("high", high))}
    return P.pad, (make(P.cat, (pieces,), {"dim": dim}),), {**sides, "inner": (0,) * rank, "value": 0}


def first_row(x, base):
    """``base`` with the first row of x added to its own."""
    return P.put(base, P.full(shape=(1,), value=0, dtype=int64),
                 P.slice(x, starts=(0, 0), steps=(1, 1), shape=(1, x.shape[1])), dim=0, combine="add")


@rule(P.add, before=lambda x: P.add(first_row(x, P.full(shape=tuple(x.shape), value=0, dtype=x.dtype)), x),
      after=lambda x: first_row(x, x))
def accumulated(node, args, params, make):
    """x + (zeros with gathered rows' gradients put in) -> the gradients put into x."""
    for found, other in (args, reversed(args)):
        if same_type(other, node) and same_type(found, node) and found.op is P.put and found.params[
                "combine"] == "add" and is_number(found.args[0], 0) and not node.dtype.is_half:
            return P.put, (other, *found.args[1:]), found.params
    return None


def pieces_of(x: Node, dim: int):
    return x.args[0] if x.op is P.cat and x.params["dim"] == dim else (x,)

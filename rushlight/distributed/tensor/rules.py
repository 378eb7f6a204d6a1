"""Sharding rules of primitives: for each kind, the placements of results that follow from those of the arguments.

A rule yields rows ``(placement of each argument, placement of each result)`` along one mesh dimension.  The row with
all replicated is always possible and not listed.  Rules exist for kinds, not for operators: operators follow from their
bodies.
"""
from __future__ import annotations

from .placement_types import Partial, Replicate, Shard

R, SUM = Replicate(), Partial("sum")

ADDED = ("sum", "avg")  # partial sums, which pass through linear operators


def name_of(op) -> str:
    return op.name.rpartition(".")[2]


def terms(partial) -> list:
    """Terms of sums, in both ways."""
    return [Partial(kind) for kind in ADDED] if partial is SUM else [partial]


def elementwise(node, shapes):
    """Shard every dimension of the result, and of arguments that are not broadcast; linear ones take partial sums."""
    out = tuple(node.meta.shape)
    for d, size in enumerate(out):
        own = [d - len(out) + len(s) for s in shapes]
        yield tuple(Shard(k) if k >= 0 and s[k] == size else R for k, s in zip(own, shapes)), (Shard(d),)
    name, count = name_of(node.op), len(shapes)
    numbers = sum(not hasattr(a, "meta") for a in node.args)
    for term in terms(SUM):
        if name in ("add", "sub") and count == 2:
            yield (term, term), (term,)
        elif name in ("neg", "copy", "conj", "real", "imag") and count == 1:
            yield (term,), (term,)
        elif name == "convert" and node.used[0].meta.dtype.is_inexact and node.meta.dtype.itemsize >= node.used[
                0].meta.dtype.itemsize and node.meta.dtype.is_inexact:
            yield (term,), (term,)
        elif name in ("mul", "div") and count == 2:
            yield (term, R), (term,)
            if name == "mul":
                yield (R, term), (term,)
        elif name in ("mul", "div") and numbers == 1 and hasattr(node.args[0], "meta"):
            yield (term,), (term,)
        elif name == "where" and count == 2 and node.args[1] == 0 and hasattr(node.args[2], "meta"):
            yield (R, term), (term,)
        elif name == "where" and count == 3:
            yield (R, term, term), (term,)
        elif name == "complex" and count == 2:
            yield (term, term), (term,)


def linear(row_of):
    """Return a rule that takes partial sums as well: of the first argument, in which the operator is linear."""
    def rule(node, shapes):
        yield from row_of(node, shapes)
        for kind in ADDED:
            yield (Partial(kind), *(R,) * (len(shapes) - 1)), (Partial(kind),)
    return rule


def view(node, shapes):
    """Shard dimensions that a view keeps."""
    name = name_of(node.op)
    source, target, params = tuple(shapes[0]), tuple(node.meta.shape), node.params
    for d, e in VIEWS[name](source, target, params):
        yield (Shard(d),), (Shard(e),)
    if name != "pad" or not params["value"]:
        for kind in ADDED:
            yield (Partial(kind),), (Partial(kind),)


def reshaped(source, target, params):
    """The first dimensions of groups that hold the same elements; dimensions of size 1 are groups of their own."""
    i = j = 0
    while i < len(source) and j < len(target):
        if (source[i] == 1) != (target[j] == 1):  # inserted or removed
            i, j = i + (source[i] == 1), j + (target[j] == 1)
            continue
        d, e, a, b = i, j, source[i], target[j]
        while a != b:
            if a < b:
                i += 1
                if i == len(source):
                    return
                a *= source[i]
            else:
                j += 1
                if j == len(target):
                    return
                b *= target[j]
        yield d, e
        i, j = i + 1, j + 1

VIEWS = {
    "reshape": reshaped,
    "permute": lambda s, t, p: [(d, e) for e, d in enumerate(p["dims"])],
    "expand": lambda s, t, p: [(d, d + len(t) - len(s)) for d in range(len(s)) if s[d] == t[d + len(t) - len(s)]],
    "slice": lambda s, t, p: [(d, d) for d in range(len(s)) if s[d] == t[d] and p["starts"][d] == 0 and p["steps"][d]
                              == 1],
    "flip": lambda s, t, p: [(d, d) for d in range(len(s)) if d not in p["dims"]],
    "pad": lambda s, t, p: [(d, d) for d in range(len(s)) if p["low"][d] == p["high"][d] == p["inner"][d] == 0],
    "unfold": lambda s, t, p: [(d, d) for d in range(len(s)) if d != p["dim"]],
    "diagonal": lambda s, t, p: [(d, d) for d in range(len(s) - 2)],
    "half": lambda s, t, p: [(d, d) for d in range(len(s))],
    "part": lambda s, t, p: [], "strided": lambda s, t, p: [],
}


def recast(node, shapes):
    """Shard leading dimensions; a dimension that holds the real and imaginary part of complex numbers stays full."""
    source, target = tuple(shapes[0]), tuple(node.meta.shape)
    for d in range(min(len(source), len(target))):
        if source[d] == target[d] and (name_of(node.op) != "bytes_as" or d < len(source) - 1):
            yield (Shard(d),), (Shard(d),)


def join(node, shapes):
    for d in range(len(shapes[0])):
        if d != node.params["dim"]:
            yield (Shard(d),) * len(shapes), (Shard(d),)
    for kind in ADDED:
        yield (Partial(kind),) * len(shapes), (Partial(kind),)

COMBINED = {"sum": "sum", "prod": "product", "amax": "max", "amin": "min", "any": "max", "all": "min"}


def reduce(node, shapes):
    """Shard dimensions that remain; a sharded reduced dimension gives a partial result."""
    dims, name = node.params["dims"], name_of(node.op)
    for d in range(len(shapes[0])):
        if d not in dims:
            yield (Shard(d),), (Shard(d),)
        elif name in COMBINED:
            yield (Shard(d),), (Partial(COMBINED[name]),)
    if name == "sum":
        for kind in ADDED:
            yield (Partial(kind),), (Partial(kind),)
    elif name in ("amax", "amin"):
        yield (Partial(COMBINED[name]),), (Partial(COMBINED[name]),)


def gather(node, shapes):
    """Shard dimensions other than ``dim``; an index; and ``dim`` of the source: each process gives a partial sum of the
    elements that it has."""
    x, index = map(tuple, shapes)
    dim = node.params["dim"]
    if name_of(node.op) == "take":
        for d in range(len(x)):
            if d != dim:
                yield (Shard(d), R), (Shard(d if d < dim else d + len(index) - 1),)
        for d in range(len(index)):
            yield (R, Shard(d)), (Shard(dim + d),)
    else:
        for d in range(len(index)):
            if d != dim and x[d] == index[d]:
                yield (Shard(d), Shard(d)), (Shard(d),)
        if index:
            yield (R, Shard(dim)), (Shard(dim),)
    if x and node.meta.dtype.category:
        yield (Shard(dim), R), (SUM,)
    for kind in ADDED:
        yield (Partial(kind), R), (Partial(kind),)


def scatter(node, shapes):
    """Shard dimensions other than ``dim``; an index, for partial sums; and ``dim`` of the target: each process writes
    the elements that it has."""
    x, index, source = map(tuple, shapes)
    dim, combine = node.params["dim"], node.params["combine"]
    put = name_of(node.op) == "put"
    for d in range(len(x)):
        if d == dim:
            continue
        if put:
            yield (Shard(d), R, Shard(d if d < dim else d + len(index) - 1)), (Shard(d),)
        elif d < len(index) and x[d] == index[d] == source[d]:
            yield (Shard(d), Shard(d), Shard(d)), (Shard(d),)
    if combine == "add":
        if put:
            for d in range(len(index)):
                yield (SUM, Shard(d), Shard(dim + d)), (SUM,)
            if x:
                yield (Shard(dim), R, R), (Shard(dim),)
        elif index and index[dim] == source[dim]:
            yield (SUM, Shard(dim), Shard(dim)), (SUM,)
    if combine in ("add", "set"):
        for kind in ADDED:
            yield (Partial(kind), R, Partial(kind)), (Partial(kind),)


def contract(node, shapes):
    """Shard rows, columns, and the contracted dimension, which gives partial sums."""
    rows = CONTRACTIONS[name_of(node.op)](node, shapes)
    yield from rows
    if node.meta.dtype.is_inexact:
        for kind in ADDED:
            yield (Partial(kind), R), (Partial(kind),)
            yield (R, Partial(kind)), (Partial(kind),)


def matmul(node, shapes):
    rank = len(shapes[0])
    for d in range(rank - 2):
        yield (Shard(d), Shard(d)), (Shard(d),)
    yield (Shard(rank - 2), R), (Shard(rank - 2),)
    yield (R, Shard(rank - 1)), (Shard(rank - 1),)
    yield (Shard(rank - 1), Shard(rank - 2)), (SUM,)


def convolution(first, second, whole):
    """Return a rule with ``first`` for any number of groups, ``second`` and ``whole`` for one."""
    def rows(node, shapes):
        yield first
        if node.params["groups"] == 1:
            yield second
            yield whole
    return rows

S0, S1 = Shard(0), Shard(1)

CONTRACTIONS = {
    "matmul": matmul, "int_matmul": matmul,
    "conv": convolution(((S0, R), (S0,)), ((R, S0), (S1,)), ((S1, S1), (SUM,))),
    "conv_input": convolution(((S0, R), (S0,)), ((R, S1), (S1,)), ((S1, S0), (SUM,))),
    "conv_weight": convolution(((S0, S0), (SUM,)), ((S1, R), (S0,)), ((R, S1), (S1,))),
}


def create(node, shapes):
    return ()


def scan(node, shapes):
    yield from along(node, shapes)
    if name_of(node.op) == "cumsum":
        for kind in ADDED:
            yield (Partial(kind),), (Partial(kind),)


def along(node, shapes):
    """Shard the dimensions that an operator with ``dim`` or ``dims``, or one mapped over leading ones, leaves alone."""
    metas = node.meta if isinstance(node.meta, tuple) else (node.meta,)
    if not shapes or any(m is None for m in metas):
        return
    params, ranks = node.params, [len(s) for s in shapes]
    if "dim" in params or "dims" in params:
        taken = params["dims"] if "dims" in params else (params["dim"],)
        rank = max(ranks)
        if any(r != rank for r in ranks) or any(len(m.shape) != rank for m in metas):
            return
        free = [d for d in range(rank) if d not in {t % rank for t in taken if rank}]
    elif node.op.traits.get("leading"):
        free = range(min(ranks) - 2)
    else:
        return
    for d in free:
        size = shapes[0][d]
        if all(s[d] == size for s in shapes) and all(len(m.shape) > d and m.shape[d] == size for m in metas):
            yield (Shard(d),) * len(shapes), (Shard(d),) * len(metas)

RULES = {"elementwise": elementwise, "view": view, "recast": linear(recast), "bytes": recast, "join": join,
         "reduce": reduce, "gather": gather, "scatter": scatter,
         "create": create, "contract": contract, "scan": scan, "foreign": along}


def rows(node, shapes):
    """All rows of a primitive for arguments of these shapes."""
    return list(RULES[node.op.kind.name](node, shapes))

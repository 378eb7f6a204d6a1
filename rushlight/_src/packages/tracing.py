"""From an exported program to shape-generic programs: one, or several that together cover all sizes in its bounds."""
from __future__ import annotations

import itertools
from typing import NamedTuple

from ..compiler.outline import Outline
from ..compiler.pipeline import DERIVING, Compilation, outlined, run
from ..core.expr import Expr, eq, le, logical_not, size
from ..core.nodes import INFINITY, evaluate
from ..core.interpret import recording, unwound
from ..core.devices import meta
from ..core.meta import Meta
from ..core.native import Tensor
from ..core.random import default_generator
from ..core.tensor import empty
from ..eager.programs import own
from ..graph.graph import Store
from ..transforms.trace import without_values
from . import checks
from .conditions import express_conditions
from .numbers import Sizes, Sizing
from .variants import UNBOUNDED, Points, Region

MOST_PROGRAMS, MOST_TRIED = 12, 100


FAILURES = (RuntimeError, ValueError, IndexError)  # of operators that get other sizes than they take


class NotPackable(RuntimeError):
    """A program that cannot run without Python."""


class Varying(NamedTuple):
    """A dynamic size: ``symbol`` if it is at least 2, ``wide`` if it may be anything; ``source``: the (input,
    dimension, factor, offset) that determine it."""

    name: str
    symbol: Expr
    wide: Expr
    low: int
    high: int
    source: tuple
    example: int


class Domain:
    """The sizes of an exported program: ``varying``, ``shape(k, fixed)``, those of an input in symbols, and
    ``conditions``, Exprs that the program assumes of them."""

    def __init__(self, found, program):
        self.forms: dict = {}  # number of an input -> {dimension: (name, factor, offset)}
        self.varying: list = []
        bounds, sources, examples = {}, {}, {}
        for k, (value, varying) in enumerate(found):
            for dim, free in (varying or {}).items():
                if free is None:
                    continue
                if dim is None:
                    raise NotPackable("an argument is an int that varies, which shared objects do not take: pass a "
                                      "tensor of one element, or fix it in dynamic_shapes")
                root = getattr(free, "root", None)
                name = getattr(root, "__name__", None) or f"size{dim}_of_{k}"
                factor, offset = getattr(free, "factor", 1), getattr(free, "offset", 0)
                self.forms.setdefault(k, {})[dim] = name, factor, offset
                low, high = bounds.get(name, (1, INFINITY))
                bounds[name] = (max(low, getattr(root or free, "min", None) or 1, (1 - offset) // factor),
                                min(high, getattr(root or free, "max", None) or INFINITY))
                if name not in sources or (factor, offset) == (1, 0) and sources[name][2:] != (1, 0):
                    sources[name] = k, dim, factor, offset
                    examples[name] = (value.shape[dim] - offset) // factor
        for n, (name, (low, high)) in enumerate(bounds.items()):
            self.varying.append(Varying(name, size(f"s{n}", 2, high), size(f"d{n}", 0, high), low,
                                        int(min(high, UNBOUNDED)), sources[name], examples[name]))
        self.by_name = {v.name: v for v in self.varying}
        leaves = [k for k, spec in enumerate(program.graph_signature.input_specs) if spec.kind.name == "USER_INPUT"]
        self.conditions = express_conditions(program.conditions, lambda one: self.size(
            leaves[one.leaf], one.dim, found[leaves[one.leaf]][0]))

    def size(self, k: int, dim: int, value):
        """A size of an input, which may be any that there is."""
        if dim not in self.forms.get(k, {}):
            return value.shape[dim]
        name, factor, offset = self.forms[k][dim]
        return factor * self.by_name[name].wide + offset

    def shape(self, k: int, value, fixed: dict) -> tuple:
        """The shape of an input; ``fixed``: {symbol: number} of sizes that are no symbols."""
        found = list(value.shape)
        for dim, (name, factor, offset) in self.forms.get(k, {}).items():
            symbol = self.by_name[name].symbol
            found[dim] = factor * fixed.get(symbol, symbol) + offset
        return tuple(found)

    def bounds(self, fixed=()) -> dict:
        return {v.symbol: (max(2, v.low), max(2, v.high)) for v in self.varying if v.symbol not in fixed}

    def points(self) -> Points:
        """Sizes that are looked at, which meet the conditions, the example's first: {symbol: number} with both symbols
        of each."""
        own = Region({v.symbol: (v.low, v.high) for v in self.varying})
        corners = [dict(zip((v.symbol for v in self.varying), chosen))
                   for chosen in itertools.product(*({v.low, v.high, v.example} for v in self.varying))]
        found = Points([self.both({v.symbol: v.example for v in self.varying}),
                        *(self.both(p) for p in (*corners, *own.points()))])
        for condition in self.conditions:
            found.cover([logical_not(condition)])
        return found

    def both(self, point: dict) -> dict:
        return {**point, **{v.wide: point[v.symbol] for v in self.varying}}


class Traced(NamedTuple):
    """A program: ``conditions`` under which it holds; ``inputs``: Metas with symbols, None for what is no tensor;
    ``kept``: names of results; ``written``: whether it writes into each input; ``numbers``: sizes, which are its last
    inputs; ``checks``: errors, for each a result after those that are kept, which has to be True; ``results``: for
    each result the index in ``kept`` of a tensor, else (what it is,); ``fixed``: {symbol: number} of sizes
    that are no symbols."""

    outline: Outline
    conditions: tuple
    inputs: list
    kept: list
    written: list
    numbers: tuple
    checks: tuple
    results: list
    fixed: dict


def sizes_at(point: dict, fixed: dict) -> Sizes:
    """The ShapeEnv of a program that is traced for a point."""
    return Sizes({s: n for s, n in point.items() if s not in fixed})


def conditions_under(domain: Domain, fixed: dict, shape_env: Sizes) -> tuple:
    """The conditions under which a trace goes the way that it went."""
    found = [eq(v.wide, fixed[v.symbol]) if v.symbol in fixed else le(2, v.wide) for v in domain.varying]
    found += domain.conditions + [c if outcome else logical_not(c) for c, outcome in shape_env.guards]
    return tuple(c for c in found if isinstance(c, Expr) and c.op != "number")


def traced(program, found, domain: Domain, fixed: dict, shape_env: Sizes, name: str) -> Traced:
    """An exported program traced with symbols, but for sizes that are ``fixed``."""
    specs = program.graph_signature.input_specs
    drawn = default_generator.place
    trace = shape_env.trace = Sizing(shape_env)

    def entered(k, value):
        if not isinstance(value, Tensor):
            return value
        shape = domain.shape(k, value, fixed)
        varies = any(isinstance(n, Expr) for n in shape) or shape != tuple(value.shape)
        return trace.input(Meta.of(shape, value.dtype, value.device) if varies else value._rush_meta)

    with unwound(), recording(0), shape_env:
        entries = [entered(k, value) for k, (value, _) in enumerate(found)]
        nodes = [getattr(one, "node", None) for one in entries]  # before anything is written into them
        metas = [node and node.meta for node in nodes]
        with trace:
            with without_values("cannot be packaged: leave out what asserts or reads them", NotPackable):
                module, errors = checks.apart(program.graph_module)
                returned, held = module(*entries) if errors else (module(*entries), ())
                results = list(zip(program.graph_signature.output_specs, returned))
            homes = {("USER_INPUT_MUTATION", spec.arg.name) if spec.kind.name == "USER_INPUT" else
                     ("BUFFER_MUTATION", spec.target): node for spec, node in zip(specs, nodes)}
            stores = [Store(own(value), node) for node, value in trace.written()]
            stores += [Store(own(r.node), homes[spec.kind.name, spec.target]) for spec, r in results
                       if spec.kind.name in ("BUFFER_MUTATION", "USER_INPUT_MUTATION")]
            user = [(spec.arg.name, r) for spec, r in results if spec.kind.name == "USER_OUTPUT"]
            if any(isinstance(r, Tensor) and type(spec.arg).__name__ != "TensorArgument" for spec, r in results):
                raise NotPackable("a result is a number that is computed of sizes or elements, and not whole: return "
                                  "a tensor")
            kept: dict = {}  # node -> its name; a tensor that is returned several times is one output
            rows = []
            for label, r in user:
                node = own(r.node) if isinstance(r, Tensor) else None
                kept.setdefault(node, label) if node else None
                rows.append(list(kept).index(node) if node else (r,))
            outputs = [*kept, *(checks.truth(one).clone().node for one in held)]  # results of their own
            if trace.drawn or tuple(default_generator.place) != tuple(drawn):
                raise NotPackable("the program draws random numbers")
            outline = outlined(run(DERIVING, Compilation(name, trace, outputs, stores=stores)))
    trace.settle()
    into = {store.into for store in stores}
    return Traced(outline, conditions_under(domain, fixed, shape_env), metas,
                  list(kept.values()), [node in into for node in nodes], tuple(trace.numbers), tuple(errors),
                  rows, fixed)


def programs(program, found, domain: Domain, name: str):
    """Traced programs of which one holds for each point of the domain.

    NotPackable where sizes decide too often what the program is.
    """
    made, points, tried = [], domain.points(), 0
    while (point := points.next()) is not None:
        tried += 1
        fixed = {v.symbol: point[v.symbol] for v in domain.varying
                 if point[v.symbol] < 2 or any(sets_apart(one.conditions, v.symbol, point) for one in made)}
        shape_env = sizes_at({v.symbol: point[v.symbol] for v in domain.varying}, fixed)
        try:
            one = traced(program, found, domain, fixed, shape_env, name)
        except FAILURES:
            if not made or tried > MOST_TRIED or runs_without_data(program, found, domain, point):
                raise
            # the program itself fails for such sizes, which calls are refused with
            points.cover(conditions_under(domain, fixed, shape_env))
            continue
        if not holds(one, point):
            raise AssertionError(f"a program traced for {point} does not hold there: {one.conditions}")
        made.append(one)
        if len(made) > MOST_PROGRAMS:
            raise NotPackable(f"sizes decide too often what the program computes: it was traced {len(made)} times, "
                              f"under conditions such as {', '.join(map(str, one.conditions[:3]))}")
        points.cover(one.conditions)
    return made


def runs_without_data(program, found, domain: Domain, point: dict) -> bool:
    """True if a program runs on tensors of the sizes at a point that have no data."""
    inputs = [empty(domain.shape(k, value, point), dtype=value.dtype, device=meta) if isinstance(value, Tensor) else
              value for k, (value, _) in enumerate(found)]
    try:
        with unwound(), recording(0):
            program.graph_module(*inputs)
    except FAILURES:
        return False
    return True


def holds(one: Traced, point: dict) -> bool:
    return all(evaluate(c, point) for c in one.conditions)


def sets_apart(conditions, symbol, point: dict) -> bool:
    """Whether a condition excludes just this number for a symbol."""
    return any(c.op == "logical_not" and c.args[0].op == "==" and c.args[0].free == {symbol} and evaluate(
        c.args[0], point) for c in conditions)

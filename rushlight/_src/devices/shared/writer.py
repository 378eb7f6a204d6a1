"""Base class of emitters of kernel source: lines in nested blocks, and the scope in which each value is known."""

from __future__ import annotations

from ...compiler import math
from ...compiler.kernel import Kernel, KernelStage, walk
from ...core.expr import Expr, const, extent_of


class Refused(NotImplementedError):
    """The device cannot express an operation or type."""


def form(kernel: Kernel) -> str:
    """Return how a kernel's work units are distributed.

    "thread": each runs one index of the outer axes and of the lanes, with loops in order; "group": a group of threads
    shares the loops of one outer index, and reductions meet; "order": one thread runs it all.
    """
    if kernel.serial:
        return "order"
    loops = any(s.loops for s in kernel.stages)
    return "group" if kernel.lane is None and loops and not kernel.running else "thread"


def spread(kernel: Kernel, least: int) -> str:
    """Return how the work units of a kernel with its sizes are distributed: as ``form``, or "scan" if a group shares a
    row of at least ``least`` elements whose prefix results are stored."""
    found, stage = form(kernel), kernel.stages[0]
    if found != "thread" or kernel.lane is not None or len(kernel.stages) != 1 or len(stage.loops) != 1:
        return found
    extent = extent_of(stage.loops[0])
    short = isinstance(extent, int) and extent < least
    results = {r.result for r in stage.reductions}  # a thread has only partial values of these inside the loop
    apart = all(r.running and r.at is None and r.value.free.isdisjoint(results) for r in stage.reductions)
    return found if short or not apart else "scan"


def untiled(kernel: Kernel) -> Kernel:
    """Tiles are for vectors; threads take their axis as one of their own."""
    if kernel.across is None:
        return kernel
    return Kernel((*kernel.outer, kernel.across), kernel.lane, kernel.stages, kernel.serial, kernel.flag)


def scattered(kernel: Kernel, possible) -> Kernel:
    """Return a kernel whose loops only write or update memory at data-dependent positions as one with a work unit for
    each update; of several writes to one position, any may stay.  Return the kernel itself if it does more, or if
    ``possible(store)`` is False for an update that the device lacks."""
    stage = kernel.stages[0]
    if len(kernel.stages) != 1 or not stage.loops or stage.reductions or not all(
            possible(s) and next(walk(s.at, "position"), None) is not None for s in stage.stores):
        return kernel
    axes, read = {*kernel.outer, *stage.loops, kernel.lane}, {x.arg for e in stage.exprs() for x in walk(e, "load")}
    if any(s.buffer in read for s in stage.stores) or any(
            isinstance(extent_of(axis), Expr) and extent_of(axis).free & axes for axis in stage.loops):
        return kernel
    return Kernel((*kernel.outer, *stage.loops), kernel.lane, [KernelStage((), [], stage.stores)], False, kernel.flag,
                  None, True)


def numbers_of(kernel: Kernel) -> str:
    """The dtypes of a kernel's constants, which its text does not show."""
    seen, found = set(), []
    stack = [e for stage in kernel.stages for e in stage.exprs()]
    while stack:
        e = stack.pop()
        if e in seen or not hasattr(e, "op"):
            continue
        seen.add(e)
        if e.op == "number":
            found.append(e.dtype.name)
        stack.extend(e.args)
    return " ".join(found)


class Named:
    """The subject of an error about a kernel, in place of a node."""

    def __init__(self, name):
        self.op, self.name = None, name


class Scope:
    """Lines of a block: what is computed there, and which leaves are known in it.

    ``branch``: only needed values may be computed before it.  ``mask``: the source of the mask of active threads.
    """

    def __init__(self, leaves=(), branch=False, mask=""):
        self.lines, self.values, self.leaves, self.branch, self.mask = [], {}, set(leaves), branch, mask


# what writes an operation: a method that takes it and its operands; others are ``operation``'s
WRITERS = {"load": "load", "sum": "polynomial", "product": "multiplied", "//": "whole_quotient", "%": "whole_quotient",
           "max": "whole_extreme", "min": "whole_extreme", "<": "whole_comparison", "==": "whole_comparison",
           "position": "position", "divisor": "divisor", "value": "counted", "philox": "drawn", "convert": "changed",
           "table": "table"}


class Writer:
    """Emit values and blocks; a language implements ``let_line``, ``enclosed``, ``literal``, ``type``, ``rarely``,
    ``repeat``, and the methods of ``WRITERS`` that are not here.

    ``over``: the integer quotient; ``both``: logical and; ``larger``: the name of the integer minimum or maximum;
    ``floored``: the name of ``//`` and ``%`` for integers that may be negative.
    """

    over, both, larger, floored = "/", "&&", "{}", "{}_i32"

    def __init__(self):
        self.names, self.fresh, self.scopes = {}, 0, [Scope()]
        self.owners = {}  # by a name: the scope where it is known
        self.place = self.scopes[0]  # of what is being computed
        self.written = set()  # the buffers that the kernel stores to

    # --- lines --------------------------------------------------
    def line(self, text: str):
        self.scopes[-1].lines.append(text)

    def lines(self, *texts: str):
        for text in texts:
            self.line(text)

    def let(self, text: str, scope=None) -> str:
        """Names a value in a scope."""
        name, self.fresh = f"v{self.fresh}", self.fresh + 1
        self.owners[name] = scope or self.scopes[-1]
        self.owners[name].lines.append(self.let_line(name, text))
        return name

    def named(self, name: str, text: str):
        """Gives a value of this block a name of its own."""
        self.line(self.let_line(name, text))

    def name(self) -> str:
        """A name for a variable of this scope."""
        name, self.fresh = f"v{self.fresh}", self.fresh + 1
        self.owners[name] = self.scopes[-1]
        return name

    def block(self, head: str, body, leaves=None, branch=False, mask=""):
        """A block under ``head``; ``leaves``: the source of leaves that are known inside."""
        scope = Scope(leaves or (), branch, mask or self.scopes[-1].mask)
        scope.values.update(leaves or {})
        self.scopes.append(scope)
        body()
        self.scopes.pop()
        self.scopes[-1].lines += self.enclosed(head, scope.lines)

    # --- values --------------------------------------------------
    def found(self, e):
        return next((scope.values[e] for scope in reversed(self.scopes) if e in scope.values), None)

    def home(self, e, x) -> Scope:
        """The outermost scope in which all that e depends on is known, its operands ``x`` among it.

        Memory that the kernel writes may have changed: such values stay where they are wanted.
        """
        if "load" in e.operations and any(load.arg in self.written for load in walk(e, "load")):
            return self.scopes[-1]
        own = {leaf for loop in walk(e, "repeat") for leaf in loop.arg[:2]}  # of loops within it
        missing, place, waiting = e.free - own, None, {self.owners[name] for name in x if name in self.owners}
        for scope in self.scopes:
            missing -= scope.leaves
            waiting.discard(scope)
            place = None if scope.branch else place  # inside a branch nothing goes before it
            if not missing and not waiting and place is None:
                place = scope
        if missing:
            raise AssertionError(f"nothing says what {missing} is")
        return place

    def value(self, e) -> str:
        """The name, or the literal, of a value."""
        if not isinstance(e, Expr):
            return self.whole_literal(e)
        found = self.found(e)
        if found is not None:
            return found
        if e.op == "const":
            return self.whole_literal(e.arg)
        if e.op == "number":
            return self.literal(e.arg, e.dtype)
        expansion = self.expanded(e)
        if expansion is not e:
            return self.value(expansion)
        if e.op == "rarely":
            return self.rarely(e)
        if e.op == "repeat":
            return self.repeat(e)
        x = [self.value(a) for a in e.args]
        if x and all(a.op == "number" for a in e.args):  # the device's compiler would compute it, of all types alike
            x[0] = self.opaque(x[0], e.args[0].dtype)
        self.place = home = self.home(e, x)
        found = home.values[e] = self.let(self.compute(e, x), home)
        return found

    def expanded(self, e):
        """The operation in simpler terms, or itself."""
        return math.expand(e)

    def compute(self, e, x) -> str:
        """The text of an operation whose operands are ``x``."""
        return getattr(self, WRITERS.get(e.op, "operation"))(e, x)

    def written_as(self, o, expressions: dict) -> str:
        """The text of an Operation by the table of a language.  Refused where there is none."""
        write = expressions.get(o.e.op)
        if write is None or o.e.op in math.OF_FLOATS and not o.is_float:
            raise Refused(f"no expression for {o.e.op} of {o.dtype}")
        return write(o)

    def multiplied(self, e, x) -> str:
        return " * ".join(x)

    def whole_quotient(self, e, x) -> str:
        """A quotient of positions and extents, rounded down, or what it leaves."""
        if e.args[0].low >= 0 and e.args[1].low >= 1:
            return f"{x[0]} {self.over if e.op == '//' else '%'} {x[1]}"
        name = self.floored.format("floor_divide" if e.op == "//" else "remainder")
        return f"{name}({', '.join(self.opaque_whole(one) for one in x)})"

    def opaque_whole(self, text: str) -> str:
        """An operand of an integer function."""
        return text

    def whole_extreme(self, e, x) -> str:
        return f"{self.larger.format(e.op)}({x[0]}, {x[1]})"

    def whole_comparison(self, e, x) -> str:
        return f"({x[0]} {e.op} {x[1]})"

    # --- positions --------------------------------------------------
    def taken_apart(self, number: str, axes, extents):
        """Define the indices of axes from their flat index, the last axis fastest; ``extents(axis)``: the source of an
        axis's extent."""
        scope = self.scopes[-1]
        for axis in reversed(axes):
            scope.leaves.add(axis)
            scope.values[axis] = number if axis is axes[0] else self.let(f"{number} % {extents(axis)}")
            number = number if axis is axes[0] else self.let(f"{number} {self.over} {extents(axis)}")

    def extent(self, axis) -> str:
        """Return the source of an axis's extent."""
        return self.value(const(extent_of(axis)))

    def reads_written(self, stage) -> bool:
        """True if a stage reads what the kernel stores."""
        return any(load.arg in self.written for e in stage.exprs() for load in walk(e, "load"))

    def polynomial(self, e, x) -> str:
        """A sum of integers with coefficients."""
        coefficients, offset = e.arg
        out = "" if offset == 0 else self.whole_literal(offset)
        for value, c in zip(x, coefficients):
            term = value if abs(c) == 1 else f"{value} * {self.whole_literal(abs(c))}"
            out += (" - " if c < 0 else " + " if out else "") + term
        return out.strip() if not out.startswith(" - ") else f"-{out[3:]}"

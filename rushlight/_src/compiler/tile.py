"""Axis roles: which loops merge into one, which becomes the vector axis."""
from __future__ import annotations

import itertools
import math

from ..core import expr
from ..core.dtypes import float32, int64
from ..core.expr import Expr, extent_of, factors, index, terms
from .kernel import Kernel, KernelStage, Reduction, StoreTo, walk

_names = itertools.count()


def arrange(kernel: Kernel) -> Kernel:
    """The kernel with its axes ordered by the memory they step through, merged where they step as one, and
    vectorised."""
    if kernel.serial or kernel.lane is not None:
        return kernel
    kernel = unroll(collapse(separate(kernel)))
    loops = next((s.loops for s in kernel.stages if s.loops), ())
    best = vector_axis(kernel, [*kernel.outer, *loops])
    if best is None:
        return kernel
    if any(best is i for i in loops):
        ordered = tuple(i for i in loops if i is not best) + (best,)
        return with_loops(kernel, kernel.outer, None, loops, ordered)
    outer = tuple(i for i in kernel.outer if i is not best)
    return with_tiles(with_loops(kernel, outer, best, loops, loops))


def with_tiles(kernel: Kernel) -> Kernel:
    """Cut a kernel without loops or reductions into tiles if its loads are contiguous along another axis than its
    stores."""
    if len(kernel.stages) != 1 or kernel.stages[0].loops or kernel.stages[0].reductions or kernel.flag:
        return kernel
    loads = {load for e in kernel.stages[0].exprs() for load in walk(e, "load")}
    for axis in kernel.outer:
        if any(lies_along(load, axis, kernel.lane)
               for load in loads) and not is_short(axis) and not is_short(kernel.lane):
            outer = tuple(i for i in kernel.outer if i is not axis)
            return Kernel(outer, kernel.lane, kernel.stages, kernel.serial, kernel.flag, axis)
    return kernel


def lies_along(load: Expr, axis: Expr, lane: Expr) -> bool:
    """True if a load steps by one element along ``axis``, up or down, and by more along the lanes."""
    if len(load.args) > 1:
        return False
    steps = strides(terms(load.args[0])[0])
    return any(expr_same(steps.get(axis, 0), k)
               for k in (1, -1)) and lane in steps and not any(expr_same(steps[lane], k) for k in (1, -1))


def with_loops(kernel, outer, lane, old, new):
    stages = [KernelStage(new if s.loops else (), s.reductions, s.stores) for s in kernel.stages]
    return Kernel(outer, lane, stages, kernel.serial, kernel.flag)


def accesses(kernel: Kernel):
    """(position, weight) of every load and store."""
    for stage in kernel.stages:
        for s in stage.stores:
            yield s.at, 2
        for e in stage.exprs():
            for load in walk(e, "load"):
                yield load.args[0], 1
            for position in walk(e, "value"):
                yield position.args[0], 0
        for r in stage.reductions:
            if r.at is not None:
                yield r.at, 0


def vector_axis(kernel: Kernel, axes):
    """The axis along which most accesses step by one element, the last one of equals; short ones count for less."""
    if not axes:
        return None
    scores = {}
    loops = {i for s in kernel.stages for i in s.loops}
    for at, weight in set(accesses(kernel)):
        parts, _ = terms(at)
        if loops and not at.free & loops:
            weight = 0.1  # once a row only
        for axis in axes:
            step = parts.get(axis)
            if step == 1:
                scores[axis] = scores.get(axis, 0) + weight
    last = max(range(len(axes)), key=lambda k: (scores.get(axes[k], 0) * fullness(axes[k]), not is_short(axes[k]), k))
    return axes[last]


def fullness(axis) -> float:
    """The fraction of vector lanes used along an axis."""
    extent = extent_of(axis)
    return min(1, extent / SHORT) if isinstance(extent, int) else 1


def is_short(axis) -> bool:
    extent = extent_of(axis)
    return isinstance(extent, int) and extent < SHORT


def separate(kernel: Kernel) -> Kernel:
    """Split axes whose quotient and remainder are needed (a reshape that is read through) into two axes, which removes
    the divisions."""
    loops = next((s.loops for s in kernel.stages if s.loops), ())
    for axis in (*kernel.outer, *loops):
        inner = divisor(kernel, axis)
        if inner is not None:
            a, b = index(f"y{next(_names)}", extent_of(axis) // inner), index(f"y{next(_names)}", inner)
            outer, loops = ([one for i in axes for one in ((a, b) if i is axis else (i,))]
                            for axes in (kernel.outer, loops))
            return separate(with_axes(kernel, outer, loops, {axis: a * inner + b}))
    return kernel


SHORT = 8  # axes of fewer elements do not fill vectors


def divisor(kernel: Kernel, axis) -> int | None:
    """The extent of the inner one of two axes that this axis should become."""
    if kernel.running and any(axis is i for s in kernel.stages for i in s.loops):
        return None
    found, extent = set(), extent_of(axis)
    for stage in kernel.stages:
        for e in stage.exprs():
            if axis in e.free:
                found.update(d.args[1].arg for op in ("//", "%") for d in walk(e, op) if d.args[0] is axis
                             and d.args[1].op == "const")
    if not found or not isinstance(extent, int):
        return None
    inner = min(found)
    along_stores = any(terms(s.at)[0].get(axis) == 1 for stage in kernel.stages for s in stage.stores)
    return None if any(
        d % inner for d in (*found, extent)) or inner >= extent or along_stores and inner < SHORT else inner


def with_axes(kernel: Kernel, outer, inner, replaced: dict) -> Kernel:
    """The kernel over other axes; ``replaced`` maps the old ones to Exprs."""
    memo = dict(replaced)

    def swap(e):
        return expr.const(expr.substitute(e, replaced, memo)) if e.dtype is None else expr.substitute(e, replaced, memo)

    stages = [KernelStage(tuple(inner) if s.loops else (), [r.mapped(swap) for r in s.reductions],
                    [StoreTo(t.buffer, swap(t.at), swap(t.value), t.combine) for t in s.stores]) for s in kernel.stages]
    return Kernel(tuple(outer), kernel.lane, stages, kernel.serial, kernel.flag)


def collapse(kernel: Kernel) -> Kernel:
    """Neighbouring axes that every access steps through as one become one axis."""
    kernel = by_stride(kernel)
    loops = next((s.loops for s in kernel.stages if s.loops), ())
    replaced = {}
    outer = merge(kernel, kernel.outer, replaced)
    inner = merge(kernel, loops, replaced)
    return with_axes(kernel, outer, inner, replaced) if replaced else kernel


UNROLLED = 16  # elements of the loops of a kernel that are written out


def unroll(kernel: Kernel) -> Kernel:
    """Unroll loops with few iterations (a pooling window): vectors then run over the outer elements."""
    loops = next((s.loops for s in kernel.stages if s.loops), ())
    extents = [extent_of(i) for i in loops]
    if not loops or kernel.running or not all(isinstance(n, int)
                                              for n in extents) or math.prod(extents) > UNROLLED or all(
                                                      map(is_short, kernel.outer)):
        return kernel
    places = [dict(zip(loops, at)) for at in itertools.product(*map(range, extents))]
    results: dict = {}
    stages = []
    for stage in kernel.stages:
        found, stores = {}, []
        for place in places if stage.loops else [{}]:
            replaced = {**results, **place}
            stores += [StoreTo(t.buffer, expr.const(expr.substitute(t.at, replaced)),
                               expr.substitute(t.value, replaced), t.combine) for t in stage.stores]
            for r in stage.reductions:
                found[r] = combined(r.mapped(lambda e: expr.substitute(e, replaced)), found.get(r))
        results.update((r.result, parts[0]) for r, parts in found.items())
        if stores:
            stages.append(KernelStage((), [], stores))
    return Kernel(kernel.outer, kernel.lane, stages, kernel.serial, kernel.flag)


COMBINED = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum", "and": "logical_and", "or": "logical_or"}


def combined(r: Reduction, before):
    """(result,) of one more element, or (place, value) for an argmin or argmax."""
    if r.at is None:
        return (r.value if before is None else expr.apply(COMBINED[r.combine], before[0], r.value),)
    at = expr.value(expr.plain(r.at), int64)
    if before is None:
        return at, r.value
    place, best = before
    better = expr.apply("gt" if r.combine == "argmax" else "lt", r.value, best)
    if r.value.dtype.is_floating_point:
        nan = expr.logical_and(expr.apply("isnan", r.value), expr.logical_not(expr.apply("isnan", best)))
        better = expr.apply("logical_or", better, nan)
    return expr.where(better, at, place), expr.where(better, r.value, best)


def by_stride(kernel: Kernel) -> Kernel:
    """Outer axes in the order in which the first store steps through memory, so that permuted tensors collapse too;
    copies are ordered by their loads, since waiting for scattered reads costs more than scattered writes."""
    stores = [s for st in kernel.stages for s in st.stores]
    if not stores or len(kernel.outer) < 2:
        return kernel
    copied = stores[0].value if len(stores) == 1 and not any(st.loops for st in kernel.stages) else None
    parts, _ = terms(copied.args[0] if copied is not None and copied.op == "load" and len(copied.args) == 1
                     else stores[0].at)
    steps = [parts.get(i, 0) for i in kernel.outer]
    if not all(isinstance(extent_of(i), int) for i in kernel.outer) or len(steps) != len(kernel.outer):
        return kernel
    order = sorted(range(len(steps)), key=lambda k: (-abs(steps[k]) if steps[k] else float("-inf"), k))
    return Kernel(tuple(kernel.outer[k] for k in order), kernel.lane, kernel.stages, kernel.serial, kernel.flag)


def merge(kernel: Kernel, axes, replaced):
    """The axes with mergeable neighbors merged; ``replaced`` receives the Exprs of the old ones."""
    axes = list(axes)
    k = 0
    blocked = fixed_axes(kernel)
    positions = [at for at, _ in set(accesses(kernel))]
    steps = {}
    for at in positions:
        parts, _ = terms(at)
        steps[at] = strides(parts)
    while k + 1 < len(axes):
        a, b = axes[k], axes[k + 1]
        extent = extent_of(b)
        joined = a not in blocked and b not in blocked
        for at in positions:
            if not joined:
                break
            found = steps[at]
            joined = expr_same(found.get(a, 0), found.get(b, 0) * extent)
        if not joined:
            k += 1
            continue
        c = index(f"y{next(_names)}", extent_of(a) * extent)
        replaced[a], replaced[b] = 0, c
        for old, new in list(replaced.items()):
            if new is a or new is b:
                replaced[old] = 0 if new is a else c
        for at in positions:
            steps[at][c] = steps[at].get(b, 0)
        axes[k:k + 2] = [c]
    return axes


def expr_same(a, b) -> bool:
    return a is b or isinstance(a, int) and isinstance(b, int) and a == b


def strides(parts):
    """{axis: its coefficient} of a polynomial's linear terms."""
    found = {}
    for monomial, c in parts.items():
        atoms = factors(monomial)
        axis = next((a for a in atoms if a.op == "index"), None)
        if axis is not None and sum(a.op == "index" for a in atoms) == 1:
            rest = c
            for a in atoms:
                if a is not axis:
                    rest = rest * a
            found[axis] = found.get(axis, 0) + rest
    return found


def fixed_axes(kernel: Kernel):
    """Axes that enter in other ways than as a step of an access: in //, %, conditions, or as a value."""
    blocked, seen = set(), set()

    def visit(e, linear):
        if not isinstance(e, Expr) or (e, linear) in seen:
            return
        seen.add((e, linear))
        if e.op == "index":
            if not linear:
                blocked.add(e)
            return
        if e.op == "value":
            visit(e.args[0], True)
            return
        if e.op == "load":
            visit(e.args[0], True)
            for mask in e.args[1:]:
                visit(mask, False)
            return
        inner = linear and e.op in ("sum", "product")
        for a in e.args:
            visit(a, inner or a.op == "load" or e.dtype is not None and a.dtype is not None)

    for stage in kernel.stages:
        for e in stage.exprs():
            visit(e, e.dtype is None)
    return blocked


SPLIT_UNITS = 8         # fewer independent results than this leave threads idle
SPLIT_SIZE = 1 << 16    # and a reduction of this many elements pays for two kernels
CHUNK = 1 << 14         # elements of one partial result


def kept_axes(kernel: Kernel) -> list:
    """The axes of a kernel that its reductions leave."""
    return [*kernel.outer] + ([kernel.lane] if kernel.lane is not None else [])


def row_of(axes):
    """The number of a position among all that there are along some axes."""
    row = 0
    for i in axes:
        row = row * extent_of(i) + i
    return row


def is_long(kernel: Kernel, stage: KernelStage) -> bool:
    """True if a stage reduces enough elements to few enough results that more than one kernel pays off."""
    kept = kept_axes(kernel)
    if kernel.serial or kernel.running or not all(isinstance(extent_of(i), int) for i in (*stage.loops, *kept)):
        return False
    rows, length = math.prod(map(extent_of, kept)), math.prod(map(extent_of, stage.loops))
    units = rows if kernel.lane is None else rows // 64
    return units < SPLIT_UNITS and length * max(rows, 1) >= SPLIT_SIZE and length >= 64


def in_turn(kernel: Kernel, stage: KernelStage, new_temporary) -> list[Kernel]:
    """Split a kernel in two before a stage: the first part stores its results in memory, and the second reads them
    (deviations, after their mean)."""
    at = kernel.stages.index(stage)
    before, after, row = kernel.stages[:at], kernel.stages[at:], row_of(kept_axes(kernel))
    read = {x for s in after for e in s.exprs() for x in e.free if x.op == "result"}
    keep, loads = KernelStage((), [], []), {}
    for r in (r for s in before for r in s.reductions if r.result in read):
        dtype = int64 if r.combine.startswith("arg") else float32 if r.value.dtype.is_half else r.value.dtype
        buffer = new_temporary(dtype, math.prod(map(extent_of, kept_axes(kernel))))
        keep.stores.append(StoreTo(buffer, expr.const(row), r.result))
        loads[r.result] = expr.load(buffer, row, dtype)

    def change(e):
        return expr.substitute(e, loads)

    after = [KernelStage(s.loops, [r.mapped(change) for r in s.reductions],
                   [StoreTo(t.buffer, change(t.at), change(t.value), t.combine) for t in s.stores]) for s in after]
    first = Kernel(kernel.outer, kernel.lane, [*before, keep] if keep.stores else before, flag=kernel.flag,
                   across=kernel.across)
    last, = after if len(after) == 1 else [None]
    if last is not None and not last.reductions and kernel.lane is None:  # each element by itself
        return [first, arrange(Kernel((*kernel.outer, *last.loops), None, [KernelStage((), [], last.stores)],
                                      flag=kernel.flag))]
    return [first, Kernel(kernel.outer, kernel.lane, after, flag=kernel.flag, across=kernel.across)]


def split(kernel: Kernel, new_temporary) -> list[Kernel]:
    """A long reduction to few results as two kernels: partial results of chunks, then their combination.

    Where chunks end depends on sizes alone, so results do not depend on the number of threads.
    ``new_temporary(dtype, size)`` makes a Buffer.
    """
    looped = [s for s in kernel.stages if s.loops]
    if len(looped) > 1 and is_long(kernel, looped[0]):
        return [part for piece in in_turn(kernel, looped[1], new_temporary) for part in split(piece, new_temporary)]
    if len(looped) != 1 or kernel.stages[0] is not looped[0] or not looped[
            0].reductions or kernel.serial or kernel.running:
        return [kernel]
    stage, kept = looped[0], kept_axes(kernel)
    if not is_long(kernel, stage) or any(r.combine.startswith("arg") for r in stage.reductions):
        return [kernel]
    rows = math.prod(extent_of(i) for i in kept)
    length = math.prod(extent_of(i) for i in stage.loops)
    axis = max(stage.loops, key=extent_of)
    whole = extent_of(axis)
    step = max(1, min(whole, CHUNK * whole // length // (1 if kernel.lane is None else max(1, rows // 16))))
    if step >= whole:
        return [kernel]
    chunk = index(f"c{next(_names)}", -(-whole // step))
    part = index(f"y{next(_names)}", expr.minimum(step, whole - chunk * step))
    replaced: dict = {axis: chunk * step + part}
    row = row_of(kept)
    first = KernelStage(tuple(part if i is axis else i for i in stage.loops),
                  [r.mapped(lambda e: expr.substitute(e, replaced)) for r in stage.reductions],
                  [StoreTo(t.buffer, expr.const(expr.substitute(t.at, replaced)), expr.substitute(t.value, replaced),
                           t.combine)
                   for t in stage.stores])
    keep, again = KernelStage((), [], []), index(f"c{next(_names)}", extent_of(chunk))
    second = KernelStage((again,), [], [])
    for r in stage.reductions:
        dtype = float32 if r.value.dtype.is_half else r.value.dtype
        buffer = new_temporary(dtype, extent_of(chunk) * rows)
        keep.stores.append(StoreTo(buffer, expr.const(chunk * rows + row), r.result))
        second.reductions.append(Reduction(r.result, r.combine, expr.load(buffer, again * rows + row, dtype)))
    partial = Kernel((*kernel.outer, chunk), kernel.lane, [first, keep], flag=kernel.flag)
    rest = Kernel(kernel.outer, kernel.lane, [second, *kernel.stages[1:]], flag=kernel.flag)
    return [partial, rest]

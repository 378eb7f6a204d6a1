"""Kernel -> LLVM IR: explicit vectors, several at a time, masked tails.

A kernel is ``void kernel(slots, begin, end, worker)``.  Its slots: the buffers, the scalars, the parameters
``p0, p1, ...``, then for kernels with a lane axis the lanes per unit and the units per outer index, and last the error
flag if there is one.
"""
from __future__ import annotations

from ....core.dtypes import bool_
from ....core.expr import Expr, const, extent_of
from ....compiler.kernel import Kernel, KernelStage, scalar_inputs
from . import scalars
from .builder import Module
from .values import constant
from .element import Context
from .lanes import parts, unrolling
from .reductions import Reductions, copies
from .scalars import COMPUTED, STORED
from .types import i64, ptr, vector

BLOCK = 128  # rows that are added up before their sum is added to the total
ABI = [("slots", ptr), ("begin", i64), ("end", i64), ("worker", i64)]


def emit(kernel: Kernel, count: int, name: str) -> str:
    """Return the LLVM module of a parametrized kernel with ``count`` parameters, exporting ``name``."""
    module = Module()
    Emitter(module.function(name, ABI), kernel, count).run()
    return module.text()


class Emitter(Reductions):
    """Emits one kernel: its slots, its outer indices, and the loops of its stages."""

    def __init__(self, b, kernel: Kernel, count: int):
        super().__init__(b, kernel)
        self.written = {s.buffer for stage in kernel.stages for s in stage.stores}
        self.volatile: dict = {}
        self.unroll = unrolling(kernel)
        slots = b.parameters[0]
        at = 0
        for buffer in kernel.buffers():
            self.pointers[buffer] = b.load(ptr, b.offset(slots, 8 * at))
            at += 1
        for s in sorted(scalar_inputs(kernel), key=lambda s: int(s.arg[1:].split(".")[0])):
            kind = {True: "float64", False: "int64"}[s.dtype.is_floating_point]
            read = b.load(STORED[kind], b.offset(slots, 8 * at))
            self.scopes[0][s] = b.compare("!=", read, 0) if s.dtype is bool_ else read
            at += 1
        for k in range(count):
            self.scopes[0][Expr("slot", (), (f"p{k}",))] = b.load(i64, b.offset(slots, 8 * at))
            at += 1
        if kernel.lane is not None:
            self.block = b.load(i64, b.offset(slots, 8 * at))
            self.blocks = b.load(i64, b.offset(slots, 8 * at + 8))
            at += 2
        if kernel.flag:
            self.flag = b.load(ptr, b.offset(slots, 8 * at))

    def run(self):
        b, (_, begin, end, _) = self.b, self.b.parameters
        for stage in self.kernel.stages:
            for s, t in zip(stage.stores, stage.stores[1:]):
                if s.at is t.at and s.buffer.dtype is t.buffer.dtype and not s.combine and not t.combine and not copies(
                        s) and not copies(t):
                    for first, second in ((s.buffer, t.buffer), (t.buffer, s.buffer)):
                        behind = b.offset(self.pointers[first], 1, STORED[first.dtype.name])
                        self.beside[first, second] = b.compare("==", self.pointers[second], behind)
        self.hoist_all(self.kernel.stages)
        counts = self.counts()
        start, rest = [], begin
        for count in reversed(counts[1:]):
            rest, index = self.divide(rest, count)
            start.insert(0, index)
        b.loop(begin, end, 1, [rest, *start][:len(counts)], lambda _, indices: self.unit(indices, counts))
        b.ret()

    def counts(self):
        """Number of work units along each outer axis, along the blocks of lanes, and along the tiles; the last
        fastest."""
        b, kernel = self.b, self.kernel
        found = [self.value(const(extent_of(axis))) for axis in kernel.outer]
        if kernel.lane is not None:
            found.append(self.blocks)
        if kernel.across is not None:
            found.append(b.div(b.add(self.value(const(extent_of(kernel.across))), self.lanes - 1), self.lanes))
        return found

    def advanced(self, indices, counts):
        """The indices of the next work unit: the last is incremented, with carry to the ones before it."""
        b, out, step = self.b, [], constant(i64, 1)
        for index, count in zip(reversed(indices[1:]), reversed(counts[1:])):
            moved = b.add(index, step)
            wraps = b.compare("==", moved, count)
            out.insert(0, b.select(wraps, 0, moved))
            step = b.cast("zext", wraps, i64)
        return [b.add(indices[0], step), *out] if indices else []

    def unit(self, indices, counts):
        """Emit one index of the outer axes (and one block of lanes); return the next indices."""
        b, kernel = self.b, self.kernel
        self.scopes.append(dict(zip(kernel.outer, indices)))
        if kernel.lane is not None:
            block = indices[len(kernel.outer)]
        if kernel.across is not None:
            count = self.value(const(extent_of(kernel.across)))
            first = b.mul(indices[-1], self.lanes)
        for stage in kernel.stages:
            for axis in stage.loops:
                self.value(const(extent_of(axis)))
        if kernel.lane is None:
            for stage in kernel.stages:
                self.row_stage(stage)
        else:
            low = b.mul(block, self.block)
            high = b.minimum(b.add(low, self.block), self.value(const(extent_of(kernel.lane))))
            if kernel.across is not None:
                self.tile(first, b.minimum(b.add(first, self.lanes), count), low, high)
            else:
                self.hoist_all(kernel.stages)
                self.vectors(kernel.lane, low, high, [], self.lane_stages)
        self.scopes.pop()
        return self.advanced(indices, counts)

    def divide(self, a, n):
        """(a // n, a % n) of non-negative numbers."""
        quotient = self.b.div(a, n)
        return quotient, self.b.sub(a, self.b.mul(quotient, n))

    # -- tiles ---------------------------------------------------------------------------------------------------------

    def tile(self, first, last, low, high):
        """Emit indices [first, last) of the across axis by [low, high) of the lanes: full squares transposed, the rest
        by gathers."""
        b, size = self.b, self.lanes
        whole = b.add(low, b.mul(b.div(b.sub(high, low), size), size))
        start = b.select(b.compare("==", b.sub(last, first), size), whole, low)
        b.loop(low, start, size, [], lambda at, _: self.square(first, at))

        def row(at, _):
            self.scopes.append({self.kernel.across: at})
            self.vectors(self.kernel.lane, start, high, [], self.lane_stages)
            self.scopes.pop()

        b.when(b.compare("<", start, high), lambda: self.b.loop(first, last, 1, [], row) and None)

    def square(self, first, low):
        """Emit one full square: loads along the across axis are transposed, then each row runs along the lanes."""
        b, kernel, size = self.b, self.kernel, self.lanes
        stage = kernel.stages[0]
        loads = {e: None for e in parts(stage.exprs()) if e.op == "load" and len(e.args) == 1
                 and self.lane_stride(e.args[0], kernel.across)[1] in (1, -1)
                 and self.lane_stride(e.args[0], kernel.lane)[1] not in (1, -1)
                 and kernel.lane in e.args[0].free}
        for load in loads:
            columns, down = [], self.lane_stride(load.args[0], kernel.across)[1] == -1
            for k in range(size):
                self.scopes.append({kernel.lane: b.add(low, k), kernel.across: b.add(first, size - 1) if down
                                    else first})
                pointer = b.offset(self.pointers[load.arg], self.value(load.args[0]), STORED[load.dtype.name])
                found = b.load(vector(STORED[load.dtype.name], size), pointer)
                columns.append(b.shuffle(found, None, list(reversed(range(size)))) if down else found)
                self.scopes.pop()
            loads[load] = transposed(b, columns)
        for k in range(size):
            context = Context(kernel.lane, low, None)
            self.scopes.append({kernel.across: b.add(first, k)})
            context.values.update({load: scalars.from_memory(b, rows[k], load.dtype) for load, rows in loads.items()})
            context.values.update({("raw", load): rows[k] for load, rows in loads.items()})
            self.within(context, lambda: self.accumulate(stage, []))
            self.scopes.pop()

    # -- loops ---------------------------------------------------------------------------------------------------------

    def vectors(self, axis, low, high, carried, body):
        """Loop ``body(contexts, carried)`` over [low, high): ``unroll`` vectors at a time, then one at a time under a
        mask.  A long body always has masks; if masks are expensive, only the last vector has one."""
        b, lanes = self.b, self.lanes

        def inside(contexts, values):
            self.scopes.append({})  # values computed in a loop's body are not available after it
            out = body(contexts, values)
            self.scopes.pop()
            return out

        def tail(at, values):
            count = b.sub(high, at)
            return inside([Context(axis, at, b.lane_mask(count, lanes), count)], values)

        free = b.features.width == 512 and self.in_rows(axis)
        if self.unroll == 1:  # the body is long: emit it once if possible
            ways = () if free else (1,)
        else:
            ways = (self.unroll,) if free else (self.unroll, 1)
        for vectors in ways:
            step = lanes * vectors
            whole = b.add(low, b.and_(b.sub(high, low), -step))
            carried = b.loop(low, whole, step, carried,
                             lambda at, values: inside([Context(axis, b.add(at, k * lanes)) for k in range(vectors)],
                                                       values))
            low = whole
        return b.loop(low, high, lanes, carried, tail)

    def in_rows(self, axis) -> bool:
        """True if all loads and stores are contiguous along an axis: masks are then free, with mask registers."""
        stages = self.kernel.stages
        loads = [e for e in parts(x for s in stages for x in s.exprs()) if e.op == "load"]
        return all(len(e.args) == 1 for e in loads) and all(self.lane_stride(at, axis)[1] in (0, 1)
                                                            for at in (*(e.args[0] for e in loads),
                                                                       *(t.at for s in stages for t in s.stores)))

    def lane_stages(self, contexts, _):
        """Emit all stages for the vectors of the lane axis; loops are serial and accumulate full vectors."""
        for stage in self.kernel.stages:
            for c in contexts:
                self.within(c, lambda: self.hoist(stage, stage.loops))
            starts = [self.identity(r, True) for _ in contexts for r in stage.reductions]
            body = lambda values: self.lane_body(stage, contexts, values)
            results = (self.in_blocks(stage.loops, starts, body, stage.reductions) if sums_floats(stage)
                       else self.serial(stage.loops, starts, body))
            for k, c in enumerate(contexts):
                for n, r in enumerate(stage.reductions):
                    c.values[r.result] = results[k * len(stage.reductions) + n][-1]

    def lane_body(self, stage, contexts, values):
        out, count = [], len(stage.reductions)
        for k, c in enumerate(contexts):
            out += self.within(c, lambda: self.accumulate(stage, values[k * count:(k + 1) * count]))
        return out

    def row_stage(self, stage: KernelStage):
        """Emit a stage whose last loop is vectorized (none: scalar code); its results are scalars afterwards."""
        self.hoist(stage, stage.loops)
        if not stage.loops or self.kernel.serial:
            starts = [self.identity(r, False) for r in stage.reductions]
            results = self.serial(stage.loops, starts, lambda values: self.accumulate(stage, values))
        else:
            starts = [self.identity(r, True) for _ in range(self.unroll) for r in stage.reductions]
            results = self.serial(stage.loops[:-1], starts, lambda values: self.row_vectors(stage, values))
            results = self.fold_vectors(stage, results)
        for r, value in zip(stage.reductions, results):
            self.scopes[-1][r.result] = value[-1]

    def row_vectors(self, stage, values):
        axis, count = stage.loops[-1], len(stage.reductions)
        self.hoist(stage, (axis,))
        flat = [v for value in values for v in value]
        shapes = [len(v) for v in values]

        def body(contexts, carried):
            pairs = regroup(carried, shapes)
            out = list(pairs)
            for k, c in enumerate(contexts):
                out[k * count:(k + 1)
                    * count] = self.within(c, lambda: self.accumulate(stage, pairs[k * count:(k + 1) * count]))
            return [v for value in out for v in value]

        end = self.value(const(extent_of(axis)))
        return regroup(self.vectors(axis, constant(i64, 0), end, flat, body), shapes)

    def fold_vectors(self, stage, results):
        """Combine each reduction's vectors into one, and its lanes into a scalar."""
        out, count = [], len(stage.reductions)
        for n, r in enumerate(stage.reductions):
            parts = results[n::count]
            while len(parts) > 1:
                parts = [self.combine(r, parts[k], parts[k + 1]) if k + 1 < len(parts) else parts[k]
                         for k in range(0, len(parts), 2)]
            width = self.lanes
            value = parts[0]
            while width > 1:  # add halves until one lane is left
                width //= 2
                low = [self.b.shuffle(v, None, list(range(width))) for v in value]
                high = [self.b.shuffle(v, None, list(range(width, 2 * width))) for v in value]
                value = self.combine(r, low, high)
            out.append([self.b.extract(v, 0) for v in value])
        return out

    def in_blocks(self, loops, starts, body, reductions):
        """Emit a loop like ``serial``, whose every ``BLOCK`` steps begin anew and are then combined with those before:
        a sum of n terms has the rounding errors of BLOCK + n / BLOCK."""
        (axis,), shapes = loops, [len(v) for v in starts]
        flat, end = [v for value in starts for v in value], self.value(const(extent_of(axis)))

        def step(at, values):
            self.scopes.append({axis: at})
            inner = body(regroup(values, shapes))
            self.scopes.pop()
            return [v for value in inner for v in value]

        def block(first, values):
            found = self.b.loop(first, self.b.minimum(self.b.add(first, BLOCK), end), 1, flat, step)
            pairs = zip(regroup(values, shapes), regroup(found, shapes))
            return [v for k, (old, new) in enumerate(pairs)
                    for v in self.combine(reductions[k % len(reductions)], old, new)]

        return regroup(self.b.loop(constant(i64, 0), end, BLOCK, flat, block), shapes)

    def serial(self, loops, carried, body):
        """Emit nested loops one index at a time around ``body(carried)``."""
        if not loops:
            return body(carried)
        axis, shapes = loops[0], [len(v) for v in carried]

        def step(at, flat):
            self.scopes.append({axis: at})
            inner = self.serial(loops[1:], regroup(flat, shapes), body)
            self.scopes.pop()
            return [v for value in inner for v in value]

        end = self.value(const(extent_of(axis)))
        flat = self.b.loop(constant(i64, 0), end, 1, [v for value in carried for v in value], step)
        return regroup(flat, shapes)

    # -- loop invariants -----------------------------------------------------------------------------------------------

    def hoist_all(self, stages):
        """Compute loop invariants, before anything is stored."""
        for stage in stages:
            outer = (*self.kernel.outer, self.kernel.across) if len(self.scopes) == 1 else ()
            self.hoist(stage, (self.kernel.lane, *outer, *stage.loops), early=True)

    def rereads(self, e) -> bool:
        """True if e reads memory that this kernel also writes."""
        found = self.volatile.get(e)
        if found is None:
            found = self.volatile[e] = e.op == "load" and e.arg in self.written or any(map(self.rereads, e.args))
        return found

    def hoist(self, stage, axes, early=False):
        """Compute values that depend on none of these axes in the current scope, outside of their loops."""
        axes, seen = frozenset(a for a in axes if a is not None), set()
        along = self.kernel.lane if self.kernel.lane is not None else stage.loops[-1] if stage.loops else None
        results = {r.result for s in self.kernel.stages for r in s.reductions}

        def fixed(e):
            return not (e.free & axes) and not (early and self.rereads(e)) and all(self.found(x) is not None
                                                                                   for x in e.free & results) and all(
                self.found(x) is not None for x in e.free if x.op == "index" and x is not self.lane_axis())

        def visit(e):
            if e in seen or not isinstance(e, Expr):
                return
            seen.add(e)
            if fixed(e):
                if e.op not in ("number", "const"):
                    self.value(e) if self.uniform(e) else self.vector(e)
                return
            if e.op == "load":
                rest = self.lane_stride(e.args[0], along)[0]
                if isinstance(rest, Expr) and fixed(rest):
                    self.pointer(e.arg, rest)
            if e.op in ("//", "%") and e.args[1].op != "const" and fixed(e.args[1]):
                self.reciprocal(e.args[1])
            if e.op == "philox" and fixed(e.args[0]):
                self.keys(e.args[0], self.key_lanes(e, along) if along is not None else 0)
            for a in e.args:
                visit(a)

        for e in stage.exprs():
            visit(e)


def transposed(b, rows):
    """Transpose a square of vectors: blocks of half the size swap places, at every size."""
    size = len(rows)
    half = size // 2
    while half:
        rows = list(rows)
        for at in range(size):
            if at & half:
                continue
            low, high = rows[at], rows[at + half]
            rows[at] = b.shuffle(low, high, [k if not k & half else size + k - half for k in range(size)])
            rows[at + half] = b.shuffle(low, high, [k + half if not k & half else size + k for k in range(size)])
        half //= 2
    return rows


def sums_floats(stage: KernelStage) -> bool:
    """True if a stage's only loop adds floats, whose rounding errors grow with the terms of one accumulator."""
    return len(stage.loops) == 1 and not any(r.running for r in stage.reductions) and any(
        r.combine == "add" and COMPUTED[r.value.dtype.name].is_float for r in stage.reductions)


def regroup(flat, sizes):
    """Cut a flat list into lists of these lengths."""
    out, at = [], 0
    for n in sizes:
        out.append(list(flat[at:at + n]))
        at += n
    return out

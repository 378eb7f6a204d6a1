"""Kernel -> LLVM IR: explicit vectors, several at a time, masked tails.

A kernel is ``void kernel(slots, begin, end, worker)``.  Its slots: the buffers, the scalars, the parameters
``p0, p1, ...``, then for kernels with a lane axis the lanes per unit and the units per outer index, and last the error
flag where there is one.
"""
from __future__ import annotations

from ....core.dtypes import bool_
from ....core.expr import Expr, add, const, extent_of, plain, terms, total
from ....core.failures import DIVIDED_BY_ZERO, OUT_OF_RANGE
from ....compiler import math
from ....compiler.kernel import Kernel, KernelStage, scalar_inputs
from . import scalars
from .builder import Module, constant, constant_vector, zero
from .scalars import COMPUTED, STORED
from .types import f64, i1, i32, i64, ptr, vector

ABI = [("slots", ptr), ("begin", i64), ("end", i64), ("worker", i64)]
UNROLL = 4  # vectors in flight


def emit(kernel: Kernel, count: int, name: str) -> str:
    """The LLVM module of a parametrised kernel with ``count`` parameters, exporting ``name``."""
    module = Module()
    Emitter(module.function(name, ABI), kernel, count).run()
    return module.text()


class Context:
    """One vector's worth of a loop: its axis, first index, mask and number of lanes (None: all) and the values computed
    for it."""

    def __init__(self, axis, start, mask=None, count=None):
        self.axis, self.start, self.mask, self.count, self.values, self.depth = axis, start, mask, count, {}, None


class Emitter:
    """Writes one kernel.  ``scopes``: what is computed so far, outermost first; ``context``: the vector being worked
    on."""

    def __init__(self, b, kernel: Kernel, count: int):
        self.b, self.kernel, self.scopes, self.context = b, kernel, [{}], None
        self.written = {s.buffer for stage in kernel.stages for s in stage.stores}
        self.volatile: dict = {}
        # pairs of buffers that are stored to at the same places: whether the second lies one element further on
        self.beside: dict = {}
        self.lanes = lanes_of(kernel, b.features)
        self.unroll = unrolling(kernel)
        slots = b.parameters[0]
        self.pointers, at = {}, 0
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
        """How often a unit moves along each outer axis, along the blocks of lanes, and along the tiles; the last
        fastest."""
        b, kernel = self.b, self.kernel
        found = [self.value(const(extent_of(axis))) for axis in kernel.outer]
        if kernel.lane is not None:
            found.append(self.blocks)
        if kernel.across is not None:
            found.append(b.div(b.add(self.value(const(extent_of(kernel.across))), self.lanes - 1), self.lanes))
        return found

    def advanced(self, indices, counts):
        """The indices of the next unit: the last grows, and where one is at its end the one before it does."""
        b, out, step = self.b, [], constant(i64, 1)
        for index, count in zip(reversed(indices[1:]), reversed(counts[1:])):
            moved = b.add(index, step)
            wraps = b.compare("==", moved, count)
            out.insert(0, b.select(wraps, 0, moved))
            step = b.cast("zext", wraps, i64)
        return [b.add(indices[0], step), *out] if indices else []

    def unit(self, indices, counts):
        """One index of the outer axes (and one block of lanes); returns the indices of the next."""
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
        """Indices [first, last) of the across axis by [low, high) of the lanes: whole squares transposed, the rest by
        gathers."""
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
        """One full square: loads along the across axis are transposed, then each of its rows runs along the lanes."""
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
        """Runs ``body(contexts, carried)`` over [low, high): ``unroll`` vectors at a time, then one at a time under a
        mask; where masks are dear, only the last vector has one."""
        b, lanes = self.b, self.lanes

        def inside(contexts, values):
            self.scopes.append({})  # what is computed in a loop's body is of no use after it
            out = body(contexts, values)
            self.scopes.pop()
            return out

        def tail(at, values):
            count = b.sub(high, at)
            return inside([Context(axis, at, b.lane_mask(count, lanes), count)], values)

        for vectors in (self.unroll,
                        ) if self.unroll == 1 or b.features.width == 512 and self.in_rows(axis) else (self.unroll, 1):
            step = lanes * vectors
            whole = b.add(low, b.and_(b.sub(high, low), -step))
            carried = b.loop(low, whole, step, carried,
                             lambda at, values: inside([Context(axis, b.add(at, k * lanes)) for k in range(vectors)],
                                                       values))
            low = whole
        return b.loop(low, high, lanes, carried, tail)

    def in_rows(self, axis) -> bool:
        """Whether all that is read and written lies side by side along an axis: a mask costs nothing then, with mask
        registers."""
        stages = self.kernel.stages
        loads = [e for e in parts(x for s in stages for x in s.exprs()) if e.op == "load"]
        return all(len(e.args) == 1 for e in loads) and all(self.lane_stride(at, axis)[1] in (0, 1)
                                                            for at in (*(e.args[0] for e in loads),
                                                                       *(t.at for s in stages for t in s.stores)))

    def lane_stages(self, contexts, _):
        """All stages for the vectors of the lane axis; loops are serial and accumulate whole vectors."""
        for stage in self.kernel.stages:
            for c in contexts:
                self.within(c, lambda: self.hoist(stage, stage.loops))
            starts = [self.identity(r, True) for _ in contexts for r in stage.reductions]
            results = self.serial(stage.loops, starts, lambda values: self.lane_body(stage, contexts, values))
            for k, c in enumerate(contexts):
                for n, r in enumerate(stage.reductions):
                    c.values[r.result] = results[k * len(stage.reductions) + n][-1]

    def lane_body(self, stage, contexts, values):
        out, count = [], len(stage.reductions)
        for k, c in enumerate(contexts):
            out += self.within(c, lambda: self.accumulate(stage, values[k * count:(k + 1) * count]))
        return out

    def row_stage(self, stage: KernelStage):
        """A stage whose last loop is vectorised (none: scalar code); its results are scalars afterwards."""
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
        """Each reduction's vectors combined into one, and its lanes into a scalar."""
        out, count = [], len(stage.reductions)
        for n, r in enumerate(stage.reductions):
            parts = results[n::count]
            while len(parts) > 1:
                parts = [self.combine(r, parts[k], parts[k + 1]) if k + 1 < len(parts) else parts[k]
                         for k in range(0, len(parts), 2)]
            width = self.lanes
            value = parts[0]
            while width > 1:  # halves meet until one lane is left
                width //= 2
                low = [self.b.shuffle(v, None, list(range(width))) for v in value]
                high = [self.b.shuffle(v, None, list(range(width, 2 * width))) for v in value]
                value = self.combine(r, low, high)
            out.append([self.b.extract(v, 0) for v in value])
        return out

    def serial(self, loops, carried, body):
        """Nested loops one index at a time around ``body(carried)``."""
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

    def within(self, context, work):
        """Runs ``work`` with the values of a context; what it computes stays there while the current loop body
        lasts."""
        outer, self.context, depth = self.context, context, len(self.scopes)
        context.depth = depth if context.depth is None else context.depth
        self.scopes.append(context.values)
        if depth > context.depth:  # inside a serial loop: what is computed here dies with the loop's body
            self.scopes.append({})
        result = work()
        del self.scopes[depth:]
        self.context = outer
        return result

    # -- reductions and stores -----------------------------------------------------------------------------------------

    def accumulate(self, stage, values):
        """One step of every reduction and store of a stage; returns the new accumulators."""
        out = []
        for r, before in zip(stage.reductions, values):
            new = [self.operand(r.value)]
            if r.at is not None:
                new.append(self.operand(r.at))
            after = self.combine(r, before, new) if not (r.running and self.along_loops()) else self.prefixes(
                r, before[0], new[0])
            mask = self.context.mask if self.context else None
            out.append([self.b.select(mask, a, old) for a, old in zip(after, before)] if mask is not None else after)
        self.scopes[-1].update((r.result, self.so_far if self.along_loops() else a[0])
                               for r, a in zip(stage.reductions, out) if r.running)
        # all before the first store changes anything
        values = [self.raw(s.value) if copies(s) else self.operand(s.value) for s in stage.stores]
        waiting = list(zip(stage.stores, values))
        while waiting:
            s, value = waiting.pop(0)
            if waiting and self.may_lie_beside(s, waiting[0][0]):
                t, other = waiting.pop(0)
                apart = lambda: self.alone(self.store, s, value) or self.alone(self.store, t, other)
                second = lambda: self.b.when(self.beside[t.buffer, s.buffer],
                                             lambda: self.alone(self.interleaved, t, other, s, value), apart)
                self.b.when(self.beside[s.buffer, t.buffer], lambda: self.alone(self.interleaved, s, value, t, other),
                            second)
            else:
                self.store(s, value)
        return out

    def may_lie_beside(self, s, t) -> bool:
        """Whether two stores go to every other element, at the same places, so that they may fill each other's gaps
        (complex numbers)."""
        return self.context is not None and (s.buffer, t.buffer) in self.beside and self.lane_stride(s.at)[1] == 2

    def alone(self, work, *args):
        """Work in a branch: what is computed there is not there after it."""
        self.scopes.append({})
        work(*args)
        self.scopes.pop()

    def interleaved(self, s, value, t, other):
        """Both stores at once, lane by lane in turn."""
        b, lanes, rest = self.b, self.lanes, self.lane_stride(s.at)[0]
        low = b.offset(self.pointer(s.buffer, rest), b.mul(self.context.start, 2), STORED[s.buffer.dtype.name])
        first, second, count = scalars.to_memory(b, value, s.buffer.dtype), scalars.to_memory(
            b, other, t.buffer.dtype), self.context.count
        for half in range(2):
            turns = [k // 2 + half * (lanes // 2) + lanes * (k % 2) for k in range(lanes)]
            mask = None if count is None else b.lane_mask(b.sub(b.mul(count, 2), half * lanes), lanes)
            b.store(b.shuffle(first, second, turns), b.offset(low, half * lanes, first.type.element), mask=mask)

    def along_loops(self) -> bool:
        """Whether vectors run along a loop of the stage, rather than along an outer axis."""
        return self.context is not None and self.kernel.lane is None

    def prefixes(self, r, before, value):
        """Each lane combined with those before it and with what came before the vector, which is left in ``so_far``;
        returns the whole, in every lane, for the next vector."""
        b, lanes, step = self.b, self.lanes, 1
        while step < lanes:
            moved = b.shuffle(value, None, [(k - step) % lanes for k in range(lanes)])
            far = constant_vector(i1, [k >= step for k in range(lanes)])
            value, step = b.select(far, self.combine(r, [moved], [value])[0], value), 2 * step
        self.so_far = self.combine(r, [before], [value])[0]
        whole = b.shuffle(value, None, [lanes - 1] * lanes)
        return self.combine(r, [before], [whole])

    def operand(self, e):
        return self.vector(e) if self.context else self.value(e)

    def identity(self, r, wide):
        """What a reduction starts from."""
        kind = COMPUTED[r.value.dtype.name]
        lanes = self.lanes if wide else 0
        type = vector(kind, lanes)
        if r.combine in ("argmax", "argmin"):
            return [extreme_constant(type, r.value.dtype, r.combine == "argmin"),
                    constant(vector(i64, lanes), (1 << 63) - 1)]
        if r.combine in ("max", "min"):
            return [extreme_constant(type, r.value.dtype, r.combine == "min")]
        start = {"add": 0, "mul": 1, "and": -1, "or": 0}[r.combine]
        return [constant(type, float(start) if kind.is_float else start)]

    def combine(self, r, old, new):
        b, combine = self.b, r.combine
        if combine in ("argmax", "argmin"):
            return self.first_extreme(combine, old, new, r.value.dtype.is_signed)
        if combine in ("max", "min"):
            return [scalars.extreme(b, combine, old[0], new[0], r.value.dtype.is_signed)]
        return [{"add": b.add, "mul": b.mul, "and": b.and_, "or": b.or_}[combine](old[0], new[0])]

    def first_extreme(self, combine, old, new, signed):
        """(value, index) pairs: the more extreme value, NaN above all, the first index among equals."""
        b, (x, i), (y, j) = self.b, old, new
        better = b.compare(">" if combine == "argmax" else "<", y, x, signed)
        tie = b.compare("==", y, x)
        if x.type.is_float:
            nan_x, nan_y = b.is_nan(x), b.is_nan(y)
            better = b.or_(better, b.and_(nan_y, b.not_(nan_x)))
            tie = b.or_(tie, b.and_(nan_x, nan_y))
        take = b.or_(better, b.and_(tie, b.compare("<", j, i)))
        return [b.select(take, y, x), b.select(take, j, i)]

    def store(self, s, value):
        b, c, dtype = self.b, self.context, s.buffer.dtype
        rest, stride = self.lane_stride(s.at) if c else (s.at, 0)
        mask = c.mask if c else None
        if c is None or stride == 1:
            pointer = self.pointer(s.buffer, add(rest, self.lane_start()) if c else rest)
            if s.combine:
                old = scalars.from_memory(b, b.load(self.stored(s.buffer), pointer, mask=mask), dtype)
                value = self.update(s, old, value)
            b.store(value if copies(s) else scalars.to_memory(b, value, dtype), pointer, mask=mask)
            return
        element = STORED[dtype.name]
        pointers = self.addresses(s.buffer, s.at, rest, stride)
        if s.combine:
            old = scalars.from_memory(b, b.gather(vector(element, self.lanes), pointers, mask), dtype)
            value = self.update(s, old, value)
        b.scatter(value if copies(s) else scalars.to_memory(b, value, dtype), pointers, mask)

    def update(self, s, old, new):
        if s.combine in ("max", "min"):
            return scalars.extreme(self.b, s.combine, old, new, s.buffer.dtype.is_signed)
        if old.type.element is i1:
            return (self.b.or_ if s.combine == "add" else self.b.and_)(old, new)
        return {"add": self.b.add, "mul": self.b.mul}[s.combine](old, new)

    # -- expressions ---------------------------------------------------------------------------------------------------

    def hoist_all(self, stages):
        """Before anything is stored: what no loop inside changes."""
        for stage in stages:
            outer = (*self.kernel.outer, self.kernel.across) if len(self.scopes) == 1 else ()
            self.hoist(stage, (self.kernel.lane, *outer, *stage.loops), early=True)

    def rereads(self, e) -> bool:
        """Whether e reads memory that this kernel also writes."""
        found = self.volatile.get(e)
        if found is None:
            found = self.volatile[e] = e.op == "load" and e.arg in self.written or any(map(self.rereads, e.args))
        return found

    def hoist(self, stage, axes, early=False):
        """Computes in the current scope what depends on none of these axes, so that their loops need not."""
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

    def lane_axis(self):
        return self.context.axis if self.context else None

    def found(self, e):
        for scope in reversed(self.scopes):
            if e in scope:
                return scope[e]
        return None

    def uniform(self, e) -> bool:
        """Whether e is one value for all lanes of the current vector."""
        if self.context is None:
            return True
        if self.kernel.lane is not None and any(x.op == "result" for x in e.free):
            return False
        return self.context.axis not in e.free and not any(x.op == "state" for x in e.free)

    def value(self, e):
        """The value of e: scalar where uniform, else a vector."""
        found = self.found(e)
        if found is None:
            found = self.scopes[-1][e] = self.compute(e)
        return found

    def vector(self, e):
        """The value of e in every lane."""
        value = self.value(e)
        if value.type.lanes or value.number is not None:
            return value if value.type.lanes else self.b.splat(value, self.lanes)
        key = ("splat", e)
        found = self.found(key)
        if found is None:
            home = next(s for s in reversed(self.scopes) if e in s)
            target = self.scopes[-1] if home is not self.scopes[-1] else home
            found = target[key] = self.b.splat(value, self.lanes)
        return found

    def compute(self, e):
        b = self.b
        lanes = 0 if self.uniform(e) else self.lanes
        if e.op == "const":
            return constant(i64, e.arg)
        if e.op == "number":
            return constant(COMPUTED[e.dtype.name], e.arg)
        if e.op == "index":
            start = b.splat(self.context.start, self.lanes)
            return b.add(start, b.lane_indices(self.lanes))
        if e.op == "load":
            return self.load(e)
        expansion = math.expand(e)
        if expansion is not e:
            return self.vector(expansion) if lanes else self.value(expansion)
        if e.op == "rarely":
            return self.rarely(*e.args, lanes)
        if e.op == "repeat":
            return self.repeat(e, lanes)
        if e.op == "philox":
            keys = self.keys(e.args[0], lanes and self.key_lanes(e, self.context.axis))
            if lanes and self.key_lanes(e, self.context.axis) < lanes:
                rest, _ = self.lane_stride(e.args[2].args[0])
                return scalars.philox_run(b, keys, self.value(e.args[1]),
                                          b.add(self.value(const(rest)), self.context.start), lanes)
            return scalars.philox(b, keys, *(self.vector(a) if lanes else self.value(a) for a in e.args[1:]))
        if e.op == "<" and lanes:
            found = self.border(e)
            if found is not None:
                return found
        x = [self.vector(a) if lanes else self.value(a) for a in e.args]
        if e.op == "sum":
            return self.polynomial(e, x)
        if e.op == "product":
            out = x[0]
            for factor in x[1:]:
                out = b.mul(out, factor)
            return out
        if e.op in ("//", "%"):
            return self.division(e, *x)
        if e.op in ("max", "min"):
            return getattr(b, e.op + "imum")(*x)
        if e.op in ("<", "=="):
            return b.compare(e.op, *x)
        if e.op == "position":
            return self.position(*x)
        if e.op == "divisor":
            return self.divisor(*x)
        if e.op == "value":
            return b.convert(x[0], COMPUTED[e.dtype.name])
        return scalars.operation(b, e, x)

    def polynomial(self, e, x):
        b, (coefficients, offset) = self.b, e.arg
        out = constant(x[0].type, offset)
        for value, c in zip(x, coefficients):
            out = b.sub(out, value) if c == -1 else b.add(out, b.mul(value, c))
        return out

    def rarely(self, condition, unusual, usual, lanes):
        """A choice of which one side is not even computed unless some lane wants it."""
        b, value = self.b, self.vector if lanes else self.value
        wanted, found = value(condition), value(usual)

        def repair():
            self.scopes.append({})  # what is computed in a branch is not there after it
            made = b.select(wanted, value(unusual), found)
            self.scopes.pop()
            return [made]

        return b.when(b.reduce("or", wanted) if lanes else wanted, repair, lambda: [found])[0]

    def repeat(self, e, lanes):
        """A loop within one value."""
        b, value, (at, state, count) = self.b, self.vector if lanes else self.value, e.arg

        def within(k, now, what):
            k = b.convert(k, COMPUTED[e.dtype.name])
            self.scopes.append({at: b.splat(k, lanes) if lanes else k, state: now})
            found = value(what)
            self.scopes.pop()
            return found

        return scalars.repeated(b, value(e.args[0]), count, lambda k, now: within(k, now, e.args[1]),
                                lambda k, now: within(k, now, e.args[2]))

    def border(self, e):
        """A comparison that changes once along the vector axis, as a mask of the lanes before or after that place."""
        b, (rest, stride) = self.b, self.lane_stride(e.args[1] - e.args[0])
        if stride == -1:
            return b.lane_mask(b.sub(self.value(const(rest)), self.context.start), self.lanes)
        if stride == 1:
            return b.not_(b.lane_mask(b.sub(self.value(const(1 - rest)), self.context.start), self.lanes))
        return None

    def division(self, e, x, divisor):
        """A quotient or remainder of positions.  Vectors multiply by the reciprocal, which is exact below 2^50."""
        b = self.b
        if e.args[0].low < 0 or e.args[1].low < 1:
            return scalars.integer_division(b, x, divisor, True)[e.op == "%"]
        number = divisor.number
        if number is not None and number & number - 1 == 0:
            return b.lshr(x, number.bit_length() - 1) if e.op == "//" else b.and_(x, number - 1)
        if not x.type.lanes or not self.uniform(e.args[1]):
            return (b.div if e.op == "//" else b.rem)(x, divisor)
        if e.op == "%":
            return b.sub(x, b.mul(self.vector(const(e.args[0] // e.args[1])), divisor))
        middle = b.add(b.convert(x, f64), 0.5)  # from the middle, rounding cannot reach another whole number
        return b.convert(b.mul(middle, self.reciprocal(e.args[1])), i64)

    def reciprocal(self, e):
        """1 / e in every lane."""
        found = self.found(("reciprocal", e))
        if found is None:
            one = self.b.div(constant(f64, 1.0), self.b.convert(self.value(e), f64))
            found = self.scopes[-1]["reciprocal", e] = self.b.splat(one, self.lanes)
        return found

    def key_lanes(self, e, axis):
        """For how many lanes the keys of a random stream are wanted: half, where lanes along the axis take neighbouring
        words of it."""
        neighbours = self.lanes >= 4 and axis not in e.args[1].free and e.args[2].op == "value" and self.lane_stride(
            e.args[2].args[0], axis)[1] == 1
        return self.lanes // 2 if neighbours else self.lanes

    def keys(self, seed, lanes):
        """The keys of a random stream."""
        found = self.found(("keys", seed, lanes))
        if found is None:
            found = [[self.b.splat(k, lanes) for k in pair] for pair in scalars.philox_keys(self.b, self.value(seed))]
            self.scopes[-1]["keys", seed, lanes] = found
        return found

    def position(self, value, limit):
        """An index from memory: out of range it raises the error flag and is clamped."""
        b = self.b
        wide = b.convert(value, i64)
        wrong = b.or_(b.compare("<", wide, 0), b.compare(">=", wide, limit))
        self.report(wrong, OUT_OF_RANGE)
        return b.maximum(b.minimum(wide, b.sub(limit, 1)), 0)

    def divisor(self, value):
        """What whole numbers are divided by: 0 raises the error flag and counts as 1."""
        zero = self.b.compare("==", value, 0)
        self.report(zero, DIVIDED_BY_ZERO)
        return self.b.select(zero, 1, value)

    def report(self, wrong, reason):
        """Raises the error flag if something is wrong in a lane that counts."""
        b = self.b
        mask = self.context.mask if self.context and wrong.type.lanes else None
        if mask is not None:
            wrong = b.and_(wrong, mask)
        bad = b.reduce("or", wrong) if wrong.type.lanes else wrong
        b.when(bad, lambda: b.store(constant(i64, reason), self.flag))

    # -- memory --------------------------------------------------------------------------------------------------------

    def stored(self, buffer):
        return vector(STORED[buffer.dtype.name], self.lanes if self.context else 0)

    def lane_start(self):
        """The first index of the current vector, as an Expr."""
        start = Expr("index", (), ("lane start", None), None, 0)
        self.scopes[-1][start] = self.context.start
        return start

    def lane_stride(self, at, axis=None):
        """(rest, stride) with at = rest + stride * vector axis; stride None where the axis enters in another way."""
        at, axis = plain(at), axis if axis is not None else self.lane_axis()
        if isinstance(at, int) or axis not in at.free:
            # a reduction's result may differ from lane to lane
            return at, 0 if isinstance(at, int) or self.uniform(at) else None
        parts, offset = terms(at)
        stride = parts.get(axis)
        rest = total({e: c for e, c in parts.items() if e is not axis}, offset) if stride is not None else at
        if stride is None or isinstance(rest, Expr) and (axis in rest.free or not self.uniform(rest)):
            return at, None
        return rest, stride

    def pointer(self, buffer, at):
        """The address of a position; the part that does not move with the vector is shared."""
        key = ("pointer", buffer, at)
        found = self.found(key)
        if found is None:
            moving = [x for x in at.free if x.op == "index"
                      and x.arg[0] == "lane start"] if isinstance(at, Expr) else []
            if moving:
                base = self.pointer(buffer, at - moving[0])
                found = self.b.offset(base, self.value(moving[0]), STORED[buffer.dtype.name])
            else:
                found = self.b.offset(self.pointers[buffer], self.value(const(at)), STORED[buffer.dtype.name])
            self.scopes[-1][key] = found
        return found

    def addresses(self, buffer, at, rest, stride):
        """Where each lane's element lies."""
        b, element = self.b, STORED[buffer.dtype.name]
        if stride is None:
            return b.offset(self.pointers[buffer], self.vector(const(at)), element)
        step = const(stride)
        found = self.found(("steps", step))
        if found is None:
            # what LLVM knows to be small, it gathers by small offsets
            kind = i32 if isinstance(plain(step), int) else i64
            lanes = b.lane_indices(self.lanes, kind)
            found = b.mul(lanes, plain(step)) if kind is i32 else b.mul(lanes, self.vector(step))
            self.scopes[-1]["steps", step] = found
        base = b.offset(self.pointer(buffer, rest), b.mul(self.context.start, self.value(step)), element)
        return b.offset(base, b.cast("sext", found, vector(i64, self.lanes)) if found.type.element is i32 else found,
                        element)

    def repeats(self, at):
        """(rest, n) with at = rest + axis // n, n a power of two no larger than a vector: each element is there n
        times."""
        parts, _ = terms(at)
        for e, c in parts.items():
            if c == 1 and e.op == "//" and e.args[0] is self.context.axis and e.args[1].op == "const":
                rest, n = at - e, e.args[1].arg
                if n & n - 1 == 0 and n <= self.lanes and not (isinstance(rest, Expr)
                                                               and self.context.axis in rest.free):
                    return rest, n
        return None

    def repeated(self, buffer, rest, n, type):
        """A part of a vector, each element n times.  (Vectors start at multiples of their length.)"""
        b, few = self.b, self.lanes // n
        low = b.offset(self.pointer(buffer, rest), b.div(self.context.start, n), type.element)
        count = self.context.count
        mask = None if count is None else b.lane_mask(b.div(b.add(count, n - 1), n), few)
        read = b.load(vector(type.element, few), low, mask=mask)
        return b.shuffle(read, None, [k // n for k in range(self.lanes)])

    def backwards(self, buffer, rest, type, mask):
        """A load with stride -1: the vector that ends at the first element, turned round."""
        b, turn = self.b, list(reversed(range(self.lanes)))
        low = b.offset(self.pointer(buffer, rest), b.sub(1 - self.lanes, self.context.start), type.element)
        return b.shuffle(b.load(type, low, mask=mask and b.shuffle(mask, None, turn)), None, turn)

    def every_other(self, buffer, rest, type):
        """A load with stride 2: two vectors, less the one element beyond the last, and their even lanes."""
        b, lanes = self.b, self.lanes
        low = b.offset(self.pointer(buffer, rest), b.mul(self.context.start, 2), type.element)
        high, count = b.offset(low, lanes, type.element), self.context.count
        if count is None:
            first, second = None, constant_vector(i1, [1] * (lanes - 1) + [0])
        else:
            last = b.sub(b.mul(count, 2), 1)
            first, second = b.lane_mask(last, lanes), b.lane_mask(b.sub(last, lanes), lanes)
        return b.shuffle(b.load(type, low, mask=first), b.load(type, high, mask=second), list(range(0, 2 * lanes, 2)))

    def raw(self, e):
        """What a load finds in memory, in every lane."""
        key = ("raw", e)
        found = self.found(key)
        if found is None:
            found = self.scopes[-1][key] = self.stored_value(e)
        return self.b.splat(found, self.lanes) if self.context and not found.type.lanes else found

    def load(self, e):
        return scalars.from_memory(self.b, self.stored_value(e), e.dtype)

    def stored_value(self, e):
        b, dtype, buffer, c = self.b, e.dtype, e.arg, self.context
        at = plain(e.args[0])
        condition = self.value(e.args[1]) if len(e.args) > 1 else None
        if self.uniform(e):
            if condition is None:
                return b.load(STORED[dtype.name], self.pointer(buffer, at))
            where = b.select(condition, self.value(const(at)), 0)
            read = b.load(STORED[dtype.name], b.offset(self.pointers[buffer], where, STORED[dtype.name]))
            return b.select(condition, read, zero(read.type))
        mask = c.mask
        if condition is not None:
            condition = condition if condition.type.lanes else b.splat(condition, self.lanes)
            mask = condition if mask is None else b.and_(mask, condition)
        rest, stride = self.lane_stride(at)
        type = vector(STORED[dtype.name], self.lanes)
        if stride == 1:
            pointer = self.pointer(buffer, add(rest, self.lane_start()))
            if condition is not None and c.mask is None:
                read, = b.when(b.reduce("and", mask), lambda: [b.load(type, pointer)],
                               lambda: [b.load(type, pointer, mask=mask)])
            else:
                read = b.load(type, pointer, mask=mask)
        elif stride == 0:
            one = b.load(STORED[dtype.name], b.offset(self.pointers[buffer], b.select(
                b.reduce("or", mask), self.value(const(at)), 0), STORED[dtype.name]))
            read = b.splat(one, self.lanes)
            read = b.select(mask, read, zero(type))
        elif condition is None and self.repeats(at) is not None:
            read = self.repeated(buffer, *self.repeats(at), type)
        elif stride == -1:
            read = self.backwards(buffer, rest, type, mask)
        elif stride == 2 and condition is None:
            read = self.every_other(buffer, rest, type)
        elif stride == 2:  # what lies beside an edge is rare
            apart = self.addresses(buffer, at, rest, stride)
            everywhere = b.reduce("and", condition if c.mask is None else b.or_(condition, b.not_(c.mask)))
            read, = b.when(everywhere, lambda: [self.every_other(buffer, rest, type)],
                           lambda: [b.gather(type, apart, mask)])
        else:
            read = b.gather(type, self.addresses(buffer, at, rest, stride), mask)
        return read


def copies(store) -> bool:
    """Whether a store writes halves as they were read: no need to widen and round them."""
    return (store.value.op == "load" and store.value.dtype is store.buffer.dtype and store.value.dtype.is_half
            and not store.combine)


def transposed(b, rows):
    """A square of vectors with rows and columns exchanged: blocks of half the size swap places, at every size."""
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


def regroup(flat, sizes):
    """A flat list cut into lists of these lengths."""
    out, at = [], 0
    for n in sizes:
        out.append(list(flat[at:at + n]))
        at += n
    return out


def extreme_constant(type, dtype, largest: bool):
    """The least value of a dtype, or the largest: what anything replaces in a maximum."""
    if type.element.is_float:
        return constant(type, float("inf") if largest else float("-inf"))
    if type.element is i1:
        return constant(type, int(largest))
    bits = type.element.bits
    if not dtype.is_signed:
        return constant(type, (1 << bits) - 1 if largest else 0)
    return constant(type, (1 << bits - 1) - 1 if largest else -(1 << bits - 1))


def lanes_of(kernel: Kernel, features) -> int:
    """Lanes of a vector: as many as the widest type computed with in all lanes allows.  Random words are 32 bits wide,
    whatever holds them."""
    if kernel.serial:
        return 1
    widest = 1
    for stage in kernel.stages:
        roots = list(stage.exprs())
        axis = kernel.lane if kernel.lane is not None else stage.loops[-1] if stage.loops else None
        words = [e for e in parts(roots) if e.op == "philox"]
        words += [e for e in parts(roots) if e.op == "right_shift" and e.args[0] in words] + [e.args[2] for e in words]
        for e in parts(roots):
            if e in words or axis not in e.free and not (kernel.lane is not None
                                                         and any(x.op == "result" for x in e.free)):
                continue
            if e.dtype is not None and e.op not in ("load", "number", "scalar"):
                widest = max(widest, COMPUTED[e.dtype.name].bytes)
            elif e.op == "load":
                alone = any(e is r for r in roots)
                widest = max(widest, e.dtype.itemsize if alone else COMPUTED[e.dtype.name].bytes)
        for r in stage.reductions:
            widest = max(widest, 4, COMPUTED[r.value.dtype.name].bytes)
    return features.lanes(widest) if kernel.across is None else min(16, features.lanes(widest))


def parts(roots):
    """Every part of these Exprs, once."""
    seen, stack = set(), list(roots)
    while stack:
        e = stack.pop()
        if isinstance(e, Expr) and e not in seen:
            seen.add(e)
            yield e
            stack.extend(e.args)


def unrolling(kernel: Kernel) -> int:
    """Vectors in flight: fewer where the body is long."""
    if kernel.serial or kernel.running and kernel.lane is None:
        return 1
    work = sum(math.work(e.op) for s in kernel.stages for e in parts(s.exprs()) if e.dtype is not None)
    return UNROLL if work <= 24 else 2 if work < math.LONG_WORK else 1

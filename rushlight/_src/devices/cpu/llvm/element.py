"""Element: values of one element of a kernel, or of a vector of them, written as LLVM IR from their Exprs."""
from __future__ import annotations

from ....core.expr import Expr, const, plain, terms, total
from ....core.failures import DIVIDED_BY_ZERO, OUT_OF_RANGE
from ....compiler import math
from ....compiler.kernel import Kernel
from . import scalars
from .values import constant
from .lanes import lanes_of
from .scalars import COMPUTED
from .types import f64, i64


class Context:
    """One vector's worth of a loop: its axis, first index, mask and number of lanes (None: all) and the values computed
    for it."""

    def __init__(self, axis, start, mask=None, count=None):
        self.axis, self.start, self.mask, self.count, self.values, self.depth = axis, start, mask, count, {}, None


class Element:
    """Computes Exprs.  ``scopes``: the values computed up to now, outermost first; ``context``: the current vector.
    Subclasses define loads."""

    def __init__(self, b, kernel: Kernel):
        self.b, self.kernel, self.scopes, self.context = b, kernel, [{}], None
        self.lanes = lanes_of(kernel, b.features)
        self.flag = None  # the address of the error flag, of kernels that have one

    def load(self, e):
        """The value of a load."""
        raise NotImplementedError

    def found(self, e):
        for scope in reversed(self.scopes):
            if e in scope:
                return scope[e]
        return None

    def uniform(self, e) -> bool:
        """True if e is one value for all lanes of the current vector."""
        if self.context is None:
            return True
        if self.kernel.lane is not None and any(x.op == "result" for x in e.free):
            return False
        return self.context.axis not in e.free and not any(x.op == "state" for x in e.free)

    def lane_axis(self):
        return self.context.axis if self.context else None

    def lane_start(self):
        """The first index of the current vector, as an Expr."""
        start = Expr("index", (), ("lane start", None), None, 0)
        self.scopes[-1][start] = self.context.start
        return start

    def lane_stride(self, at, axis=None):
        """(rest, stride) with at = rest + stride * vector axis; stride None if the axis enters in another way."""
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

    def value(self, e):
        """The value of e: scalar if uniform, else a vector."""
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

    def operand(self, e):
        return self.vector(e) if self.context else self.value(e)

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
        """A choice with a rare side, which is computed only if some lane needs it."""
        b, value = self.b, self.vector if lanes else self.value
        wanted, found = value(condition), value(usual)

        def repair():
            self.scopes.append({})  # values computed in a branch are not available after it
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
        """A comparison that changes once along the vector axis, as a mask of the lanes before or after that index."""
        b, (rest, stride) = self.b, self.lane_stride(e.args[1] - e.args[0])
        if stride == -1:
            return b.lane_mask(b.sub(self.value(const(rest)), self.context.start), self.lanes)
        if stride == 1:
            return b.not_(b.lane_mask(b.sub(self.value(const(1 - rest)), self.context.start), self.lanes))
        return None

    def division(self, e, x, divisor):
        """A quotient or remainder of indices.  Vectors multiply by the reciprocal, which is exact below 2^50."""
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
        middle = b.add(b.convert(x, f64), 0.5)  # from the middle, rounding cannot reach another integer
        return b.convert(b.mul(middle, self.reciprocal(e.args[1])), i64)

    def reciprocal(self, e):
        """1 / e in every lane."""
        found = self.found(("reciprocal", e))
        if found is None:
            one = self.b.div(constant(f64, 1.0), self.b.convert(self.value(e), f64))
            found = self.scopes[-1]["reciprocal", e] = self.b.splat(one, self.lanes)
        return found

    def key_lanes(self, e, axis):
        """Number of lanes of the RNG keys: half if lanes along the axis take adjacent words of the RNG stream."""
        neighbours = self.lanes >= 4 and axis not in e.args[1].free and e.args[2].op == "value" and self.lane_stride(
            e.args[2].args[0], axis)[1] == 1
        return self.lanes // 2 if neighbours else self.lanes

    def keys(self, seed, lanes):
        """The keys of an RNG stream."""
        found = self.found(("keys", seed, lanes))
        if found is None:
            found = [[self.b.splat(k, lanes) for k in pair] for pair in scalars.philox_keys(self.b, self.value(seed))]
            self.scopes[-1]["keys", seed, lanes] = found
        return found

    def position(self, value, limit):
        """An index loaded from memory; out of range, it raises the error flag and is clamped."""
        b = self.b
        wide = b.convert(value, i64)
        wrong = b.compare(">=", wide, limit, signed=False)  # below zero is far above, too

        def clamped():
            self.report(wrong, OUT_OF_RANGE)
            return [b.maximum(b.minimum(wide, b.sub(limit, 1)), 0)]

        # lanes that do not count may be anywhere, and are clamped as well
        return b.when(b.reduce("or", wrong) if wrong.type.lanes else wrong, clamped, lambda: [wide])[0]

    def divisor(self, value):
        """An integer divisor: 0 raises the error flag and becomes 1."""
        zero = self.b.compare("==", value, 0)
        self.report(zero, DIVIDED_BY_ZERO)
        return self.b.select(zero, 1, value)

    def report(self, wrong, reason):
        """Raise the error flag if a condition holds in an active lane."""
        b = self.b
        mask = self.context.mask if self.context and wrong.type.lanes else None
        if mask is not None:
            wrong = b.and_(wrong, mask)
        bad = b.reduce("or", wrong) if wrong.type.lanes else wrong
        b.when(bad, lambda: b.store(constant(i64, reason), self.flag))

    def within(self, context, work):
        """Run ``work`` with the values of a context; its results stay there until the end of the current loop body."""
        outer, self.context, depth = self.context, context, len(self.scopes)
        context.depth = depth if context.depth is None else context.depth
        self.scopes.append(context.values)
        if depth > context.depth:  # inside a serial loop: values are valid only within the loop's body
            self.scopes.append({})
        result = work()
        del self.scopes[depth:]
        self.context = outer
        return result

    def alone(self, work, *args):
        """Emit work in a branch: its values are not available after it."""
        self.scopes.append({})
        work(*args)
        self.scopes.pop()

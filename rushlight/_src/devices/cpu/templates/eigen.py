"""Eigenvalues and eigenvectors of symmetric matrices: Householder reflectors make a matrix tridiagonal, and rotations
diagonal (Golub & Van Loan, 8.3).

A matrix is stored in rows of full vectors, scaled by a power of two so that no square over- or underflows. Its
tridiagonal form is in double precision.
"""

from ..llvm import jit
from ..llvm.types import f64, i32, i64
from ..llvm.values import constant, zero
from .groups import Groups
from .rows import report

SLOTS = ("source", "values", "vectors", "flag", "scratch", "size", "wide", "lower", "failure", "reflected_at",
         "turned_at", "along_at", "scales_at", "diagonal_at", "beside_at",
         "order_at", "scratch_bytes")
POINTERS = ("source", "values", "vectors", "flag", "scratch")
MOST_ROUNDS = 60  # for one eigenvalue; three are usual
# threshold of off-diagonal elements that count as zero, relative to the adjacent diagonal elements
SMALL = {"float32": 2.0**-27, "float64": 2.0**-53}


def eigen_kernel(dtype, group, with_vectors):
    """Return the address of the kernel that decomposes a matrix per work unit, reading rows by `group` vectors."""
    return jit.build(f"eigen {dtype} {group} {with_vectors}",
                     lambda: _Matrix.text("eigen", SLOTS, POINTERS, dtype, group, with_vectors), ["eigen"])["eigen"]


class _Matrix(Groups):
    """Emits the decomposition of one matrix."""

    def __init__(self, f, dtype, lanes, group, with_vectors, named):
        super().__init__(f, dtype, lanes, group)
        self.with_vectors, self.s, self.small, self.size, self.wide = with_vectors, named, SMALL[dtype], named[
            "size"], named["wide"]

    def matrix(self, unit):
        f, s = self.f, self.s
        names = ("reflected", "turned", "along", "scales", "diagonal", "beside", "order")
        self.reflected, self.turned, self.along, self.scales, self.diagonal, self.beside, self.order = (
            f.offset(self.here, s[f"{name}_at"]) for name in names)
        area = f.mul(self.size, self.size)
        self.source = f.offset(s["source"], f.mul(unit, area), self.element)
        self.values = f.offset(s["values"], f.mul(unit, self.size), self.element)
        self.vectors = f.offset(s["vectors"], f.mul(unit, area), self.element)
        finite, scale = self.taken()
        f.when(finite, lambda: self.decomposed(scale, unit), lambda: self.refused(unit))

    def refused(self, unit):
        """Fill the results of a matrix that is not finite with NaN, and report the failure."""
        f = self.f
        self.rows.filled(self.values, self.size, float("nan"))
        if self.with_vectors:
            self.rows.filled(self.vectors, f.mul(self.size, self.size), float("nan"))
        report(f, self.s["flag"], self.s["failure"], unit, self.size)

    def decomposed(self, scale, unit):
        f = self.f
        f.loop(0, f.sub(self.size, 2), 1, [], lambda k, _: self.reflect(k))
        self.tridiagonal()
        if self.with_vectors:
            self.form()
        failed = self.rotations()
        self.sorted(self.diagonal, self.order, self.size)
        self.written(scale)
        report(f, self.s["flag"], self.s["failure"], unit, failed)

    # -- addresses -----------------------------------------------------------------------------------------------------

    def at(self, base, i, j=0):
        """Address of an element of rows of full vectors."""
        return self.f.offset(base, self.f.add(self.f.mul(i, self.wide), j), self.element)

    def one(self, base, i, j):
        return self.f.load(self.element, self.at(base, i, j))

    def beyond(self, first, k):
        """For a group of vectors, the lanes of elements after index k."""
        f = self.f
        return [f.compare(">", f.lane_indices(self.lanes, i32),
                          f.splat(f.convert(f.sub(k, f.add(first, g * self.lanes)), i32), self.lanes))
                for g in range(self.group)]

    # -- from memory ---------------------------------------------------------------------------------------------------

    def taken(self):
        """Load and scale the matrix of one triangle; return (True if all of it is finite, the divisor)."""
        f, size = self.f, self.size
        f.fill_bytes(self.here, 0, f.mul(f.mul(size, self.wide), self.element.bytes))
        lower = f.compare("!=", self.s["lower"], 0)

        def row(i, now):
            def one(j, most):
                row, column = f.select(lower, i, j), f.select(lower, j, i)
                value = f.load(self.element, f.offset(self.source, f.add(f.mul(row, size), column), self.element))
                f.store(value, self.at(self.here, i, j))
                return [f.maximum(most[0], f.abs(value))]

            return f.loop(0, f.add(i, 1), 1, now, one)

        most, = f.loop(0, size, 1, [constant(self.element, 0.0)], row)
        finite = f.compare("<", most, float("inf"))
        power = self.power(most)
        factor = f.div(constant(self.element, 1.0), power)

        def mirrored(i, _):
            def one(j, _):
                value = f.mul(self.one(self.here, i, j), factor)
                f.store(value, self.at(self.here, i, j))
                f.store(value, self.at(self.here, j, i))

            f.loop(0, f.add(i, 1), 1, [], one)

        f.loop(0, size, 1, [], mirrored)
        return finite, f.convert(power, f64)

    # -- to tridiagonal form -------------------------------------------------------------------------------------------

    def reflect(self, k):
        """Apply the Householder reflector of row and column k to all rows and columns after it."""
        f = self.f
        row, v, following = self.at(self.here, k), self.at(self.reflected, k), f.add(k, 1)
        tau = self.reflector(k, row, v, following)

        def spread(first, now):
            sums = f.loop(following, self.size, 1, [zero(self.kind)] * self.group,
                          lambda i, sums: self.more(sums, self.one(self.reflected, k, i),
                                                    self.load(self.at(self.here, i), first)))
            masks = self.beyond(first, k)
            sums = [f.select(mask, f.mul(total, f.splat(tau, self.lanes)), zero(self.kind))
                    for mask, total in zip(masks, sums)]
            self.store(sums, self.along, first)
            return [f.fma(total, x, inner) for total, x, inner in zip(sums, self.load(v, first), now)]

        inner = self.each(following, self.wide, [zero(self.kind)] * self.group, spread)
        half = f.mul(f.mul(tau, -0.5), self.summed(inner))

        def corrected(first, _):
            self.store([f.fma(f.splat(half, self.lanes), x, p)
                        for x, p in zip(self.load(v, first), self.load(self.along, first))], self.along, first)

        self.each(following, self.wide, [], corrected)

        def changed(i, _):
            own, other = (f.neg(f.load(self.element, f.offset(base, i, self.element))) for base in (v, self.along))
            there = self.at(self.here, i)

            def some(first, _):
                found = self.more(self.load(there, first), own, self.load(self.along, first))
                self.store(self.more(found, other, self.load(v, first)), there, first)

            self.each(following, self.wide, [], some)

        f.loop(following, self.size, 1, [], changed)

    def reflector(self, k, row, v, following):
        """Write the reflector of row k to v, with zeros before it; return tau."""
        f = self.f

        def squared(first, now):
            masked = [f.select(mask, x, zero(self.kind))
                      for mask, x in zip(self.beyond(first, following), self.load(row, first))]
            return [f.fma(x, x, total) for x, total in zip(masked, now)]

        below = self.summed(self.each(following, self.wide, [zero(self.kind)] * self.group, squared))
        alpha = f.load(self.element, f.offset(row, following, self.element))
        some = f.compare(">", below, 0.0)
        norm = f.sqrt(f.fma(alpha, alpha, below))
        beta = f.select(some, f.neg(f.intrinsic("llvm.copysign", self.element, [norm, alpha])), alpha)
        tau = f.select(some, f.div(f.sub(beta, alpha), beta), constant(self.element, 0.0))
        divisor = f.splat(f.select(some, f.sub(alpha, beta), constant(self.element, float("inf"))), self.lanes)
        self.put(f.convert(beta, f64), self.beside, k)
        f.store(tau, f.offset(self.scales, k, self.element))

        def divided(first, _):
            self.store([f.select(mask, f.div(x, divisor), zero(self.kind))
                        for mask, x in zip(self.beyond(first, following), self.load(row, first))], v, first)

        f.fill_bytes(v, 0, f.mul(self.wide, self.element.bytes))
        self.each(following, self.wide, [], divided)
        f.store(constant(self.element, 1.0), f.offset(v, following, self.element))
        return tau

    def tridiagonal(self):
        """Store the diagonal and the off-diagonal."""
        f = self.f
        f.loop(0, self.size, 1, [], lambda k, _: self.put(f.convert(self.one(self.here, k, k), f64), self.diagonal, k))
        last = f.sub(self.size, 1)
        f.when(f.compare(">", last, 0), lambda: self.put(f.convert(self.one(self.here, f.sub(last, 1), last), f64),
                                                         self.beside, f.sub(last, 1)))
        self.put(constant(f64, 0.0), self.beside, last)

    def form(self):
        """Multiply the reflectors, and store the transposed result over the matrix."""
        f, size = self.f, self.size
        f.fill_bytes(self.turned, 0, f.mul(f.mul(size, self.wide), self.element.bytes))
        f.loop(0, size, 1, [], lambda i, _: f.store(constant(self.element, 1.0), self.at(self.turned, i, i)))

        def applied(n, _):
            k = f.sub(f.sub(size, 3), n)
            following, tau = f.add(k, 1), f.load(self.element, f.offset(self.scales, k, self.element))

            def some(first, _):
                sums = f.loop(following, size, 1, [zero(self.kind)] * self.group,
                              lambda i, sums: self.more(sums, self.one(self.reflected, k, i),
                                                        self.load(self.at(self.turned, i), first)))
                less = [f.mul(total, f.splat(f.neg(tau), self.lanes)) for total in sums]

                def changed(i, _):
                    there = self.at(self.turned, i)
                    self.store(self.more(self.load(there, first), self.one(self.reflected, k, i), less), there, first)

                f.loop(following, size, 1, [], changed)

            self.each(following, self.wide, [], some)

        f.loop(0, f.sub(size, 2), 1, [], applied)
        f.loop(0, size, 1, [],
               lambda i, _: f.loop(0, size, 1, [],
                                   lambda j, _: f.store(self.one(self.turned, i, j), self.at(self.here, j, i)))
               and None)

    # -- to diagonal form ----------------------------------------------------------------------------------------------

    def rotations(self):
        """Run rounds of rotations until the off-diagonal is zero; return 0, or the 1-based index of an eigenvalue that
        was not found."""
        f = self.f

        def value(low, failed):
            def going(state):
                return f.compare("!=", state[2], 0)

            def round_(state):
                rounds, failed, _ = state
                high = self.end_of_block(low)

                def worked():
                    late = f.compare(">=", rounds, MOST_ROUNDS)
                    f.when(late, lambda: None, lambda: self.round(low, high))
                    return [f.select(late, f.add(low, 1), failed), f.select(late, constant(i64, 0), constant(i64, 1))]

                failed, more = f.when(f.compare(">", high, low), worked, lambda: [failed, constant(i64, 0)])
                return [f.add(rounds, 1), failed, more]

            return [f.while_loop([constant(i64, 0), failed[0], constant(i64, 1)], going, round_)[1]]

        return f.loop(0, self.size, 1, [constant(i64, 0)], value)[0]

    def end_of_block(self, low):
        """The first index from `low` on whose off-diagonal element is (nearly) zero."""
        f, last = self.f, self.f.sub(self.size, 1)

        def coupled(state):
            k = state[0]
            after = f.minimum(f.add(k, 1), last)
            near = f.add(f.abs(self.number(self.diagonal, k)), f.abs(self.number(self.diagonal, after)))
            return f.and_(f.compare("<", k, last),
                          f.compare(">", f.abs(self.number(self.beside, k)), f.mul(near, self.small)))

        return f.while_loop([low], coupled, lambda state: [f.add(state[0], 1)])[0]

    def hypotenuse(self, a, b):
        return self.f.sqrt(self.f.fma(a, a, self.f.mul(b, b)))

    def round(self, low, high):
        """One implicit QL step on the block from low to high (EISPACK's tql2)."""
        f = self.f
        first, beside = self.number(self.diagonal, low), self.number(self.beside, low)
        g = f.div(f.sub(self.number(self.diagonal, f.add(low, 1)), first), f.mul(beside, 2.0))
        r = f.intrinsic("llvm.copysign", f64, [self.hypotenuse(g, constant(f64, 1.0)), g])
        g = f.add(f.sub(self.number(self.diagonal, high), first), f.div(beside, f.add(g, r)))
        one, none = constant(f64, 1.0), constant(f64, 0.0)

        def rotated(state):
            i, s, c, g, p, _ = state
            e = self.number(self.beside, i)
            f_, b = f.mul(s, e), f.mul(c, e)
            r = self.hypotenuse(f_, g)
            self.put(r, self.beside, f.add(i, 1))
            vanished = f.compare("==", r, 0.0)

            def parted():
                after = f.add(i, 1)
                self.put(f.sub(self.number(self.diagonal, after), p), self.diagonal, after)
                self.put(none, self.beside, high)
                return [i, s, c, g, p, constant(i64, 1)]

            def turned():
                s, c = f.div(f_, r), f.div(g, r)
                h = f.sub(self.number(self.diagonal, f.add(i, 1)), p)
                t = f.fma(f.sub(self.number(self.diagonal, i), h), s, f.mul(f.mul(c, b), 2.0))
                p_ = f.mul(s, t)
                self.put(f.add(h, p_), self.diagonal, f.add(i, 1))
                if self.with_vectors:
                    self.rotate(self.at(self.here, i), self.at(self.here, f.add(i, 1)), s, c, self.wide)
                return [f.sub(i, 1), s, c, f.sub(f.mul(c, t), b), p_, constant(i64, 0)]

            return f.when(vanished, parted, turned)

        state = [f.sub(high, 1), one, one, g, none, constant(i64, 0)]
        _, _, _, g, p, early = f.while_loop(state, lambda state: f.and_(f.compare(">=", state[0], low),
                                                                        f.compare("==", state[5], 0)), rotated)

        def ended():
            self.put(f.sub(self.number(self.diagonal, low), p), self.diagonal, low)
            self.put(g, self.beside, low)
            self.put(none, self.beside, high)

        f.when(f.compare("==", early, 0), ended)

    # -- back to memory ------------------------------------------------------------------------------------------------

    def written(self, scale):
        """Write the sorted eigenvalues, and each one's vector as a column."""
        f, size = self.f, self.size

        def value(k, _):
            which = f.load(i64, f.offset(self.order, k, i64))
            f.store(f.convert(f.mul(self.number(self.diagonal, which), scale), self.element),
                    f.offset(self.values, k, self.element))

        f.loop(0, size, 1, [], value)
        if self.with_vectors:
            self.as_columns(self.here, self.wide, self.order, self.vectors, size, size)

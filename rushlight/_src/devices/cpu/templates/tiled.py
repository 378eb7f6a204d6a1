"""The register tile of a blocked matmul in AMX tiles: 32 rows by 2 vectors of accumulators in four registers, and other
shapes.

Operands are packed as for vector registers, rows as quads of a full vector of words: a tile of A is one kilobyte, a
tile of B every vector of a panel.  Accumulators are stored to memory, where the epilogue reads them.
"""

from ..llvm import tiles
from ..llvm.types import i64, ptr
from ..llvm.values import Value, constant
from .tile import FIRST, LAST, PARAMETERS

SHAPES = ((32, 2), (16, 4), (64, 1), (16, 3), (48, 1), (16, 2), (32, 1), (16, 1))  # (rows, vectors)
PRODUCT, LOAD = 16, 8  # cycles of an instruction


def cycles(rows, vectors):
    """Cycles of a step along k of one shape, operands in the L1 cache."""
    down = rows // tiles.ROWS
    return max(PRODUCT * down * vectors, LOAD * (down + vectors))


def operands(rows, vectors):
    """Return (operand that is held while the other one passes, {operand: its first register}, {operand: number of
    registers}) of a shape; accumulators come first."""
    down = rows // tiles.ROWS
    held, passing = ("a", "b") if down <= vectors else ("b", "a")
    counts = {"a": down, "b": vectors}
    first = {held: down * vectors, passing: down * vectors + counts[held]}
    return (held, passing), first, {held: counts[held], passing: tiles.COUNT - first[passing]}


def write_sums(b, registers, numbers, rows, vectors, a, panel, chunks, beside=None, a_row=tiles.ROW_BYTES, a_step=None,
               b_row=None, a_places=None,
               words=tiles.WORDS, passing=""):
    """Emit the multiply-adds of `chunks` (i64) steps along k into the accumulators in registers 0 and on, row by row;
    `beside(step)` emits what each step does in addition.

    A is in quads and B in a panel, unless rows of A are `a_row` bytes apart and steps are `a_step` bytes apart or at
    the byte offsets of the table `a_places`, or words of B along k are `b_row` bytes apart.  `words`: words of a step.
    `passing`: the operand, "a" or "b", that passes by the other one, which stays in the L1 cache.
    """
    down = rows // tiles.ROWS
    a_row, a_step = (step if isinstance(step, Value) else constant(i64, step)
                     for step in (a_row, rows * tiles.ROW_BYTES if a_step is None else a_step))
    b_row = vectors * numbers.lanes * numbers.word.bytes if b_row is None else b_row
    (held, other), first, free = operands(rows, vectors)
    counts = {"a": down, "b": vectors}

    def step(number, at):
        places, strides = dict(zip("ab", at)), {"a": a_row, "b": b_row}
        if a_places is not None:
            places["a"] = b.offset(a, b.load(i64, b.offset(a_places, number, i64)))
        jumps = {"a": b.mul(a_row, tiles.ROWS), "b": constant(i64, tiles.ROW_BYTES)}

        def load(operand, number):
            register = first[operand] + number % free[operand]
            registers.load(register, b.offset(places[operand], b.mul(jumps[operand], number)), strides[operand],
                           operand == passing)
            return register

        kept = []
        for n in range(counts[other]):
            one = load(other, n)
            for m in range(counts[held]):
                if n == 0:
                    kept.append(load(held, m))
                pair = {other: (n, one), held: (m, kept[m])}
                registers.multiply_add(numbers.tiles, pair["a"][0] * vectors + pair["b"][0], pair["a"][1], pair["b"][1])
        if beside is not None:
            beside(number)
        return [a if a_places is not None else b.offset(places["a"], a_step), b.offset(places["b"], words * b_row)]

    b.loop(0, chunks, 1, [a, panel], step)


OUT = ("out", "out_stride", "batch", "row", "column")  # destination of a matmul's tile
_BEGIN = tiles.ROW_BYTES  # offset of the sums of two tiles, after the fields that describe the waiting one


class Waiting:
    """Finished accumulators of a tile that wait for their epilogue.  It runs while the next tile is multiplied: it uses
    other execution units of the CPU, and accumulators just stored from AMX tiles are slow to read.  `where` names the
    values that give their destination: "out" is a pointer, the others integers.  The memory belongs to the kernel, for
    one thread."""

    def __init__(self, b, memory, numbers, rows, vectors, where=OUT):
        self.b, self.memory, self.numbers, self.rows, self.vectors = b, memory, numbers, rows, vectors
        self.size, self.names = rows * vectors * tiles.ROW_BYTES, ("rows", "sums", *where)
        assert 8 * len(self.names) <= _BEGIN

    @classmethod
    def allocated(cls, b, numbers, rows, vectors, where=OUT):
        """A Waiting in the frame of the kernel `b`."""
        return cls(b, b.alloca(numbers.vector, _BEGIN // tiles.ROW_BYTES + 2 * rows * vectors), numbers, rows, vectors,
                   where)

    def clear(self):
        """Mark that nothing waits."""
        self._put("rows", constant(i64, 0))

    def buffer(self):
        """Address for the next accumulators, distinct from those that wait."""
        b = self.b
        first = b.offset(self.memory, _BEGIN)
        there = b.and_(b.compare("!=", self.get("rows"), 0), b.compare("==", self.get("sums"), first))
        return b.select(there, b.offset(first, self.size), first)

    def put(self, rows, sums, *where):
        """Let `rows` rows of accumulators wait, at the address from `buffer`."""
        for name, value in zip(self.names, (rows, sums, *where)):
            self._put(name, value)

    def get(self, name):
        """Return the number of rows that wait, the address of their accumulators, or a part of their destination."""
        kind = ptr if name in ("sums", "out") else i64
        return self.b.load(kind, self.b.offset(self.memory, 8 * self.names.index(name)))

    def where(self):
        """The destination that `put` stored."""
        return [self.get(name) for name in self.names[2:]]

    def _put(self, name, value):
        self.b.store(value, self.b.offset(self.memory, 8 * self.names.index(name)))

    def finisher(self, args, store):
        """Return a function that emits the epilogue of a range of the rows that wait."""
        sums, place = self.get("sums"), self.where()
        return lambda begin, end: write_rows(self.b, args, store, sums, self.vectors, begin, end, *place)


class WaitingTile:
    """Base of tiles whose finished accumulators wait for the next tile; ``where`` names the parts of the
    destination."""

    more = (("waiting", ptr),)
    where = ()

    def prepare(self, f):
        """Allocate memory for the accumulators that wait, in the kernel's function."""
        self.waiting = Waiting.allocated(f, self.numbers, self.rows, self.vectors, self.where)
        self.further = (self.waiting.memory,)

    def begin(self, f):
        """Mark that nothing waits."""
        self.waiting.clear()


def write_rows(b, args, store, sums, vectors, begin, end, out, out_stride, batch, row, column, columns_left=None):
    """Emit the epilogue of the rows from `begin` to `end` of a tile's accumulators, which are contiguous; masked if a
    number of columns is given."""
    lanes = store.numbers.lanes

    def one_vector(r, j, mask=None):
        total = b.load(store.numbers.vector,
                       b.offset(sums, b.add(b.mul(r, vectors * tiles.ROW_BYTES), j * tiles.ROW_BYTES)))
        place = b.offset(out, b.add(b.mul(out_stride, r), j * lanes * store.out.bytes))
        store.finish(b, args, total, place, batch, b.add(row, r), b.add(column, j * lanes), mask)

    def some(r, j):
        left = b.sub(columns_left, j * lanes)
        b.when(b.compare(">", left, 0), lambda: one_vector(r, j, b.lane_mask(left, lanes)))

    def one_row(r, _):
        for j in range(vectors):
            (one_vector if columns_left is None else some)(r, j)

    b.loop(begin, end, 1, [], one_row)


def write_rest(module, name, numbers, rows, vectors, store):
    """Return a function of (slots, what waits, row) that finishes what waits from a row on."""
    f = module.function(name, [("args", ptr), ("waiting", ptr), ("begin", i64)], internal=True)
    args, memory, begin = f.parameters
    waiting = Waiting(f, memory, numbers, rows, vectors)
    finish = waiting.finisher(args, store)
    finish(begin, waiting.get("rows"))
    waiting.clear()
    f.ret()
    return f


def write_tile(module, name, numbers, rows, vectors, store, rest, passing=""):
    """Return a function that computes one tile; its parameters are PARAMETERS, strides in bytes, and the memory of what
    waits.

    `passing`: as in write_sums.  `a_row` and `a_step` are the bytes between rows of A, and of a step along k.
    `partial` holds accumulators between blocks of k, a contiguous tile.  Complete accumulators wait for the next tile,
    except at the last columns.
    """
    f = module.function(name, [*PARAMETERS, ("waiting", ptr), ("a_row", i64), ("a_step", i64)], internal=True)
    (args, a, panel, chunks, out, out_stride, partial, _, stage, rows_left, columns_left, batch, row, column,
     memory, a_row, a_step) = f.parameters
    waiting = Waiting(f, memory, numbers, rows, vectors)
    first, last = (f.compare("!=", f.and_(stage, bit), 0) for bit in (FIRST, LAST))
    there, wide = f.minimum(rows_left, rows), f.compare(">=", columns_left, vectors * numbers.lanes)
    wanted = f.select(last, there, 0)

    def complete(sums):
        f.when(wide, lambda: waiting.put(there, sums, out, out_stride, batch, row, column), lambda: edge(sums))

    def edge(sums):
        f.call(rest, [args, memory, constant(i64, 0)])
        write_rows(f, args, store, sums, vectors, constant(i64, 0), there, out, out_stride, batch, row, column,
                   columns_left)

    def fetch(begin, end):
        store.fetch(f, args, out, out_stride, f.minimum(end, wanted), vectors, f.minimum(begin, wanted))

    direct = None
    if store.epilogue.emit is None and store.out is numbers.accumulator:
        direct = f.and_(f.and_(f.compare(">=", rows_left, rows), wide), last), out, out_stride
    finishing = lambda: waiting.finisher(args, store), lambda begin: f.call(rest, [args, memory, begin]), complete
    write_products(f, waiting, a, panel, chunks, first, last, partial, finishing, fetch, direct,
                   a_row=a_row, a_step=a_step, passing=passing)
    f.ret()
    return f


def write_products(f, waiting, a, panel, chunks, first, last, partial, finishing, fetch=None, direct=None, **lying):
    """Emit the work of a tile: add `chunks` steps along k to the accumulators at `partial`, or to zero if `first`; then
    store them there again, or, if `last`, contiguously for the next tile.

    `finishing`: functions that return the function which finishes a range of the rows that wait; that finish all rows
      from one on; and that handle complete accumulators.  `fetch(begin, end)` prefetches for rows of this tile.
    `direct`: (condition, address, bytes between rows) under which complete accumulators are stored unchanged.
    """
    rows, vectors = waiting.rows, waiting.vectors
    registers, packed = tiles.tiles_of(f), constant(i64, vectors * tiles.ROW_BYTES)
    finisher, rest, complete = finishing

    def move(act, base, stride):
        for r in range(rows // tiles.ROWS):
            for j in range(vectors):
                act(r * vectors + j, f.offset(base, f.add(f.mul(stride, r * tiles.ROWS), j * tiles.ROW_BYTES)), stride)

    def clear():
        for register in range(rows // tiles.ROWS * vectors):
            registers.zero(register)

    def done():
        sums = waiting.buffer()
        move(registers.store, sums, packed)
        complete(sums)

    def keep():
        f.when(last, done, lambda: move(registers.store, partial, packed))

    f.when(first, clear, lambda: move(registers.load, partial, packed))
    multiply(f, registers, waiting, a, panel, chunks, finisher, rest, fetch, **lying)
    if direct:
        f.when(direct[0], lambda: move(registers.store, *direct[1:]), keep)
    else:
        keep()


def multiply(f, registers, waiting, a, panel, chunks, finisher, rest, fetch, **lying):
    """Emit the loop along k; each step also finishes rows of what waits, if anything does, and prefetches memory.
    `lying`: the layouts of A and B, as for write_sums."""
    numbers, rows, vectors = waiting.numbers, waiting.rows, waiting.vectors
    steps = f.maximum(chunks, 1)
    per_step = f.div(f.add(steps, rows - 1), steps)

    def loop(acts):
        def beside(step):
            begin = f.mul(step, per_step)
            for act in acts:
                act(begin, f.add(begin, per_step))

        write_sums(f, registers, numbers, rows, vectors, a, panel, chunks, beside, **lying)

    def with_waiting():
        there, finish = waiting.get("rows"), finisher()
        loop([*fetches, lambda begin, end: finish(f.minimum(begin, there), f.minimum(end, there))])
        rest(f.minimum(f.mul(chunks, per_step), there))

    fetches = [fetch] if fetch else []
    f.when(f.compare("!=", waiting.get("rows"), 0), with_waiting, lambda: loop(fetches))

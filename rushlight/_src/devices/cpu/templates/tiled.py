"""The register tile of blocked products in tile registers: 32 rows by 2 vectors of sums in four registers, and kin.

Operands come packed as for vector registers, rows as quads of a whole vector of words: a tile of A is a kilobyte in one
piece, a tile of B every vector of a panel.  Sums leave through memory, where the epilogue reads them.
"""

from ..llvm import tiles
from ..llvm.types import i64, ptr
from ..llvm.values import Value, constant
from .tile import FIRST, LAST, PARAMETERS

SHAPES = ((32, 2), (16, 4), (64, 1), (16, 3), (48, 1), (16, 2), (32, 1), (16, 1))  # (rows, vectors)
PRODUCT, LOAD = 16, 8  # cycles of an instruction


def cycles(rows, vectors):
    """Cycles of a step along k of one shape, operands in the first cache."""
    down = rows // tiles.ROWS
    return max(PRODUCT * down * vectors, LOAD * (down + vectors))


def operands(rows, vectors):
    """(which operand is held while the other one passes, {operand: its first register}, {operand: how many registers})
    of a shape; sums come first."""
    down = rows // tiles.ROWS
    held, passing = ("a", "b") if down <= vectors else ("b", "a")
    counts = {"a": down, "b": vectors}
    first = {held: down * vectors, passing: down * vectors + counts[held]}
    return (held, passing), first, {held: counts[held], passing: tiles.COUNT - first[passing]}


def write_sums(b, registers, numbers, rows, vectors, a, panel, chunks, beside=None, a_row=tiles.ROW_BYTES, a_step=None,
               b_row=None, a_places=None,
               words=tiles.WORDS, passing=""):
    """Adds the products of `chunks` (i64) steps along k to the sums in registers 0 and on, row by row; `beside(step)`
    is done in each step.

    A is in quads and B in a panel, unless rows of A are `a_row` bytes apart and a step takes `a_step` or lies where the
    table `a_places` says, in bytes from the beginning, or words of B along k are `b_row` bytes apart.  `words`: those
    of a step.  `passing`: the operand, "a" or "b", that passes by the other one, which stays in the first cache.
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


OUT = ("out", "out_stride", "batch", "row", "column")  # where a product's tile goes
_BEGIN = tiles.ROW_BYTES  # the first of the sums of two tiles, behind what says which of them wait


class Waiting:
    """Finished sums of a tile that wait for their epilogue: it is computed while the next tile is multiplied, which
    takes other units of the processor, and sums that have just left tile registers are slow to read.  `where` names
    what says where they go: "out" is a pointer, the others whole numbers.  The memory belongs to the kernel, for one
    thread."""

    def __init__(self, b, memory, numbers, rows, vectors, where=OUT):
        self.b, self.memory, self.numbers, self.rows, self.vectors = b, memory, numbers, rows, vectors
        self.size, self.names = rows * vectors * tiles.ROW_BYTES, ("rows", "sums", *where)
        assert 8 * len(self.names) <= _BEGIN

    @classmethod
    def allocated(cls, b, numbers, rows, vectors, where=OUT):
        """In the frame of the kernel `b`."""
        return cls(b, b.alloca(numbers.vector, _BEGIN // tiles.ROW_BYTES + 2 * rows * vectors), numbers, rows, vectors,
                   where)

    def clear(self):
        """Nothing waits."""
        self._put("rows", constant(i64, 0))

    def buffer(self):
        """Where the next sums go: not where the sums that wait are."""
        b = self.b
        first = b.offset(self.memory, _BEGIN)
        there = b.and_(b.compare("!=", self.get("rows"), 0), b.compare("==", self.get("sums"), first))
        return b.select(there, b.offset(first, self.size), first)

    def put(self, rows, sums, *where):
        """So many rows of sums wait, whose memory `buffer` gave."""
        for name, value in zip(self.names, (rows, sums, *where)):
            self._put(name, value)

    def get(self, name):
        """How many rows wait, where their sums are, or a part of where they go."""
        kind = ptr if name in ("sums", "out") else i64
        return self.b.load(kind, self.b.offset(self.memory, 8 * self.names.index(name)))

    def where(self):
        """Where they go, as it was put."""
        return [self.get(name) for name in self.names[2:]]

    def _put(self, name, value):
        self.b.store(value, self.b.offset(self.memory, 8 * self.names.index(name)))

    def finisher(self, args, store):
        """A function that writes the epilogue of rows of a product's sums that wait, from one to another."""
        sums, place = self.get("sums"), self.where()
        return lambda begin, end: write_rows(self.b, args, store, sums, self.vectors, begin, end, *place)


class WaitingTile:
    """What tiles have in common whose finished sums wait for the next tile; ``where``: the names of where they go."""

    more = (("waiting", ptr),)
    where = ()

    def prepare(self, f):
        """Memory for the sums that wait, in the kernel's function."""
        self.waiting = Waiting.allocated(f, self.numbers, self.rows, self.vectors, self.where)
        self.further = (self.waiting.memory,)

    def begin(self, f):
        """Nothing waits."""
        self.waiting.clear()


def write_rows(b, args, store, sums, vectors, begin, end, out, out_stride, batch, row, column, columns_left=None):
    """Writes the epilogue of the rows from `begin` to `end` of a tile's sums, which lie in one piece; masked where a
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
    """A function of (slots, what waits, row) that finishes what waits from a row on."""
    f = module.function(name, [("args", ptr), ("waiting", ptr), ("begin", i64)], internal=True)
    args, memory, begin = f.parameters
    waiting = Waiting(f, memory, numbers, rows, vectors)
    finish = waiting.finisher(args, store)
    finish(begin, waiting.get("rows"))
    waiting.clear()
    f.ret()
    return f


def write_tile(module, name, numbers, rows, vectors, store, rest, passing=""):
    """A function that computes one tile; its parameters are PARAMETERS, strides in bytes, and the memory of what waits.

    `passing`: as in write_sums.  `a_row` and `a_step` are the bytes between rows of A, and of a step along k.
    `partial` is where sums wait between blocks of k, a whole tile in one piece.  Sums that are complete wait for the
    next tile, but at the last columns.
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
    """Writes what a tile does: the products of `chunks` steps along k are added to the sums that wait at `partial`, if
    these are not the `first`; if they are not the `last`, the sums wait there again, else for the next tile, in one
    piece.

    `finishing`: a function that gives the function of rows that finishes what waits, from one to another; what finishes
      all rows from one on; what is
    done with complete sums.  `fetch(begin, end)` asks for what rows of this tile will want.  `direct`: (when, where,
    bytes between rows) complete sums go to memory as they are.
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
    """Writes the loop along k, and what is done in each of its steps: rows of what waits are finished, if something
    does, and memory is asked for.
    `lying`: how A and B lie, as for write_sums."""
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

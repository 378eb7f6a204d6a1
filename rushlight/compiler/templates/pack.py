"""Packing: operands rewritten into the order in which the register tile reads them.

Panels are `[panel][k][width]` words: the vectors of B, or the rows of A when neighbouring rows are neighbours in memory.
Quads are `[tile][k / 4][row][4]` words: the rows of A when neighbouring k are neighbours. Both are padded with zeros along
k to a multiple of 4. Elements are converted to words on the way.
"""

from dataclasses import replace

from ..llvm.builder import constant, zero
from ..llvm.types import i64, vector
from .contraction import CHUNK


def load_words(b, numbers, pointer, k_stride, lane_stride, count, k_left):
    """A vector of words: lane l is at `pointer + l * lane_stride`, of which the first `count` lanes are read, the rest zero.

    `lane_stride` is None for neighbouring elements and `count` None for all lanes. A word of several elements takes the others
    from `k_stride` bytes on each, when `k_left` elements along k (an i64) allow it.
    """
    kind = vector(numbers.element, numbers.lanes)

    def load(pointer, count):
        mask = None if count is None else b.lane_mask(count, numbers.lanes)
        if lane_stride is None:
            return b.load(kind, pointer, mask=mask)
        places = b.mul(b.lane_indices(numbers.lanes), b.splat(lane_stride, numbers.lanes))
        return b.gather(kind, b.offset(pointer, places), mask)

    if numbers.per_word == 1:
        return b.convert(load(pointer, count), numbers.word, numbers.signed)
    pieces = [load(pointer, count)]
    for k in range(1, numbers.per_word):
        there = b.select(b.compare(">", k_left, k), constant(i64, numbers.lanes) if count is None else count, 0)
        pieces.append(load(b.offset(pointer, b.mul(k_stride, k)), there))
    return join(b, numbers, pieces)


def join(b, numbers, pieces):
    """Words made of a vector of elements for each place in a word, lowest first."""
    bits = 32 // numbers.per_word
    total = None
    for k, piece in enumerate(pieces):
        part = b.cast("zext", parts(b, numbers, piece), numbers.words)
        total = part if total is None else b.or_(total, b.shl(part, k * bits))
    return total


def parts(b, numbers, elements):
    """Elements as the parts of words: bytes widened where the instruction wants them so, halves as their bits."""
    if elements.type.element.is_float:
        return b.bitcast(elements, elements.type.with_element(numbers.part))
    return b.convert(elements, numbers.part, numbers.signed)


def load_run(b, numbers, pointer, k_left):
    """A vector of words whose elements are neighbours along k, zero from `k_left` elements on (None: all are there)."""
    elements = numbers.lanes * numbers.per_word
    mask = None if k_left is None else b.lane_mask(k_left, elements)
    loaded = b.load(vector(numbers.element, elements), pointer, align=numbers.element.bytes, mask=mask)
    if numbers.per_word == 1:
        return b.convert(loaded, numbers.word, numbers.signed)
    return b.bitcast(parts(b, numbers, loaded), numbers.words)


def transpose(b, rows):
    """Transposes a square of words held in vectors; the lanes are 2 or 4 blocks of 128 bits, or one."""
    kind = rows[0].type
    lanes, per_block = kind.lanes, 128 // kind.element.bits
    blocks = lanes // per_block

    def within(a, c, picks):
        return b.shuffle(a, c, [base + pick if pick < per_block else lanes + base + pick - per_block
                                for base in range(0, lanes, per_block) for pick in picks])

    def across(a, c, picks):
        return b.shuffle(a, c, [pick * per_block + lane for pick in picks for lane in range(per_block)])

    if per_block == 4:
        for g in range(0, lanes, 4):
            pairs = [rows[g:g + 2], rows[g + 2:g + 4]]
            low = [within(*pair, (0, 4, 1, 5)) for pair in pairs]
            high = [within(*pair, (2, 6, 3, 7)) for pair in pairs]
            rows[g:g + 4] = [within(*pair, picks) for pair in (low, high) for picks in ((0, 1, 4, 5), (2, 3, 6, 7))]
    else:
        for g in range(0, lanes, 2):
            rows[g:g + 2] = [within(rows[g], rows[g + 1], picks) for picks in ((0, 2), (1, 3))]
    if blocks == 1:
        return rows
    result = [None] * lanes
    for j in range(per_block):
        column = [rows[j + g * per_block] for g in range(blocks)]
        if blocks == 2:
            result[j], result[j + per_block] = across(*column, (0, 2)), across(*column, (1, 3))
            continue
        even, odd = (0, 2, 4, 6), (1, 3, 5, 7)
        for picks, targets in ((even, (0, 2)), (odd, (1, 3))):
            halves = across(column[0], column[1], picks), across(column[2], column[3], picks)
            for target, again in zip(targets, (even, odd)):
                result[j + target * per_block] = across(*halves, again)
    return result


def collected(b, vectors, places):
    """A vector of the lanes at these places among those of several vectors, the first vector's first."""
    lanes, result = vectors[0].type.lanes, None
    for first in range(0, len(vectors), 2):
        here = [0 <= place - first * lanes < 2 * lanes for place in places]
        if any(here):
            other = vectors[first + 1] if first + 1 < len(vectors) else None
            part = b.shuffle(vectors[first], other, [place - first * lanes if there else k for k, (place, there) in enumerate(zip(places, here))])
            result = part if result is None else b.shuffle(result, part, [k + lanes * there for k, there in enumerate(here)])
    return result


def write_panel(b, numbers, width, source, k_stride, lane_stride, target, lanes_left, k_count):
    """Packs one panel of `width` words from elements that are neighbours across lanes (or `lane_stride` bytes apart).

    `lanes_left` and `k_count` (elements, i64) say how much there is; the panel is filled with zeros up to its width and a
    multiple of four words along k. Stores may spill a vector past the last row.
    """
    vectors = -(-width // numbers.lanes)
    step = numbers.per_word
    word_bytes = numbers.word.bytes
    neighbours = lane_stride is None
    lane_stride = constant(i64, numbers.element.bytes) if neighbours else lane_stride

    def rows(full):
        def row(k, _):
            at = b.offset(source, b.mul(k, k_stride))
            to = b.offset(target, b.mul(k, width * word_bytes // step))
            left = b.sub(k_count, k)
            for j in range(vectors):
                count = None if full else b.sub(lanes_left, j * numbers.lanes)
                place = b.mul(lane_stride, j * numbers.lanes)
                words = load_words(b, numbers, b.offset(at, place), k_stride, None if neighbours else lane_stride, count, left)
                b.store(words, b.offset(to, j * numbers.lanes * word_bytes), align=4)
        b.loop(0, k_count, step, [], row)

    b.when(b.compare(">=", lanes_left, vectors * numbers.lanes), lambda: rows(True), lambda: rows(False))
    words = b.div(b.add(k_count, step - 1), step)
    padded = _padded(b, words)

    def blank(k, _):
        to = b.offset(target, b.mul(k, width * word_bytes))
        for j in range(vectors):
            b.store(zero(numbers.words), b.offset(to, j * numbers.lanes * word_bytes), align=4)

    b.loop(words, padded, 1, [], blank)


def _padded(b, words):
    return b.mul(b.div(b.add(words, CHUNK - 1), CHUNK), CHUNK)


def write_transposed_panel(b, numbers, width, source, lane_offset, target, lanes_left, k_count):
    """Packs one panel from elements that are neighbours along k: squares of words are transposed in registers.

    `lane_offset(lane)` gives the byte offset of a lane's elements; lanes that are not there are not asked for. Up to
    a vector of rows past the padded end is overwritten.
    """
    lanes = numbers.lanes
    elements = lanes * numbers.per_word
    ahead = b.mul(k_count, numbers.element.bytes)

    def square(k, to, group, full):
        rows = []
        for lane in range(lanes):
            number = b.add(b.mul(group, lanes), lane)
            place = number if full else b.minimum(number, b.sub(lanes_left, 1))
            at = b.offset(source, b.add(lane_offset(place), b.mul(k, numbers.element.bytes)))
            left = None if full else b.select(b.compare(">", lanes_left, number), b.sub(k_count, k), 0)
            if full:
                # rows are far apart, so the machine does not guess the next block
                b.prefetch(b.offset(at, ahead), locality=2)
            rows.append(load_run(b, numbers, at, left))
        for lane, row in enumerate(transpose(b, rows)):
            at = b.offset(to, b.mul(group, lanes * numbers.word.bytes))
            b.store(row, b.offset(at, lane * width * numbers.word.bytes), align=4)

    def squares(full):
        def body(k, _):
            to = b.offset(target, b.mul(k, width * numbers.word.bytes // numbers.per_word))
            b.loop(0, width // lanes, 1, [], lambda group, _: square(k, to, group, full))
        return body

    whole = b.mul(b.div(k_count, elements), elements)
    whole = b.select(b.compare(">=", lanes_left, width), whole, 0)
    b.loop(0, whole, elements, [], squares(True))
    b.loop(whole, k_count, elements, [], squares(False))


def write_quads(b, numbers, rows_per_tile, source, row_stride, k_stride, target, rows, k_count):
    """Packs rows into quads, tile after tile; elements are neighbours along k, or `k_stride` bytes apart when that is given.

    The rows that the last tile lacks are left as they are: their sums are thrown away.
    """
    word_bytes, elements = numbers.word.bytes, numbers.lanes * numbers.per_word
    chunk_bytes = CHUNK * word_bytes
    quads = b.div(b.add(k_count, CHUNK * numbers.per_word - 1), CHUNK * numbers.per_word)
    tile_bytes = b.mul(quads, rows_per_tile * chunk_bytes)

    def run(at, k, left):
        if k_stride is None:
            return load_run(b, numbers, b.offset(at, b.mul(k, numbers.element.bytes)), left)
        count = b.sub(k_count, k)
        if numbers.per_word == 1:
            return load_words(b, numbers, b.offset(at, b.mul(k, k_stride)), k_stride, k_stride, count, count)
        # lane l holds the elements from l * per_word on
        step, pieces = numbers.per_word, []
        single = replace(numbers, per_word=1, word=numbers.element)
        for part in range(step):
            start = b.add(k, part)
            there = b.div(b.add(b.sub(k_count, start), step - 1), step)
            pieces.append(load_words(b, single, b.offset(at, b.mul(start, k_stride)), k_stride, b.mul(k_stride, step), there, None))
        return join(b, numbers, pieces)

    def split(words, to, count):
        for q in range(numbers.lanes // CHUNK):
            def store(q=q):
                part = b.shuffle(words, None, range(q * CHUNK, (q + 1) * CHUNK))
                b.store(part, b.offset(to, q * rows_per_tile * chunk_bytes), align=4)
            if count is None:
                store()
            else:
                b.when(b.compare(">", count, q * CHUNK * numbers.per_word), store)

    def row(r, _):
        at = b.offset(source, b.mul(r, row_stride))
        tile = b.div(r, rows_per_tile)
        to = b.offset(target, b.add(b.mul(tile, tile_bytes), b.mul(b.sub(r, b.mul(tile, rows_per_tile)), chunk_bytes)))

        def place(k):
            return b.offset(to, b.mul(b.div(k, CHUNK * numbers.per_word), rows_per_tile * chunk_bytes))

        whole = b.mul(b.div(k_count, elements), elements)

        def full(k, _):
            if k_stride is None:
                # rows are far apart, so the machine does not guess the next block
                b.prefetch(b.offset(at, b.mul(b.add(k, k_count), numbers.element.bytes)), locality=2)
            split(run(at, k, None), place(k), None)

        b.loop(0, whole, elements, [], full)

        def tail():
            left = b.sub(k_count, whole)
            split(run(at, whole, left), place(whole), left)

        b.when(b.compare("<", whole, k_count), tail)

    b.loop(0, rows, 1, [], row)

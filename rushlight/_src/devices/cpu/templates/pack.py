"""Packing: operands copied into the order in which the register tile reads them.

Panels are `[panel][k][width]` words: the vectors of B, or the rows of A if rows are contiguous.  Quads are
`[tile][k / 4][row][4]` words: the rows of A if k is contiguous. Both are padded with zeros along k to a multiple of 4.
For AMX tiles there are 16 words in place of 4 (`Numbers.chunk`). Elements are converted to words on the way; `elements`
loads or computes them (elements.py).
"""

from ..llvm.types import i64, vector
from ..llvm.values import constant, zero


def transpose(b, rows):
    """Transpose a square of words held in vectors; the lanes are 2 or 4 blocks of 128 bits, or one."""
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
    """A vector of the lanes at these indices among those of several vectors, the first vector's first."""
    lanes, result = vectors[0].type.lanes, None
    for first in range(0, len(vectors), 2):
        here = [0 <= place - first * lanes < 2 * lanes for place in places]
        if any(here):
            other = vectors[first + 1] if first + 1 < len(vectors) else None
            part = b.shuffle(vectors[first], other,
                             [place - first * lanes if there else k
                              for k, (place, there) in enumerate(zip(places, here))])
            result = part if result is None else b.shuffle(result, part,
                                                           [k + lanes * there for k, there in enumerate(here)])
    return result


def write_panel(b, width, elements, target, lanes_left, k_count):
    """Pack one panel of `width` words from elements that are contiguous across lanes, or strided.

    `lanes_left` and `k_count` (elements, i64) are the existing lanes and k; the panel is filled with zeros up to its
    width and a full chunk along k. Stores may spill a vector past the last row.
    """
    numbers = elements.numbers
    vectors, step, word_bytes = -(-width // numbers.lanes), numbers.per_word, numbers.word.bytes

    def rows(full):
        def row(k, _):
            to = b.offset(target, b.mul(k, width * word_bytes // step))
            left = b.sub(k_count, k)
            for j in range(vectors):
                count = None if full else b.sub(lanes_left, j * numbers.lanes)
                b.store(elements.across(j * numbers.lanes, k, count, left),
                        b.offset(to, j * numbers.lanes * word_bytes), align=4)
        b.loop(0, k_count, step, [], row)

    b.when(b.compare(">=", lanes_left, vectors * numbers.lanes), lambda: rows(True), lambda: rows(False))
    words = b.div(b.add(k_count, step - 1), step)
    padded = b.mul(b.div(b.add(words, numbers.chunk - 1), numbers.chunk), numbers.chunk)

    def blank(k, _):
        to = b.offset(target, b.mul(k, width * word_bytes))
        for j in range(vectors):
            b.store(zero(numbers.words), b.offset(to, j * numbers.lanes * word_bytes), align=4)

    b.loop(words, padded, 1, [], blank)


def write_panels(b, width, elements, targets, k_count, padded):
    """Pack several full panels together, each narrower than a vector: a cache line serves all of them before the next
    one is read.  There are `k_count` elements along k, and zeros up to `padded`; lanes up to a vector past the last
    panel may be read."""
    numbers = elements.numbers
    mask = b.lane_mask(constant(i64, width), numbers.lanes) if width < numbers.lanes else None

    def row(words):
        def body(k, places):
            for j, place in enumerate(places):
                b.store(words(j * width, k), place, align=4, mask=mask)
            return [b.offset(place, width * numbers.word.bytes) for place in places]
        return body

    ends = b.loop(0, k_count, 1, targets, row(lambda lane, k: elements.across(lane, k, None, None)))
    b.loop(k_count, padded, 1, ends, row(lambda lane, k: zero(numbers.words)))


def write_transposed_panel(b, width, elements, target, lanes_left, k_count, fetch=True):
    """Pack one panel from elements that are contiguous along k: squares of words are transposed in registers.

    Missing lanes are not prefetched. Up to a vector of rows past the padded end is overwritten. `fetch`: prefetch the
    next block along k.
    """
    numbers = elements.numbers
    lanes = numbers.lanes
    run = lanes * numbers.per_word

    def square(k, to, group, full):
        rows = []
        for lane in range(lanes):
            number = b.add(b.mul(group, lanes), lane)
            place = number if full else b.minimum(number, b.sub(lanes_left, 1))
            left = None if full else b.select(b.compare(">", lanes_left, number), b.sub(k_count, k), 0)
            if full and fetch:
                # rows are far apart, so the CPU does not prefetch the next block
                elements.fetch(place, b.add(k, k_count))
            rows.append(elements.along(place, k, left))
        for lane, row in enumerate(transpose(b, rows)):
            at = b.offset(to, b.mul(group, lanes * numbers.word.bytes))
            b.store(row, b.offset(at, lane * width * numbers.word.bytes), align=4)

    def squares(full):
        def body(k, _):
            to = b.offset(target, b.mul(k, width * numbers.word.bytes // numbers.per_word))
            b.loop(0, width // lanes, 1, [], lambda group, _: square(k, to, group, full))
        return body

    whole = b.mul(b.div(k_count, run), run)
    whole = b.select(b.compare(">=", lanes_left, width), whole, 0)
    b.loop(0, whole, run, [], squares(True))
    b.loop(whole, k_count, run, [], squares(False))


def write_quads(b, rows_per_tile, elements, target, rows, k_count, fetch=True):
    """Pack rows, which are the lanes, into quads, tile after tile.

    Rows that the last tile lacks are zeros: their sums are discarded, but arbitrary memory contents may be slow to
    multiply.
    `fetch`: prefetch the next block along k.
    """
    numbers = elements.numbers
    word_bytes, run, chunk = numbers.word.bytes, numbers.lanes * numbers.per_word, numbers.chunk
    chunk_bytes = chunk * word_bytes
    quads = b.div(b.add(k_count, chunk * numbers.per_word - 1), chunk * numbers.per_word)
    tile_bytes = b.mul(quads, rows_per_tile * chunk_bytes)

    def split(words, to, count):
        for q in range(numbers.lanes // chunk):
            def store(q=q):
                part = b.shuffle(words, None, range(q * chunk, (q + 1) * chunk))
                b.store(part, b.offset(to, q * rows_per_tile * chunk_bytes), align=4)
            if count is None:
                store()
            else:
                b.when(b.compare(">", count, q * chunk * numbers.per_word), store)

    def start(r):
        tile = b.div(r, rows_per_tile)
        return b.offset(target, b.add(b.mul(tile, tile_bytes),
                                      b.mul(b.sub(r, b.mul(tile, rows_per_tile)), chunk_bytes)))

    def blank(r, _):
        to, quad = start(r), zero(vector(numbers.word, chunk))
        b.loop(0, quads, 1, [], lambda q, _: b.store(quad, b.offset(to, b.mul(q, rows_per_tile * chunk_bytes)),
                                                     align=4))

    def row(r, _):
        to = start(r)

        def place(k):
            return b.offset(to, b.mul(b.div(k, chunk * numbers.per_word), rows_per_tile * chunk_bytes))

        whole = b.mul(b.div(k_count, run), run)

        def full(k, _):
            # rows are far apart, so the CPU does not prefetch the next block
            if fetch:
                elements.fetch(r, b.add(k, k_count))
            split(elements.along(r, k, None), place(k), None)

        b.loop(0, whole, run, [], full)

        def tail():
            left = b.sub(k_count, whole)
            split(elements.along(r, whole, left), place(whole), left)

        b.when(b.compare("<", whole, k_count), tail)

    b.loop(0, rows, 1, [], row)
    b.loop(rows, b.mul(b.div(b.add(rows, rows_per_tile - 1), rows_per_tile), rows_per_tile), 1, [], blank)


def write_turned_quads(b, rows_per_tile, elements, target, rows, k_count):
    """Pack rows, which are the lanes and contiguous or strided, into quads of a full vector of words: squares are
    transposed.

    Rows up to the next vector's and words up to the next chunk are filled with zeros.
    """
    numbers = elements.numbers
    lanes, row_bytes = numbers.lanes, numbers.chunk * numbers.word.bytes
    run = lanes * numbers.per_word
    tile_bytes = b.mul(b.div(b.add(k_count, run - 1), run), rows_per_tile * row_bytes)

    def group(r, _):
        tile = b.div(r, rows_per_tile)
        to = b.offset(target, b.add(b.mul(tile, tile_bytes), b.mul(b.sub(r, b.mul(tile, rows_per_tile)), row_bytes)))
        there = b.sub(rows, r)

        def squares(full):
            def square(k, _):
                words = []
                for u in range(lanes):
                    place = b.add(k, u * numbers.per_word)
                    left = None if full else b.sub(k_count, place)
                    count = None if full else b.select(b.compare(">", left, 0), there, 0)
                    words.append(elements.across(r, place, count, left))
                at = b.offset(to, b.mul(b.div(k, run), rows_per_tile * row_bytes))
                for lane, row in enumerate(transpose(b, words)):
                    b.store(row, b.offset(at, lane * row_bytes), align=4)
            return square

        whole = b.select(b.compare(">=", there, lanes), b.mul(b.div(k_count, run), run), 0)
        b.loop(0, whole, run, [], squares(True))
        b.loop(whole, k_count, run, [], squares(False))

    b.loop(0, rows, lanes, [], group)

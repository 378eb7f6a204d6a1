"""Weights packed for channels-last convolutions (`pixels.py`): panels of output channels, with words along k in the
order in which tiles read them.

Tables give the offsets of elements and the targets of their words: for squares of a vector of lanes by a vector of
words, for lines of words for all taps, or for single words.
"""

from ..llvm import jit
from ..llvm.types import i64, vector
from . import pack
from .elements import join, load_apart, parts
from .units import Units

SLOTS = ("weights", "packed", "sources", "targets", "count", "lanes", "group_panels", "group_stride", "lane_stride",
         "panel_bytes", "blank")
MOST_TAPS = 16  # largest stride of channels


def square_kernel(numbers, vectors, taps):
    """Return the address of the kernel that packs a panel of `vectors` vectors per work unit.  Elements along k are
    contiguous, or channels have a stride of `taps`.  "sources" has (byte offset, element count) of each square,
    "targets" the offset of each of its words."""
    key = f"pixel weights {numbers} {vectors} {taps}"
    return jit.build(key, lambda: _text(numbers, vectors, lambda *at: _square(*at, taps)), ["weights"])["weights"]


def line_kernel(numbers, vectors, taps):
    """The same for lanes with a stride of `taps`.  "sources" has the byte offsets of the parts of each word (-1: none),
    "targets" the offset of the word at each tap."""
    key = f"pixel weights by lines {numbers} {vectors} {taps}"
    return jit.build(key, lambda: _text(numbers, vectors, lambda *at: _line(*at, taps)), ["weights"])["weights"]


def word_kernel(numbers, vectors, near=False):
    """The same for lanes of any stride; `near`: lanes are contiguous."""
    key = f"pixel weights by words {numbers} {vectors} {near}"
    return jit.build(key, lambda: _text(numbers, vectors, lambda *at: _word(*at, near)), ["weights"])["weights"]


def squares(channels, taps, numbers):
    """Return (channels, words) that a square holds of weights whose channels have a stride of `taps`."""
    words = max(1, numbers.lanes // taps)
    return words * numbers.per_word, words * taps


def _text(numbers, vectors, write):
    kernel = Units("weights", SLOTS, ("weights", "packed", "sources", "targets"))
    f, s = kernel.f, kernel.s
    lanes = numbers.lanes

    def unit(number):
        group = f.div(number, s.group_panels)
        first = f.mul(f.sub(number, f.mul(group, s.group_panels)), vectors * lanes)
        panel = f.offset(s.packed, f.mul(number, s.panel_bytes))
        f.when(f.compare("!=", s.blank, 0), lambda: f.fill_bytes(panel, 0, s.panel_bytes))

        def some(j, _):
            lane = f.add(first, f.mul(j, lanes))
            source = f.offset(f.offset(s.weights, f.mul(group, s.group_stride)), f.mul(lane, s.lane_stride))
            target = f.offset(panel, f.mul(j, lanes * numbers.word.bytes))
            left = f.sub(s.lanes, lane)
            f.when(f.compare(">", left, 0),
                   lambda: f.loop(0, s.count, 1, [], lambda k, _: write(f, s, numbers, k, source, target, left)))

        f.loop(0, vectors, 1, [], some)

    return kernel.text(unit)


def _square(f, s, numbers, k, source, target, left, taps):
    lanes, per_word = numbers.lanes, numbers.per_word
    at, many = f.offset(s.sources, f.mul(k, 16)), lanes * per_word
    place, mask = f.offset(source, f.load(i64, at)), f.lane_mask(f.load(i64, f.offset(at, 8)), many)
    words, last = [], f.sub(left, 1)
    _, count = squares(0, taps, numbers)
    order = [((i // taps) * per_word + part) * taps + i % taps for i in range(count) for part in range(per_word)]
    order += [None] * (many - len(order))
    for lane in range(lanes):  # lanes that are not there repeat the last one; their sums are thrown away
        found = f.load(vector(numbers.element, many), f.offset(place, f.mul(f.minimum(last, lane), s.lane_stride)),
                       mask=mask)
        found = f.convert(found, numbers.word, numbers.signed) if per_word == 1 else parts(f, numbers, found)
        found = found if taps == 1 else f.shuffle(found, None, order)
        words.append(found if per_word == 1 else f.bitcast(found, numbers.words))
    for i, word in enumerate(pack.transpose(f, words)[:count]):
        to = f.load(i64, f.offset(s.targets, f.add(f.mul(k, lanes), i), i64))
        f.store(word, f.offset(target, to), align=4)


def _line(f, s, numbers, k, source, target, left, taps):
    lanes, found = numbers.lanes, []
    for v in range(taps):
        mask = f.lane_mask(f.sub(f.mul(left, taps), v * lanes), lanes)
        found.append(_joined(f, s, numbers, k, f.offset(source, v * lanes * numbers.element.bytes), None, mask))
    for tap in range(taps):
        to = f.load(i64, f.offset(s.targets, f.add(f.mul(k, taps), tap), i64))
        f.store(pack.collected(f, found, [lane * taps + tap for lane in range(lanes)]), f.offset(target, to), align=4)


def _word(f, s, numbers, k, source, target, left, near):
    word = _joined(f, s, numbers, k, source, None if near else s.lane_stride, f.lane_mask(left, numbers.lanes))
    f.store(word, f.offset(target, f.load(i64, f.offset(s.targets, k, i64))), align=4)


def _joined(f, s, numbers, k, source, stride, mask):
    """A vector of words at index k of the sources."""
    pieces = []
    for part in range(numbers.per_word):
        offset = f.load(i64, f.offset(s.sources, f.add(f.mul(k, numbers.per_word), part), i64))
        there = f.and_(mask, f.splat(f.compare(">=", offset, 0), numbers.lanes))
        pieces.append(load_apart(f, numbers.element, f.offset(source, offset), stride, numbers.lanes, there))
    return f.convert(pieces[0], numbers.word, numbers.signed) if numbers.per_word == 1 else join(f, numbers, pieces)

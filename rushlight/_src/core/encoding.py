"""Plain values as bytes: decoding creates such values and nothing else, for any bytes.

The bytes are records, one for each distinct value, after those of its components; the last one is the root. A record is
a tag (a byte) and a number of 8 bytes, or a length and that number of bytes, or a count and the positions of that
number of earlier records. Equal immutable values have one record, and so has a list, dictionary or array that occurs in
several places, which is decoded as one object. ``register`` adds tags for values that are made of others. No record
refers to code.
"""
import struct

_COUNT = struct.Struct("<cI")  # a tag, and a length or count
_WHOLE, _REAL, _PAIR = struct.Struct("<cq"), struct.Struct("<cd"), struct.Struct("<cdd")
_PART = struct.Struct("<I")
MOST = 1 << 63
DEEPEST = 500  # nesting depth; hashing deeper values could exhaust the stack
SINGLE = {b"N": None, b"T": True, b"F": False}
NUMBERS = {b"i": _WHOLE, b"d": _REAL, b"c": _PAIR}
TYPES = {kind.__name__: kind for kind in (bool, int, float, complex, str, bytes, tuple, list, dict, slice, type(None))}


class Unsaveable(TypeError):
    """A value that means something in this process only."""


class Damaged(ValueError):
    """Bytes that ``encode`` did not write."""


def pairs(*items):
    """The dictionary of keys and values in turn."""
    if len(items) % 2:
        raise ValueError("a key without a value")
    return dict(zip(items[::2], items[1::2]))


MADE = {b"(": lambda *items: items, b"[": lambda *items: list(items), b"{": pairs, b"S": lambda *items: set(items),
        b"Z": lambda *items: frozenset(items),
        # tag -> from parts to the value
        b":": lambda start, stop, step: slice(start, stop, step), b"t": lambda name: TYPES[name]}
PARTS = {tuple: (b"(", tuple, True), list: (b"[", tuple, False),
         dict: (b"{", lambda d: [x for item in d.items() for x in item], False),
         set: (b"S", tuple, False), frozenset: (b"Z", tuple, True),
         slice: (b":", lambda s: (s.start, s.stop, s.step), True),
         # type -> tag, a function from the value to its components, True if equal ones are one
         type: (b"t", lambda kind: (known(kind).__name__,), True)}
READ = (b"s", b"b", b"n")


def known(kind):
    if TYPES.get(kind.__name__) is not kind:
        raise Unsaveable(f"the class {kind.__qualname__} is not one that other processes know")
    return kind


def register(kind: type, tag: bytes, apart, together, shared=True):
    """Make values of exactly this type encodable: ``apart(value)`` returns components from which ``together(*parts)``
    rebuilds it.

    ``shared``: True if values of equal components are one.
    """
    assert tag not in MADE and tag not in NUMBERS and tag not in SINGLE and tag not in READ, f"the tag {tag} is taken"
    MADE[tag], PARTS[kind] = together, (tag, apart, shared)


def leaf(value):
    """The record of a value without parts; None for others."""
    kind = type(value)
    if kind is str:
        content = value.encode("utf-8", "surrogatepass")
        return _COUNT.pack(b"s", len(content)) + content
    if kind is int:
        if -MOST <= value < MOST:
            return _WHOLE.pack(b"i", value)
        content = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        return _COUNT.pack(b"n", len(content)) + content
    if value is None or kind is bool:
        return b"N" if value is None else b"T" if value else b"F"
    if kind is float:
        return _REAL.pack(b"d", value)
    if kind is bytes:
        return _COUNT.pack(b"b", len(value)) + value
    if kind is complex:
        return _PAIR.pack(b"c", value.real, value.imag)
    return None


class Encoder:
    """Writes records, each value after its parts."""

    def __init__(self):
        # position of each written value by content, and by identity (with the value, which stays alive)
        self.records, self.equal, self.same = [], {}, {}
        self.plain: dict = {}  # string or int -> its position

    def position(self, value) -> int:
        kind = type(value)
        if kind is str or kind is int:  # most values: they are found without their bytes
            at = self.plain.get(value)
            if at is None:
                at = self.plain[value] = self.add(leaf(value))
            return at
        found = self.same.get(id(value))
        if found is not None:
            return found[0]
        record = leaf(value)
        if record is not None:
            return self.once(record)
        row = PARTS.get(kind)
        if row is None:
            raise Unsaveable(f"{kind.__name__} has no encoding that other processes read")
        tag, apart, shared = row
        parts = [self.position(part) for part in apart(value)]
        record = _COUNT.pack(tag, len(parts)) + struct.pack(f"<{len(parts)}I", *parts)
        at = self.once(record) if shared else self.add(record)
        self.same[id(value)] = at, value
        return at

    def once(self, record) -> int:
        at = self.equal.get(record)
        if at is None:
            at = self.equal[record] = self.add(record)
        return at

    def add(self, record) -> int:
        self.records.append(record)
        return len(self.records) - 1


def encode(value) -> bytes:
    """A value as bytes.  Unsaveable where it holds anything that has no tag.

    >>> decode(encode([1, 2.5, ("a", None), {True: b""}]))
    [1, 2.5, ('a', None), {True: b''}]
    """
    encoder = Encoder()
    try:
        encoder.position(value)
    except RecursionError:
        raise Unsaveable("it is nested too deeply") from None
    return b"".join(encoder.records)


def decode(data: bytes):
    """The value that ``encode`` wrote.  Damaged for other bytes.

    >>> decode(b"pickle")
    Traceback (most recent call last):
        ...
    rushlight._src.core.encoding.Damaged: record 0 is damaged: tag b'p' with 1 bytes of 1818977129
    """
    made, depths, at, end = [], [], 0, len(data)
    get, add, count = made.__getitem__, made.append, _COUNT.unpack_from
    try:
        while at < end:
            tag = data[at:at + 1]
            if tag in MADE:
                _, size = count(data, at)
                parts = struct.unpack_from(f"<{size}I", data, at + 5)
                if (level := 1 + max(map(depths.__getitem__, parts), default=0)) > DEEPEST:
                    raise ValueError("it is nested too deeply")
                add(MADE[tag](*map(get, parts)))
                depths.append(level)
                at += 5 + 4 * size
                continue
            elif tag in NUMBERS:
                _, *numbers = NUMBERS[tag].unpack_from(data, at)
                add(complex(*numbers) if tag == b"c" else numbers[0])
                at += NUMBERS[tag].size
            elif tag in SINGLE:
                add(SINGLE[tag])
                at += 1
            else:
                _, size = count(data, at)
                content = data[at + 5:at + 5 + size]
                if tag not in READ or len(content) != size:
                    raise ValueError(f"tag {tag!r} with {len(content)} bytes of {size}")
                add(content if tag == b"b" else content.decode("utf-8", "surrogatepass") if tag == b"s"
                    else int.from_bytes(content, "little", signed=True))
                at += 5 + size
            depths.append(0)
        return made[-1]
    except Exception as reason:  # nothing but the bytes can have caused it
        raise Damaged(f"record {len(made)} is damaged: {reason}") from reason

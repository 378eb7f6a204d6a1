"""Libraries of other systems, read as their loaders read them: for tests, apart from what writes them."""
import struct

from rushlight._src.packages.wasm import Reader


def word(data, at, form="I"):
    return struct.unpack_from(f"<{form}", data, at)[0]


def name_at(data, at) -> str:
    return data[at:data.index(b"\0", at)].decode()


class Windows:
    """A library of Windows: ``sections`` (name, begin, end, flags), ``exports`` {name: place}, ``imports`` {library:
    [name]}, ``moved``: places of addresses that count from the base."""

    def __init__(self, data: bytes):
        head = word(data, 60)
        assert data[:2] == b"MZ" and data[head:head + 4] == b"PE\0\0" and word(data, head + 4, "H") == 0x8664
        optional = head + 24
        assert word(data, optional, "H") == 0x20B
        self.data, self.base, self.start = data, word(data, optional + 24, "Q"), word(data, optional + 16)
        self.directories = [struct.unpack_from("<II", data, optional + 112 + 8 * k) for k in range(16)]
        at = optional + word(data, head + 20, "H")
        self.sections = []
        for k in range(word(data, head + 6, "H")):
            name, size, begin, held, place, *_, flags = struct.unpack_from("<8s4I3II", data, at + 40 * k)
            assert begin == place and held >= size and begin + held <= len(data)
            self.sections.append((name.rstrip(b"\0").decode(), begin, begin + size, flags))
        assert word(data, optional + 56) == len(data)
        self.read_exports(self.directories[0][0])
        self.read_imports(self.directories[1][0])
        self.read_moved(*self.directories[5])

    def read_exports(self, at):
        *_, count, names, places, texts, numbers = struct.unpack_from("<10I", self.data, at)[-7:]
        self.exports = {}
        for k in range(names):
            place = word(self.data, places + 4 * word(self.data, numbers + 2 * k, "H"))
            self.exports[name_at(self.data, word(self.data, texts + 4 * k))] = place
        assert count == names

    def read_imports(self, at):
        self.imports = {}
        while word(self.data, at + 12):
            lookups, library, addresses = word(self.data, at), word(self.data, at + 12), word(self.data, at + 16)
            names = self.imports[name_at(self.data, library)] = []
            while hint := word(self.data, lookups + 8 * len(names), "Q"):
                assert word(self.data, addresses + 8 * len(names), "Q") == hint
                names.append(name_at(self.data, hint + 2))
            at += 20

    def read_moved(self, at, nbytes):
        self.moved, end = [], at + nbytes
        while at < end:
            page, size = struct.unpack_from("<II", self.data, at)
            for k in range(8, size, 2):
                told = word(self.data, at + k, "H")
                if told >> 12:
                    assert told >> 12 == 10
                    self.moved.append(page + (told & 0xFFF))
            at += size

    def section(self, place) -> str:
        return next(name for name, begin, end, _ in self.sections if begin <= place < end)


class Mac:
    """A library of macOS: ``segments`` {name: (begin, end, protection)}, ``exports`` {name: place}, ``moved`` and
    ``bound`` {place: name}: what the loader writes; ``starts``: functions that it calls."""

    def __init__(self, data: bytes):
        magic, machine, _, kind, count, nbytes, _, _ = struct.unpack_from("<8I", data)
        assert (magic, machine, kind) == (0xFEEDFACF, 0x100000C, 6)
        self.data, self.segments, self.commands, self.calls, at = data, {}, {}, [], 32
        for _ in range(count):
            command, size = struct.unpack_from("<II", data, at)
            self.commands[command] = at
            if command == 0x19:
                name, begin, room, place, held, _, protection, sections, _ = struct.unpack_from("<16sQQQQiiII", data,
                                                                                               at + 8)
                assert begin == place and begin % 16384 == 0 and room >= held
                self.segments[name.rstrip(b"\0").decode()] = begin, begin + held, protection
                for k in range(sections):
                    self.read_section(at + 72 + 80 * k)
            at += size
        assert at == 32 + nbytes
        told = struct.unpack_from("<10I", data, self.commands[0x80000022] + 8)
        self.moved, self.bound, self.exports = [], {}, {}
        self.follow(told[0], told[1], self.moved.append)
        self.follow(told[2], told[3], lambda place: self.bound.update({place: self.symbol}))
        self.read_tree(told[8], told[8], "")

    def read_section(self, at):
        _, _, begin, size = struct.unpack_from("<16s16sQQ", self.data, at)
        if word(self.data, at + 64) & 255 == 9:
            self.calls += range(begin, begin + size, 8)

    def follow(self, at, nbytes, found):
        """Runs the loader's instructions: ``found`` takes each place."""
        r, place, begins = Reader(self.data, at), 0, [begin for begin, *_ in self.segments.values()]
        while r.at < at + nbytes:
            told = self.data[r.at]
            r.at += 1
            kind, number = told & 0xF0, told & 15
            if told == 0:
                break
            if kind in (0x20, 0x70):
                place = begins[number] + r.number()
            elif kind == 0x40:
                self.symbol = name_at(self.data, r.at)
                r.at += len(self.symbol) + 1
            elif told in (0x51, 0x90) and not (told == 0x51 and found != self.moved.append):
                found(place)
            else:
                assert told in (0x11, 0x51)

    def read_tree(self, root, at, prefix):
        r = Reader(self.data, at)
        size = r.number()
        if size:
            own = Reader(self.data, r.at)
            assert own.number() == 0
            self.exports[prefix] = own.number()
        r.at += size
        count = self.data[r.at]
        r.at += 1
        for _ in range(count):
            edge = name_at(self.data, r.at)
            r.at += len(edge) + 1
            self.read_tree(root, root + r.number(), prefix + edge)

    @property
    def starts(self) -> list:
        return [word(self.data, place, "Q") for place in self.calls]

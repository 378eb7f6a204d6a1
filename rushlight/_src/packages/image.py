"""Layout of shared libraries, common to all formats: the addresses of pieces, and the bytes."""
from __future__ import annotations

from ..core.llvm.pieces import rounded
from ..core.llvm.relocation import Unknown


class Image:
    """The layout of a library, and its bytes.  A format defines addresses (``stubs_after`` among it), the code of a
    jump to an outside function, and the records of addresses that move with the library.

    ``public``: names that others may look up; ``outside``: functions of other libraries, each of which has a jump of
    ``STUB`` bytes.
    """

    STUB = 16

    def __init__(self, made, public, name: str, outside):
        self.made, self.public, self.name = made, public, name
        self.outside = list(dict.fromkeys(one for one in outside if one not in made.defined))
        self.code = [p for o in made.objects for p in o.pieces if p is not None]
        self.pieces = [*self.code, *made.data]
        self.out = bytearray()

    def pointer(self, place: int, address: int):
        """Eight bytes that hold an address within the library, wherever it is loaded."""
        raise NotImplementedError

    def jump(self, at: int, name: str) -> bytes:
        """Return the jump to an outside function, at an address."""
        raise NotImplementedError

    def address(self, name: str) -> int:
        """The place of a name that the library defines."""
        piece, value = self.made.defined[name]
        return piece.place + value

    def stub(self, name: str) -> int:
        """The place of the jump to an outside function."""
        if name not in self.outside:
            raise Unknown(f"the symbol {name} has no address")
        return self.stubs_at + self.STUB * self.outside.index(name)

    def stubs_after(self, at: int) -> int:
        """Has the jumps begin after a place; where they end."""
        self.stubs_at = rounded(at, 16)
        return self.stubs_at + self.STUB * len(self.outside)

    def target(self, o, k: int) -> int:
        """The place of a symbol of an object; of an outside function, that of the jump to it."""
        place, name = o.place_of(k), o.symbols[k][0]
        if place is not None:
            return place
        return self.address(name) if name in self.made.defined else self.stub(name)

    def absolute(self, place: int, o, k: int, addend: int, writable: bool):
        """Resolve a relocation to the absolute address of a symbol."""
        if not writable:
            raise Unknown("an address among code")
        self.pointer(place, o.begin(self, k) + addend)

    def put(self, place: int, data: bytes):
        self.out[place:place + len(data)] = data

    def put_pieces(self, nbytes: int):
        """Begins the library's bytes, with all pieces and jumps at their places."""
        self.out = bytearray(nbytes)
        for piece in self.pieces:
            self.put(piece.place, piece.data)
        for name in self.outside:
            at = self.stub(name)
            self.put(at, self.jump(at, name))

    def put_pointers(self):
        """Write the pointers in the library's own data."""
        for piece in self.made.data:
            for offset, (name, addend) in piece.pointers.items():
                self.pointer(piece.place + offset, self.address(name) + addend)

"""Object files in the memory of this process, and the addresses of their functions.

Machine code is unmapped when it is unreferenced, so code that can run it must hold a reference. The types ensure this:

- ``Pages`` is memory of code. Its finalizer alone unmaps.
- ``LoadedObject`` holds the pages of one object file, its stubs, and the objects that it imports from.
- ``Function`` is an address, an int, that holds its LoadedObject. Nothing else makes addresses of compiled functions.

An int computed or copied from a Function holds nothing. The owner of such a plain int keeps the Function as well:

- ``Code`` (``devices/cpu/code.py``), for an encoded program; ``Processor.code`` rejects plain ints. A plan holds its
  Code, and a call holds its plan while the program runs, so other threads may run code whose plan is dropped here.
- the function that ``eager/filling.py`` writes names Functions, and the plans that it makes hold them (``Filled``).
- ``callable_at`` makes ctypes functions that hold the functions that they call.
- tables by address or by digest (``devices/cpu/llvm/jit.py``) hold LoadedObjects weakly.

Never unmapped: code that LLVM's own linker has loaded, the hot path (``core/native``), the thread pool. Nothing is
unmapped while Python ends: daemon threads may still run code. A child of a fork unmaps its own copies alone.
"""
from __future__ import annotations

import sys

from ..platform import here

mapped: dict = {}  # address of pages: [bytes, address of their unwinding table or 0]


class Pages(int):
    """The address of pages that hold machine code; they are unmapped with this object.

    An int without attributes is not tracked by garbage collection, and dies only when nothing refers to it.  The pages
    of a reference cycle thus outlive the finalizers of all objects in the cycle, which may still run the code.
    """

    __slots__ = ()

    def __new__(cls, nbytes: int) -> Pages:
        address = here.pages(nbytes)
        if not address:
            raise MemoryError(f"no memory for {nbytes} bytes of code")
        mapped[address] = [nbytes, 0]
        return super().__new__(cls, address)

    def add_unwinding(self, table: int, rows: int):
        """Registers the table by which the system unwinds frames of this code."""
        here.unwinding(table, rows, self)
        mapped[self][1] = table

    def __del__(self, is_finalizing=sys.is_finalizing, mapped=mapped, here=here):
        if is_finalizing():
            return
        nbytes, table = mapped.pop(self)  # first: other pages may get this address once they are unmapped
        if table:
            here.end_unwinding(table)
        here.unmap(int(self), nbytes)


class LoadedObject:
    """An object file in memory. ``addresses``: of its exported functions, by name, as plain ints; ``held``: objects
    that must live as long as the functions may be called; ``digest``, ``source``: of the compilation, if it is in
    tables of those."""

    digest = source = None

    def __init__(self, addresses: dict, held: list):
        self.addresses, self.held = addresses, held

    @property
    def functions(self) -> dict:
        """{name: Function}."""
        return {name: Function(self, name) for name in self.addresses}


class Function(int):
    """The address of a compiled function, which keeps the function in memory.

        >>> int(Function(LoadedObject({"f": 4096}, []), "f"))
        4096
    """

    def __new__(cls, loaded: LoadedObject, name: str) -> Function:
        made = super().__new__(cls, loaded.addresses[name])
        made.loaded = loaded
        return made


def callable_at(address: Function, prototype):
    """A ctypes function of a type (``ctypes.CFUNCTYPE(...)``) that holds the compiled function it calls."""
    made = prototype(address)
    made.function = address
    return made

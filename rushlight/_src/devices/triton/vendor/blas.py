"""Matmuls by cuBLASLt or hipBLASLt: descriptors, the library's choice of algorithms, and the call.

The library's matrices are column-major, so it computes d^T = b^T a^T: its left operand is our right one.
"""

from __future__ import annotations

import ctypes
import math
from typing import NamedTuple

import numpy as np

from ....core.log import logger
from .dialects import AUX, BIAS, Dialect, GELU, NO_REDUCED, RELU, SCALE_OF_ALL, SCALE_OF_ROWS

log = logger("kernels")
P, I, Z, L = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_int64
OUT = ctypes.POINTER(P)
NUMBERS = {1: ctypes.c_int8, 4: ctypes.c_int32, 8: ctypes.c_int64}
ENTRIES = {"Create": (OUT,), "MatmulDescCreate": (OUT, I, I), "MatmulDescSetAttribute": (P, I, P, Z),
           "MatrixLayoutCreate": (OUT, I, ctypes.c_uint64, ctypes.c_uint64, L), "MatmulPreferenceCreate": (OUT,),
           "MatrixLayoutSetAttribute": (P, I, P, Z), "MatmulPreferenceSetAttribute": (P, I, P, Z),
           "MatmulPreferenceDestroy": (P,), "MatmulAlgoGetHeuristic": (*(P,) * 7, I, P, ctypes.POINTER(I)),
           "Matmul": (*(P,) * 14, Z, P)}
RESULT = 32  # bytes of what a search finds, after the description: bytes of workspace, status, waves, four words
ALIGNED = 256  # the most bytes that addresses are known to be multiples of
MOST = 4  # algorithms that a search returns
FACTORS = {"float64": (ctypes.c_double, 1), "int32": (ctypes.c_int32, 1), "float16": (ctypes.c_uint16, 0x3C00),
           "float32": (ctypes.c_float, 1)}  # the type of alpha and beta by their dtype, and the value of 1


PROBE = (*np.linspace(-4, 4, 15), float("nan"))  # values on which epilogues are tested


def by_tangent(found) -> bool:
    """Whether numbers are those of the GELU by a hyperbolic tangent rather than by the error function."""
    x = np.array(PROBE)[:-1]
    exact = 0.5 * x * (1 + np.array([math.erf(one / math.sqrt(2)) for one in x]))
    near = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
    away = [np.abs(found[:-1] - wanted).max() for wanted in (near, exact)]
    return away[0] < min(away[1], 2e-3) and bool(np.isnan(found[-1]))


PROBES = {RELU: lambda found: bool(np.isnan(found[-1])) and (found[:-1] == np.maximum(PROBE[:-1], 0).astype("f")).all(),
          GELU: by_tangent}


class Matrix(NamedTuple):
    """An operand or result of the library: its dtype, rows and columns as stored, elements between columns, and
    between matrices of a batch; ``turned``: it is read transposed."""

    dtype: str
    rows: int
    columns: int
    leading: int
    stride: int = 0
    turned: bool = False


class Product(NamedTuple):
    """d = act(a b + add + bias), as the library takes it.

    ``compute``: of ``Dialect.computes``.  ``parts``: of the epilogue ("bias", "relu", "gelu", "aux").  ``scales``: the
    modes of the scales of a and b, () without.  ``add``: whether a matrix as d is added.  ``bias``: its dtype.
    ``fast``: float8 matmuls may accumulate less accurately.  ``reduced``: partial sums may be in d's dtype.
    ``workspace``: the most bytes that an algorithm may require, ``room``: the bytes available.  ``rank``: which of the
    algorithms that the library proposes, the likely fastest first.
    ``other``: (fields of a Module, units) of a launch that computes the same where the library has no
    algorithm for some addresses; its slots follow those of the call.  ``version``: of the library.
    """

    batch: int
    a: Matrix
    b: Matrix
    d: Matrix
    compute: str
    parts: tuple = ()
    scales: tuple = ()
    add: bool = False
    bias: str = ""
    fast: bool = False
    reduced: bool = True
    workspace: int = 0
    room: int = 0
    rank: int = 0
    other: tuple = ()
    version: int = 0
    name, flag = "call of a library", False  # as a Module has; it reports no errors of its own

    def names(self) -> tuple:
        """Return the names of the call's operands, in the order of a launch's slots."""
        more = [name for name, wanted in ((BIAS, BIAS in self.parts), (AUX, AUX in self.parts), ("add", self.add),
                                          ("scale_a", self.scales), ("scale_b", self.scales)) if wanted]
        return "a", "b", "d", "workspace", *more


class Described(NamedTuple):
    """Descriptors of a Product: of the operation and of its matrices; alpha and beta follow each other in memory.
    ``asked``: the operation once more, for searches, since that of calls has their addresses at any time."""

    operation: int
    asked: int
    a: int
    b: int
    d: int
    factors: ctypes.Array


class Algorithm(NamedTuple):
    """An algorithm that the library proposed: the memory of its description, its bytes of workspace, and how many waves
    of blocks it takes."""

    place: ctypes.Array
    workspace: int
    waves: float


class Unsupported(RuntimeError):
    """The library does not support a request."""


class Blas:
    """The library on one device.  All that it makes lives as long as the process."""

    def __init__(self, library, dialect: Dialect, board):
        self.dialect, self.board, self.made, self.found, self.kept = dialect, board, {}, {}, {}
        self.entries = {}
        for entry, types in ENTRIES.items():
            function = getattr(library, dialect.prefix + entry)
            function.restype, function.argtypes = I, types
            self.entries[entry] = function
        board.driver.use(board.index)
        with board.driver.relaxed():
            self.handle = self.new("Create")
        self.version = version_of(library, dialect, self.handle)

    def call(self, entry: str, *given):
        status = self.entries[entry](*given)
        if status:
            raise Unsupported(f"{self.dialect.prefix}{entry}: {self.words(status)}")

    def words(self, status: int) -> str:
        return f"{self.dialect.statuses.get(status, 'unknown error')} ({status})"

    def new(self, entry: str, *given) -> int:
        out = P()
        self.call(entry, ctypes.byref(out), *given)
        return out.value

    def set(self, entry: str, place: int, attribute: tuple, value: int):
        number, size = attribute
        self.call(entry, place, number, ctypes.byref(NUMBERS[size](value)), size)

    def address(self, entry: str) -> int:
        """The address of an entry, for machine code."""
        return ctypes.cast(self.entries[entry], P).value

    # --- descriptors --------------------------------------------------
    def matrix(self, one: Matrix, batch: int) -> int:
        place = self.new("MatrixLayoutCreate", self.dialect.types[one.dtype], one.rows, one.columns, one.leading)
        if batch > 1:
            self.set("MatrixLayoutSetAttribute", place, self.dialect.layout["batch"], batch)
            self.set("MatrixLayoutSetAttribute", place, self.dialect.layout["stride"], one.stride)
        return place

    def described(self, p: Product) -> Described:
        """The descriptors of a product, made once.  Unsupported where the library does not know what they say; it is
        asked once."""
        p = p._replace(room=0, rank=0, other=())
        if p not in self.made:
            try:
                self.made[p] = self.describe(p)
            except Unsupported as reason:
                self.made[p] = str(reason)
        found = self.made[p]
        if isinstance(found, str):
            raise Unsupported(found)
        return found

    def describe(self, p: Product) -> Described:
        reason = unknown(p, self.dialect)
        if reason:
            raise Unsupported(reason)
        sums = p.compute if p.compute in FACTORS else "float32"
        operations = [self.new("MatmulDescCreate", self.dialect.computes[p.compute], self.dialect.types[sums])
                      for _ in range(2)]
        for operation in operations:
            for name, value in self.attributes(p):
                self.set("MatmulDescSetAttribute", operation, self.dialect.about[name], value)
        for _, attribute in self.pointers(p):  # a search checks which addresses are set, and their alignment
            self.set("MatmulDescSetAttribute", operations[1], (attribute, 8), ALIGNED)
        kind, one = FACTORS[sums]
        return Described(*operations, *(self.matrix(one, p.batch) for one in (p.a, p.b, p.d)),
                         (kind * 2)(one, one if p.add else 0))

    def attributes(self, p: Product) -> list:
        """(name, value) of what a product is, but for the addresses."""
        operations = self.dialect.operations
        found = [("left", operations[p.a.turned]), ("right", operations[p.b.turned]),
                 ("epilogue", self.dialect.epilogues[frozenset(p.parts)])]
        if BIAS in p.parts and p.bias != p.d.dtype:
            found.append(("bias_type", self.dialect.types[p.bias]))
        if AUX in p.parts:
            found += [("aux_leading", p.d.rows), ("aux_stride", p.d.stride)]
        if SCALE_OF_ROWS in p.scales:
            found += [("mode_a", p.scales[0]), ("mode_b", p.scales[1])]
        if p.fast and "fast" in self.dialect.about:
            found.append(("fast", 1))
        return found

    def pointers(self, p: Product) -> list:
        """(name, attribute) of the addresses that an operation has, which are set before each call."""
        names = {BIAS: "bias", AUX: "aux", "scale_a": "scale_a", "scale_b": "scale_b"}
        return [(name, self.dialect.about[names[name]][0]) for name in p.names() if name in names]

    # --- what it computes --------------------------------------------------
    def keeps(self, part: str) -> bool:
        """True if the library's ReLU propagates NaN, or its GELU is the tanh approximation, as a test run shows.  False
        during a capture, which forbids waiting for the test."""
        if part not in self.kept:
            if self.board.recordings:
                return False
            try:
                self.kept[part] = PROBES[part](self.tried(part))
            except Unsupported as reason:
                log.debug("%s has no %s: %s", self.dialect.name, part, reason)
                self.kept[part] = False
        return self.kept[part]

    def tried(self, part: str):
        """Return the library's results for PROBE with an epilogue: [PROBED] float32."""
        size = len(PROBE)
        square = Matrix("float32", size, size, size)
        p = Product(1, square, square, square, "float32", (part,))
        found = self.algorithms(p)
        if not found or found[0].workspace:
            raise Unsupported("there is no algorithm")
        board, made = self.board, self.described(p)
        held = [np.zeros(size * size, np.float32) for _ in range(3)]
        held[0][:size], held[1][::size] = PROBE, 1  # the first column of a, and the first row of b
        places = [board.storage(one.nbytes) for one in held]
        for place, one in zip(places, held):
            board.upload(place.address, one.ctypes.data, one.nbytes, True)
        a, b, d = (place.address for place in places)
        factors = ctypes.addressof(made.factors)
        self.call("Matmul", self.handle, made.operation, factors, a, made.a, b, made.b, factors + 4, d, made.d, d,
                  made.d, ctypes.addressof(found[0].place), None, 0, board.stream)
        board.download(held[2].ctypes.data, d, held[2].nbytes, True)
        board.settle()
        return held[2][:size]

    # --- algorithms --------------------------------------------------
    def algorithms(self, p: Product, aligned=(ALIGNED,) * 4) -> list:
        """Return the algorithms that the library proposes, the likely fastest first, for addresses of a, b, add and d
        that are multiples of ``aligned`` bytes; [] if there are none."""
        key = p._replace(room=0, rank=0, other=()), aligned
        if key not in self.found:
            self.found[key] = self.searched(p, aligned)
        return self.found[key]

    def searched(self, p: Product, aligned: tuple) -> list:
        made, dialect = self.described(p), self.dialect
        size = dialect.algorithm + RESULT
        results, count = (ctypes.c_int64 * (MOST * size // 8))(), I()
        preference = self.new("MatmulPreferenceCreate")
        try:
            given = {"workspace": p.workspace, **dict(zip(("align_a", "align_b", "align_c", "align_d"), aligned))}
            if not p.reduced:
                given["reductions"] = NO_REDUCED
            for name, value in given.items():
                if name in dialect.preferences:
                    self.set("MatmulPreferenceSetAttribute", preference, dialect.preferences[name], value)
            self.board.driver.use(self.board.index)
            with self.board.driver.relaxed():
                status = self.entries["MatmulAlgoGetHeuristic"](
                    self.handle, made.asked, made.a, made.b, made.d, made.d, preference, MOST, results,
                    ctypes.byref(count))
        finally:
            self.call("MatmulPreferenceDestroy", preference)
        if status or not count.value:
            log.debug("%s has nothing for %s: %s", dialect.name, p._replace(other=()), self.words(status or 15))
            return []
        return [one for one in (self.found_at(results, k) for k in range(count.value))
                if one is not None and one.workspace <= p.workspace]

    def found_at(self, results, number: int):
        """One of the results of a search; None where it says that it is none."""
        words = self.dialect.algorithm // 8
        at = number * (words + RESULT // 8)
        status, waves = ctypes.c_int32.from_buffer(results, 8 * (at + words + 1)), ctypes.c_float.from_buffer(
            results, 8 * (at + words + 1) + 4)
        if status.value:
            return None
        place = (ctypes.c_int64 * words)(*results[at:at + words])
        return Algorithm(place, results[at + words], waves.value)


def unknown(p: Product, dialect: Dialect) -> str:
    """Return why a library's API cannot express a product; empty if it can."""
    for dtype in (p.a.dtype, p.b.dtype, p.d.dtype):
        if dtype not in dialect.types:
            return f"{dialect.name} has no {dtype}"
    if p.compute not in dialect.computes:
        return f"{dialect.name} computes no products by {p.compute}"
    if frozenset(p.parts) not in dialect.epilogues:
        return f"{dialect.name} has no epilogue {p.parts}"
    missing = {name for name in ("mode_a", "scale_a") if p.scales and name not in dialect.about}
    return f"{dialect.name} has no scales" if missing else ""


def version_of(library, dialect: Dialect, handle: int) -> int:
    """The library's version, as a number."""
    if dialect.prefix == "cublasLt":
        library.cublasLtGetVersion.restype = Z
        return library.cublasLtGetVersion()
    out = I()
    library.hipblasLtGetVersion.argtypes = P, ctypes.POINTER(I)
    library.hipblasLtGetVersion(handle, ctypes.byref(out))
    return out.value


def scale_modes(kinds: tuple) -> tuple:
    """The modes of two scales: "one" number, or "each" row of the result."""
    return tuple(SCALE_OF_ROWS if kind == "each" else SCALE_OF_ALL for kind in kinds)

"""Operation graphs of cuDNN: descriptors with attributes, as its backend takes them.

A descriptor is created, given attributes, and finalized; what it refers to has to be finalized before.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

P, I, L = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
# types of attributes, with the C types of their elements
HANDLE, DATA_TYPE, BOOLEAN, WHOLE, POINTER, MODE, POINTWISE, DESCRIPTOR, REDUCING, TEXT, CONVOLVED = (
    (0, P), (1, I), (2, ctypes.c_bool), (3, L), (6, P), (8, I), (14, I), (15, P), (18, I), (24, ctypes.c_char), (7, I))
REAL, NOTE = (5, ctypes.c_double), (11, I)
FLOAT = 4, ctypes.c_float
# kinds of descriptors
(OF_POINTWISE, OF_CONVOLUTION, OF_ENGINE, OF_CONFIGURATION, OF_HEURISTICS, OF_PLAN, OF_FORWARD, OF_FILTER, OF_DATA,
 OF_POINTED,
 OF_GRAPH, OF_PACK, OF_TENSOR, OF_MATMUL, OF_MULTIPLIED, OF_REDUCTION, OF_REDUCED) = (
    0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 15, 16, 17, 18, 19, 21, 22)
OF_RESHAPED, OF_DEVICE = 31, 38
DTYPES = {"float32": 0, "float64": 1, "float16": 2, "int8": 3, "int32": 4, "bfloat16": 9, "int64": 10, "bool": 11}
ADD, MUL, SUB, EXP, LOG, DIV, SAME = 0, 1, 9, 13, 15, 6, 21  # pointwise
GREATER_EQUAL, INDEX, SELECT = 303, 501, 601
SUM, LARGEST = 0, 3  # reductions
MOST_NOTES = 16
HEURISTICS, FALLBACK = 3, 2  # modes: of the library's model, and what always works
CORRELATION = 1  # the mode of convolutions that do not flip the weights
UNITS, ROUNDED, UNORDERED = 0, 1, 4  # notes of engines: tensor cores, operands with fewer digits, no fixed order
ALIGNED = 16


class DnnError(RuntimeError):
    """An operation that the library does not support, or an error of it."""


class Handle:
    """A library, and the handle of executions.  ``device``: a descriptor of a device's properties, for a library
    without a device."""

    def __init__(self, library, handle=0, device=0):
        self.library, self.handle, self.device = library, handle, device
        for entry, types in (("CreateDescriptor", (I, ctypes.POINTER(P))), ("DestroyDescriptor", (P,)),
                             ("Finalize", (P,)),
                             ("SetAttribute", (P, I, I, L, P)), ("Execute", (P, P, P)),
                             ("GetAttribute", (P, I, I, L, ctypes.POINTER(L), P))):
            function = getattr(library, "cudnnBackend" + entry)
            function.restype, function.argtypes = I, types

    def call(self, entry: str, *given):
        status = getattr(self.library, "cudnnBackend" + entry)(*given)
        if status:
            raise DnnError(f"cudnnBackend{entry}: {self.words(status)}")

    def words(self, status: int) -> str:
        """A status in the library's words."""
        self.library.cudnnGetErrorString.restype = ctypes.c_char_p
        found = (self.library.cudnnGetErrorString(status) or b"").decode()
        text = ctypes.create_string_buffer(512)
        if hasattr(self.library, "cudnnGetLastErrorString"):
            self.library.cudnnGetLastErrorString(text, ctypes.c_size_t(512))
        return " ".join(filter(None, (f"{found} ({status})", text.value.decode(errors="replace").strip())))


class Descriptor:
    """One descriptor.  It lives as long as the process, unless it is freed: plans hold machine code of the device,
    which may be gone before Python ends."""

    def __init__(self, dnn: Handle, kind: int):
        self.dnn, self.kind, self.held, out = dnn, kind, [], P()
        dnn.call("CreateDescriptor", kind, ctypes.byref(out))
        self.place = out.value

    def set(self, attribute: int, kind: tuple, *values) -> "Descriptor":
        number, element = kind
        self.held += [one for one in values if isinstance(one, Descriptor)]
        given = (element * len(values))(*(one.place if isinstance(one, Descriptor) else one for one in values))
        self.dnn.call("SetAttribute", self.place, attribute, number, len(values), ctypes.addressof(given))
        return self

    def done(self) -> "Descriptor":
        self.dnn.call("Finalize", self.place)
        return self

    def count(self, attribute: int, kind: tuple) -> int:
        """How many elements an attribute has."""
        found = L()
        self.dnn.call("GetAttribute", self.place, attribute, kind[0], 0, ctypes.byref(found), None)
        return found.value

    def get(self, attribute: int, kind: tuple):
        """The one element of an attribute."""
        found, count = kind[1](), L()
        self.dnn.call("GetAttribute", self.place, attribute, kind[0], 1, ctypes.byref(count), ctypes.addressof(found))
        return found.value

    def listed(self, attribute: int, kind: int, most: int) -> list:
        """The descriptors, of a kind, that an attribute refers to."""
        made, count = [Descriptor(self.dnn, kind) for _ in range(most)], L()
        given = (P * most)(*(one.place for one in made))
        self.dnn.call("GetAttribute", self.place, attribute, DESCRIPTOR[0], most, ctypes.byref(count),
                      ctypes.addressof(given))
        for one in made[:count.value]:
            one.held.append(self)
        return made[:count.value]

    def free(self):
        self.dnn.call("DestroyDescriptor", self.place)


class Tensor(NamedTuple):
    """A value of a graph: its descriptor, sizes and dtype."""

    descriptor: Descriptor
    shape: tuple
    dtype: str


def packed(shape: tuple) -> tuple:
    """Return the strides of a contiguous tensor."""
    found, step = [], 1
    for size in reversed(shape):
        found.append(step)
        step *= size
    return tuple(reversed(found))


class Graph:
    """A graph being written.  ``numbers``: of its tensors in memory, by name; ``constants``: those given by value."""

    def __init__(self, dnn: Handle):
        self.dnn, self.operations, self.numbers, self.constants, self.count = dnn, [], {}, {}, 0

    def tensor(self, shape, dtype, name="", strides=None, by_value=False) -> Tensor:
        """A tensor: in memory under a name, or between operations."""
        self.count += 1
        made = Descriptor(self.dnn, OF_TENSOR)
        made.set(906, WHOLE, self.count).set(901, DATA_TYPE, DTYPES[dtype]).set(900, WHOLE, ALIGNED)
        made.set(902, WHOLE, *shape).set(903, WHOLE, *(strides or packed(shape)))
        made.set(907, BOOLEAN, not name and not by_value)
        if by_value:
            made.set(908, BOOLEAN, True)
        if name:
            self.numbers[name] = self.count
        return Tensor(made.done(), tuple(shape), dtype)

    def constant(self, value: float, rank=4) -> Tensor:
        """A number, which each execution gives."""
        found = self.tensor((1,) * rank, "float32", by_value=True)
        self.constants[self.count] = value
        return found

    def add(self, kind: int, attributes: list):
        made = Descriptor(self.dnn, kind)
        for number, type_, value in attributes:
            made.set(number, type_, value.descriptor if isinstance(value, Tensor) else value)
        self.operations.append(made.done())

    def multiply(self, a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        how = Descriptor(self.dnn, OF_MATMUL).set(1500, DATA_TYPE, DTYPES["float32"]).done()
        self.add(OF_MULTIPLIED, [(1523, DESCRIPTOR, how), (1520, DESCRIPTOR, a), (1521, DESCRIPTOR, b),
                                 (1522, DESCRIPTOR, out)])
        return out

    def convolve(self, kind: int, first: int, roles: dict, held: dict, dtype: str, spacing: tuple):
        """A convolution.  ``kind``: of its operation, whose attributes begin with ``first``; ``roles``: those of its
        tensors; ``spacing``: zeros around, steps, and distances of taps."""
        pad, step, far = spacing
        how = Descriptor(self.dnn, OF_CONVOLUTION).set(106, WHOLE, len(pad)).set(100, DATA_TYPE, DTYPES[dtype])
        how.set(101, CONVOLVED, CORRELATION).set(102, WHOLE, *far).set(103, WHOLE, *step)
        how.set(104, WHOLE, *pad).set(105, WHOLE, *pad)
        real = REAL if dtype == "float64" else FLOAT
        self.add(kind, [(first, real, 1.0), (first + 1, real, 0.0), (first + 2, DESCRIPTOR, how.done()),
                        *((number, DESCRIPTOR, held[name]) for name, number in roles.items())])

    def point(self, mode: int, x: Tensor, b: Tensor = None, t: Tensor = None, out: Tensor = None, axis=None) -> Tensor:
        """An operation on elements; what it makes is between operations where no ``out`` is given."""
        how = Descriptor(self.dnn, OF_POINTWISE).set(0, POINTWISE, mode).set(1, DATA_TYPE, DTYPES["float32"])
        if axis is not None:
            how.set(9, WHOLE, axis)
        dtype = "bool" if mode == GREATER_EQUAL else "int32" if mode == INDEX else "float32"
        out = out or self.tensor(x.shape, dtype)  # of the shape of x, to which others are spread
        given = [(750, DESCRIPTOR, how.done()), (751, DESCRIPTOR, x), (753, DESCRIPTOR, out)]
        given += [(752, DESCRIPTOR, b)] if b is not None else []
        given += [(758, DESCRIPTOR, t)] if t is not None else []
        self.add(OF_POINTED, given)
        return out

    def reduce(self, mode: int, x: Tensor, shape: tuple, out: Tensor = None) -> Tensor:
        how = Descriptor(self.dnn, OF_REDUCTION).set(1600, REDUCING, mode).set(1601, DATA_TYPE, DTYPES["float32"])
        out = out or self.tensor(shape, "float32")
        self.add(OF_REDUCED, [(1612, DESCRIPTOR, how.done()), (1610, DESCRIPTOR, x), (1611, DESCRIPTOR, out)])
        return out

    def transposed(self, x: Tensor, dtype: str, strides=None) -> Tensor:
        """Transpose the last two dimensions; ``strides``: of the result, by default a view of the same memory."""
        *outer, rows, columns = x.shape
        step = packed((*outer, rows, columns))
        out = self.tensor((*outer, columns, rows), dtype, strides=strides or (*step[:-2], 1, columns))
        self.add(OF_RESHAPED, [(2200, DESCRIPTOR, x), (2201, DESCRIPTOR, out)])
        return out

    def done(self) -> Descriptor:
        """The graph, finalized."""
        made = Descriptor(self.dnn, OF_GRAPH).set(801, DESCRIPTOR, *self.operations)
        if self.dnn.handle:
            made.set(800, HANDLE, self.dnn.handle)
        return made.done()


def configurations(graph: Descriptor, modes=(HEURISTICS, FALLBACK), most=8) -> list:
    """Configurations of engines that the library proposes, the likely fastest first."""
    found = []
    for mode in modes:
        heuristics = Descriptor(graph.dnn, OF_HEURISTICS).set(201, DESCRIPTOR, graph).set(200, MODE, mode)
        if graph.dnn.device:
            heuristics.set(204, DESCRIPTOR, graph.dnn.device)
        heuristics.done()
        count = min(most, heuristics.count(202, DESCRIPTOR))
        found += heuristics.listed(202, OF_CONFIGURATION, count) if count else []
    return found


def notes_of(configuration: Descriptor) -> set:
    """Return the library's notes of a configuration's engine."""
    engine = Descriptor(configuration.dnn, OF_ENGINE)
    given, count = (P * 1)(engine.place), L()
    configuration.dnn.call("GetAttribute", configuration.place, 300, DESCRIPTOR[0], 1, ctypes.byref(count),
                           ctypes.addressof(given))
    found = (I * MOST_NOTES)()
    engine.dnn.call("GetAttribute", engine.place, 1303, NOTE[0], MOST_NOTES, ctypes.byref(count),
                    ctypes.addressof(found))
    engine.free()
    return set(found[:count.value])


def plan_of(configuration: Descriptor) -> Descriptor:
    """Return the execution plan of a configuration.  DnnError if its engine does not support it."""
    made = Descriptor(configuration.dnn, OF_PLAN).set(401, DESCRIPTOR, configuration)
    if configuration.dnn.handle:
        made.set(400, HANDLE, configuration.dnn.handle)
    if configuration.dnn.device:
        made.set(407, DESCRIPTOR, configuration.dnn.device)
    return made.done()

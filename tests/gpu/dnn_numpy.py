"""Graphs of the stand-in for cuDNN, by NumPy on the memory of the process: what their descriptors say is computed."""
from __future__ import annotations

import ctypes
import struct

import numpy as np

from .blas_numpy import codes, floats
from .stub_blas import BF16, F16, F32, F64
from .stub_dnn import (ATTRIBUTES, BYTES, DATA, FILTER, FORWARD, KIND, MULTIPLIED, POINTED, REDUCED, RESHAPED,
                       slot)

TYPES = {0: F32, 1: F64, 2: F16, 9: BF16}  # of tensors in memory, as those of matmuls
NUMPY = {F32: np.float32, F64: np.float64, F16: np.float16, BF16: np.uint16}
LETTERS = {1: "i", 3: "q", 7: "i", 14: "i", 15: "q", 18: "i", 2: "?"}
POINTWISE = {0: np.add, 1: np.multiply, 9: np.subtract, 6: np.divide, 13: lambda x: np.exp(x), 15: lambda x: np.log(x),
             21: lambda x: x, 303: np.greater_equal}
INDEX, SELECT = 501, 601


def word(place: int, number: int) -> int:
    return ctypes.c_int64.from_address(place + 8 * number).value


def attribute(place: int, number: int) -> tuple:
    """The elements of an attribute of a descriptor."""
    count, at, kind = word(place, slot(number)), word(place, slot(number) + 1), ATTRIBUTES[number][1]
    raw = ctypes.string_at(at, count * BYTES[kind]) if at else b""
    return struct.unpack(f"<{count}{LETTERS[kind]}", raw) if at else ()


class Run:
    """One execution.  ``given``: (address, first word) by the number of a tensor."""

    def __init__(self, graph: int, given: dict):
        self.given, self.values, self.tensors = given, {}, set()
        for operation in attribute(graph, 801):
            {POINTED: self.pointed, MULTIPLIED: self.multiplied, REDUCED: self.reduced,
             RESHAPED: self.reshaped, FORWARD: self.convolved, DATA: self.convolved,
             FILTER: self.convolved}[word(operation, KIND)](operation)

    def facts(self, tensor):
        virtual, by_value = (bool((attribute(tensor, number) or (0,))[0]) for number in (907, 908))
        return (attribute(tensor, 906)[0], attribute(tensor, 901)[0], attribute(tensor, 902), attribute(tensor, 903),
                virtual, by_value)

    def memory(self, tensor) -> np.ndarray:
        number, kind, shape, strides, _, _ = self.facts(tensor)
        kind, (address, _) = TYPES[kind], self.given[number]
        assert address % 16 == 0, "a tensor that is less aligned than its descriptor says"
        size = 1 + sum((n - 1) * step for n, step in zip(shape, strides))
        width = np.dtype(NUMPY[kind]).itemsize
        held = np.frombuffer((ctypes.c_char * (size * width)).from_address(address), NUMPY[kind])
        return np.lib.stride_tricks.as_strided(held, shape, [step * width for step in strides])

    def read(self, operation, number) -> np.ndarray:
        tensor, = attribute(operation, number)
        name, kind, shape, _, virtual, by_value = self.facts(tensor)
        if by_value:
            return np.full(shape, struct.unpack("<f", struct.pack("<q", self.given[name][1])[:4])[0])
        if name in self.values:
            found = self.values[name]
        else:
            assert not virtual, "a tensor between operations that none has made"
            found = floats(self.memory(tensor), TYPES[kind])
        assert found.shape == tuple(shape), (found.shape, shape)
        return found

    def write(self, operation, number, value):
        tensor, = attribute(operation, number)
        name, kind, shape, _, virtual, _ = self.facts(tensor)
        value = np.broadcast_to(value, shape)
        if virtual:
            rounded = kind in (2, 9)
            self.values[name] = floats(codes(value, TYPES[kind]), TYPES[kind]) if rounded else value
        else:
            self.memory(tensor)[...] = codes(value, TYPES[kind])
            self.values[name] = value

    def pointed(self, operation):
        how, = attribute(operation, 750)
        mode, x = attribute(how, 0)[0], self.read(operation, 751)
        b, t = (self.read(operation, number) if attribute(operation, number) else None for number in (752, 758))
        if mode == INDEX:
            axis = attribute(how, 9)[0]
            value = np.arange(x.shape[axis]).reshape([-1 if k == axis else 1 for k in range(x.ndim)])
        elif mode == SELECT:
            value = np.where(t.astype(bool), x, b)
        else:
            value = POINTWISE[mode](*([x] if b is None else [x, b]))
        self.write(operation, 753, value)

    def multiplied(self, operation):
        a, b = self.read(operation, 1520), self.read(operation, 1521)
        if b.shape[1] != a.shape[1]:
            b = np.repeat(b, a.shape[1] // b.shape[1], 1)
        self.write(operation, 1522, np.matmul(a, b))

    def reduced(self, operation):
        how, = attribute(operation, 1612)
        x, (out,) = self.read(operation, 1610), attribute(operation, 1611)
        shape = self.facts(out)[2]
        for axis, (own, wanted) in enumerate(zip(x.shape, shape)):
            if own != wanted:  # groups of so many are one
                x = x.reshape(*x.shape[:axis], wanted, own // wanted, *x.shape[axis + 1:])
                x = (np.sum if attribute(how, 1600)[0] == 0 else np.max)(x, axis + 1)
        self.write(operation, 1611, x)

    def reshaped(self, operation):
        self.write(operation, 2201, self.read(operation, 2200).swapaxes(-1, -2))


    def convolved(self, operation):
        """One tap after another: what each reads of x, and adds to y; or the other way round."""
        kind = word(operation, KIND)
        first = {FORWARD: 700, DATA: 706, FILTER: 712}[kind]
        places = dict(zip(("weight", "x", "y"), (first + 3, first + 4, first + 5)))
        wanted = {FORWARD: "y", DATA: "x", FILTER: "weight"}[kind]
        how, = attribute(operation, first + 2)
        assert attribute(how, 101) == (1,) and attribute(how, 104) == attribute(how, 105)
        far, step, pad = (attribute(how, number) for number in (102, 103, 104))
        shapes = {name: self.facts(attribute(operation, number)[0])[2] for name, number in places.items()}
        held = {name: self.read(operation, number) if name != wanted else np.zeros(shapes[name])
                for name, number in places.items()}
        (batch, ins), size = shapes["x"][:2], shapes["x"][2:]
        outs, own, *kernel = shapes["weight"]
        groups, out = ins // own, shapes["y"][2:]
        padded = np.zeros((batch, groups, own, *(n + 2 * p for n, p in zip(size, pad))))
        inner = (..., *(slice(p, p + n) for n, p in zip(size, pad)))
        padded[inner] = held["x"].reshape(batch, groups, own, *size)
        w = held["weight"].reshape(groups, outs // groups, own, *kernel)
        y = held["y"].reshape(batch, groups, outs // groups, *out)
        for tap in np.ndindex(*kernel):
            seen = (..., *(slice(t * f, t * f + (n - 1) * s + 1, s) for t, f, n, s in zip(tap, far, out, step)))
            at = (..., *tap)
            if wanted == "y":
                y += np.einsum("gok,ngk...->ngo...", w[at], padded[seen])
            elif wanted == "x":
                padded[seen] += np.einsum("gok,ngo...->ngk...", w[at], y)
            else:
                flat = [one.reshape(*one.shape[:3], -1) for one in (y, padded[seen])]
                w[at] += np.einsum("ngop,ngkp->gok", *flat)
        found = {"y": y, "weight": w, "x": padded[inner]}[wanted]
        self.write(operation, places[wanted], found.reshape(shapes[wanted]))


def executed(arguments):
    """The kernel "cudnnExecute"."""
    graph, held = arguments
    given = {word(held, 1 + 3 * k): (word(held, 2 + 3 * k), word(held, 3 + 3 * k)) for k in range(word(held, 0))}
    with np.errstate(all="ignore"):
        Run(graph, given)

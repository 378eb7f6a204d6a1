"""Instructions of LLVM IR that touch memory or lanes: loads, stores, atomics, shuffles, reductions."""

from .instructions import Instructions
from .types import bf16, f16, i1, i8, i16, i32, i64, ptr, vector
from .values import Value, constant, constant_vector, poison, zero

_HALVES = (f16, bf16)


class Accesses(Instructions):
    """Instructions of a function that access memory, and the lanes of its vectors."""

    # -- memory -------------------------------------------------------------------------------------------------------

    def offset(self, pointer, index, element=None):
        """The address `index` elements of type `element` (default: bytes) after a pointer; either may be a vector."""
        index = index if isinstance(index, Value) else constant(i64, index)
        if index.number == 0 and not index.type.lanes:
            return pointer
        unit = "i8" if element is None else element.text
        type = vector(ptr, index.type.lanes or pointer.type.lanes)
        return self.value(type, f"getelementptr {unit}, {pointer.type} {pointer.text}, {index.type} {index.text}")

    def load(self, type, pointer, align=None, mask=None, other=None):
        """Load a value; with a mask only its lanes are touched, the rest come from `other` (default zero)."""
        align = align or type.element.bytes
        if type.element in _HALVES:
            other = other and self.bitcast(other, type.with_element(i16))
            return self.bitcast(self.load(type.with_element(i16), pointer, align, mask, other), type)
        if mask is None:
            return self.value(type, f"load {type}, ptr {pointer.text}, align {align}")
        other = other or zero(type)
        name = f"llvm.masked.load.{type.mangled}.p0"
        return self.call(name, [pointer, constant(i32, align), mask, other], type)

    def _as_bits(self, value):
        """16-bit floats are stored as integers: LLVM would convert them on CPUs without such a type."""
        return self.bitcast(value, value.type.with_element(i16)) if value.type.element in _HALVES else value

    def store(self, value, pointer, align=None, mask=None):
        """Store a value; with a mask only its lanes."""
        align = align or value.type.element.bytes
        value = self._as_bits(value)
        if mask is None:
            self.do(f"store {value.type} {value.text}, ptr {pointer.text}, align {align}")
        else:
            name = f"llvm.masked.store.{value.type.mangled}.p0"
            self.call(name, [value, pointer, constant(i32, align), mask])

    def gather(self, type, pointers, mask=None, other=None):
        """Load one element per lane from a vector of pointers."""
        if type.element in _HALVES:
            other = other and self.bitcast(other, type.with_element(i16))
            return self.bitcast(self.gather(type.with_element(i16), pointers, mask, other), type)
        mask = mask or constant(vector(i1, type.lanes), 1)
        name = f"llvm.masked.gather.{type.mangled}.{pointers.type.mangled}"
        return self.call(name, [pointers, constant(i32, type.element.bytes), mask, other or zero(type)], type)

    def scatter(self, value, pointers, mask=None):
        """Store one element per lane to a vector of pointers; of equal pointers the highest lane wins."""
        value = self._as_bits(value)
        mask = mask or constant(vector(i1, value.type.lanes), 1)
        name = f"llvm.masked.scatter.{value.type.mangled}.{pointers.type.mangled}"
        self.call(name, [value, pointers, constant(i32, value.type.element.bytes), mask])

    def alloca(self, type, count=1, align=64):
        """Stack memory for `count` values; a constant count is reserved once, in the entry block."""
        name = self.fresh("memory")
        if isinstance(count, Value):
            self.do(f"{name} = alloca {type}, i64 {count.text}, align {align}")
        else:
            self.entry.append(f"{name} = alloca {type}, i64 {count}, align {align}")
        return Value(name, ptr)

    def copy_bytes(self, target, source, count):
        """Copy `count` bytes between regions that don't overlap."""
        count = count if isinstance(count, Value) else constant(i64, count)
        self.call("llvm.memcpy.p0.p0.i64", [target, source, count, constant(i1, 0)])

    def fill_bytes(self, target, byte, count):
        """Set `count` bytes to one value."""
        count = count if isinstance(count, Value) else constant(i64, count)
        byte = byte if isinstance(byte, Value) else constant(i8, byte)
        self.call("llvm.memset.p0.i64", [target, byte, count, constant(i1, 0)])

    def prefetch(self, pointer, locality=3, write=False):
        """Prefetch a cache line; locality 3 is the L1 cache, 2 the L2 cache."""
        flags = [constant(i32, int(write)), constant(i32, locality), constant(i32, 1)]
        self.call("llvm.prefetch.p0", [pointer, *flags])

    # -- atomics ------------------------------------------------------------------------------------------------------

    def atomic_load(self, type, pointer, order="acquire"):
        """An atomic load."""
        return self.value(type, f"load atomic {type}, ptr {pointer.text} {order}, align {type.bytes}")

    def atomic_store(self, value, pointer, order="release"):
        """An atomic store."""
        self.do(f"store atomic {value.type} {value.text}, ptr {pointer.text} {order}, align {value.type.bytes}")

    def atomic_update(self, operation, pointer, value, order="acq_rel"):
        """An atomic read-modify-write (add, sub, xchg, fadd, max, ...); returns the value before."""
        return self.value(value.type, f"atomicrmw {operation} ptr {pointer.text}, {value.type} {value.text} {order}")

    def compare_exchange(self, pointer, expected, new, order="seq_cst"):
        """Store `new` if the memory holds `expected`; return (value before, True if it was stored)."""
        type = expected.type
        line = (f"cmpxchg ptr {pointer.text}, {type} {expected.text}, {type} {new.text} {order} monotonic")
        pair = self.value(type, line)
        fields = f"{{ {type}, i1 }} {pair.text}"
        return self.value(type, f"extractvalue {fields}, 0"), self.value(i1, f"extractvalue {fields}, 1")

    # -- vectors ------------------------------------------------------------------------------------------------------

    def splat(self, a, lanes):
        """A scalar in every lane (lanes 0: the scalar itself)."""
        if not lanes:
            return a
        type = vector(a.type, lanes)
        if a.number is not None:
            return constant(type, a.number)
        first = self.insert(poison(type), a, 0)
        return self.value(type, f"shufflevector {type} {first.text}, {type} poison, <{lanes} x i32> zeroinitializer")

    def insert(self, vector_value, a, lane):
        """The vector with one lane replaced."""
        lane = lane if isinstance(lane, Value) else constant(i32, lane)
        kind = vector_value.type
        return self.value(kind, f"insertelement {kind} {vector_value.text}, {a.type} {a.text}, {lane.type} {lane.text}")

    def extract(self, vector_value, lane):
        """One lane of a vector."""
        lane = lane if isinstance(lane, Value) else constant(i32, lane)
        kind = vector_value.type
        return self.value(kind.element, f"extractelement {kind} {vector_value.text}, {lane.type} {lane.text}")

    def shuffle(self, a, b, lanes):
        """Lanes picked out of a then b, by a list of constant positions (None: don't care); b may be None."""
        if a.type.element in _HALVES:  # LLVM would move them one at a time
            return self.bitcast(self.shuffle(self._as_bits(a), b and self._as_bits(b), lanes),
                                vector(a.type.element, len(lanes)))
        b = b or poison(a.type)
        picks = ", ".join("i32 poison" if lane is None else f"i32 {lane}" for lane in lanes)
        type = vector(a.type.element, len(lanes))
        return self.value(type, f"shufflevector {a.type} {a.text}, {b.type} {b.text}, <{len(lanes)} x i32> <{picks}>")

    def lane_indices(self, lanes, element=i64):
        """The constant vector 0, 1, 2, ..."""
        return constant_vector(element, range(lanes))

    def lane_mask(self, count, lanes):
        """A mask of the first `count` lanes (`count` an i64, clamped to [0, lanes])."""
        count = self.minimum(self.maximum(count, 0), lanes)
        narrow = self.cast("trunc", count, i32)
        return self.compare("<", self.lane_indices(lanes, i32), self.splat(narrow, lanes))

    def reduce(self, operation, a, reorder=True):
        """A horizontal reduction: add, mul, and, or, xor, min, max; sums of floats may be reordered."""
        element = a.type.element
        if element.is_float and operation in ("add", "mul"):
            start = constant(element, -0.0 if operation == "add" else 1.0)
            name = f"llvm.vector.reduce.f{operation}.{a.type.mangled}"
            return self.call(name, [start, a], element, flags="reassoc" if reorder else "")
        if operation in ("min", "max"):
            operation = f"f{operation}imum" if element.is_float else f"s{operation}"
        return self.call(f"llvm.vector.reduce.{operation}.{a.type.mangled}", [a], element)

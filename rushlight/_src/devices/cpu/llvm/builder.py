"""A builder of LLVM IR as text, in SSA form from the start.

No mid-end pass runs over what is written here, so the builder writes what should run: loops are rotated, carried values
are phis, constants are shared and trivial integer arithmetic folds. Operands may be plain Python numbers: they take the
type of the other operand.
"""

from . import halves
from .features import targeted
from .types import bf16, f16, f32, f64, i1, i8, i16, i32, i64, literal, ptr, vector, void


_HALVES = (f16, bf16)


class Value:
    """An SSA value or a constant: its LLVM text and its type. `number` is set for scalar and splat constants."""

    __slots__ = ("text", "type", "number")

    def __init__(self, text, type, number=None):
        self.text = text
        self.type = type
        self.number = number

    def __repr__(self):
        return f"{self.type} {self.text}"


_constants = {}


def constant(type, number):
    """The constant `number` of `type`, in every lane of a vector.

    Example:
        >>> constant(i64, 3)
        i64 3
    """
    # repr tells 0.0 from -0.0 and makes every NaN one key
    key = (type, repr(number))
    found = _constants.get(key)
    if found is None:
        text = literal(type.element, number)
        if type.lanes:
            text = f"splat ({type.element} {text})"
        found = _constants[key] = Value(text, type, number)
    return found


def constant_vector(element, numbers):
    """A constant vector with one number per lane.

    Example:
        >>> constant_vector(i32, [0, 1])
        <2 x i32> <i32 0, i32 1>
    """
    lanes = ", ".join(f"{element} {literal(element, number)}" for number in numbers)
    return Value(f"<{lanes}>", vector(element, len(numbers)))


def zero(type):
    """The all-zero constant of `type`."""
    return constant(type, 0.0 if type.is_float else 0)


def poison(type):
    """A value of `type` that nobody may look at."""
    return Value("poison", type)


class Phi:
    """A phi whose incoming edges are still being added; `value` may be used at once."""

    __slots__ = ("value", "_incoming", "_lines", "_at")

    def __init__(self, value, lines):
        self.value = value
        self._incoming = []
        self._lines = lines
        self._at = len(lines)
        lines.append("")

    def add(self, value, block):
        """Adds the edge: coming from `block`, the phi is `value`."""
        if value.type is not self.value.type:
            raise TypeError(f"a phi of {self.value.type} got an incoming {value.type}")
        self._incoming.append(f"[ {value.text}, %{block} ]")
        self._lines[self._at] = f"  {self.value.text} = phi {self.value.type} {', '.join(self._incoming)}"


MANY_STREAMS = "; many streams"  # first line of such a module


class Module:
    """An LLVM module under construction: functions, declarations and global data.  ``many_streams``: its loops read
    along so many addresses that LLVM should look for the best way to count them, which takes it long.

    Example:
        >>> module = Module()
        >>> f = module.function("twice", [("x", i64)], i64)
        >>> f.ret(f.add(f.parameters[0], f.parameters[0]))
        >>> "define i64 @twice" in module.text()
        True
    """

    def __init__(self, features=None, many_streams=False):
        self.features, self.many_streams = features or targeted(), many_streams
        self.functions = {}
        self._declarations = {}
        self._globals = {}

    def function(self, name, parameters, result=void, internal=False, attributes=""):
        """A new function to fill: `parameters` are (name, type) pairs, a type text may carry attributes such as
        "noalias".

        Raises ValueError when the module has that function.
        """
        if name in self.functions:
            raise ValueError(f"the module has a function {name!r} already")
        function = self.functions[name] = Function(self, name, parameters, result, internal, attributes)
        return function

    def declare(self, name, result, parameters, variadic=False):
        """Declares an external function once; its address comes from the link's imports or from this process."""
        types = ", ".join([str(t) for t in parameters] + (["..."] if variadic else []))
        self._declarations.setdefault(name, f"declare {result} @{name}({types})")

    def data(self, name, type_text, initializer="zeroinitializer", align=64, constant=False, internal=True):
        """A global variable; returns its address. The name may be exported when it is not internal."""
        kind = "constant" if constant else "global"
        linkage = "internal " if internal else ""
        self._globals[name] = f"@{name} = {linkage}{kind} {type_text} {initializer}, align {align}"
        return Value(f"@{name}", ptr)

    def outside(self, name):
        """The address of what another object of the same library defines."""
        self._globals[name] = f"@{name} = external hidden global i8"
        return Value(f"@{name}", ptr)

    def text(self):
        """The whole module as LLVM IR."""
        width = self.features.width
        attributes = (f'attributes #0 = {{ nounwind "min-legal-vector-width"="{width}" '
                      f'"prefer-vector-width"="{width}" "no-trapping-math"="true" }}')
        parts = [MANY_STREAMS] * self.many_streams + list(self._globals.values())
        parts += [function.text() for function in self.functions.values()]
        parts += [line for name, line in self._declarations.items() if name not in self.functions]
        return "\n".join(parts + [attributes]) + "\n"


class Function:
    """One function being written: every method appends an instruction and returns its value."""

    def __init__(self, module, name, parameters, result, internal, attributes):
        self.module = module
        self.features = module.features
        self.name = name
        self.result = result
        self.parameters = [Value(f"%{parameter}", _type_of(kind)) for parameter, kind in parameters]
        written = ", ".join(f"{kind} %{parameter}" for parameter, kind in parameters)
        linkage = "internal " if internal else ""
        self._head = f"define {linkage}{result} @{name}({written}) {attributes} #0 {{"
        self._entry = []
        self._lines = []
        self._names = 0
        self._bits = {}  # what a value was before it was given another type
        self.block = "body"

    def text(self):
        """The function as LLVM IR."""
        return "\n".join([self._head, "entry:", *self._entry, "  br label %body", "body:", *self._lines, "}"])

    # -- plumbing -----------------------------------------------------------------------------------------------------

    def _name(self):
        self._names += 1
        return f"%v{self._names}"

    def emit(self, line):
        """Appends one instruction that has no value."""
        self._lines.append("  " + line)

    def value(self, type, line):
        """Appends one instruction and returns its value."""
        name = self._name()
        self._lines.append(f"  {name} = {line}")
        return Value(name, type)

    def _pair(self, a, b):
        if not isinstance(a, Value):
            a = constant(b.type, a)
        elif not isinstance(b, Value):
            b = constant(a.type, b)
        if a.type is not b.type:
            raise TypeError(f"operands differ: {a.type} and {b.type}")
        return a, b

    def _binary(self, int_op, float_op, a, b, flags):
        a, b = self._pair(a, b)
        if a.type.is_float:
            if float_op is None:
                raise TypeError(f"{int_op} needs integers, got {a.type}")
            return self.value(a.type, f"{float_op} {flags} {a.type} {a.text}, {b.text}")
        return self.value(a.type, f"{int_op} {a.type} {a.text}, {b.text}")

    # -- arithmetic ---------------------------------------------------------------------------------------------------

    def add(self, a, b, flags=""):
        """a + b, of integers or floats."""
        a, b = self._pair(a, b)
        if a.type.is_int:
            if a.number is not None and b.number is not None:
                return constant(a.type, a.number + b.number)
            if b.number == 0:
                return a
            if a.number == 0:
                return b
        return self._binary("add", "fadd", a, b, flags)

    def sub(self, a, b, flags=""):
        """a - b, of integers or floats."""
        a, b = self._pair(a, b)
        if a.type.is_int:
            if a.number is not None and b.number is not None:
                return constant(a.type, a.number - b.number)
            if b.number == 0:
                return a
        return self._binary("sub", "fsub", a, b, flags)

    def mul(self, a, b, flags=""):
        """a * b, of integers or floats."""
        a, b = self._pair(a, b)
        if a.type.is_int:
            if a.number is not None and b.number is not None:
                return constant(a.type, a.number * b.number)
            for x, y in ((a, b), (b, a)):
                if x.number == 1:
                    return y
                if x.number == 0:
                    return x
        return self._binary("mul", "fmul", a, b, flags)

    def div(self, a, b, flags=""):
        """a / b: of floats, or of integers truncating towards zero."""
        a, b = self._pair(a, b)
        if a.type.is_int and b.number == 1:
            return a
        return self._binary("sdiv", "fdiv", a, b, flags)

    def rem(self, a, b):
        """The remainder of `div`, with the sign of a."""
        return self._binary("srem", "frem", a, b, "")

    def udiv(self, a, b):
        """a / b of unsigned integers."""
        return self._binary("udiv", None, a, b, "")

    def urem(self, a, b):
        """a % b of unsigned integers."""
        return self._binary("urem", None, a, b, "")

    def and_(self, a, b):
        """Bitwise and."""
        return self._binary("and", None, a, b, "")

    def or_(self, a, b):
        """Bitwise or."""
        return self._binary("or", None, a, b, "")

    def xor(self, a, b):
        """Bitwise exclusive or."""
        return self._binary("xor", None, a, b, "")

    def not_(self, a):
        """Bitwise complement; of an i1, logical not."""
        return self.xor(a, -1)

    def shl(self, a, b):
        """a shifted left by b bits."""
        return self._binary("shl", None, a, b, "")

    def lshr(self, a, b):
        """a shifted right by b bits, zeros coming in."""
        return self._binary("lshr", None, a, b, "")

    def ashr(self, a, b):
        """a shifted right by b bits, sign bits coming in."""
        return self._binary("ashr", None, a, b, "")

    def neg(self, a, flags=""):
        """-a."""
        if a.type.is_float:
            return self.value(a.type, f"fneg {flags} {a.type} {a.text}")
        return self.sub(constant(a.type, 0), a)

    def fma(self, a, b, c):
        """a * b + c rounded once; on CPUs without it, twice (LLVM would call a library function)."""
        if not self.features.fma:
            return self.add(self.mul(a, b), c)
        return self.intrinsic("llvm.fma", a.type, [a, b, c])

    def sqrt(self, a):
        """The square root, correctly rounded."""
        return self.intrinsic("llvm.sqrt", a.type, [a])

    def abs(self, a):
        """The absolute value."""
        if a.type.is_float:
            return self.intrinsic("llvm.fabs", a.type, [a])
        return self.intrinsic("llvm.abs", a.type, [a, constant(i1, 0)])

    def floor(self, a):
        """The largest whole number not above a float."""
        return self.intrinsic("llvm.floor", a.type, [a])

    def ceil(self, a):
        """The smallest whole number not below a float."""
        return self.intrinsic("llvm.ceil", a.type, [a])

    def trunc_float(self, a):
        """A float rounded towards zero to a whole number."""
        return self.intrinsic("llvm.trunc", a.type, [a])

    def rint(self, a):
        """A float rounded to the nearest whole number, ties to even."""
        return self.intrinsic("llvm.rint", a.type, [a])

    def minimum(self, a, b, signed=True):
        """The smaller one; of floats, NaN if either is NaN."""
        return self._extreme("min", a, b, signed)

    def maximum(self, a, b, signed=True):
        """The larger one; of floats, NaN if either is NaN."""
        return self._extreme("max", a, b, signed)

    def _extreme(self, kind, a, b, signed):
        a, b = self._pair(a, b)
        if a.type.is_float:
            return self.intrinsic(f"llvm.{kind}imum", a.type, [a, b])
        if a.number is not None and b.number is not None and signed:
            return constant(a.type, (min if kind == "min" else max)(a.number, b.number))
        return self.intrinsic(f"llvm.{'s' if signed else 'u'}{kind}", a.type, [a, b])

    # -- comparison and selection -------------------------------------------------------------------------------------

    def compare(self, predicate, a, b, signed=True):
        """a `predicate` b with predicate one of == != < <= > >=; floats compare ordered, except != which NaN
        satisfies."""
        a, b = self._pair(a, b)
        name = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}[predicate]
        if a.type.is_float:
            kind, name = "fcmp", ("u" if predicate == "!=" else "o") + name
        else:
            kind = "icmp"
            if predicate not in ("==", "!="):
                name = ("s" if signed and a.type.is_int else "u") + name
        return self.value(a.type.with_element(i1), f"{kind} {name} {a.type} {a.text}, {b.text}")

    def is_nan(self, a):
        """Whether a float is NaN."""
        return self.value(a.type.with_element(i1), f"fcmp uno {a.type} {a.text}, {a.text}")

    def select(self, condition, a, b):
        """a where the condition holds, else b; the condition may be one i1 or a vector of them."""
        a, b = self._pair(a, b)
        return self.value(a.type, f"select {condition.type} {condition.text}, {a.type} {a.text}, {b.type} {b.text}")

    # -- conversion ---------------------------------------------------------------------------------------------------

    def cast(self, instruction, a, type):
        """One LLVM conversion instruction by name: zext, sext, trunc, bitcast, fptosi, sitofp, ptrtoint, ..."""
        if a.type is type:
            return a
        return self.value(type, f"{instruction} {a.type} {a.text} to {type}")

    def bitcast(self, a, type):
        """The same bits under another type.

        What had that type before is taken as it was: halves that a processor does not compute in never reach another
        block, where LLVM would carry them as floats.
        """
        before = self._bits.get(a.text)
        if before is not None and before.type == type:
            return before
        made = self.cast("bitcast", a, type)
        self._bits[made.text] = a
        return made

    def convert(self, a, element, signed=True):
        """The number `a` with another element type, lanes kept, rounding to nearest even into narrower floats.

        `signed` says how integers read (i1 always counts 0 and 1). Floats out of an integer's range give LLVM's poison.
        """
        source, target = a.type.element, element
        if source is target:
            return a
        if source.is_float and target.is_float:
            return halves.convert(self, a, target)
        type = a.type.with_element(target)
        if source.is_int and target.is_int:
            if source.bits > target.bits:
                return self.cast("trunc", a, type)
            return self.cast("sext" if signed and source is not i1 else "zext", a, type)
        if target.is_float:
            wide = f32 if target in (f16, bf16) else target
            result = self.cast("sitofp" if signed and source is not i1 else "uitofp", a, a.type.with_element(wide))
            return self.convert(result, target)
        if source in (f16, bf16):
            a = self.convert(a, f32)
        return self.cast("fptosi" if signed else "fptoui", a, type)

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
        """Loads a value; with a mask only its lanes are touched, the rest come from `other` (default zero)."""
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
        """Halves travel through memory as integers: LLVM would convert them where the CPU has no such type."""
        return self.bitcast(value, value.type.with_element(i16)) if value.type.element in _HALVES else value

    def store(self, value, pointer, align=None, mask=None):
        """Stores a value; with a mask only its lanes."""
        align = align or value.type.element.bytes
        value = self._as_bits(value)
        if mask is None:
            self.emit(f"store {value.type} {value.text}, ptr {pointer.text}, align {align}")
        else:
            name = f"llvm.masked.store.{value.type.mangled}.p0"
            self.call(name, [value, pointer, constant(i32, align), mask])

    def gather(self, type, pointers, mask=None, other=None):
        """Loads one element per lane from a vector of pointers."""
        if type.element in _HALVES:
            other = other and self.bitcast(other, type.with_element(i16))
            return self.bitcast(self.gather(type.with_element(i16), pointers, mask, other), type)
        mask = mask or constant(vector(i1, type.lanes), 1)
        name = f"llvm.masked.gather.{type.mangled}.{pointers.type.mangled}"
        return self.call(name, [pointers, constant(i32, type.element.bytes), mask, other or zero(type)], type)

    def scatter(self, value, pointers, mask=None):
        """Stores one element per lane to a vector of pointers; of equal pointers the highest lane wins."""
        value = self._as_bits(value)
        mask = mask or constant(vector(i1, value.type.lanes), 1)
        name = f"llvm.masked.scatter.{value.type.mangled}.{pointers.type.mangled}"
        self.call(name, [value, pointers, constant(i32, value.type.element.bytes), mask])

    def alloca(self, type, count=1, align=64):
        """Stack memory for `count` values; a constant count is reserved once, in the entry block."""
        name = self._name()
        if isinstance(count, Value):
            self.emit(f"{name} = alloca {type}, i64 {count.text}, align {align}")
        else:
            self._entry.append(f"  {name} = alloca {type}, i64 {count}, align {align}")
        return Value(name, ptr)

    def copy_bytes(self, target, source, count):
        """Copies `count` bytes between regions that don't overlap."""
        count = count if isinstance(count, Value) else constant(i64, count)
        self.call("llvm.memcpy.p0.p0.i64", [target, source, count, constant(i1, 0)])

    def fill_bytes(self, target, byte, count):
        """Sets `count` bytes to one value."""
        count = count if isinstance(count, Value) else constant(i64, count)
        byte = byte if isinstance(byte, Value) else constant(i8, byte)
        self.call("llvm.memset.p0.i64", [target, byte, count, constant(i1, 0)])

    def prefetch(self, pointer, locality=3, write=False):
        """Asks for a cache line early; locality 3 is the first cache, 2 the second."""
        flags = [constant(i32, int(write)), constant(i32, locality), constant(i32, 1)]
        self.call("llvm.prefetch.p0", [pointer, *flags])

    # -- atomics ------------------------------------------------------------------------------------------------------

    def atomic_load(self, type, pointer, order="acquire"):
        """An atomic load."""
        return self.value(type, f"load atomic {type}, ptr {pointer.text} {order}, align {type.bytes}")

    def atomic_store(self, value, pointer, order="release"):
        """An atomic store."""
        self.emit(f"store atomic {value.type} {value.text}, ptr {pointer.text} {order}, align {value.type.bytes}")

    def atomic_update(self, operation, pointer, value, order="acq_rel"):
        """An atomic read-modify-write (add, sub, xchg, fadd, max, ...); returns the value before."""
        return self.value(value.type, f"atomicrmw {operation} ptr {pointer.text}, {value.type} {value.text} {order}")

    def compare_exchange(self, pointer, expected, new, order="seq_cst"):
        """Stores `new` if the memory holds `expected`; returns (value before, whether it was stored)."""
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
        if a.type.element in _HALVES:  # of which LLVM would move one at a time
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

    # -- calls --------------------------------------------------------------------------------------------------------

    def call(self, callee, arguments, result=void, flags="", variadic=None):
        """Calls a Function, or a function by name (declared on the way); `variadic` is the count of fixed
        parameters."""
        name = callee.name if isinstance(callee, Function) else callee
        if isinstance(callee, Function):
            result = callee.result
        else:
            fixed = arguments if variadic is None else arguments[:variadic]
            self.module.declare(name, result, [a.type for a in fixed], variadic is not None)
        if variadic is None:
            return self._call(f"{result} @{name}", arguments, result, flags)
        fixed_types = ", ".join(str(a.type) for a in arguments[:variadic])
        return self._call(f"{result} ({fixed_types}, ...) @{name}", arguments, result, flags)

    def call_pointer(self, pointer, arguments, result=void):
        """Calls the function at an address."""
        return self._call(f"{result} {pointer.text}", arguments, result, "")

    def _call(self, target, arguments, result, flags):
        written = ", ".join(f"{a.type} {a.text}" for a in arguments)
        line = f"call {flags} {target}({written})"
        if result is void:
            return self.emit(line)
        return self.value(result, line)

    def intrinsic(self, name, result, arguments, overloads=None, flags=""):
        """Calls an LLVM intrinsic, its name completed by the overloaded types (default: the result's)."""
        suffix = ".".join(t.mangled for t in (overloads or [result]))
        return self.call(f"{name}.{suffix}", arguments, result, flags)

    def ret(self, a=None):
        """Returns from the function."""
        self.emit("ret void" if a is None else f"ret {a.type} {a.text}")

    def unreachable(self):
        """Marks a place that control never reaches."""
        self.emit("unreachable")

    # -- control flow -------------------------------------------------------------------------------------------------

    def new_block(self, hint="block"):
        """A fresh label, to be placed by `at`."""
        self._names += 1
        return f"{hint}{self._names}"

    def at(self, block):
        """Starts writing a block."""
        self._lines.append(f"{block}:")
        self.block = block

    def branch(self, block):
        """Jumps."""
        self.emit(f"br label %{block}")

    def branch_if(self, condition, then, otherwise):
        """Jumps to one of two blocks."""
        self.emit(f"br i1 {condition.text}, label %{then}, label %{otherwise}")

    def phi(self, type, *edges):
        """A phi with the given (value, block) edges; more may be added later."""
        phi = Phi(Value(self._name(), type), self._lines)
        for value, block in edges:
            phi.add(value, block)
        return phi

    def loop(self, start, stop, step, carried, body):
        """A counted loop `for i in range(start, stop, step)` (step above 0), its test at the bottom.

        `body(i, values)` returns the next carried values (None when there are none); the last ones are returned, or the
        initial ones when nothing ran. Numbers may be Python ints.

        Example:
            >>> f = Module().function("sum", [("n", i64)], i64)
            >>> total, = f.loop(0, f.parameters[0], 1, [constant(i64, 0)], lambda i, values: [f.add(values[0], i)])
            >>> f.ret(total)
        """
        start, stop, step = (x if isinstance(x, Value) else constant(i64, x) for x in (start, stop, step))
        known = None not in (start.number, stop.number)
        if known and start.number >= stop.number:
            return list(carried)
        body_block, exit_block = self.new_block("loop"), self.new_block("exit")
        before = self.block
        if known:
            self.branch(body_block)
        else:
            self.branch_if(self.compare("<", start, stop), body_block, exit_block)
        self.at(body_block)
        index = self.phi(i64, (start, before))
        phis = [self.phi(value.type, (value, before)) for value in carried]
        results = body(index.value, [phi.value for phi in phis]) or []
        if len(results) != len(phis):
            raise ValueError(f"the loop carries {len(phis)} values but its body returned {len(results)}")
        following = self.add(index.value, step)
        last = self.block
        index.add(following, last)
        for phi, value in zip(phis, results):
            phi.add(value, last)
        self.branch_if(self.compare("<", following, stop), body_block, exit_block)
        self.at(exit_block)
        edges = [(last, results)] if known else [(before, carried), (last, results)]
        return [self.phi(value.type, *((values[k], block) for block, values in edges)).value
                for k, value in enumerate(carried)]

    def while_loop(self, carried, condition, body):
        """Repeats `body(values) -> values` while `condition(values)` holds (tested first); returns the last values."""
        before, head = self.block, self.new_block("while")
        body_block, exit_block = self.new_block("do"), self.new_block("done")
        self.branch(head)
        self.at(head)
        phis = [self.phi(value.type, (value, before)) for value in carried]
        values = [phi.value for phi in phis]
        self.branch_if(condition(values), body_block, exit_block)
        self.at(body_block)
        for phi, value in zip(phis, body(values) or []):
            phi.add(value, self.block)
        self.branch(head)
        self.at(exit_block)
        return values

    def when(self, condition, then, otherwise=None):
        """Runs `then()` or `otherwise()`; when they return lists of values, returns the list that was taken."""
        then_block, else_block, end = self.new_block("then"), self.new_block("else"), self.new_block("end")
        self.branch_if(condition, then_block, else_block if otherwise else end)
        self.at(then_block)
        yes = then() or []
        yes_end = self.block
        self.branch(end)
        no = []
        if otherwise:
            self.at(else_block)
            no = otherwise() or []
            no_end = self.block
            self.branch(end)
        self.at(end)
        if len(yes) != len(no):
            raise ValueError(f"the branches return {len(yes)} and {len(no)} values")
        return [self.phi(a.type, (a, yes_end), (b, no_end)).value for a, b in zip(yes, no)]

    def switch(self, index, cases):
        """Runs the case (a function) whose number `index` has; does nothing for other numbers."""
        end = self.new_block("end")
        blocks = {number: self.new_block("case") for number in cases}
        table = " ".join(f"{index.type} {number}, label %{block}" for number, block in blocks.items())
        self.emit(f"switch {index.type} {index.text}, label %{end} [ {table} ]")
        for number, run in cases.items():
            self.at(blocks[number])
            run()
            self.branch(end)
        self.at(end)


_KINDS = {str(t): t for t in (void, ptr, i1, i8, i16, i32, i64, f16, bf16, f32, f64)}


def _type_of(kind):
    """The type of a parameter written as a type or as text with attributes, such as "ptr noalias"."""
    return kind if not isinstance(kind, str) else _KINDS[kind.split()[0]]

"""Instructions of LLVM IR that compute: arithmetic, comparisons, conversions, calls."""

from ....core.llvm.body import Body
from . import halves
from .types import bf16, f16, f32, i1, void
from .values import Value, constant, zero


class Instructions(Body):
    """A function whose values have types.  Every method appends an instruction and returns its value."""

    def __init__(self, module, name, parameters, result, internal, attributes):
        written = [f"{kind} %{parameter}" for parameter, kind in parameters]
        super().__init__(name, result, written, f"{attributes} #0", "internal" if internal else "")
        self.module, self.features = module, module.features
        self._bits = {}  # results of bitcasts to their operands

    def value(self, type, line):
        """Append one instruction and return its value."""
        return Value(self.op(line), type)

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
        """The largest integer not above a float."""
        return self.intrinsic("llvm.floor", a.type, [a])

    def ceil(self, a):
        """The smallest integer not below a float."""
        return self.intrinsic("llvm.ceil", a.type, [a])

    def trunc_float(self, a):
        """A float rounded towards zero to an integer."""
        return self.intrinsic("llvm.trunc", a.type, [a])

    def rint(self, a):
        """A float rounded to the nearest integer, ties to even."""
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
        """True if a float is NaN."""
        return self.value(a.type.with_element(i1), f"fcmp uno {a.type} {a.text}, {a.text}")

    def select(self, condition, a, b):
        """a if the condition holds, else b; the condition may be one i1 or a vector of them."""
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

        A bitcast back returns the original value: 16-bit floats that a CPU does not compute in thus never reach another
        basic block, where LLVM would carry them as floats.
        """
        before = self._bits.get(a.text)
        if before is not None and before.type == type:
            return before
        made = self.cast("bitcast", a, type)
        self._bits[made.text] = a
        return made

    def convert(self, a, element, signed=True):
        """The value `a` with another element type, lanes kept, rounding to nearest even into narrower floats.

        `signed` is the signedness of integers (an i1 is always 0 or 1). Floats out of an integer's range give poison.
        """
        source, target = a.type.element, element
        if source is target:
            return a
        if source.is_float and target.is_float:
            return halves.convert(self, a, target)
        type = a.type.with_element(target)
        if source is i1 and type.lanes and self.features.scalable:  # LLVM does not convert such masks
            wide = a.type.with_element(f32 if target in (f16, bf16) else target)
            return self.convert(self.select(a, constant(wide, 1), zero(wide)), target)
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

    # -- calls --------------------------------------------------------------------------------------------------------

    def call(self, callee, arguments, result=void, flags="", variadic=None):
        """Call a function of the module, or a function by name (declared if needed); `variadic` is the count of fixed
        parameters."""
        name = callee.name if isinstance(callee, Body) else callee
        if isinstance(callee, Body):
            result = callee.result
        else:
            fixed = arguments if variadic is None else arguments[:variadic]
            self.module.declare(name, result, [a.type for a in fixed], variadic is not None)
        if variadic is None:
            return self._call(f"{result} @{name}", arguments, result, flags)
        fixed_types = ", ".join(str(a.type) for a in arguments[:variadic])
        return self._call(f"{result} ({fixed_types}, ...) @{name}", arguments, result, flags)

    def call_pointer(self, pointer, arguments, result=void):
        """Call the function at an address."""
        return self._call(f"{result} {pointer.text}", arguments, result, "")

    def _call(self, target, arguments, result, flags):
        written = ", ".join(f"{a.type} {a.text}" for a in arguments)
        line = f"call {flags} {target}({written})"
        if result is void:
            return self.do(line)
        return self.value(result, line)

    def intrinsic(self, name, result, arguments, overloads=None, flags=""):
        """Call an LLVM intrinsic, its name completed by the overloaded types (default: the result's)."""
        suffix = ".".join(t.mangled for t in (overloads or [result]))
        return self.call(f"{name}.{suffix}", arguments, result, flags)

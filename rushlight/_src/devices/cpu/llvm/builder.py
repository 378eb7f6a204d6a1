"""A builder of LLVM IR as text, in SSA form from the start.

No mid-end pass runs over this IR, so the builder emits its final form: loops are rotated, carried values are phis,
constants are shared and trivial integer arithmetic folds. Operands may be plain Python numbers: they take the type of
the other operand.
"""

from ....core.llvm import body
from .accesses import Accesses
from .features import targeted
from .types import bf16, f16, f32, f64, i1, i8, i16, i32, i64, ptr, void
from .values import Value, constant


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
        """Add the edge: coming from `block`, the phi is `value`."""
        if value.type is not self.value.type:
            raise TypeError(f"a phi of {self.value.type} got an incoming {value.type}")
        self._incoming.append(f"[ {value.text}, %{block} ]")
        self._lines[self._at] = f"{self.value.text} = phi {self.value.type} {', '.join(self._incoming)}"


MANY_STREAMS = "; many streams"  # first line of such a module


class Module(body.Module):
    """An LLVM module under construction: functions, declarations and global data.  ``many_streams``: enables LLVM's
    slow optimization of induction variables, for loops that access many addresses.

    Example:
        >>> module = Module()
        >>> f = module.function("twice", [("x", i64)], i64)
        >>> f.ret(f.add(f.parameters[0], f.parameters[0]))
        >>> "@twice(i64 %x)" in module.text()
        True
    """

    def __init__(self, features=None, many_streams=False):
        super().__init__()
        self.features, self.many_streams = features or targeted(), many_streams
        self.functions, self._globals = {}, {}

    def function(self, name, parameters, result=void, internal=False, attributes=""):
        """Return a new function to fill: `parameters` are (name, type) pairs, a type string may carry attributes such
        as "noalias".

        Raises ValueError if the module has that function.
        """
        if name in self.functions:
            raise ValueError(f"the module has a function {name!r} already")
        function = self.functions[name] = Function(self, name, parameters, result, internal, attributes)
        return function

    def declare(self, name, result, parameters, variadic=False):
        """Declare an external function once; its address comes from the link's imports or from this process."""
        super().declare(name, result, [*parameters, "..."] if variadic else parameters)

    def data(self, name, type_text, initializer="zeroinitializer", align=64, constant=False, internal=True):
        """Define a global variable; return its address. The name may be exported if it is not internal."""
        kind = "constant" if constant else "global"
        linkage = "internal " if internal else ""
        self._globals[name] = f"@{name} = {linkage}{kind} {type_text} {initializer}, align {align}"
        return Value(f"@{name}", ptr)

    def outside(self, name):
        """The address of a definition in another object of the same library."""
        self._globals[name] = f"@{name} = external hidden global i8"
        return Value(f"@{name}", ptr)

    def text(self):
        """Return the module as LLVM IR."""
        width = self.features.width
        # SVE's vectors have the size that the features say, by which LLVM lays fixed ones in its registers
        sized = f"vscale_range({width // 128},{width // 128}) " if self.features.scalable else ""
        attributes = (f'attributes #0 = {{ nounwind {sized}"min-legal-vector-width"="{width}" '
                      f'"prefer-vector-width"="{width}" "no-trapping-math"="true" }}')
        parts = [MANY_STREAMS] * self.many_streams + list(self._globals.values())
        parts += [function.text() for function in self.functions.values()]
        parts += self.definitions
        parts += [line for name, line in self.declarations.items() if name not in self.functions]
        return "\n".join(parts + [attributes]) + "\n"


class Function(Accesses):
    """One function being written: every method appends an instruction and returns its value."""

    def __init__(self, module, name, parameters, result, internal, attributes):
        super().__init__(module, name, parameters, result, internal, attributes)
        self.parameters = [Value(f"%{parameter}", _type_of(kind)) for parameter, kind in parameters]

    @property
    def block(self):
        """The label of the block being written."""
        return self.current[0]

    def ret(self, a=None):
        """Return from the function."""
        self.finish("ret void" if a is None else f"ret {a.type} {a.text}")

    def unreachable(self):
        """Mark a point that control never reaches."""
        self.finish("unreachable")

    # -- control flow -------------------------------------------------------------------------------------------------

    def new_block(self, hint="block"):
        """A fresh label, to be placed by `at`."""
        return self.label(hint)

    def at(self, block):
        """Start a block."""
        self.start(block)

    def branch(self, block):
        """Jump to a block."""
        self.jump(block)

    def branch_if(self, condition, then, otherwise):
        """Jump to one of two blocks."""
        self.fork(condition.text, then, otherwise)

    def phi(self, type, *edges):
        """A phi with the given (value, block) edges; more may be added later."""
        phi = Phi(Value(self.fresh(), type), self.current[1])
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
        carried, types = self.as_bits(carried)
        body_block, exit_block = self.new_block("loop"), self.new_block("exit")
        before = self.block
        if known:
            self.branch(body_block)
        else:
            self.branch_if(self.compare("<", start, stop), body_block, exit_block)
        self.at(body_block)
        index = self.phi(i64, (start, before))
        phis = [self.phi(value.type, (value, before)) for value in carried]
        results, _ = self.as_bits(body(index.value, self.from_bits(phis, types)) or [])
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
        return self.from_bits([self.phi(value.type, *((values[k], block) for block, values in edges))
                               for k, value in enumerate(carried)], types)

    def while_loop(self, carried, condition, body):
        """Repeat `body(values) -> values` while `condition(values)` holds (tested first); return the last values."""
        carried, types = self.as_bits(carried)
        before, head = self.block, self.new_block("while")
        body_block, exit_block = self.new_block("do"), self.new_block("done")
        self.branch(head)
        self.at(head)
        phis = [self.phi(value.type, (value, before)) for value in carried]
        values = self.from_bits(phis, types)
        self.branch_if(condition(values), body_block, exit_block)
        self.at(body_block)
        for phi, value in zip(phis, self.as_bits(body(values) or [])[0]):
            phi.add(value, self.block)
        self.branch(head)
        self.at(exit_block)
        return values

    def when(self, condition, then, otherwise=None):
        """Run `then()` or `otherwise()`; if they return lists of values, return the list of the branch taken."""
        then_block, else_block, end = self.new_block("then"), self.new_block("else"), self.new_block("end")
        self.branch_if(condition, then_block, else_block if otherwise else end)
        self.at(then_block)
        yes, types = self.as_bits(then() or [])
        yes_end = self.block
        self.branch(end)
        no = []
        if otherwise:
            self.at(else_block)
            no, _ = self.as_bits(otherwise() or [])
            no_end = self.block
            self.branch(end)
        self.at(end)
        if len(yes) != len(no):
            raise ValueError(f"the branches return {len(yes)} and {len(no)} values")
        return self.from_bits([self.phi(a.type, (a, yes_end), (b, no_end)) for a, b in zip(yes, no)], types)

    def as_bits(self, values):
        """Return (values with 16-bit floats as integers, their types before): LLVM carries 16-bit floats that a CPU
        does not compute in as floats between basic blocks, and calls a library to narrow them."""
        types = [value.type for value in values]
        return [self.bitcast(value, value.type.with_element(i16)) if value.type.element in (bf16, f16) else value
                for value in values], types

    def from_bits(self, phis, types):
        """The values of the phis of ``as_bits``, as these types."""
        return [self.bitcast(phi.value, type) for phi, type in zip(phis, types)]

    def switch(self, index, cases):
        """Run the case (a function) at `index`; do nothing for other indices."""
        end = self.new_block("end")
        blocks = {number: self.new_block("case") for number in cases}
        table = " ".join(f"{index.type} {number}, label %{block}" for number, block in blocks.items())
        self.finish(f"switch {index.type} {index.text}, label %{end} [ {table} ]")
        for number, run in cases.items():
            self.at(blocks[number])
            run()
            self.branch(end)
        self.at(end)


_KINDS = {str(t): t for t in (void, ptr, i1, i8, i16, i32, i64, f16, bf16, f32, f64)}


def _type_of(kind):
    """The type of a parameter given as a type or as a string with attributes, such as "ptr noalias"."""
    return kind if not isinstance(kind, str) else _KINDS[kind.split()[0]]

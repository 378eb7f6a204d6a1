"""Kernel -> WGSL.

Three forms of kernels: of "threads", where each runs one index of the outer axes and of the lanes, with loops in
order; of "groups", where a workgroup shares the loops of one outer index, and reductions meet in workgroup memory;
and those "in order", which one thread runs.

Bindings: 0 the arguments of a launch (units, then for each buffer the first element, scalars as two u32, parameters
as one), then the buffers, last the error flag.
"""

from __future__ import annotations

import re

from ...compiler import math
from ...compiler.kernel import Kernel, KernelStage, scalar_inputs
from ...core.dtypes import float32
from ...core.expr import Expr, const, extent_of
from ...core.failures import DIVIDED_BY_ZERO, OUT_OF_RANGE
from ..shared.writer import Refused, Scope, Writer, form
from .functions import called_in
from .scalars import BUILTINS, OPERATIONS, TYPES, Operation, convert, literal, wrapped
from .words import NARROW, READ, STORE, STORED, UPDATE

THREADS = 256  # of a workgroup whose threads work alone
GROUP = 128  # of one that shares a reduction
SCANNED = 512  # elements of a scan that a group shares, at least
ACROSS = 65535  # workgroups of one dimension
SYMBOLS = {"add": "+", "mul": "*", "and": "&", "or": "|"}

# what threads of a reduction know of their subgroup
SUBGROUPS = (", @builtin(subgroup_size) sub_size: u32, @builtin(subgroup_invocation_id) sub_lane: u32"
             ", @builtin(subgroup_id) sub: u32, @builtin(num_subgroups) subs: u32")


class Emitter(Writer):
    """Writes one parametrised kernel.

    ``features``: the words "f64" and "i64" where the device has these types, "f16" where memory may have float16,
    "subgroups" where threads exchange numbers, and "fma" where its multiply-add rounds once.
    """

    atomic = False  # whether other threads may update the same memory at the same time

    def __init__(self, kernel: Kernel, count: int, features, shape=""):
        super().__init__()
        self.kernel, self.features, self.form = kernel, features, shape or form(kernel)
        self.atomic = kernel.atomic
        self.buffers, self.head, self.constants, self.meets = kernel.buffers(), [], {}, False
        self.written = {s.buffer for stage in kernel.stages for s in stage.stores}
        self.line("let none = words[0] >> 31u;")  # 0, which no compiler knows
        at = 1
        for k, buffer in enumerate(self.buffers):
            self.names[buffer] = f"b{k}"
            self.line(f"let o{k} = i32(words[{at}]);")
            self.declare(k, buffer)
            at += 1
        for s in sorted(scalar_inputs(kernel), key=lambda s: int(s.arg[1:].split(".")[0])):
            self.scopes[0].values[s] = self.scalar(s, at)
            at += 2
        for k in range(count):
            leaf = Expr("slot", (), (f"p{k}",))
            self.line(f"let p{k} = i32(words[{at + k}]);")
            self.scopes[0].values[leaf] = f"p{k}"
            self.scopes[0].leaves.add(leaf)
        self.count = at + count

    # --- what is bound --------------------------------------------------
    def declare(self, k, buffer):
        name = buffer.dtype.name
        if name not in TYPES:
            raise Refused(f"numbers of {buffer.dtype}")
        narrow = name in NARROW and not self.is_half(name)
        if self.atomic and buffer in self.written:
            self.head.append(f"@group(0) @binding({k + 1}) var<storage, read_write> b{k}: array<atomic<u32>>;")
            return
        element = ("f16" if self.is_half(name) else self.type(buffer.dtype) if not narrow
                   else "atomic<u32>" if buffer in self.written else "u32")
        self.head.append(f"@group(0) @binding({k + 1}) var<storage, read_write> b{k}: array<{element}>;")
        if not narrow:
            return
        bits = NARROW[name]
        per, mask = 32 // bits, (1 << bits) - 1
        word = f"atomicLoad(&b{k}[at / {per}])" if buffer in self.written else f"b{k}[at / {per}]"
        self.head.append(
            f"fn load_b{k}(at: i32) -> u32 {{ return ({word} >> (u32(at % {per}) * {bits}u)) & {mask}u; }}"
        )
        if buffer in self.written:
            self.head.append(STORE.format(k=k, per=per, bits=bits, mask=mask))

    def is_half(self, name: str) -> bool:
        """Whether memory has numbers of the device's own float16; elsewhere they are parts of words."""
        return name == "float16" and "f16" in self.features

    def type(self, dtype) -> str:
        kind = TYPES.get(dtype.name)
        if kind is None or kind in ("i64", "f64") and kind not in self.features:
            raise Refused(f"numbers of {dtype}")
        return kind

    def scalar(self, s, at) -> str:
        low, high = f"words[{at}]", f"words[{at + 1}]"
        if s.dtype.is_floating_point:
            return (
                self.let(f"bitcast<f64>((u64({high}) << 32u) | (u64({low}) & 0xfffffffflu))")
                if self.type(s.dtype) == "f64"
                else self.let(f"bitcast<f32>({low})")
            )
        if s.dtype.name == "bool":
            return self.let(f"({low} != 0u)")
        return self.let(f"bitcast<{self.type(s.dtype)}>((u64({high}) << 32u) | (u64({low}) & 0xfffffffflu))")

    # --- text --------------------------------------------------
    def let_line(self, name: str, text: str) -> str:
        return f"let {name} = {text};"

    def enclosed(self, head: str, lines: list) -> list:
        return [f"{head} {{", *(f"  {line}" for line in lines), "}"]

    def literal(self, number, dtype) -> str:
        return literal(number, self.type(dtype))

    def whole_literal(self, number) -> str:
        return literal(number, "i32")

    def opaque(self, text: str, dtype) -> str:
        return self.hidden(text, self.type(dtype))

    # --- the kernel --------------------------------------------------
    def text(self) -> str:
        kernel, size = self.kernel, {"order": 1, "thread": THREADS}.get(self.form, GROUP)
        axes = [*kernel.outer] + [a for a in (kernel.lane,) if a is not None]
        if self.form == "order":
            self.block("for (var unit = 0; unit < i32(words[0]); unit++)", lambda: self.unit(axes))
        else:
            spread = "wid.x + wid.y * 65535u" if self.form in (
                "group", "scan") else f"(wid.x + wid.y * 65535u) * {size}u + lid"
            self.line(f"let unit = i32({spread});")
            self.block("if (unit < i32(words[0]))", lambda: self.unit(axes))
        return self.whole(size, kernel.flag)

    def whole(self, size: int, flag: bool) -> str:
        """The module around what the outermost scope has; ``size``: threads of a workgroup."""
        head = ["@group(0) @binding(0) var<storage, read> words: array<u32>;", *self.head]
        if flag:
            place = len(self.buffers) + 1
            head += [
                f"@group(0) @binding({place}) var<storage, read_write> flag: array<atomic<u32>>;",
                f"const OUT_OF_RANGE = {OUT_OF_RANGE}u; const DIVIDED_BY_ZERO = {DIVIDED_BY_ZERO}u;",
            ]
        head += [f"const {name} = {value};" for value, name in self.constants.items()]
        body = "\n".join(f"  {line}" for line in self.scopes[0].lines)
        given = "@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32"
        given += SUBGROUPS if self.meets else ""
        main = f"@compute @workgroup_size({size}) fn main({given}) {{\n{body}\n}}\n"
        whole = "\n".join(head) + "\n"
        text = whole + called_in(whole + main) + main
        return f"enable f16;\n{text}" if re.search(r"\bf16\b", text) else text

    def function(self, name: str, e: Expr, operand: Expr) -> str:
        """The text of a function of one number, by its definition for all devices."""
        outer, self.scopes, kind = self.scopes, [Scope()], self.type(operand.dtype)
        self.line("let none = words[0] >> 31u;")
        self.scopes[-1].values[operand] = "x"
        found = self.value(e)
        body = "\n".join(f"  {line}" for line in self.scopes[-1].lines)
        self.scopes = outer
        return f"fn {name}(x: {kind}) -> {kind} {{\n{body}\n  return {found};\n}}"

    def unit(self, axes):
        """One index of all outer axes."""
        self.taken_apart("unit", axes, self.extent)
        for k, stage in enumerate(self.kernel.stages):
            if k and self.form == "group" and self.reads_written(stage):
                self.line("storageBarrier();")
                self.line("workgroupBarrier();")
            self.stage(stage)

    def stage(self, stage: KernelStage):
        names = [self.accumulators(r) for r in stage.reductions]
        if self.form == "scan":
            self.scan(stage, names)
            return
        if self.form != "group" or not stage.loops:
            if not stage.loops and self.form == "group":
                self.block(
                    "if (lid == 0u)", lambda: self.body(stage, names), branch=True
                ) if not stage.reductions else self.body(stage, names)
            elif not stage.loops:
                self.block("", lambda: self.body(stage, names)) if self.reads_written(stage) else self.body(
                    stage, names
                )
            else:
                self.in_order(stage, stage.loops, names)
        else:
            self.shared(stage, names)
        for r, own in zip(stage.reductions, names):
            found = self.folded(r, own) if self.form == "group" and stage.loops else own
            self.scopes[-1].leaves.add(r.result)
            self.scopes[-1].values[r.result] = (
                self.let(convert(found[-1], r.value.dtype, r.result.dtype))
                if r.at is None
                else self.let(f"{self.type(r.result.dtype)}({found[-1]})")
            )

    def scan(self, stage, names):
        """A row in parts, one a thread: what each part comes to, then what all before it come to, with which the part
        goes on."""
        (axis,), kinds = stage.loops, [self.type(r.value.dtype) for r in stage.reductions]
        end = self.extent(axis)
        self.line(f"let part = ({end} + {GROUP - 1}) / {GROUP}; let first = min(i32(lid) * part, {end});")
        self.line(f"let behind = min(first + part, {end});")

        def along(body):
            at = self.name()
            self.block(f"for (var {at} = first; {at} < behind; {at}++)", body, {axis: at})

        along(lambda: [self.merge(r, own, [self.value(r.value)]) for r, own in zip(stage.reductions, names)])
        shared = [f"s{self.name()}" for _ in names]
        for name, kind, own in zip(shared, kinds, names):
            self.head.append(f"var<workgroup> {name}: array<{'u32' if kind == 'bool' else kind}, {GROUP}>;")
            self.line(f"{name}[lid] = {f'u32({own[0]})' if kind == 'bool' else own[0]};")
        self.line("storageBarrier();")
        self.line("workgroupBarrier();")
        for r, kind, own in zip(stage.reductions, kinds, names):
            self.line(f"{own[0]} = {self.identity(r, kind)[0]};")
        before = self.name()

        def collect():
            for r, kind, own, name in zip(stage.reductions, kinds, names, shared):
                self.merge(r, own, [self.let(f"({name}[{before}] != 0u)" if kind == "bool" else f"{name}[{before}]")])

        self.block(f"for (var {before} = 0u; {before} < lid; {before}++)", collect, branch=True)
        along(lambda: self.body(stage, names))

    def in_order(self, stage, loops, names):
        """Nested loops, one index at a time."""
        if not loops:
            self.body(stage, names)
            return
        axis = loops[0]
        at, end = self.name(), self.extent(axis)
        self.block(
            f"for (var {at} = 0; {at} < {end}; {at}++)", lambda: self.in_order(stage, loops[1:], names), {axis: at}
        )

    def shared(self, stage, names):
        """The loops of a stage shared by a group's threads: all as one, if no extent depends on another's index."""
        loops = stage.loops
        if any(isinstance(extent_of(a), Expr) and extent_of(a).free & set(loops) for a in loops):
            self.nested(stage, loops, names)
            return
        ends = {a: self.extent(a) for a in loops}
        total, at = ends[loops[0]] if len(ends) == 1 else self.let(" * ".join(ends.values())), self.name()

        def inside():
            self.taken_apart(at, loops, ends.get)
            self.body(stage, names)

        self.block(f"for (var {at} = i32(lid); {at} < {total}; {at} += {GROUP})", inside)

    def nested(self, stage, loops, names):
        """The last loop shared, those around it in order."""
        axis = loops[0]
        at, end = self.name(), self.extent(axis)
        first, step = (f"var {at} = i32(lid)", f"{at} += {GROUP}") if len(loops) == 1 else (f"var {at} = 0", f"{at}++")
        self.block(
            f"for ({first}; {at} < {end}; {step})",
            lambda: self.nested(stage, loops[1:], names) if len(loops) > 1 else self.body(stage, names),
            {axis: at},
        )

    # --- reductions and stores --------------------------------------------------
    def accumulators(self, r) -> list:
        """Declare the accumulators of a reduction and return their names."""
        kind, found = self.type(r.value.dtype), []
        for value in self.identity(r, kind):
            found.append(self.name())
            self.line(f"var {found[-1]} = {value};")
        return found

    def identity(self, r, kind) -> list:
        if r.combine in ("argmax", "argmin", "max", "min"):
            least = self.extreme(kind, r.value.dtype, r.combine.endswith("min"))
            return [least] + (["2147483647i"] if r.combine.startswith("arg") else [])
        if r.combine in ("and", "or"):
            return [
                literal(r.combine == "and", kind) if kind == "bool" else literal(-1 if r.combine == "and" else 0, kind)
            ]
        return [literal(r.combine == "mul", kind)]

    def extreme(self, kind, dtype, largest) -> str:
        if kind == "bool":
            return literal(largest, kind)
        if kind in ("f32", "f64"):
            return literal(float("inf") if largest else float("-inf"), kind)
        bits = 8 * dtype.itemsize
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.is_signed else (0, (1 << bits) - 1)
        return literal(high if largest else low, kind)

    def combine(self, r, old, new) -> list:
        """Return the source of the combination of two states of a reduction."""
        kind = self.type(r.value.dtype)
        if r.at is not None:
            (x, i), (y, j) = old, new
            better, tie = f"{y} {'>' if r.combine == 'argmax' else '<'} {x}", f"{y} == {x}"
            if kind == "bool":
                better = f"u32({y}) {'>' if r.combine == 'argmax' else '<'} u32({x})"
            if kind in ("f32", "f64"):
                first, second = f"is_nan_{kind}({x})", f"is_nan_{kind}({y})"
                better, tie = f"({better} || ({second} && !{first}))", f"({tie} || ({second} && {first}))"
            take = self.let(f"({better}) || ({tie} && {j} < {i})")
            return [f"select({x}, {y}, {take})", f"select({i}, {j}, {take})"]
        return [self.update(r.combine, r.value.dtype, kind, old[0], new[0])]

    def update(self, combine, dtype, kind, x, y) -> str:
        if kind == "bool":
            return f"({x} {'|' if combine in ('add', 'max', 'or') else '&'} {y})"
        if combine in ("max", "min"):
            return f"{combine}imum_{kind}({x}, {y})" if kind in ("f32", "f64") else f"{combine}({x}, {y})"
        return wrapped(f"({x} {SYMBOLS[combine]} {y})", dtype)

    def body(self, stage, names):
        """One step of every reduction and store."""
        for r, own in zip(stage.reductions, names):
            new = [self.value(r.value)] + ([self.value(r.at)] if r.at is not None else [])
            self.merge(r, own, new)
            if r.running:
                self.scopes[-1].leaves.add(r.result)
                self.scopes[-1].values[r.result] = self.let(convert(own[0], r.value.dtype, r.result.dtype))
        values = [(self.value(const(s.at)), self.value(s.value)) for s in stage.stores]
        for s, (at, value) in zip(stage.stores, values):
            self.store(s, at, value)

    def store(self, s, at, value):
        k, dtype = self.names[s.buffer][1:], s.buffer.dtype
        place = f"o{k} + {at}"
        if self.atomic:
            self.line(f"{self.updating(k, s)}({place}, {value});")
            return
        if s.combine:
            kind = self.type(dtype)
            value = self.update(s.combine, dtype, kind, self.from_memory(s.buffer, place), value)
        if self.is_half(dtype.name):
            self.line(f"b{k}[{place}] = f32_to_f16({value});")
        elif dtype.name in NARROW:
            stored = STORED[dtype.name].format(value)
            self.line(f"store_b{k}({place}, {stored});")
        else:
            self.line(f"b{k}[{place}] = {value};")

    def updating(self, k, s) -> str:
        """The name of a function that updates a number of a buffer, whatever other threads do with it."""
        dtype, name = s.buffer.dtype, s.buffer.dtype.name
        kind, bits, combine = self.type(dtype), NARROW.get(name, 32), s.combine or "set"
        text = UPDATE.format(
            combine=combine, k=k, kind=kind, per=32 // bits, bits=bits, mask=(1 << bits) - 1,
            before=READ[name].format("raw"),
            after=self.update(combine, dtype, kind, "before", "value") if s.combine else "value",
            stored=STORED[name].format("after"))
        if text not in self.head:
            self.head.append(text)
        return f"{combine}_b{k}"

    def folded(self, r, own) -> list:
        """The threads' parts of a reduction combined: each thread has the whole."""
        kinds = [self.type(r.value.dtype)] + (["i32"] if r.at is not None else [])
        shared = [f"s{self.name()}" for _ in kinds]
        self.head += [
            f"var<workgroup> {name}: array<{'u32' if kind == 'bool' else kind}, {GROUP}>;"
            for name, kind in zip(shared, kinds)
        ]

        def kept(name, kind):
            return f"({name} != 0u)" if kind == "bool" else name

        def put(values, at="lid"):
            for name, value, kind in zip(shared, values, kinds):
                self.line(f"{name}[{at}] = {f'u32({value})' if kind == 'bool' else value};")

        if "subgroups" in self.features:
            own = self.exchanged(r, own, kinds)
            self.block("if (sub_lane == 0u)", lambda: put(own, "sub"), branch=True)
            self.line("workgroupBarrier();")
            for x, name, kind in zip(own, shared, kinds):
                self.line(f"{x} = {kept(f'{name}[0]', kind)};")
            step = self.name()
            self.block(f"for (var {step} = 1u; {step} < subs; {step}++)", lambda: self.merge(
                r, own, [self.let(kept(f"{name}[{step}]", kind)) for name, kind in zip(shared, kinds)]), branch=True)
            return own
        put(own)
        self.line("workgroupBarrier();")
        step = self.name()

        def halve():
            def meet():
                old, new = (
                    [self.let(kept(f"{name}[{at}]", kind)) for name, kind in zip(shared, kinds)]
                    for at in ("lid", f"lid + {step}")
                )
                put(self.combine(r, old, new))

            self.block(f"if (lid < {step})", meet, branch=True)
            self.line("workgroupBarrier();")

        self.block(f"for (var {step} = {GROUP // 2}u; {step} > 0u; {step} = {step} >> 1u)", halve, branch=True)
        return [self.let(kept(f"{name}[0]", kind)) for name, kind in zip(shared, kinds)]

    def exchanged(self, r, own, kinds) -> list:
        """Variables in which each thread of a subgroup has what is left of all of them."""
        self.meets, made = True, [self.name() for _ in own]
        for name, value in zip(made, own):
            self.line(f"var {name} = {value};")
        step = self.name()

        def meet():
            new = [self.let(f"(subgroupShuffleXor(u32({x}), {step}) != 0u)" if kind == "bool"
                            else f"subgroupShuffleXor({x}, {step})") for x, kind in zip(made, kinds)]
            self.merge(r, made, new)

        self.block(f"for (var {step} = sub_size >> 1u; {step} > 0u; {step} = {step} >> 1u)", meet, branch=True)
        return made

    def merge(self, r, names, new):
        """Puts into variables what is left of them and of others."""
        for name, value in zip(names, [self.let(text) for text in self.combine(r, names, new)]):
            self.line(f"{name} = {value};")

    # --- expressions --------------------------------------------------
    def expanded(self, e):
        """The operation in simpler terms; where there is no float64 to compute in, by WGSL's own functions."""
        if (
            "f64" not in self.features
            and e.op in BUILTINS
            and e.args[-1].dtype is not None
            and e.args[-1].dtype.is_floating_point
        ):
            return e if e.dtype is float32 else math.expand(e)
        return math.expand(e)

    def position(self, e, x) -> str:
        """A place, which is looked at: the error flag says where it is none."""
        self.type_named("i64")
        return f"place({self.hidden(f'i64({x[0]})', 'i64')}, {x[1]})"

    def divisor(self, e, x) -> str:
        """A divisor, which is looked at."""
        return f"divisor_{self.type(e.dtype)}({x[0]})"

    def counted(self, e, x) -> str:
        """A position as a number."""
        if e.dtype.name == "bool":
            return f"({x[0]} != 0)"
        return wrapped(self.widened(f"{self.type(e.dtype)}({x[0]})", "i32", e.dtype), e.dtype)

    def drawn(self, e, x) -> str:
        """A random number."""
        self.type_named("i64")
        return f"philox({', '.join(x)})"

    def changed(self, e, x) -> str:
        """A number of another dtype."""
        self.type(e.dtype)
        source = e.args[0].dtype
        return self.widened(convert(x[0], source, e.dtype), self.type(source), e.dtype)

    def operation(self, e, x) -> str:
        if e.op in BUILTINS and "f64" not in self.features:
            return BUILTINS[e.op].format(*x)
        if e.dtype.is_floating_point and e.op in ("add", "sub", "mul"):
            x = self.kept(e, x)
        if e.op == "div":  # Mesa's compiler takes 0 / x for 0, and x / 0 for x / 1
            x = [self.hidden(one, self.type(e.dtype)) if a.op == "number" and a.arg == 0 else one
                 for a, one in zip(e.args, x)]
        if e.op == "fma" and e.dtype.is_floating_point and "fma" not in self.features and "f64" in self.features:
            single = self.type(e.dtype) == "f32"
            return f"f32(f64({x[0]}) * f64({x[1]}) + f64({x[2]}))" if single else f"fused_f64({', '.join(x)})"
        return self.written_as(Operation(e, x, self.type(e.args[-1].dtype), self.type(e.dtype)), OPERATIONS)

    def kept(self, e, x) -> list:
        """The operands of a sum or a product, some of them hidden.

        A driver might drop the rounding that is meant in (x + 1) - 1, and what x * 0 is for infinities.
        """
        kind, out = self.type(e.dtype), list(x)
        for k, (one, other) in enumerate(zip(e.args, reversed(e.args))):
            shared = any(a is other or a.op == other.op == "number" for a in one.args)
            inner = one.op in ("add", "sub") and e.op != "mul" and shared
            if inner or e.op == "mul" and one.op == "number" and one.arg == 0:
                out[k] = self.let(self.hidden(x[k], kind), self.home(e, x))
        return out

    def widened(self, text: str, source: str, dtype) -> str:
        """A number of 32 bits in 64, hidden: Mesa's compiler takes comparisons of such for true, whatever they say."""
        kind = self.type(dtype)
        return self.hidden(text, kind) if kind == "i64" and source in ("i32", "u32") else text

    def hidden(self, text: str, kind: str) -> str:
        """Return a value that compilers cannot constant-fold."""
        if kind == "bool":
            return text
        bits, none = ("u64", "u64(none)") if kind.endswith("64") else ("u32", "none")
        return f"bitcast<{kind}>(bitcast<{bits}>({text}) ^ {none})"

    def type_named(self, kind):
        if kind not in self.features:
            raise Refused(f"numbers of type {kind}")

    def table(self, e, x) -> str:
        kind = self.type(e.dtype)
        values = f"array<{kind}, {len(e.arg)}>({', '.join(literal(n, kind) for n in e.arg)})"
        name = self.constants.setdefault(values, f"table{len(self.constants)}")
        return f"{name}[i32({x[0]})]"

    def from_memory(self, buffer, place) -> str:
        name, k = buffer.dtype.name, self.names[buffer][1:]
        if self.is_half(name):
            return f"f32(b{k}[{place}])"
        if name not in NARROW:
            return f"b{k}[{place}]"
        return READ[name].format(f"load_b{k}({place})")

    def load(self, e, x) -> str:
        k = self.names[e.arg][1:]
        if len(x) == 1:
            return self.from_memory(e.arg, f"o{k} + {x[0]}")
        read = self.from_memory(e.arg, f"o{k} + select(0i, {x[0]}, {x[1]})")
        return f"select({literal(0, self.type(e.dtype))}, {read}, {x[1]})"

    def rarely(self, e) -> str:
        """A choice that evaluates its rare side only if it is needed."""
        condition, usual = self.value(e.args[0]), self.value(e.args[2])
        name = self.name()
        self.line(f"var {name} = {usual};")
        self.block(f"if ({condition})", lambda: self.line(f"{name} = {self.value(e.args[1])};"), branch=True)
        self.scopes[-1].values[e] = name
        return name

    def repeat(self, e) -> str:
        """A loop within one value."""
        (at, state, count), kind = e.arg, self.type(e.dtype)
        name, k = self.name(), self.name()
        self.line(f"var {name} = {self.value(e.args[0])};")

        def inside():
            counted = self.let(f"{kind}({k})")
            scope = self.scopes[-1]
            scope.leaves |= {at, state}
            scope.values |= {at: counted, state: self.let(name)}
            going = self.value(e.args[2])
            self.line(f"if (!{going}) {{ break; }}")
            self.line(f"{name} = {self.value(e.args[1])};")

        self.block(f"for (var {k} = 0; {k} < {count}; {k}++)", inside, branch=True)
        self.scopes[-1].values[e] = name
        return name


def emit(kernel: Kernel, count: int, features, shape="") -> tuple[str, int]:
    """Return the WGSL of a parametrized kernel with ``count`` parameters, and the size of its launches' arguments in
    u32; ``shape``: how its units are distributed, as ``spread`` says.

    Refused where a type or an operation is missing.
    """
    emitter = Emitter(kernel, count, features, shape)
    return emitter.text(), emitter.count

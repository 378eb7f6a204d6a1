"""Machine code that computes launches for given sizes, before a package runs a shape-generic program.

``Sized`` emits, for each item of a program, the choice of its plan (``variants.py``), the bytes and words that it
takes, and the encoded launches: constants are copied from a table, numbers that depend on sizes are computed.
"""
from __future__ import annotations

from ..compiler.launch import CONSTANT, HEAD
from ..compiler.memory import FOREVER
from ..compiler.outline import Outline
from ..compiler.places import FLAG, Temporary
from ..core.expr import Expr
from ..core.nodes import evaluate
from ..devices.cpu.llvm.builder import Module
from ..devices.cpu.llvm.types import i1, i64, ptr
from ..devices.cpu.llvm.values import Value, constant
from .interface import MISSING, UNPLANNED, WRONG_SIZES
from .variants import Blocks, Region, aligned, alternatives


class Numbers:
    """Emitter of Exprs as instructions of a function; ``known``: values that are computed and visible."""

    def __init__(self, f, known: dict):
        self.f, self.known = f, known

    def inside(self) -> "Numbers":
        """The same for a block within: what it computes is not seen outside."""
        return Numbers(self.f, dict(self.known))

    def value(self, e) -> Value:
        if not isinstance(e, Expr):
            return constant(i64, int(e))
        found = self.known.get(e)
        if found is None:
            found = self.known[e] = self.computed(e)
        return found

    def computed(self, e: Expr) -> Value:
        f = self.f
        if e.op in ("const", "number"):
            return constant(i64, int(e.arg))
        if e.op == "sum":
            coefficients, start = e.arg
            total = constant(i64, start)
            for monomial, coefficient in zip(e.args, coefficients):
                total = f.add(total, f.mul(self.value(monomial), coefficient))
            return total
        args = [self.value(a) for a in e.args]
        if e.op == "product":
            total = args[0]
            for a in args[1:]:
                total = f.mul(total, a)
            return total
        if e.op in ("//", "%"):
            return self.divided(e.op, *args)
        if e.op in ("max", "min"):
            total = args[0]
            for a in args[1:]:
                total = f.maximum(total, a) if e.op == "max" else f.minimum(total, a)
            return total
        if e.op in ("<", "=="):
            return f.cast("zext", f.compare(e.op, *args), i64)
        if e.op == "logical_not":
            return f.xor(args[0], 1)
        if e.op in ("logical_and", "logical_or"):
            return (f.and_ if e.op == "logical_and" else f.or_)(*args)
        raise ValueError(f"{e} is no arithmetic of sizes")

    def divided(self, op: str, a: Value, b: Value) -> Value:
        """Floor division, or its remainder, of signed integers; 0 if the divisor is 0, as for points."""
        f = self.f
        zero = f.compare("==", b, 0)
        b = f.select(zero, constant(i64, 1), b)
        quotient = f.value(i64, f"sdiv i64 {a.text}, {b.text}")
        left = f.value(i64, f"srem i64 {a.text}, {b.text}")
        below = f.and_(f.compare("!=", left, 0), f.compare("<", f.xor(left, b), 0))
        if op == "//":
            return f.select(zero, constant(i64, 0), f.sub(quotient, f.cast("zext", below, i64)))
        return f.add(left, f.select(below, b, constant(i64, 0)))

    def holds(self, conditions) -> Value:
        """Whether all conditions hold."""
        found = constant(i1, 1)
        for c in conditions:
            found = self.f.and_(found, self.f.compare("!=", self.value(c), 0))
        return found


class Sized:
    """The code of programs for all sizes within bounds; ``out``: the SharedObject, which gets tables and kernels.

    ``symbols``: the dynamic sizes (``tracing.Varying``), in the order in which they are passed.  ``kernel``: (address)
    -> the kernel's name in ``out``; ``number``: of the build that it belongs to.
    """

    def __init__(self, out, symbols, kernel, number=0):
        self.number, self.out, self.symbols, self.kernel = number, out, list(symbols), kernel
        self.region = Region({v.symbol: (max(2, v.low), max(2, v.high)) for v in self.symbols})
        self.module, self.forms, self.structures, self.tables, self.held = Module(), {}, {}, {}, []
        self.programs = []

    def known(self, f, sizes: Value) -> Numbers:
        """The sizes of a function's parameter."""
        found = {}
        for k, one in enumerate(self.symbols):
            found[one.symbol] = found[one.wide] = f.load(i64, f.offset(sizes, 8 * k))
        return Numbers(f, found)

    # --- constants ----------------------------------------------------------------------------------------------------
    def table(self, words, pointers) -> str:
        """The name of a table of words; ``pointers``: {place: name} of the addresses among them."""
        key = tuple(words), tuple(sorted(pointers.items()))
        if key not in self.tables:
            name = self.tables[key] = f"sized{self.number}_table{len(self.tables)}"
            self.module.outside(name)
            self.out.add_data(name, b"".join(int(w).to_bytes(8, "little", signed=True) for w in words),
                              pointers={8 * at: (target, 0) for at, target in pointers.items()})
        return self.tables[key]

    def array(self, array) -> str:
        """The name of an array that kernels read."""
        key = array.tobytes()
        if key not in self.tables:
            self.tables[key] = f"sized{self.number}_array{len(self.tables)}"
            self.out.add_data(self.tables[key], key)
        return self.tables[key]

    # --- one plan of an item ------------------------------------------------------------------------------------------
    def structure(self, kinds: tuple, arena: int):
        """A function (places, words, scratch, table) that copies a table and adds the addresses of values and
        temporaries.  ``kinds``: for each word None, or its address: ("place", k), ("temporary",) or ("flag",)."""
        key = kinds, arena
        if key not in self.structures:
            f = self.structures[key] = self.module.function(
                f"structure{len(self.structures)}", [("places", ptr), ("words", ptr), ("scratch", i64), ("table", ptr)],
                internal=True)
            places, words, scratch, table = f.parameters
            f.copy_bytes(words, table, 8 * len(kinds))
            for at, kind in enumerate(kinds):
                if kind is None:
                    continue
                word, number = f.offset(words, 8 * at), f.offset(words, 8 * at + 8)
                if kind[0] == "flag":
                    f.store(constant(i64, arena + 1), word)
                    continue
                if kind[0] == "place":
                    value = f.load(i64, f.offset(places, 16 * kind[1]))
                    more = f.load(i64, f.offset(places, 16 * kind[1] + 8))
                else:
                    value, more = constant(i64, arena), scratch
                f.store(value, word)
                f.store(f.add(f.load(i64, f.offset(table, 8 * at + 8)), more), number)
            f.ret()
        return self.structures[key]

    def write(self, numbers: Numbers, variant, places, words, scratch, arena: int):
        """Writes the words of a plan at an address."""
        f, at, starts = numbers.f, 0, {}
        for name, nbytes in variant.temporaries.items():
            starts[name], at = at, at + aligned(nbytes)
        kinds, constants, pointers, later = [], [], {}, []

        def word(value, kind=None, base=0):
            """One more word; what is no constant is computed afterwards."""
            if isinstance(value, Expr):
                later.append((len(kinds), value, base))
                value = 0
            elif hasattr(value, "array"):
                pointers[len(kinds)] = self.array(value.array)
                value = 0
            kinds.append(kind)
            constants.append(value)

        for launch in variant.launches:
            pointers[len(kinds)] = self.kernel(launch.kernel)
            for value in (0, launch.extent, launch.grain, len(launch.slots)):
                word(value)
            for reference, number in launch.slots:
                if reference == CONSTANT:
                    word(CONSTANT)
                    word(number)
                elif reference == FLAG:
                    word(0, ("flag",))
                    word(number)
                elif isinstance(reference, str):
                    word(0, ("temporary",))
                    word(starts[reference] + number)
                else:
                    word(0, ("place", reference))
                    word(number)
        # a computed number is relative to the address of its value, which the structure function has written
        table = self.table(constants, pointers)
        f.call(self.structure(tuple(kinds), arena), [places, words, scratch, Value(f"@{table}", ptr)])
        for at, value, _ in later:
            target = f.offset(words, 8 * at)
            moved = at and kinds[at - 1] is not None
            result = numbers.value(value)
            f.store(f.add(result, f.load(i64, target)) if moved else result, target)

    # --- an item ------------------------------------------------------------------------------------------------------
    def form(self, item, arena: int):
        """The functions of an item: (need, fill).  Equal items have the same.

        need(sizes, to): bytes of its temporaries and its words go to two places; 0, or -1 where no plan holds.
        fill(sizes, places, words, scratch): writes its words; the count of its launches."""
        key = item.form(), arena
        if key not in self.forms:
            self.held.append(item)  # forms compare objects that must live
            found = alternatives(item, self.region)
            writer = self.blocks if isinstance(found, Blocks) else self.chosen
            self.forms[key] = writer(found, arena, len(self.forms))
        return self.forms[key]

    def chosen(self, found: list, arena: int, number: int):
        """The functions of an item that takes the first plan whose conditions hold."""
        need = self.module.function(f"need{number}", [("sizes", ptr), ("to", ptr)], i64, internal=True)
        fill = self.module.function(f"fill{number}",
                                    [("sizes", ptr), ("places", ptr), ("words", ptr), ("scratch", i64)],
                                    i64, internal=True)
        sizes, to = need.parameters
        outer = self.known(need, sizes)
        for one in found:
            def told(one=one, numbers=outer.inside()):
                need.store(numbers.value(bytes_of(one)), to)
                need.store(constant(i64, words_of(one)), need.offset(to, 8))
                need.ret(constant(i64, 0))
            self.case(need, outer, one, told)
        need.ret(constant(i64, -1))
        sizes, places, words, scratch = fill.parameters
        outer = self.known(fill, sizes)
        for one in found:
            def written(one=one, numbers=outer.inside()):
                self.write(numbers, one, places, words, scratch, arena)
                fill.ret(constant(i64, len(one.launches)))
            self.case(fill, outer, one, written)
        fill.ret(constant(i64, 0))
        return need, fill

    def case(self, f, outer: Numbers, one, run):
        """Emit ``run``, which returns from the function, under the conditions of a plan."""
        inside, beyond = f.new_block("holds"), f.new_block("next")
        f.branch_if(outer.inside().holds(one.conditions), inside, beyond)
        f.at(inside)
        run()
        f.at(beyond)

    def blocks(self, found: Blocks, arena: int, number: int):
        """The functions of an item that is launched block by block."""
        need = self.module.function(f"need{number}", [("sizes", ptr), ("to", ptr)], i64, internal=True)
        fill = self.module.function(f"fill{number}",
                                    [("sizes", ptr), ("places", ptr), ("words", ptr), ("scratch", i64)],
                                    i64, internal=True)
        sizes, to = need.parameters
        numbers = self.known(need, sizes)
        left, words, room = numbers.value(found.batch), constant(i64, 0), constant(i64, 0)
        for count, one in found.plans.items():
            times = numbers.divided("//", left, constant(i64, count))
            left = need.sub(left, need.mul(times, count))
            words = need.add(words, need.mul(times, words_of(one)))
            room = need.select(need.compare(">", times, 0), need.maximum(room, constant(i64, int(bytes_of(one)))), room)
        need.store(room, to)
        need.store(words, need.offset(to, 8))
        need.ret(constant(i64, 0))
        sizes, places, words, scratch = fill.parameters
        numbers = self.known(fill, sizes)
        own = fill.alloca(i64, 2 * len(found.steps))
        fill.copy_bytes(own, places, 16 * len(found.steps))
        steps = [numbers.value(step) for step in found.steps]
        state = [numbers.value(found.batch), words, constant(i64, 0)]
        for count, one in found.plans.items():
            def block(values, count=count, one=one):
                left, words, launches = values
                self.write(numbers.inside(), one, own, words, scratch, arena)
                for k, step in enumerate(steps):
                    at = fill.offset(own, 16 * k + 8)
                    fill.store(fill.add(fill.load(i64, at), fill.mul(step, count)), at)
                return [fill.sub(left, count), fill.offset(words, 8 * words_of(one)),
                        fill.add(launches, len(one.launches))]
            state = fill.while_loop(state, lambda values, count=count: fill.compare(">=", values[0], count), block)
        fill.ret(state[2])
        return need, fill

    # --- a program ----------------------------------------------------------------------------------------------------
    def add(self, outline: Outline, conditions, told=()):
        """One more program, which holds under these conditions; ``told``: sizes that are its last inputs."""
        number, given = len(self.programs), len(outline.given) - len(told)
        arena = given + len(outline.outputs)
        items = [(item, *self.form(item, arena)) for item in outline.items]
        slots, homes = shared_slots([item for item, *_ in items], self.region.middle())
        need = self.module.function(f"program{number}_need", [("sizes", ptr), ("to", ptr)], i64, internal=True)
        fill = self.module.function(f"program{number}_fill", [("sizes", ptr), ("program", ptr)], internal=True)
        self.need(need, items, slots)
        self.fill(fill, items, slots, homes, arena, {given + k: e for k, e in enumerate(told)})
        self.programs.append((tuple(conditions), need, fill, list(outline.outputs)))

    def lay_out(self, f, numbers: Numbers, sizes, items, slots, stop):
        """(where each slot of the arena begins, the arena's bytes, the words of each item)."""
        pair, own, words = f.alloca(i64, 2), {}, []
        for k, (_, need, _) in enumerate(items):
            failed = f.call(need, [sizes, pair])
            if stop is not None:
                self.guard(f, failed, stop)
            own[k] = f.load(i64, pair)
            words.append(f.load(i64, f.offset(pair, 8)))
        starts, at = [], constant(i64, 0)
        for members in slots:
            starts.append(at)
            room = constant(i64, 0)
            for one in members:
                room = f.maximum(room, own[one] if type(one) is int else numbers.value(one.nbytes))
            at = f.add(at, numbers.value(0) if not members else f.and_(f.add(room, 63), -64))
        return starts, at, words

    def guard(self, f, failed, stop):
        """Leaves the function where an item has no plan."""
        bad, fine = f.new_block("unplanned"), f.new_block("planned")
        f.branch_if(f.compare("!=", failed, 0), bad, fine)
        f.at(bad)
        stop()
        f.at(fine)

    def guard_null(self, f, pointer):
        """Leaves the function with a code where an address is null."""
        self.guard(f, f.cast("zext", f.compare("==", f.cast("ptrtoint", pointer, i64), 0), i64),
                   lambda: f.ret(constant(i64, MISSING)))

    def need(self, f, items, slots):
        sizes, to = f.parameters
        _, room, words = self.lay_out(f, self.known(f, sizes), sizes, items, slots,
                                      lambda: f.ret(constant(i64, UNPLANNED)))
        total = constant(i64, 1)
        for count in words:
            total = f.add(total, count)
        f.store(room, to)
        f.store(total, f.offset(to, 8))
        f.ret(constant(i64, 0))

    def fill(self, f, items, slots, homes, arena: int, told: dict):
        sizes, program = f.parameters
        numbers = self.known(f, sizes)
        starts, _, words = self.lay_out(f, numbers, sizes, items, slots, None)
        places = f.alloca(i64, 2 * max([len(item.places()) for item, *_ in items], default=1))
        at, launches = f.offset(program, 8), constant(i64, 0)
        for k, (item, _, fill) in enumerate(items):
            for j, (value, offset) in enumerate(item.places()):
                number = numbers.value(offset)
                if isinstance(value, Temporary):
                    value, number = arena, f.add(number, starts[homes[value]])
                elif value == FLAG:
                    value = arena + 1
                elif value in told:  # the number itself
                    value, number = CONSTANT, f.add(number, numbers.value(told[value]))
                elif value >= min(told, default=value + 1):
                    value -= len(told)
                f.store(constant(i64, value), f.offset(places, 16 * j))
                f.store(number, f.offset(places, 16 * j + 8))
            launches = f.add(launches, f.call(fill, [sizes, places, at, starts[homes[k]]]))
            at = f.offset(at, f.mul(words[k], 8))
        f.store(launches, program)
        f.ret()

    # --- all programs -------------------------------------------------------------------------------------------------
    def settled(self, outputs):
        """Add a program with static sizes, whose launches are encoded already."""
        self.programs.append(((), None, None, list(outputs)))

    def finish(self, inputs) -> str:
        """The module's text: sizes_need(sizes, to) and sizes_fill(sizes, program) with the number of the build, and of
        the first one sizes_of(shapes, sizes) and sizes_outputs(sizes, to).  ``inputs``: Metas with symbols."""
        need = self.module.function(f"sizes_need{self.number}", [("sizes", ptr), ("to", ptr)], i64)
        fill = self.module.function(f"sizes_fill{self.number}", [("sizes", ptr), ("program", ptr)])
        told = None if self.number else self.module.function("sizes_outputs", [("sizes", ptr), ("to", ptr)], i64)
        for f in filter(None, (need, fill, told)):
            if f is not told and not self.symbols:
                del self.module.functions[f.name]
                continue
            outer = self.known(f, f.parameters[0])
            for conditions, own_need, own_fill, outputs in self.programs:
                inside, beyond = f.new_block("program"), f.new_block("next")
                f.branch_if(outer.inside().holds(conditions), inside, beyond)
                f.at(inside)
                if f is need:
                    f.ret(f.call(own_need, f.parameters))
                elif f is fill:
                    f.call(own_fill, f.parameters)
                    f.ret()
                else:
                    numbers = outer.inside()
                    for k, n in enumerate(n for meta in outputs for n in (*meta.shape, *meta.strides)):
                        f.store(numbers.value(n), f.offset(f.parameters[1], 8 * k))
                    f.ret(constant(i64, 0))
                f.at(beyond)
            f.ret(None if f is fill else constant(i64, UNPLANNED))
        if not self.number:
            self.solve(inputs)
        return self.module.text()

    def solve(self, inputs):
        """Finds the sizes in the shapes of inputs, and compares all of these with what they should be."""
        f = self.module.function("sizes_of", [("shapes", ptr), ("sizes", ptr)], i64)
        shapes, sizes = f.parameters
        if inputs:
            self.guard_null(f, shapes)
        for k, meta in enumerate(inputs):
            if meta.shape:
                self.guard_null(f, f.load(ptr, f.offset(shapes, 8 * k)))
        given = [[f.load(i64, f.offset(f.load(ptr, f.offset(shapes, 8 * k)), 8 * d)) for d in range(len(meta.shape))]
                 for k, meta in enumerate(inputs)]
        known = {}
        for k, one in enumerate(self.symbols):
            number, dimension, factor, offset = one.source
            size = Numbers(f, {}).divided("//", f.sub(given[number][dimension], offset), constant(i64, factor))
            known[one.symbol] = size
            f.store(size, f.offset(sizes, 8 * k))
        numbers = Numbers(f, dict(known))
        for k, meta in enumerate(inputs):
            fine = constant(i1, 1)
            for size, n in zip(meta.shape, given[k]):
                fine = f.and_(fine, f.compare("==", n, numbers.value(size)))
            for one in self.symbols:
                if one.source[0] == k:
                    size = known[one.symbol]
                    fine = f.and_(fine, f.and_(f.compare(">=", size, one.low), f.compare("<=", size, one.high)))
            self.guard(f, f.xor(f.cast("zext", fine, i64), 1), lambda k=k: f.ret(constant(i64, WRONG_SIZES - k)))
        f.ret(constant(i64, 0))


def bytes_of(variant):
    """Bytes of a plan's temporaries: an int or Expr."""
    total = 0
    for nbytes in variant.temporaries.values():
        total = total + aligned(nbytes)
    return total


def words_of(variant) -> int:
    return sum(HEAD + 2 * len(launch.slots) for launch in variant.launches)


def shared_slots(items, point: dict):
    """(slots, homes): each temporary, and what each item takes for itself, in a slot of the arena.  Those in one slot
    are not alive together, whatever the sizes are."""
    lives: dict = {}
    for k, item in enumerate(items):
        lives[k] = [k, k]
        for value, _ in item.places():
            if isinstance(value, Temporary):
                lives.setdefault(value, [k, k])[1] = k
    sizes = {one: 0 if type(one) is int else evaluate(one.nbytes, point) for one in lives}
    slots, taken, homes = [], [], {}
    for one in sorted(lives, key=lambda one: (type(one) is int, -sizes[one], lives[one][0])):
        first, last = lives[one]
        # what items take for themselves shares slots that their temporaries leave free
        home = next((k for k, spans in enumerate(taken) if all(b < first or last < a for a, b in spans)), None)
        if home is None:
            home = len(slots)
            slots.append([])
            taken.append([])
        slots[home].append(one)
        taken[home].append((first, last))
        homes[one] = home
    return slots, homes

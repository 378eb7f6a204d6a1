"""Calls of a model, as LLVM IR: the memory of a call, and the creation of the records that it runs.

A *state* is the memory of one call: the arena, the encoded program for dynamic shapes, and the program's records with
addresses of that arena (``records.py``).  A model keeps unused states; concurrent calls each take one, or make one.
Records are reused while sizes are the same and no constant is set.
"""
from __future__ import annotations

from ..devices.cpu.llvm.types import i64, ptr
from ..devices.cpu.llvm.values import Value, constant
from .interface import MISSING, NO_MEMORY, UNMET
from .records import RECORD_WORDS, write_records

# A model: the file that is mapped and its bytes, the weights, which build runs, how often a constant was set, how many
# calls run, and the unused states; then the addresses of constants.
MAPPED, MAPPED_BYTES, WEIGHTS, LEVEL, CHANGES, RUNNING, STATES = range(0, 56, 8)
KEPT = 64  # states
OWN_CONSTANTS = STATES + 8 * KEPT

# A state: its arena, the encoded program for dynamic shapes, and its records, each with its capacity; whether these
# are filled, and after how many settings of constants; the error flag; then addresses of inputs and outputs, results
# of checks, and the sizes of the encoded program.
ARENA, ROOM, WORDS, WORD_ROOM, RECORDS, RECORD_ROOM, PATCHES, FILLED, SEEN, FLAG, ADDRESSES = range(0, 88, 8)


def there(f, pointer) -> Value:
    """Whether an address is not null."""
    return f.compare("!=", f.cast("ptrtoint", pointer, i64), 0)


class Calls:
    """Part of ``entry.Interface``."""

    @property
    def held_checks(self) -> int:
        return ADDRESSES + 8 * (self.inputs + self.outputs)

    @property
    def held_sizes(self) -> int:
        return self.held_checks + 8 * self.checks

    def write_calls(self):
        write_records(self.module)
        self.new_state()
        self.drop_state()
        self.take()
        self.give()
        self.ready()
        self.run()

    # --- states -------------------------------------------------------------------------------------------------------
    def new_state(self):
        """model_state(): a new state, with an arena if sizes are static; null if there is no memory."""
        f = self.module.function("model_state", [], ptr, internal=True)
        nbytes = self.held_sizes + 8 * self.sizes
        state = self.memory(f, nbytes)
        self.refuse(f, f.not_(there(f, state)))
        f.fill_bytes(state, 0, nbytes)
        if not self.sizes:
            arena = self.room(f, constant(i64, self.arena))
            self.refuse(f, f.not_(there(f, arena)), lambda: self.system.free(f, state))
            f.store(arena, f.offset(state, ARENA))
        f.ret(state)

    def drop_state(self):
        """model_drop(state): frees a state."""
        f = self.module.function("model_drop", [("state", ptr)], internal=True)
        state = f.parameters[0]

        def release():
            for place in (ARENA, WORDS, RECORDS):
                self.system.free(f, f.load(ptr, f.offset(state, place)))
            self.system.free(f, state)

        f.when(there(f, state), release)
        f.ret()

    def take(self):
        """model_take(model): a state that no other call uses; null if there is no memory for another one."""
        f = self.module.function("model_take", [("model", ptr)], ptr, internal=True)

        def look(k, _):
            slot = f.offset(f.offset(f.parameters[0], STATES), k, i64)

            def claim():
                state = f.atomic_update("xchg", slot, constant(i64, 0), "seq_cst")
                self.leave(f, f.compare("!=", state, 0), f.cast("inttoptr", state, ptr))

            f.when(f.compare("!=", f.atomic_load(i64, slot), 0), claim)

        f.loop(0, KEPT, 1, [], look)
        f.ret(f.call("model_state", [], ptr))

    def give(self):
        """model_give(model, state): keeps the state for other calls, if there is a place."""
        f = self.module.function("model_give", [("model", ptr), ("state", ptr)], internal=True)
        model, state = f.parameters
        number = f.cast("ptrtoint", state, i64)

        def look(k, _):
            slot = f.offset(f.offset(model, STATES), k, i64)

            def put():
                _, stored = f.compare_exchange(slot, constant(i64, 0), number)
                self.leave(f, stored, None)

            f.when(f.compare("==", f.atomic_load(i64, slot), 0), put)

        f.loop(0, KEPT, 1, [], look)
        f.call("model_drop", [state])
        f.ret()

    def leave(self, f, condition, code):
        """Return a code if a condition holds."""
        bad, fine = f.new_block("leave"), f.new_block("fine")
        f.branch_if(condition, bad, fine)
        f.at(bad)
        f.ret(code)
        f.at(fine)

    def grow(self, f, state, place, nbytes):
        """Make the memory at a field of a state at least ``nbytes`` large."""
        place, room = f.offset(state, place), f.offset(state, place + 8)
        small, enough, none, done = (f.new_block(n) for n in ("small", "enough", "none", "done"))
        f.branch_if(f.or_(f.compare("<", f.load(i64, room), nbytes), f.not_(there(f, f.load(ptr, place)))), small,
                    enough)
        f.at(small)
        self.system.free(f, f.load(ptr, place))
        wanted = f.maximum(nbytes, 64)
        made = self.room(f, wanted)
        f.store(made, place)
        f.store(f.select(there(f, made), wanted, constant(i64, 0)), room)
        f.branch_if(there(f, made), done, none)
        f.at(none)
        f.ret(constant(i64, NO_MEMORY))
        f.at(done)
        f.branch(enough)
        f.at(enough)

    # --- what a state runs --------------------------------------------------------------------------------------------
    def ready(self):
        """model_ready(model, state, sizes, changes): fill the records for these sizes, after ``changes`` settings of
        constants; 0 or an error."""
        f = self.module.function("model_ready", [("model", ptr), ("state", ptr), ("sizes", ptr), ("changes", i64)], i64,
                                 internal=True)
        model, state, sizes, changes = f.parameters
        f.store(constant(i64, 0), f.offset(state, FILLED))
        level = f.load(i64, f.offset(model, LEVEL))
        words = self.sized_words(f, state, sizes, level) if self.sizes else self.settled_words(f, changes, level)
        nbytes = f.mul(f.call("records_words", [words], i64), 8)
        self.grow(f, state, RECORDS, f.mul(nbytes, RECORD_WORDS))
        records = f.load(ptr, f.offset(state, RECORDS))
        patches = f.offset(records, nbytes)
        f.store(patches, f.offset(state, PATCHES))
        f.fill_bytes(f.offset(state, ADDRESSES), 0, 8 * (self.inputs + self.outputs))  # no call has set them
        f.call("records_fill", [words, self.values(f, model, state), Value("@model_moving", ptr), records, patches])
        f.copy_bytes(f.offset(state, self.held_sizes), sizes, 8 * self.sizes)
        f.store(changes, f.offset(state, SEEN))
        f.store(constant(i64, 1), f.offset(state, FILLED))
        f.ret(constant(i64, 0))

    def settled_words(self, f, changes, level):
        """The encoded program for static sizes: the one that reads packed constants until one is set."""
        if self.packed:  # there is one build
            level = f.select(f.compare("==", changes, 0), constant(i64, 1), constant(i64, 0))
        return f.load(ptr, f.offset(Value("@model_words_of", ptr), level, i64))

    def sized_words(self, f, state, sizes, level):
        """The encoded program for given sizes, and the arena it takes."""
        need = f.alloca(i64, 2)
        needs, fills = (f.load(ptr, f.offset(Value(f"@model_{name}_of", ptr), level, i64)) for name in ("need", "fill"))
        code = f.call_pointer(needs, [sizes, need], i64)
        self.leave(f, f.compare("!=", code, 0), code)
        self.grow(f, state, ARENA, f.load(i64, need))
        self.grow(f, state, WORDS, f.mul(f.load(i64, f.offset(need, 8)), 8))
        words = f.load(ptr, f.offset(state, WORDS))
        f.call_pointer(fills, [sizes, words])
        return words

    def moving(self) -> list:
        """For each value of the program which address of a call it is, -1 for others."""
        found = [number if kind == "input" else -1 for kind, number in self.given]
        found += range(self.inputs, self.inputs + self.outputs)
        return found + [-1] * (self.checks + 3 + self.packed)

    def values(self, f, model, state):
        """Addresses of a program's values that stay: constants, conditions, the arena, the flag."""
        values = f.alloca(i64, len(self.given) + self.outputs + self.checks + 3 + self.packed)
        for k, (kind, number) in enumerate(self.given):
            if kind == "constant":
                place = f.offset(model, OWN_CONSTANTS + 8 * number)
                f.store(f.atomic_load(i64, place, "monotonic"), f.offset(values, 8 * k))
        at = len(self.given) + self.outputs
        for k in range(self.checks):
            f.store(f.offset(state, self.held_checks + 8 * k), f.offset(values, 8 * (at + k)))
        at += self.checks
        flag, arena = f.offset(state, FLAG), f.load(ptr, f.offset(state, ARENA))
        if not self.sizes:
            # a build without temporaries has its flag where others have these
            level = f.load(i64, f.offset(model, LEVEL))
            some = f.compare("!=", f.load(i64, f.offset(Value("@model_arena_of", ptr), level, i64)), 0)
            arena = f.select(some, arena, flag)
        f.store(arena, f.offset(values, 8 * at))
        f.store(flag, f.offset(values, 8 * at + 8))
        for k in range(self.packed):
            packed = f.load(i64, f.offset(model, OWN_CONSTANTS + 8 * (self.constants + k)))
            f.store(packed, f.offset(values, 8 * (at + bool(self.arena) + 2 + k)))
        return values

    # --- a call -------------------------------------------------------------------------------------------------------
    def run(self):
        """model_run(model, inputs, outputs, sizes): a call; 0, or what went wrong."""
        f = self.module.function("model_run", [("model", ptr), ("inputs", ptr), ("outputs", ptr), ("sizes", ptr)], i64,
                                 internal=True)
        model, inputs, outputs, sizes = f.parameters
        self.leave(f, f.not_(there(f, model)), constant(i64, MISSING))
        addresses = self.told(f, inputs, outputs)
        state = f.call("model_take", [model], ptr)
        self.leave(f, f.not_(there(f, state)), constant(i64, NO_MEMORY))
        running, one = f.offset(model, RUNNING), constant(i64, 1)
        f.atomic_update("add", running, one, "seq_cst")  # before constants are looked at
        changes = f.atomic_load(i64, f.offset(model, CHANGES))
        same = f.compare("==", f.load(i64, f.offset(state, FILLED)), 1)
        same = f.and_(same, f.compare("==", f.load(i64, f.offset(state, SEEN)), changes))
        for k in range(self.sizes):
            same = f.and_(same, f.compare("==", f.load(i64, f.offset(sizes, 8 * k)),
                                          f.load(i64, f.offset(state, self.held_sizes + 8 * k))))
        code, = f.when(same, lambda: [constant(i64, 0)],
                       lambda: [f.call("model_ready", [model, state, sizes, changes], i64)])
        result, = f.when(f.compare("==", code, 0), lambda: [self.computed(f, state, addresses)], lambda: [code])
        f.atomic_update("sub", running, one, "seq_cst")
        f.call("model_give", [model, state])
        f.ret(result)
        self.public_runs()

    def told(self, f, inputs, outputs) -> list:
        """The addresses of a call; those of inputs and outputs that have elements must be there."""
        missing, found = constant(i64, 0), []
        for table, some in ((inputs, self.some_inputs), (outputs, self.some_outputs)):
            if some:
                self.leave(f, f.not_(there(f, table)), constant(i64, MISSING))
            for k, has_elements in enumerate(some):
                found.append(f.load(i64, f.offset(table, 8 * k)))
                if has_elements:
                    missing = f.or_(missing, f.cast("zext", f.compare("==", found[-1], 0), i64))
        self.leave(f, f.compare("!=", missing, 0), constant(i64, MISSING))
        return found

    def computed(self, f, state, addresses) -> Value:
        """Runs the records of a state with the addresses of a call; its code."""
        other = constant(i64, 0)
        for k, address in enumerate(addresses):
            other = f.or_(other, f.xor(address, f.load(i64, f.offset(state, ADDRESSES + 8 * k))))

        def moved():
            for k, address in enumerate(addresses):
                f.store(address, f.offset(state, ADDRESSES + 8 * k))
            f.call("records_patch", [f.load(ptr, f.offset(state, PATCHES)), f.offset(state, ADDRESSES)])

        f.when(f.compare("!=", other, 0), moved)
        for k in range(self.checks):
            f.store(constant(i64, 1), f.offset(state, self.held_checks + 8 * k))
        f.store(constant(i64, 0), f.offset(state, FLAG))
        threads = f.atomic_load(i64, Value("@threads", ptr), "monotonic")
        f.call("records_run", [f.load(ptr, f.offset(state, RECORDS)), threads])
        return self.outcome(f, state)

    def outcome(self, f, state) -> Value:
        """The code of a run: what a kernel reported, else the first check that does not hold, else 0."""
        reported, unmet = f.load(i64, f.offset(state, FLAG)), constant(i64, 0)
        for k in reversed(range(self.checks)):
            holds = f.and_(f.load(i64, f.offset(state, self.held_checks + 8 * k)), 255)
            unmet = f.select(f.compare("==", holds, 0), constant(i64, UNMET - k), unmet)
        return f.select(f.compare("==", reported, 0), unmet, reported)

    def public_runs(self):
        """rl_run and rl_run_sized."""
        sized = self.module.function("rl_run_sized", [("model", ptr), ("inputs", ptr), ("shapes", ptr),
                                                      ("outputs", ptr)], i64)
        model, inputs, shapes, outputs = sized.parameters
        sizes = sized.alloca(i64, max(1, self.sizes))
        wrong = sized.call("sizes_of", [shapes, sizes], i64)
        self.leave(sized, sized.compare("!=", wrong, 0), wrong)
        sized.ret(sized.call("model_run", [model, inputs, outputs, sizes], i64))
        f = self.module.function("rl_run", [("model", ptr), ("inputs", ptr), ("outputs", ptr)], i64)
        model, inputs, outputs = f.parameters
        if self.sizes:
            f.ret(f.call("rl_run_sized", [model, inputs, Value("@model_input_shapes", ptr), outputs], i64))
        else:
            f.ret(f.call("model_run", [model, inputs, outputs, constant(ptr, 0)], i64))

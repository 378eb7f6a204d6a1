"""The C interface of a model, written as LLVM IR: what a package's shared object exports (``include/rushlight.h``)."""
from __future__ import annotations

import functools

from ..devices.cpu.llvm.builder import Module
from ..devices.cpu.llvm.systems import HUGE_PAGE, system
from ..devices.cpu.llvm.types import i32, i64, ptr
from ..devices.cpu.llvm.values import Value, constant
from .interface import ERRORS, HEADER_BYTES, NO_MEMORY, UNMET, UNPLANNED, VERSION, WRONG_SIZES

PUBLIC = ("rl_version", "rl_manifest", "rl_input_count", "rl_output_count", "rl_constant_count", "rl_size_count",
          "rl_input", "rl_output", "rl_constant", "rl_size", "rl_supported", "rl_create", "rl_create_with",
          "rl_create_from", "rl_verify", "rl_run", "rl_run_sized", "rl_output_sizes", "rl_error", "rl_set_constant",
          "rl_threads", "rl_level", "rl_destroy", "rl_launch")
TENSOR_BYTES, SIZE_BYTES = 48, 24  # of an rl_tensor, of an rl_size_range
ASKED, TILES = 0x1023, 18  # ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
LANES = 8  # sums of the checksum

# A model: its arena, whether a call uses that now, the file that is mapped and its bytes, the weights, the words of its
# program where sizes vary, the room of both, whether they are filled, which build runs, whether a constant was set, and
# for which sizes the words are; then where constants lie.
ARENA, BUSY, MAPPED, MAPPED_BYTES, WEIGHTS, WORDS, ROOM, WORD_ROOM, FILLED, LEVEL, PLAIN, SIZES = range(0, 96, 8)


class Interface:
    """``given``: for each value of the program that is given, ("input", k) or ("constant", k); ``threads``: most that
    its scratch is made for; ``sizes``: how many sizes vary;
    ``required``: for each build what ``Build.required`` gives; ``weights``: (bytes, place in the package) of those that
      lie beside, with their header, or None; ``checks``: how many results
      after the outputs have to be True; ``packed``: how many constants there are in packed form, too, behind the
      others: a second program reads these, until a constant is set."""

    def __init__(self, given, inputs: int, outputs: int, constants: int, arena: int, threads: int, required,
                 sizes=0, weights=None, checks=0, packed=0):
        self.given, self.inputs, self.outputs, self.constants = given, inputs, outputs, constants
        self.arena, self.threads, self.required = arena, threads, required
        self.sizes, self.weights, self.own_constants = sizes, weights, SIZES + 8 * sizes
        self.checks, self.packed = checks, packed
        self.module, self.system = Module(), system()
        self.system.support(self.module)
        self.public = (*PUBLIC, *self.system.public)

    def text(self) -> str:
        for name in ("manifest", "inputs", "outputs", "constants", "sizes_told", "default_constants", "constant_places",
                     "errors", "weights_header", "arena_of", "checks",
                     *(("input_shapes", "need_of", "fill_of") if self.sizes else ("words_of",))):
            self.module.outside(f"model_{name}")
        for name, value in (("version", VERSION), ("input_count", self.inputs), ("output_count", self.outputs),
                            ("constant_count", self.constants), ("size_count", self.sizes)):
            self.module.function(f"rl_{name}", [], i64).ret(constant(i64, value))
        self.module.function("rl_manifest", [], ptr).ret(Value("@model_manifest", ptr))
        for name, count in (("input", self.inputs), ("output", self.outputs), ("constant", self.constants)):
            self.lookup(f"rl_{name}", f"@model_{name}s", count, TENSOR_BYTES)
        self.lookup("rl_size", "@model_sizes_told", self.sizes, SIZE_BYTES)
        self.lookup("rl_error_text", "@model_errors", len(ERRORS), 256)
        self.lookup("rl_check_text", "@model_checks", self.checks, 256)
        write_checksum(self.module)
        for write in (self.rooms, self.level, self.supported, self.begin, self.end, self.thread_count, self.create_with,
                      self.create,
                      self.create_from, self.told_level, self.verify, self.destroy, self.set_constant,
                      self.output_sizes, self.error):
            write()
        (self.run_for_sizes if self.sizes else self.run)()
        self.launch()
        return self.module.text()

    def lookup(self, name: str, table: str, count: int, nbytes: int):
        """A row of a table; null for a number it does not have."""
        f = self.module.function(name, [("k", i64)], ptr)
        inside = f.compare("<", f.parameters[0], constant(i64, count), signed=False)
        f.ret(f.select(inside, f.offset(Value(table, ptr), f.mul(f.parameters[0], nbytes)), constant(ptr, 0)))

    def supported(self):
        """Whether the processor has the instructions, and the system their registers."""
        f = self.module.function("rl_supported", [], i64)
        f.ret(f.cast("zext", f.compare(">=", f.call("model_level", [], i64), 0), i64))

    def level(self):
        """model_level(): the number of the build that runs on this processor: the last one whose instructions it has;
        -1 where there is none."""
        f = self.module.function("model_level", [], i64, internal=True)
        level, answers = constant(i64, -1), {}
        kept = self.kept_registers(f) if any(states for _, states, _ in self.required) else None
        for number, (rows, states, tiles) in enumerate(self.required):
            fine = constant(i64, 1)
            for leaf, register, bits in rows:
                if leaf not in answers:
                    answers[leaf] = asked(f, leaf)
                fine = f.and_(fine, has(f, answers[leaf], register, bits))
            if states:
                fine = f.and_(fine, f.cast("zext", f.compare("==", f.and_(kept, states), states), i64))
            if tiles:
                allowed = f.call("syscall", [constant(i64, 158), constant(i64, ASKED), constant(i64, TILES)], i64,
                                 variadic=1)
                fine = f.and_(fine, f.cast("zext", f.compare("==", allowed, 0), i64))
            level = f.select(f.compare("!=", fine, 0), constant(i64, number), level)
        f.ret(level)

    def kept_registers(self, f) -> Value:
        """The registers that the system keeps for a thread, as bits; 0 where it does not tell."""
        def told():
            pair = "{ i32, i32 }"
            answer = f.value(pair, f'call {pair} asm sideeffect "xgetbv", "={{ax}},={{dx}},{{cx}}"(i32 0)')
            return [f.cast("zext", f.value(i32, f"extractvalue {pair} {answer.text}, 0"), i64)]

        tells = f.compare("!=", has(f, asked(f, (1, 0)), 2, 1 << 27), 0)
        found, = f.when(tells, told, lambda: [constant(i64, 0)])
        return found

    def begin(self):
        """Readies the pool of threads; runs when the library is loaded."""
        f = self.module.function("model_begin", [])
        f.call("pool_forget", [])
        f.call("rl_threads", [self.system.processors(f)])
        f.ret()

    def end(self):
        f = self.module.function("model_end", [])
        f.call("pool_stop", [])
        f.ret()

    def thread_count(self):
        """Sets how many threads kernels run on, from 1 to what the scratch is made for."""
        f = self.module.function("rl_threads", [("count", i64)])
        most = f.minimum(f.maximum(f.parameters[0], constant(i64, 1)), constant(i64, self.threads))
        f.call("pool_threads", [most])
        f.ret()

    def memory(self, f, nbytes: int):
        """64-byte aligned memory; null where there is none."""
        return self.system.allocate(f, constant(i64, 64), constant(i64, -(-max(nbytes, 64) // 64) * 64))

    def room(self, f, nbytes):
        """Memory for temporaries; null where there is none."""
        return f.call("model_room", [nbytes], ptr)

    def rooms(self):
        """model_room(bytes): 64-byte aligned memory; what is large lies in huge pages, where the system has these: each
        page that is touched for the first time costs a fault."""
        f = self.module.function("model_room", [("bytes", i64)], ptr, internal=True)
        nbytes = f.maximum(f.parameters[0], constant(i64, 64))
        large = f.compare(">=", nbytes, constant(i64, HUGE_PAGE))
        alignment = f.select(large, constant(i64, self.system.alignment), constant(i64, 64))
        whole = f.and_(f.add(nbytes, f.sub(alignment, 1)), f.sub(constant(i64, 0), alignment))
        made = self.system.allocate(f, alignment, whole)
        f.when(f.and_(large, there(f, made)), lambda: self.system.backed(f, made, whole))
        f.ret(made)

    def create_with(self):
        """A model whose weights lie at an address: what follows their header."""
        f = self.module.function("rl_create_with", [("weights", ptr)], ptr)
        weights = f.parameters[0]
        refused, fine, failed, made = (f.new_block(n) for n in ("refused", "fine", "failed", "made"))
        level = f.call("model_level", [], i64)
        ready = f.compare(">=", level, 0)
        if self.weights is not None:
            ready = f.and_(ready, there(f, weights))
        f.branch_if(ready, fine, refused)
        f.at(refused)
        f.ret(constant(ptr, 0))
        f.at(fine)
        nbytes = self.own_constants + 8 * (self.constants + self.packed)
        model, arena = self.memory(f, nbytes), self.room(f, constant(i64, self.arena))
        f.branch_if(f.and_(there(f, model), there(f, arena)), made, failed)
        f.at(failed)
        self.system.free(f, model)
        self.system.free(f, arena)
        f.ret(constant(ptr, 0))
        f.at(made)
        f.fill_bytes(model, 0, nbytes)
        f.store(arena, f.offset(model, ARENA))
        f.store(weights, f.offset(model, WEIGHTS))
        f.store(level, f.offset(model, LEVEL))

        def place(k, _):
            at = f.load(i64, f.offset(Value("@model_constant_places", ptr), k, i64))
            own = f.load(i64, f.offset(Value("@model_default_constants", ptr), k, i64))
            beside = f.add(f.cast("ptrtoint", weights, i64), at)
            f.store(f.select(f.compare("<", at, 0), own, beside),
                    f.offset(f.offset(model, self.own_constants), k, i64))

        f.loop(0, self.constants + self.packed, 1, [], place)
        f.ret(model)

    def create(self):
        """A model that has its weights in itself."""
        f = self.module.function("rl_create", [], ptr)
        f.ret(f.call("rl_create_with", [constant(ptr, 0)], ptr))

    def create_from(self):
        """A model whose weights are mapped from a file: the package, or what lies in it as weights."""
        f = self.module.function("rl_create_from", [("path", ptr)], ptr)
        if self.weights is None:
            f.ret(f.call("rl_create", [], ptr))
            return
        nbytes, at = self.weights
        base, length = self.system.mapped(f, f.parameters[0], functools.partial(self.refuse, f))
        found = constant(i64, -1)
        for place in (at, 0):
            inside = f.compare(">=", length, place + nbytes)
            start = f.select(inside, f.offset(base, place), Value("@model_weights_header", ptr))
            same = f.compare("==", f.call("memcmp", [start, Value("@model_weights_header", ptr),
                                                     constant(i64, HEADER_BYTES)], i32), 0)
            found = f.select(f.and_(inside, same), constant(i64, place), found)

        def unmap():
            self.system.unmap(f, base, length)

        self.refuse(f, f.compare("<", found, 0), unmap)
        model = f.call("rl_create_with", [f.offset(base, f.add(found, HEADER_BYTES))], ptr)
        self.refuse(f, f.not_(there(f, model)), unmap)
        f.store(base, f.offset(model, MAPPED))
        f.store(length, f.offset(model, MAPPED_BYTES))
        f.ret(model)

    def refuse(self, f, condition, before=None):
        """Returns null where a condition holds."""
        bad, fine = f.new_block("refused"), f.new_block("fine")
        f.branch_if(condition, bad, fine)
        f.at(bad)
        if before is not None:
            before()
        f.ret(constant(ptr, 0))
        f.at(fine)

    def verify(self):
        """Whether the weights are those that were packaged; reads all of them."""
        f = self.module.function("rl_verify", [("model", ptr)], i64)
        if self.weights is None:
            f.ret(constant(i64, 1))
            return
        weights = f.load(ptr, f.offset(f.parameters[0], WEIGHTS))
        found = f.call("weights_sum", [weights, constant(i64, self.weights[0] - HEADER_BYTES)], i64)
        wanted = f.load(i64, f.offset(Value("@model_weights_header", ptr), 16))
        f.ret(f.cast("zext", f.compare("==", found, wanted), i64))

    def destroy(self):
        f = self.module.function("rl_destroy", [("model", ptr)])
        model = f.parameters[0]

        def release():
            mapped = f.load(ptr, f.offset(model, MAPPED))
            if self.weights is not None:
                f.when(there(f, mapped),
                       lambda: self.system.unmap(f, mapped, f.load(i64, f.offset(model, MAPPED_BYTES))))
            for memory in (f.load(ptr, f.offset(model, ARENA)), f.load(ptr, f.offset(model, WORDS)), model):
                self.system.free(f, memory)

        f.when(there(f, model), release)
        f.ret()

    def told_level(self):
        """The number of the build that a model runs."""
        f = self.module.function("rl_level", [("model", ptr)], i64)
        f.ret(f.load(i64, f.offset(f.parameters[0], LEVEL)))

    def set_constant(self):
        """Has a model read a constant elsewhere."""
        f = self.module.function("rl_set_constant", [("model", ptr), ("k", i64), ("data", ptr)])
        model, k, data = f.parameters

        def replace():
            f.store(data, f.offset(f.offset(model, self.own_constants), k, i64))
            f.store(constant(i64, 1), f.offset(model, PLAIN))

        f.when(f.compare("<", k, constant(i64, self.constants), signed=False), replace)
        f.ret()

    def values(self, f, model, inputs, outputs):
        """What a program's values are: inputs, constants, outputs and conditions; room for its arena and flag.
        (values, flag, conditions, the number of the arena)."""
        room = len(self.given) + self.outputs + self.checks + 3
        values, flag = f.alloca(i64, room + self.packed), f.alloca(i64, 8)
        f.store(constant(i64, 0), flag)
        for k, (kind, number) in enumerate(self.given):
            source = f.offset(inputs, 8 * number) if kind == "input" else f.offset(model,
                                                                                   self.own_constants + 8 * number)
            f.store(f.load(i64, source), f.offset(values, 8 * k))
        at = len(self.given)
        for k in range(self.outputs):
            f.store(f.load(i64, f.offset(outputs, 8 * k)), f.offset(values, 8 * (at + k)))
        at += self.outputs
        conditions = [f.alloca(i64, 8) for _ in range(self.checks)]
        for k, one in enumerate(conditions):
            f.store(constant(i64, 1), one)
            f.store(f.cast("ptrtoint", one, i64), f.offset(values, 8 * (at + k)))
        return values, flag, conditions, at + self.checks

    def outcome(self, f, flag, conditions) -> Value:
        """The code of a run: what a kernel reported, else the first check that does not hold, else 0."""
        reported, unmet = f.load(i64, flag), constant(i64, 0)
        for k, one in reversed(list(enumerate(conditions))):
            holds = f.and_(f.load(i64, one), 255)
            unmet = f.select(f.compare("==", holds, 0), constant(i64, UNMET - k), unmet)
        return f.select(f.compare("==", reported, 0), unmet, reported)

    def run(self):
        """Runs the program.  A call that finds the arena in use by another thread takes one of its own."""
        f = self.module.function("rl_run", [("model", ptr), ("inputs", ptr), ("outputs", ptr)], i64)
        model, inputs, outputs = f.parameters
        values, flag, conditions, at = self.values(f, model, inputs, outputs)
        _, own = f.compare_exchange(f.offset(model, BUSY), constant(i64, 0), constant(i64, 1))
        arena, = f.when(own, lambda: [f.load(ptr, f.offset(model, ARENA))],
                        lambda: [self.room(f, constant(i64, self.arena))])
        self.leave(f, f.not_(there(f, arena)), constant(i64, NO_MEMORY))
        level = f.load(i64, f.offset(model, LEVEL))
        # a build without temporaries has its flag where others have these
        some = f.compare("!=", f.load(i64, f.offset(Value("@model_arena_of", ptr), level, i64)), 0)
        f.store(f.select(some, arena, flag), f.offset(values, 8 * at))
        f.store(flag, f.offset(values, 8 * at + 8))
        if self.packed:  # there is one build
            for k in range(self.packed):
                packed = f.load(i64, f.offset(model, self.own_constants + 8 * (self.constants + k)))
                f.store(packed, f.offset(values, 8 * (at + bool(self.arena) + 2 + k)))
            plain = f.compare("!=", f.load(i64, f.offset(model, PLAIN)), 0)
            level = f.select(plain, constant(i64, 0), constant(i64, 1))
        f.call("program_run", [f.load(ptr, f.offset(Value("@model_words_of", ptr), level, i64)), values])
        f.when(own, lambda: [f.atomic_store(constant(i64, 0), f.offset(model, BUSY), "seq_cst")] and None,
               lambda: self.system.free(f, arena))
        f.ret(self.outcome(f, flag, conditions))
        f = self.module.function("rl_run_sized", [("model", ptr), ("inputs", ptr), ("shapes", ptr), ("outputs", ptr)],
                                 i64)
        model, inputs, shapes, outputs = f.parameters
        wrong = f.call("sizes_of", [shapes, f.alloca(i64, 1)], i64)
        self.leave(f, f.compare("!=", wrong, 0), wrong)
        f.ret(f.call("rl_run", [model, inputs, outputs], i64))

    def leave(self, f, condition, code):
        """Returns a code where a condition holds."""
        bad, fine = f.new_block("leave"), f.new_block("fine")
        f.branch_if(condition, bad, fine)
        f.at(bad)
        f.ret(code)
        f.at(fine)

    def run_for_sizes(self):
        """Runs the program for the sizes of its inputs, with the words and the arena of the last call where sizes are
        the same.  A call that finds these in use by another thread makes its own."""
        f = self.module.function("rl_run_sized", [("model", ptr), ("inputs", ptr), ("shapes", ptr), ("outputs", ptr)],
                                 i64)
        model, inputs, shapes, outputs = f.parameters
        sizes, need = f.alloca(i64, self.sizes), f.alloca(i64, 2)
        wrong = f.call("sizes_of", [shapes, sizes], i64)
        self.leave(f, f.compare("!=", wrong, 0), wrong)
        values, flag, conditions, at = self.values(f, model, inputs, outputs)
        _, own = f.compare_exchange(f.offset(model, BUSY), constant(i64, 0), constant(i64, 1))
        state, = f.when(own, lambda: [model], lambda: [self.passing(f)])
        self.leave(f, f.not_(there(f, state)), constant(i64, NO_MEMORY))
        filled = f.compare("!=", f.load(i64, f.offset(state, FILLED)), 0)
        for k in range(self.sizes):
            filled = f.and_(filled, f.compare("==", f.load(i64, f.offset(sizes, 8 * k)),
                                              f.load(i64, f.offset(state, SIZES + 8 * k))))
        code, = f.when(filled, lambda: [constant(i64, 0)], lambda: [f.call("model_ready", [state, sizes, need,
                                                       f.load(i64, f.offset(model, LEVEL))], i64)])

        def compute():
            f.store(f.load(ptr, f.offset(state, ARENA)), f.offset(values, 8 * at))
            f.store(flag, f.offset(values, 8 * at + 8))
            f.call("program_run", [f.load(ptr, f.offset(state, WORDS)), values])
            return [self.outcome(f, flag, conditions)]

        result, = f.when(f.compare("==", code, 0), compute, lambda: [code])

        def release():
            for memory in (f.load(ptr, f.offset(state, ARENA)), f.load(ptr, f.offset(state, WORDS)), state):
                self.system.free(f, memory)

        f.when(own, lambda: [f.atomic_store(constant(i64, 0), f.offset(model, BUSY), "seq_cst")] and None, release)
        f.ret(result)
        self.ready()
        f = self.module.function("rl_run", [("model", ptr), ("inputs", ptr), ("outputs", ptr)], i64)
        model, inputs, outputs = f.parameters
        f.ret(f.call("rl_run_sized", [model, inputs, Value("@model_input_shapes", ptr), outputs], i64))

    def launch(self):
        """The model as a kernel of a program: rl_launch(slots, begin, end, worker).  Slots: the flag of errors, the
        model, the shapes of its inputs, its inputs, its outputs."""
        f = self.module.function("rl_launch", [("slots", ptr), ("begin", i64), ("end", i64), ("worker", i64)])
        slots = f.parameters[0]
        flag, model, shapes = (f.load(ptr, f.offset(slots, 8 * k)) for k in range(3))
        inputs = f.offset(slots, 24)
        given = [model, inputs, *([shapes] if self.sizes else []), f.offset(inputs, 8 * self.inputs)]
        code = f.call("rl_run_sized" if self.sizes else "rl_run", given, i64)
        f.when(f.compare("!=", code, 0), lambda: [f.store(code, flag)] and None)
        f.ret()

    def passing(self, f):
        """What a call keeps that finds the model's own in use; null where there is no memory."""
        state = self.memory(f, self.own_constants)
        f.when(there(f, state), lambda: f.fill_bytes(state, 0, self.own_constants))
        return state

    def ready(self):
        """model_ready(state, sizes, need, level): has words and arena filled for these sizes by the build of this
        number; 0 or an error."""
        f = self.module.function("model_ready", [("state", ptr), ("sizes", ptr), ("need", ptr), ("level", i64)], i64,
                                 internal=True)
        state, sizes, need, level = f.parameters
        needs, fills = (f.load(ptr, f.offset(Value(f"@model_{name}_of", ptr), level, i64)) for name in ("need", "fill"))
        f.store(constant(i64, 0), f.offset(state, FILLED))
        code = f.call_pointer(needs, [sizes, need], i64)
        self.leave(f, f.compare("!=", code, 0), code)
        words = f.mul(f.load(i64, f.offset(need, 8)), 8)
        for place, room, nbytes in ((ARENA, ROOM, f.load(i64, need)), (WORDS, WORD_ROOM, words)):
            self.grow(f, f.offset(state, place), f.offset(state, room), nbytes)
        f.call_pointer(fills, [sizes, f.load(ptr, f.offset(state, WORDS))])
        f.copy_bytes(f.offset(state, SIZES), sizes, 8 * self.sizes)
        f.store(constant(i64, 1), f.offset(state, FILLED))
        f.ret(constant(i64, 0))

    def grow(self, f, place, room, nbytes):
        """Has memory at a place of at least so many bytes."""
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

    def output_sizes(self):
        """Sizes and strides of all outputs, one after another, for these shapes of inputs."""
        f = self.module.function("rl_output_sizes", [("shapes", ptr), ("to", ptr)], i64)
        shapes, to = f.parameters
        sizes = f.alloca(i64, max(1, self.sizes))
        wrong = f.call("sizes_of", [shapes, sizes], i64)
        self.leave(f, f.compare("!=", wrong, 0), wrong)
        f.ret(f.call("sizes_outputs", [sizes, to], i64))

    def error(self):
        """The text of what ``rl_run`` returned."""
        f = self.module.function("rl_error", [("code", i64)], ptr)
        code = f.parameters[0]
        kind = f.select(f.compare("<=", code, WRONG_SIZES), constant(i64, 4), constant(i64, 3))
        for number, value in ((5, UNPLANNED), (2, NO_MEMORY), (1, 1), (0, 0)):
            kind = f.select(f.compare("==", code, value), constant(i64, number), kind)
        found, own = f.call("rl_error_text", [kind], ptr), f.call("rl_check_text", [f.sub(UNMET, code)], ptr)
        f.ret(f.select(there(f, own), own, found))


def asked(f, leaf) -> str:
    """What ``cpuid`` answers: the name of four numbers."""
    quad = "{ i32, i32, i32, i32 }"
    return f.value(quad, f'call {quad} asm sideeffect "cpuid", "={{ax}},={{bx}},={{cx}},={{dx}},{{ax}},{{cx}}"(i32 '
                         f'{leaf[0]}, i32 {leaf[1]})').text


def has(f, answer: str, register: int, bits: int) -> Value:
    """1 where a register of an answer has all these bits, else 0."""
    found = f.value(i32, f"extractvalue {{ i32, i32, i32, i32 }} {answer}, {register}")
    return f.cast("zext", f.compare("==", f.and_(found, constant(i32, bits)), constant(i32, bits)), i64)


def there(f, pointer) -> Value:
    """Whether an address is not null."""
    return f.compare("!=", f.cast("ptrtoint", pointer, i64), 0)


def write_checksum(module):
    """weights_part(data, bytes, sums) takes more bytes, a multiple of 64, into the sums of a checksum, which tells
    damage, not intent; weights_sum(data, bytes) is that of all bytes."""
    f = module.function("weights_part", [("data", ptr), ("bytes", i64), ("sums", ptr)])
    data, nbytes, sums = f.parameters

    def block(at, lanes):
        return [f.mul(f.add(one, f.load(i64, f.offset(data, f.add(at, 8 * k)))), FACTOR)
                for k, one in enumerate(lanes)]

    found = f.loop(0, nbytes, 8 * LANES, [f.load(i64, f.offset(sums, 8 * k)) for k in range(LANES)], block)
    for k, one in enumerate(found):
        f.store(one, f.offset(sums, 8 * k))
    f.ret()
    f = module.function("weights_sum", [("data", ptr), ("bytes", i64)], i64)
    sums, total = f.alloca(i64, LANES), constant(i64, 0)
    for k in range(LANES):
        f.store(constant(i64, k + 1), f.offset(sums, 8 * k))
    f.call("weights_part", [*f.parameters, sums])
    for k in range(LANES):
        total = f.mul(f.xor(total, f.load(i64, f.offset(sums, 8 * k))), FACTOR)
    f.ret(total)


FACTOR = 0x2545F4914F6CDD1D  # odd, so that no word is lost

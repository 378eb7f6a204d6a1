"""The C interface of a model, written as LLVM IR: what a package's shared object exports (``include/rushlight.h``)."""
from __future__ import annotations

import functools

from ..core.platform.arm import SVE_LENGTH
from ..devices.cpu.llvm.builder import Module
from ..devices.cpu.llvm.systems import HUGE_PAGE, system
from ..devices.cpu.llvm.types import i32, i64, ptr
from ..devices.cpu.llvm.values import Value, constant
from .calls import CHANGES, KEPT, LEVEL, MAPPED, MAPPED_BYTES, OWN_CONSTANTS, RUNNING, STATES, WEIGHTS, Calls, there
from .interface import (ERRORS, HEADER_BYTES, MISSING, NO_CONSTANT, NO_MEMORY, UNMET, UNPLANNED, VERSION,
                        WRONG_DEVICE, WRONG_DTYPE, WRONG_SHAPE, WRONG_SIZES, WRONG_STRIDES)
from .tensors import write_tensors

PUBLIC = ("rl_version", "rl_manifest", "rl_input_count", "rl_output_count", "rl_constant_count", "rl_size_count",
          "rl_input", "rl_output", "rl_constant", "rl_size", "rl_supported", "rl_create", "rl_create_with",
          "rl_create_from", "rl_create_level", "rl_level_name", "rl_supports",
          "rl_verify", "rl_run", "rl_run_sized", "rl_run_dlpack", "rl_output_sizes", "rl_error", "rl_set_constant",
          "rl_running", "rl_threads", "rl_level", "rl_destroy", "rl_launch")
TENSOR_BYTES, SIZE_BYTES, LEVEL_BYTES = 48, 24, 32  # of an rl_tensor, of an rl_size_range, of a level's name
BEST = -1  # the level that is wanted where none is named
ASKED, TILES = 0x1023, 18  # ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
LANES = 8  # sums of the checksum


class Interface(Calls):
    """Write the functions that a package exports, for one model.

    given: for each argument of the program ("input", k) or ("constant", k).
    inputs, outputs: the Meta of each; of an example where sizes are dynamic.
    dense: for each input, True if its shape is dynamic: it has to be contiguous then.
    constants: their number.  ``packed``: the number of packed copies of constants, stored after them; a second program
      reads these until a constant is set.
    arena: bytes of the arena.  ``threads``: the largest number of threads that its scratch memory suffices for.
    required: the ``Required`` of each build, the instructions that its CPU must have.
    sizes: the number of dynamic sizes.
    weights: (bytes with their header, offset in the package) of weights stored apart from the code; None without such.
    checks: the number of results after the outputs that have to be True.
    """

    def __init__(self, given, inputs: list, outputs: list, dense: list, constants: int, arena: int, threads: int,
                 required, sizes=0, weights=None, checks=0, packed=0):
        self.given, self.constants, self.dense = given, constants, dense
        self.input_metas, self.output_metas = inputs, outputs
        self.some_inputs, self.some_outputs = ([meta.nbytes > 0 for meta in rows] for rows in (inputs, outputs))
        self.inputs, self.outputs = len(inputs), len(outputs)
        self.arena, self.threads, self.required = arena, threads, required
        self.sizes, self.weights = sizes, weights
        self.checks, self.packed = checks, packed
        self.module, self.system = Module(), system()
        self.system.support(self.module)
        self.takes_tensors = self.system.address_bytes == 8
        self.public = *(n for n in PUBLIC if self.takes_tensors or n != "rl_run_dlpack"), *self.system.public

    def text(self) -> str:
        for name in ("manifest", "inputs", "outputs", "constants", "sizes_told", "default_constants", "constant_places",
                     "errors", "levels", "weights_header", "arena_of", "checks", "moving",
                     *(("input_shapes", "need_of", "fill_of") if self.sizes else ("words_of",))):
            self.module.outside(f"model_{name}")
        write_told(self.module, input=self.inputs, output=self.outputs, constant=self.constants)
        self.module.function("rl_size_count", [], i64).ret(constant(i64, self.sizes))
        for name, table, count, nbytes in (("rl_size", "sizes_told", self.sizes, SIZE_BYTES),
                                           ("rl_level_name", "levels", len(self.required), LEVEL_BYTES),
                                           ("rl_error_text", "errors", len(ERRORS), 256),
                                           ("rl_check_text", "checks", self.checks, 256)):
            write_lookup(self.module, name, f"@model_{table}", count, nbytes)
        write_checksum(self.module)
        self.module.data("threads", "i64")
        for write in (self.rooms, self.level, self.supported, self.begin, self.end, self.thread_count, self.write_calls,
                      self.create_level, self.open, self.create, self.told_level, self.verify, self.destroy,
                      self.set_constant, self.running, self.output_sizes, self.error):
            write()
        self.launch()
        if self.takes_tensors:
            write_tensors(self)
        return self.module.text()

    def supported(self):
        """rl_supports(level), rl_supported(): true if the CPU has the instructions, and the system their registers."""
        f = self.module.function("rl_supports", [("level", i64)], i64)
        level = f.parameters[0]
        own = f.compare("==", f.call("model_level", [level], i64), level)
        f.ret(f.cast("zext", f.and_(own, f.compare(">=", level, 0)), i64))
        f = self.module.function("rl_supported", [], i64)
        f.ret(f.cast("zext", f.compare(">=", f.call("model_level", [constant(i64, BEST)], i64), 0), i64))

    def level(self):
        """model_level(wanted): the number of the build that runs on this CPU, the wanted one, or the last one whose
        instructions it has; -1 if it lacks them.  It queries the real CPU: a package runs without Rushlight, whose
        settings a C program does not have."""
        f = self.module.function("model_level", [("wanted", i64)], i64, internal=True)
        any_level = f.compare("==", f.parameters[0], BEST)
        level, answers = constant(i64, -1), {}
        kept = self.kept_registers(f) if any(one.states for one in self.required) else None
        for number, (rows, states, tiles, words, vector) in enumerate(self.required):
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
            for kind, bits in words.items():
                told = f.call("getauxval", [constant(i64, kind)], i64)
                fine = f.and_(fine, f.cast("zext", f.compare("==", f.and_(told, bits), bits), i64))
            if vector:  # -1 where there are no such vectors
                length = f.call("prctl", [constant(i32, SVE_LENGTH)], i32, variadic=1)
                same = f.and_(f.compare(">=", length, 0), f.compare("==", f.and_(length, 0xFFFF), vector))
                fine = f.and_(fine, f.cast("zext", same, i64))
            asked_for = f.or_(any_level, f.compare("==", f.parameters[0], number))
            level = f.select(f.and_(f.compare("!=", fine, 0), asked_for), constant(i64, number), level)
        f.ret(level)

    def kept_registers(self, f) -> Value:
        """The register states that the system saves for a thread, as bits; 0 if unknown."""
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
        f.atomic_store(most, Value("@threads", ptr), "monotonic")
        f.ret()

    def memory(self, f, nbytes: int):
        """64-byte aligned memory; null where there is none."""
        return self.system.allocate(f, constant(i64, 64), constant(i64, -(-max(nbytes, 64) // 64) * 64))

    def room(self, f, nbytes):
        """Memory for temporaries; null where there is none."""
        return f.call("model_room", [nbytes], ptr)

    def rooms(self):
        """model_room(bytes): 64-byte aligned memory; large blocks use huge pages if the system has them, since the
        first touch of each page costs a fault."""
        f = self.module.function("model_room", [("bytes", i64)], ptr, internal=True)
        nbytes = f.maximum(f.parameters[0], constant(i64, 64))
        large = f.compare(">=", nbytes, constant(i64, HUGE_PAGE))
        alignment = f.select(large, constant(i64, self.system.alignment), constant(i64, 64))
        whole = f.and_(f.add(nbytes, f.sub(alignment, 1)), f.sub(constant(i64, 0), alignment))
        made = self.system.allocate(f, alignment, whole)
        f.when(f.and_(large, there(f, made)), lambda: self.system.backed(f, made, whole))
        f.ret(made)

    def create_level(self):
        """model_create(weights, wanted): a model with weights at an address, which follow their header."""
        f = self.module.function("model_create", [("weights", ptr), ("wanted", i64)], ptr, internal=True)
        weights = f.parameters[0]
        refused, fine, failed, made = (f.new_block(n) for n in ("refused", "fine", "failed", "made"))
        level = f.call("model_level", [f.parameters[1]], i64)
        ready = f.compare(">=", level, 0)
        if self.weights is not None:
            ready = f.and_(ready, there(f, weights))
        f.branch_if(ready, fine, refused)
        f.at(refused)
        f.ret(constant(ptr, 0))
        f.at(fine)
        nbytes = OWN_CONSTANTS + 8 * (self.constants + self.packed)
        model, state = self.memory(f, nbytes), f.call("model_state", [], ptr)
        f.branch_if(f.and_(there(f, model), there(f, state)), made, failed)
        f.at(failed)
        self.system.free(f, model)
        f.call("model_drop", [state])
        f.ret(constant(ptr, 0))
        f.at(made)
        f.fill_bytes(model, 0, nbytes)
        f.store(state, f.offset(model, STATES))
        f.store(weights, f.offset(model, WEIGHTS))
        f.store(level, f.offset(model, LEVEL))

        def place(k, _):
            at = f.load(i64, f.offset(Value("@model_constant_places", ptr), k, i64))
            own = f.load(i64, f.offset(Value("@model_default_constants", ptr), k, i64))
            beside = f.add(f.cast("ptrtoint", weights, i64), at)
            f.store(f.select(f.compare("<", at, 0), own, beside), f.offset(f.offset(model, OWN_CONSTANTS), k, i64))

        f.loop(0, self.constants + self.packed, 1, [], place)
        f.ret(model)

    def create(self):
        """The public constructors, which take weights by address, or have them in the library."""
        null, best = constant(ptr, 0), constant(i64, BEST)
        f = self.module.function("rl_create_with", [("weights", ptr)], ptr)
        f.ret(f.call("model_create", [f.parameters[0], best], ptr))
        f = self.module.function("rl_create", [], ptr)
        f.ret(f.call("model_create", [null, best], ptr))
        f = self.module.function("rl_create_from", [("path", ptr)], ptr)
        f.ret(f.call("model_open", [f.parameters[0], best], ptr))
        f = self.module.function("rl_create_level", [("path", ptr), ("weights", ptr), ("level", i64)], ptr)
        path, weights, level = f.parameters
        unknown = f.compare(">=", level, constant(i64, len(self.required)), signed=False)
        self.refuse(f, f.and_(unknown, f.compare("!=", level, BEST)))
        found, = f.when(there(f, path), lambda: [f.call("model_open", [path, level], ptr)],
                        lambda: [f.call("model_create", [weights, level], ptr)])
        f.ret(found)

    def open(self):
        """model_open(path, wanted): a model whose weights are mapped from a file: the package, or a file of the
        weights in it."""
        f = self.module.function("model_open", [("path", ptr), ("wanted", i64)], ptr, internal=True)
        wanted = f.parameters[1]
        if self.weights is None:
            f.ret(f.call("model_create", [constant(ptr, 0), wanted], ptr))
            return
        base, length = self.system.mapped(f, f.parameters[0], functools.partial(self.refuse, f))
        found = weights_in(f, base, length, self.weights)

        def unmap():
            self.system.unmap(f, base, length)

        self.refuse(f, f.compare("<", found, 0), unmap)
        model = f.call("model_create", [f.offset(base, f.add(found, HEADER_BYTES)), wanted], ptr)
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
        self.leave(f, f.not_(there(f, f.parameters[0])), constant(i64, 0))
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
            f.loop(0, KEPT, 1, [], lambda k, _: f.call("model_drop", [f.load(ptr, f.offset(f.offset(model, STATES), k,
                                                                                           i64))]))
            self.system.free(f, model)

        f.when(there(f, model), release)
        f.ret()

    def told_level(self):
        """The number of the build that a model runs."""
        f = self.module.function("rl_level", [("model", ptr)], i64)
        self.leave(f, f.not_(there(f, f.parameters[0])), constant(i64, -1))
        f.ret(f.load(i64, f.offset(f.parameters[0], LEVEL)))

    def set_constant(self):
        """Has a model read a constant elsewhere; 0, or what was wrong."""
        f = self.module.function("rl_set_constant", [("model", ptr), ("k", i64), ("data", ptr)], i64)
        model, k, data = f.parameters
        missing = f.not_(f.and_(there(f, model), there(f, data)))
        self.leave(f, missing, constant(i64, MISSING))
        unknown = f.compare(">=", k, constant(i64, self.constants), signed=False)
        self.leave(f, unknown, constant(i64, NO_CONSTANT))
        place = f.offset(f.offset(model, OWN_CONSTANTS), k, i64)
        f.atomic_store(f.cast("ptrtoint", data, i64), place, "seq_cst")
        # after the address: a call that sees the count sees the constant
        f.atomic_update("add", f.offset(model, CHANGES), constant(i64, 1), "seq_cst")
        f.ret(constant(i64, 0))

    def running(self):
        """How many calls of a model run."""
        f = self.module.function("rl_running", [("model", ptr)], i64)
        self.leave(f, f.not_(there(f, f.parameters[0])), constant(i64, 0))
        f.ret(f.atomic_load(i64, f.offset(f.parameters[0], RUNNING), "seq_cst"))

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

    def output_sizes(self):
        """Sizes and strides of all outputs, one after another, for these shapes of inputs."""
        f = self.module.function("rl_output_sizes", [("shapes", ptr), ("to", ptr)], i64)
        shapes, to = f.parameters
        self.leave(f, f.not_(there(f, to)), constant(i64, MISSING))
        sizes = f.alloca(i64, max(1, self.sizes))
        wrong = f.call("sizes_of", [shapes, sizes], i64)
        self.leave(f, f.compare("!=", wrong, 0), wrong)
        f.ret(f.call("sizes_outputs", [sizes, to], i64))

    def error(self):
        """The text of what ``rl_run`` returned."""
        f = self.module.function("rl_error", [("code", i64)], ptr)
        code = f.parameters[0]
        kind = constant(i64, 3)
        for number, most in ((4, WRONG_SIZES), (8, WRONG_DTYPE), (9, WRONG_DEVICE), (10, WRONG_SHAPE),
                             (11, WRONG_STRIDES)):
            kind = f.select(f.compare("<=", code, most), constant(i64, number), kind)
        for number, value in ((7, NO_CONSTANT), (6, MISSING), (5, UNPLANNED), (2, NO_MEMORY), (1, 1), (0, 0)):
            kind = f.select(f.compare("==", code, value), constant(i64, number), kind)
        found, own = f.call("rl_error_text", [kind], ptr), f.call("rl_check_text", [f.sub(UNMET, code)], ptr)
        f.ret(f.select(there(f, own), own, found))


def write_told(module, **counts):
    """Functions that tell what a model is: the version of the interface, the manifest, and rows of tables."""
    module.function("rl_version", [], i64).ret(constant(i64, VERSION))
    module.function("rl_manifest", [], ptr).ret(Value("@model_manifest", ptr))
    for name, count in counts.items():
        module.function(f"rl_{name}_count", [], i64).ret(constant(i64, count))
        write_lookup(module, f"rl_{name}", f"@model_{name}s", count, TENSOR_BYTES)


def write_lookup(module, name: str, table: str, count: int, nbytes: int):
    """A row of a table; null for a number it does not have."""
    f = module.function(name, [("k", i64)], ptr)
    inside = f.compare("<", f.parameters[0], constant(i64, count), signed=False)
    f.ret(f.select(inside, f.offset(Value(table, ptr), f.mul(f.parameters[0], nbytes)), constant(ptr, 0)))


def weights_in(f, base, length, weights) -> Value:
    """Return the offset of the header of a model's weights in a file, which is the package or has only these; -1 if
    there is none.  ``weights``: (bytes with the header, offset in the package)."""
    (nbytes, at), found = weights, constant(i64, -1)
    for place in (at, 0):
        inside = f.compare(">=", length, place + nbytes)
        start = f.select(inside, f.offset(base, place), Value("@model_weights_header", ptr))
        same = f.compare("==", f.call("memcmp", [start, Value("@model_weights_header", ptr),
                                                 constant(i64, HEADER_BYTES)], i32), 0)
        found = f.select(f.and_(inside, same), constant(i64, place), found)
    return found


def asked(f, leaf) -> str:
    """Emit a call of ``cpuid`` and return the name of its four results."""
    quad = "{ i32, i32, i32, i32 }"
    return f.value(quad, f'call {quad} asm sideeffect "cpuid", "={{ax}},={{bx}},={{cx}},={{dx}},{{ax}},{{cx}}"(i32 '
                         f'{leaf[0]}, i32 {leaf[1]})').text


def has(f, answer: str, register: int, bits: int) -> Value:
    """1 if a register of an answer has all these bits, else 0."""
    found = f.value(i32, f"extractvalue {{ i32, i32, i32, i32 }} {answer}, {register}")
    return f.cast("zext", f.compare("==", f.and_(found, constant(i32, bits)), constant(i32, bits)), i64)


def write_checksum(module):
    """weights_part(data, bytes, sums) adds bytes, a multiple of 64, to the sums of a checksum, which detects damage,
    not tampering; weights_sum(data, bytes) is that of all bytes."""
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

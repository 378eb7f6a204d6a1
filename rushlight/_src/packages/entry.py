"""The C interface of a model, written as LLVM IR: what a package's shared object exports (``include/rushlight.h``)."""
from __future__ import annotations

from ..devices.cpu.llvm.builder import Module, Value, constant
from ..devices.cpu.llvm.types import i32, i64, ptr

PUBLIC = ("rl_version", "rl_manifest", "rl_input_count", "rl_output_count", "rl_constant_count", "rl_input",
          "rl_output", "rl_constant", "rl_supported", "rl_create",
          "rl_run", "rl_error", "rl_set_constant", "rl_threads", "rl_destroy")
VERSION = 1
TENSOR_BYTES = 48  # of an rl_tensor
PROCESSORS = 84    # _SC_NPROCESSORS_ONLN
NO_MEMORY, UNSUPPORTED = -1, -2
ASKED, TILES = 0x1023, 18  # ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA

# A model: the address of its arena, whether a call uses that now, then the addresses of its constants.
ARENA, BUSY, CONSTANTS = 0, 8, 16


class Interface:
    """``given``: for each value of the program that is given, ("input", k) or ("constant", k); ``threads``: most that
    its scratch is made for;
    ``required``: (leaf, register 0 to 3 of eax ebx ecx edx, bits) of what ``cpuid`` has to answer; ``tiles``: whether
      tile registers must be asked for."""

    def __init__(self, given, inputs: int, outputs: int, constants: int, arena: int, threads: int, required,
                 tiles: bool):
        self.given, self.inputs, self.outputs, self.constants = given, inputs, outputs, constants
        self.arena, self.threads, self.required, self.tiles = arena, threads, required, tiles
        self.module = Module()

    def text(self) -> str:
        for name in ("manifest", "inputs", "outputs", "constants", "default_constants", "words", "errors"):
            self.module.outside(f"model_{name}")
        for name, value in (("version", VERSION), ("input_count", self.inputs), ("output_count", self.outputs),
                            ("constant_count", self.constants)):
            self.module.function(f"rl_{name}", [], i64).ret(constant(i64, value))
        self.module.function("rl_manifest", [], ptr).ret(Value("@model_manifest", ptr))
        for name, count in (("input", self.inputs), ("output", self.outputs), ("constant", self.constants)):
            self.lookup(f"rl_{name}", f"@model_{name}s", count, TENSOR_BYTES)
        self.lookup("rl_error_text", "@model_errors", 4, 256)
        for write in (self.supported, self.begin, self.end, self.thread_count, self.create, self.destroy,
                      self.set_constant, self.run, self.error):
            write()
        return self.module.text()

    def lookup(self, name: str, table: str, count: int, nbytes: int):
        """A row of a table; null for a number it does not have."""
        f = self.module.function(name, [("k", i64)], ptr)
        inside = f.compare("<", f.parameters[0], constant(i64, count), signed=False)
        f.ret(f.select(inside, f.offset(Value(table, ptr), f.mul(f.parameters[0], nbytes)), constant(ptr, 0)))

    def supported(self):
        """Whether the processor has the instructions, and the system their registers."""
        f = self.module.function("rl_supported", [], i64)
        fine = constant(i64, 1)
        for (leaf, sub), register, bits in self.required:
            quad = "{ i32, i32, i32, i32 }"
            answer = f.value(
                quad, f'call {quad} asm sideeffect "cpuid", "={{ax}},={{bx}},={{cx}},={{dx}},{{ax}},{{cx}}"(i32 '
                      f'{leaf}, i32 {sub})')
            found = f.value(i32, f"extractvalue {quad} {answer.text}, {register}")
            has = f.compare("==", f.and_(found, constant(i32, bits)), constant(i32, bits))
            fine = f.and_(fine, f.cast("zext", has, i64))
        f.ret(fine)

    def begin(self):
        """Readies the pool of threads; runs when the library is loaded."""
        f = self.module.function("model_begin", [])
        f.call("pool_forget", [])
        f.call("rl_threads", [f.call("sysconf", [constant(i32, PROCESSORS)], i64)])
        if self.tiles:
            f.call("syscall", [constant(i64, 158), constant(i64, ASKED), constant(i64, TILES)], i64, variadic=1)
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
        return f.call("aligned_alloc", [constant(i64, 64), constant(i64, -(-max(nbytes, 64) // 64) * 64)], ptr)

    def create(self):
        f = self.module.function("rl_create", [], ptr)
        refused, fine, failed, made = (f.new_block(n) for n in ("refused", "fine", "failed", "made"))
        f.branch_if(f.compare("==", f.call("rl_supported", [], i64), 0), refused, fine)
        f.at(refused)
        f.ret(constant(ptr, 0))
        f.at(fine)
        model = self.memory(f, CONSTANTS + 8 * self.constants)
        arena = self.memory(f, self.arena)
        both = f.and_(f.compare("!=", f.cast("ptrtoint", model, i64), 0),
                      f.compare("!=", f.cast("ptrtoint", arena, i64), 0))
        f.branch_if(both, made, failed)
        f.at(failed)
        f.call("free", [model])
        f.call("free", [arena])
        f.ret(constant(ptr, 0))
        f.at(made)
        f.store(arena, f.offset(model, ARENA))
        f.store(constant(i64, 0), f.offset(model, BUSY))

        def default(k, _):
            f.store(f.load(i64, f.offset(Value("@model_default_constants", ptr), k, i64)),
                    f.offset(f.offset(model, CONSTANTS), k, i64))

        f.loop(0, self.constants, 1, [], default)
        f.ret(model)

    def destroy(self):
        f = self.module.function("rl_destroy", [("model", ptr)])
        model = f.parameters[0]

        def release():
            f.call("free", [f.load(ptr, f.offset(model, ARENA))])
            f.call("free", [model])

        f.when(f.compare("!=", f.cast("ptrtoint", model, i64), 0), release)
        f.ret()

    def set_constant(self):
        """Has a model read a constant elsewhere."""
        f = self.module.function("rl_set_constant", [("model", ptr), ("k", i64), ("data", ptr)])
        model, k, data = f.parameters
        f.when(f.compare("<", k, constant(i64, self.constants), signed=False),
               lambda: [f.store(data, f.offset(f.offset(model, CONSTANTS), k, i64))] and None)
        f.ret()

    def run(self):
        """Runs the program.  A call that finds the arena in use by another thread takes one of its own."""
        f = self.module.function("rl_run", [("model", ptr), ("inputs", ptr), ("outputs", ptr)], i64)
        model, inputs, outputs = f.parameters
        values = f.alloca(i64, len(self.given) + self.outputs + 3)
        flag = f.alloca(i64, 8)
        f.store(constant(i64, 0), flag)
        for k, (kind, number) in enumerate(self.given):
            source = f.offset(inputs, 8 * number) if kind == "input" else f.offset(model, CONSTANTS + 8 * number)
            f.store(f.load(i64, source), f.offset(values, 8 * k))
        at = len(self.given)
        for k in range(self.outputs):
            f.store(f.load(i64, f.offset(outputs, 8 * k)), f.offset(values, 8 * (at + k)))
        at += self.outputs
        _, own = f.compare_exchange(f.offset(model, BUSY), constant(i64, 0), constant(i64, 1))
        arena, = f.when(own, lambda: [f.load(ptr, f.offset(model, ARENA))], lambda: [self.memory(f, self.arena)])
        missing, there = f.new_block("missing"), f.new_block("there")
        f.branch_if(f.compare("==", f.cast("ptrtoint", arena, i64), 0), missing, there)
        f.at(missing)
        f.ret(constant(i64, NO_MEMORY))
        f.at(there)
        if self.arena:
            f.store(arena, f.offset(values, 8 * at))
            at += 1
        f.store(flag, f.offset(values, 8 * at))
        f.call("program_run", [Value("@model_words", ptr), values])
        f.when(own, lambda: [f.atomic_store(constant(i64, 0), f.offset(model, BUSY), "seq_cst")] and None,
               lambda: [f.call("free", [arena])] and None)
        f.ret(f.load(i64, flag))

    def error(self):
        """The text of what ``rl_run`` returned."""
        f = self.module.function("rl_error", [("code", i64)], ptr)
        code = f.parameters[0]
        kind = constant(i64, 3)
        for number, value in ((2, NO_MEMORY), (1, 1), (0, 0)):
            kind = f.select(f.compare("==", code, value), constant(i64, number), kind)
        f.ret(f.call("rl_error_text", [kind], ptr))


ERRORS = ("", "an index is out of range", "there is no memory for the temporaries of a call",
          "a computation has no result: whole numbers divided by 0, or a matrix without an inverse")

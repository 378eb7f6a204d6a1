"""The C interface of a model for GPUs of NVIDIA, written as LLVM IR (``include/rushlight_gpu.h``): it opens the
driver's library, loads the kernels, and gives streams the launches by the machine code that Python's hot path has
(``devices/triton/runner.py``)."""
from __future__ import annotations

import functools
import struct

from ..core.native.queues import FAR
from ..devices.cpu.llvm.builder import Module
from ..devices.cpu.llvm.systems import system
from ..devices.cpu.llvm.types import i32, i64, ptr
from ..devices.cpu.llvm.values import Value, constant
from ..devices.triton import runner
from ..devices.triton.driver import NVIDIA
from .calls import there
from .entry import weights_in, write_told
from .interface import (ERRORS, GPU_ERRORS, HEADER_BYTES, MISALIGNED, MISSING, NO_DRIVER, NO_MEMORY, NO_WEIGHTS,
                        OTHER_GPU, REFUSAL, REFUSED)

PUBLIC = ("rl_version", "rl_manifest", "rl_input_count", "rl_output_count", "rl_constant_count", "rl_input",
          "rl_output", "rl_constant", "rl_create_on", "rl_run_on", "rl_wait", "rl_error", "rl_destroy")
DRIVER = tuple(NVIDIA.names[entry] for entry in (
    "init", "count", "attribute", "load", "function", "function_set", "allocate", "free", "pin", "unpin", "upload",
    "synchronize", "event", "event_free", "event_mark", "event_wait", "event_before", "launch")) + (
        "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuModuleUnload")
# A model's words: the context, whether a call holds it; addresses by what memory they are in; the mark of the last
# call, its stream, whether there was one; the words of a queue; then modules and functions, values, and the program.
CONTEXT, HELD, NOTHING, CONSTANTS, TEMPORARIES, REPORT, MARK, LAST, USED, QUEUE = range(10)
FUNCTIONS = QUEUE + 3
KERNEL_BYTES = 24  # of a row: machine code, the name of its entry, bytes of shared memory
RESERVED = 48 << 10  # bytes of shared memory that a kernel has without a request
NO_TIMES = 2  # CU_EVENT_DISABLE_TIMING


class BoardInterface:
    """``places``: for each value of the program (the word of a model that has its memory, an offset there);
    ``inputs``, ``outputs``: (number of the value, bytes) of each; ``launches``: (kernel, programs, threads, shared
    memory, slots of value, number and bits that have to be 0) of each; ``kernels``: how many; ``capability``: 90 of
    "sm_90"; ``sizes``: bytes of constants, of tables behind them, and of temporaries; ``weights``: (bytes, place in the
    package), or None."""

    def __init__(self, places, inputs, outputs, constants, launches, kernels, capability, sizes, weights):
        self.places, self.inputs, self.outputs, self.constants = places, inputs, outputs, constants
        self.launches, self.kernels, self.capability, self.weights = launches, kernels, capability, weights
        self.constant_bytes, self.table_bytes, self.temporary_bytes = sizes
        self.values = FUNCTIONS + 2 * kernels
        self.program = self.values + len(places)
        self.module, self.system, self.strings = Module(), system(), {}

    def words(self) -> bytes:
        """The program as ``runner`` reads it, with the numbers of kernels in place of functions, without addresses."""
        found = [0, 1, len(self.launches)]  # positions are never wider than packaged for
        for kernel, programs, threads, shared, slots in self.launches:
            count = len(slots)
            length = runner.HEAD + 3 * count + 2 * (count + runner.TAIL)
            found += [kernel, programs, threads, shared, count, length, *(word for slot in slots for word in slot),
                      *[0] * (2 * (count + runner.TAIL))]
        return struct.pack(f"<{len(found)}q", *found)

    def tables(self) -> dict:
        """{name: bytes} of what the code reads."""
        return {"places": struct.pack(f"<{2 * len(self.places)}q", *(word for one in self.places for word in one)),
                "words": self.words()}

    def text(self) -> str:
        for name in ("manifest", "inputs", "outputs", "constants", "weights_header", "kernels", "places", "words",
                     "tables"):
            self.module.outside(f"model_{name}")
        write_told(self.module, input=len(self.inputs), output=len(self.outputs), constant=self.constants)
        self.entries = self.module.data("driver", f"[{len(DRIVER)} x ptr]")
        self.near = self.module.data("near", f"[{FAR + 1} x i64]")
        for write in (self.driver, self.create, self.load, self.fill, self.upload, self.run, self.wait, self.destroy,
                      self.error):
            write()
        return self.module.text()

    # --- pieces -------------------------------------------------------------------------------------------------------
    def string(self, text: str) -> Value:
        data = "".join(f"\\{byte:02X}" for byte in text.encode() + b"\0")
        number = self.strings.setdefault(text, len(self.strings))
        return self.module.data(f"text{number}", f"[{len(text.encode()) + 1} x i8]", f'c"{data}"', constant=True)

    def call(self, f, name: str, *given) -> Value:
        """The status that an entry of the driver gives."""
        found = f.load(ptr, f.offset(self.entries, 8 * DRIVER.index(name)))
        return f.call_pointer(found, list(given), i32)

    def leave(self, f, condition, code, before=None):
        """Returns a code where a condition holds."""
        bad, fine = f.new_block("leave"), f.new_block("fine")
        f.branch_if(condition, bad, fine)
        f.at(bad)
        if before is not None:
            before()
        f.ret(code if isinstance(code, Value) else constant(i64, code))
        f.at(fine)

    def check(self, f, status, before=None):
        """Returns where the driver refuses."""
        status = f.cast("zext", status, i64)
        self.leave(f, f.compare("!=", status, 0), f.sub(REFUSED, status), before)

    def word(self, f, model, number) -> Value:
        return f.offset(model, 8 * number)

    def current(self, f, model):
        """The calling thread's calls are for the model's device."""
        return self.call(f, "cuCtxSetCurrent", f.load(ptr, self.word(f, model, CONTEXT)))

    # --- a model ------------------------------------------------------------------------------------------------------
    def driver(self):
        """model_driver(): true if the driver's library exists, with all required functions."""
        f = self.module.function("model_driver", [], i64, internal=True)
        ready = self.module.data("ready", "i64")
        self.leave(f, f.compare("!=", f.atomic_load(i64, ready), 0), 1)
        library = f.call("dlopen", [self.string(NVIDIA.files[0]), constant(i32, 2)], ptr)  # RTLD_NOW
        self.leave(f, f.not_(there(f, library)), 0)
        for k, name in enumerate(DRIVER):
            found = f.call("dlsym", [library, self.string(name)], ptr)
            self.leave(f, f.not_(there(f, found)), 0)
            f.store(found, f.offset(self.entries, 8 * k))  # what other threads store there is the same
        f.atomic_store(constant(i64, 1), ready)
        f.ret(constant(i64, 1))

    def create(self):
        """rl_create_on(path, device, model)"""
        f = self.module.function("rl_create_on", [("path", ptr), ("device", i64), ("to", ptr)], i64)
        path, device, to = f.parameters
        self.leave(f, f.not_(there(f, to)), MISSING)
        f.store(constant(ptr, 0), to)
        self.leave(f, f.compare("==", f.call("model_driver", [], i64), 0), NO_DRIVER)
        number, major, minor = (f.alloca(i32) for _ in range(3))
        f.store(constant(i32, 0), number)
        status = f.or_(self.call(f, "cuInit", constant(i32, 0)), self.call(f, "cuDeviceGetCount", number))
        count = f.cast("zext", f.load(i32, number), i64)
        outside = f.compare(">=", device, count, signed=False)
        self.leave(f, f.or_(f.compare("!=", status, 0), outside), NO_DRIVER)
        device = f.cast("trunc", device, i32)
        for which, out in zip(NVIDIA.capability, (major, minor)):
            self.check(f, self.call(f, "cuDeviceGetAttribute", out, constant(i32, which), device))
        own = f.add(f.mul(f.load(i32, major), 10), f.load(i32, minor))
        self.leave(f, f.compare("!=", own, self.capability), OTHER_GPU)
        nbytes = 8 * self.program + len(self.words())
        model = f.call("calloc", [constant(i64, 1), constant(i64, nbytes)], ptr)
        self.leave(f, f.not_(there(f, model)), NO_MEMORY)

        def go():
            f.call("rl_destroy", [model])

        self.check(f, self.call(f, "cuDevicePrimaryCtxRetain", model, device), go)
        self.check(f, self.current(f, model), go)
        for step, given in (("load", [model]), ("fill", [model]), ("upload", [model, path])):
            code = f.call(f"model_{step}", given, i64)
            self.leave(f, f.compare("!=", code, 0), code, go)
        f.store(model, to)
        f.ret(constant(i64, 0))

    def load(self):
        """model_load(model): its kernels, and its memory on the device."""
        f = self.module.function("model_load", [("model", ptr)], i64, internal=True)
        model, = f.parameters

        def loaded(k, _):
            row = f.offset(Value("@model_kernels", ptr), f.mul(k, KERNEL_BYTES))
            place = f.offset(self.word(f, model, FUNCTIONS), f.mul(k, 16))
            self.check(f, self.call(f, "cuModuleLoadData", place, f.load(ptr, row)))
            self.check(f, self.call(f, "cuModuleGetFunction", f.offset(place, 8), f.load(ptr, place),
                                    f.load(ptr, f.offset(row, 8))))
            shared = f.load(i64, f.offset(row, 16))
            f.when(f.compare(">", shared, RESERVED), lambda: self.check(f, self.call(
                f, "cuFuncSetAttribute", f.load(ptr, f.offset(place, 8)), constant(i32, NVIDIA.shared_attribute),
                f.cast("trunc", shared, i32))))

        f.loop(0, self.kernels, 1, [], loaded)
        for word, nbytes in ((CONSTANTS, self.constant_bytes + self.table_bytes), (TEMPORARIES, self.temporary_bytes)):
            if nbytes:
                self.check(f, self.call(f, "cuMemAlloc_v2", self.word(f, model, word), constant(i64, nbytes)))
        self.check(f, self.call(f, "cuMemHostAlloc", self.word(f, model, REPORT), constant(i64, 64), constant(i32, 0)))
        f.store(constant(i64, 0), f.load(ptr, self.word(f, model, REPORT)))
        self.check(f, self.call(f, "cuEventCreate", self.word(f, model, MARK), constant(i32, NO_TIMES)))
        f.ret(constant(i64, 0))

    def fill(self):
        """model_fill(model): addresses in the model's memory; its program, with functions and the addresses of
        arguments."""
        f = self.module.function("model_fill", [("model", ptr)], i64, internal=True)
        model, = f.parameters

        def valued(k, _):
            row = f.offset(Value("@model_places", ptr), f.mul(k, 16))
            base = f.load(i64, f.offset(model, f.load(i64, row), i64))
            f.store(f.add(base, f.load(i64, f.offset(row, 8))), f.offset(self.word(f, model, self.values), k, i64))

        f.loop(0, len(self.places), 1, [], valued)
        launch = f.load(ptr, f.offset(self.entries, 8 * DRIVER.index(NVIDIA.names["launch"])))
        f.store(launch, self.word(f, model, QUEUE + runner.LAUNCH))
        f.store(self.near, self.word(f, model, QUEUE + runner.COUNTS))
        program = self.word(f, model, self.program)
        f.copy_bytes(program, Value("@model_words", ptr), len(self.words()))

        def filled(_, state):
            at, = state
            function = f.offset(self.word(f, model, FUNCTIONS), f.mul(f.load(i64, at), 16))
            f.store(f.load(ptr, f.offset(function, 8)), at)
            count = f.load(i64, f.offset(at, 8 * runner.SLOTS))
            arguments = f.offset(at, f.add(f.mul(count, 3), runner.HEAD), i64)
            pointers = f.offset(arguments, f.add(count, runner.TAIL), i64)
            f.loop(0, f.add(count, runner.TAIL), 1, [],
                   lambda k, _: f.store(f.offset(arguments, k, i64), f.offset(pointers, k, i64)))
            return [f.offset(at, f.load(i64, f.offset(at, 8 * runner.LENGTH)), i64)]

        f.loop(0, len(self.launches), 1, [f.offset(program, 8 * runner.BODY)], filled)
        f.ret(constant(i64, 0))

    def upload(self):
        """model_upload(model, path): constants and tables, to the device."""
        f = self.module.function("model_upload", [("model", ptr), ("path", ptr)], i64, internal=True)
        model, path = f.parameters
        to, null = f.load(i64, self.word(f, model, CONSTANTS)), constant(ptr, 0)

        def copied(at, source, nbytes, before=None):
            target = f.cast("inttoptr", f.add(to, at), ptr)
            status = self.call(f, "cuMemcpyHtoDAsync_v2", target, source, constant(i64, nbytes), null)
            done = self.call(f, "cuCtxSynchronize")
            self.check(f, f.select(f.compare("!=", status, 0), status, done), before)

        if self.table_bytes:
            copied(self.constant_bytes, Value("@model_tables", ptr), self.table_bytes)
        if self.constant_bytes:
            self.leave(f, f.not_(there(f, path)), NO_WEIGHTS)
            base, length = self.system.mapped(f, path, lambda wrong, before=None: self.leave(f, wrong, NO_WEIGHTS,
                                                                                            before))
            unmap = functools.partial(self.system.unmap, f, base, length)
            found = weights_in(f, base, length, self.weights)
            self.leave(f, f.compare("<", found, 0), NO_WEIGHTS, unmap)
            copied(0, f.offset(base, f.add(found, HEADER_BYTES)), self.constant_bytes, unmap)
            unmap()
        f.ret(constant(i64, 0))

    # --- calls --------------------------------------------------------------------------------------------------------
    def run(self):
        """rl_run_on(model, stream, inputs, outputs)"""
        f = self.module.function("rl_run_on", [("model", ptr), ("stream", ptr), ("inputs", ptr), ("outputs", ptr)], i64)
        model, stream, *tables = f.parameters
        self.leave(f, f.not_(there(f, model)), MISSING)
        addresses, at = f.alloca(i64, len(self.inputs) + len(self.outputs) + 1), 0
        for table, rows in zip(tables, (self.inputs, self.outputs)):
            if rows:
                self.leave(f, f.not_(there(f, table)), MISSING)
            for k, (_, nbytes) in enumerate(rows):
                address = f.load(i64, f.offset(table, 8 * k))
                if nbytes:
                    self.leave(f, f.compare("==", address, 0), MISSING)
                f.store(address, f.offset(addresses, 8 * at))
                at += 1
        held = self.word(f, model, HELD)
        f.while_loop([], lambda _: f.compare("!=", f.atomic_update("xchg", held, constant(i64, 1)), 0),
                     lambda _: f.call("sched_yield", [], i32) and [])
        code = f.call("model_give", [model, stream, addresses], i64)
        f.atomic_store(constant(i64, 0), held)
        f.ret(code)
        self.give()

    def give(self):
        """model_give(model, stream, addresses): what a call does while it holds the model."""
        f = self.module.function("model_give", [("model", ptr), ("stream", ptr), ("addresses", ptr)], i64,
                                 internal=True)
        model, stream, addresses = f.parameters
        self.check(f, self.current(f, model))
        for k, (value, _) in enumerate((*self.inputs, *self.outputs)):
            f.store(f.load(i64, f.offset(addresses, 8 * k)), self.word(f, model, self.values + value))
        mark, last, used = (self.word(f, model, word) for word in (MARK, LAST, USED))
        other = f.compare("!=", f.load(i64, last), f.cast("ptrtoint", stream, i64))
        # temporaries are those of the call before
        f.when(f.and_(other, f.compare("!=", f.load(i64, used), 0)), lambda: self.check(f, self.call(
            f, "cuStreamWaitEvent", stream, f.load(ptr, mark), constant(i32, 0))))
        f.store(stream, self.word(f, model, QUEUE + runner.STREAM))
        program = self.word(f, model, self.program)
        f.call("gpu_run", [self.word(f, model, self.values), f.cast("ptrtoint", program, i64),
                           f.cast("ptrtoint", self.word(f, model, QUEUE), i64), constant(i64, 0)])
        status = f.load(i64, f.offset(program, 8 * runner.STATUS))
        self.leave(f, f.compare("==", status, runner.UNPREPARED), MISALIGNED)
        f.store(stream, last)
        f.store(constant(i64, 1), used)
        marked = f.cast("zext", self.call(f, "cuEventRecord", f.load(ptr, mark), stream), i64)
        status = f.select(f.compare("!=", status, 0), status, marked)
        f.ret(f.select(f.compare("!=", status, 0), f.sub(REFUSED, status), constant(i64, 0)))

    def wait(self):
        """rl_wait(model)"""
        f = self.module.function("rl_wait", [("model", ptr)], i64)
        model, = f.parameters
        self.leave(f, f.not_(there(f, model)), MISSING)
        self.check(f, self.current(f, model))
        self.check(f, self.call(f, "cuEventSynchronize", f.load(ptr, self.word(f, model, MARK))))
        f.ret(f.atomic_update("xchg", f.load(ptr, self.word(f, model, REPORT)), constant(i64, 0)))

    def destroy(self):
        """rl_destroy(model), which may be made in part."""
        f = self.module.function("rl_destroy", [("model", ptr)])
        model, = f.parameters

        def each(word, name):
            handle = f.load(ptr, self.word(f, model, word) if isinstance(word, int) else word)
            f.when(there(f, handle), lambda: self.call(f, name, handle) and None)

        def release():
            self.current(f, model)
            mark = f.load(ptr, self.word(f, model, MARK))
            f.when(there(f, mark), lambda: self.call(f, "cuEventSynchronize", mark) and None)
            for word, entry in ((MARK, "event_free"), (REPORT, "unpin"), (TEMPORARIES, "free"), (CONSTANTS, "free")):
                each(word, NVIDIA.names[entry])
            f.loop(0, self.kernels, 1, [], lambda k, _: each(
                f.offset(self.word(f, model, FUNCTIONS), f.mul(k, 16)), "cuModuleUnload"))

        def gone():
            f.when(there(f, f.load(ptr, self.word(f, model, CONTEXT))), release)
            f.call("free", [model])

        f.when(there(f, model), gone)
        f.ret()

    def error(self):
        """rl_error(code)"""
        f = self.module.function("rl_error", [("code", i64)], ptr)
        code = f.parameters[0]
        found = f.select(f.compare("<=", code, REFUSED), self.string(REFUSAL), self.string(ERRORS[3]))
        for number, text in {0: ERRORS[0], **GPU_ERRORS}.items():
            found = f.select(f.compare("==", code, number), self.string(text), found)
        f.ret(found)

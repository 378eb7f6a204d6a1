"""Code generation alone: LLVM IR to an object file, on any number of threads at a time.

Each thread has a context and target machines of its own while it works (``tools``).
"""
import contextlib
import ctypes
import functools
import logging
import threading
import time

from ....core.forking import guarded
from ....core.llvm import machine as target
from ....core.llvm.bindings import bindings
from .builder import MANY_STREAMS
from .features import LINUX, WASM, host

log = logging.getLogger("rushlight.timing")


_idle = []  # contexts with their target machines that no thread uses now


@contextlib.contextmanager
def tools():
    """A context, and the target machines made in it by level, for this thread alone."""
    llvm = bindings()
    try:
        own = _idle.pop()
    except IndexError:
        own = target.forever((llvm.create_context(), {}))  # llvmlite cannot free them once Python ends
    try:
        yield own
    finally:
        _idle.append(own)


def generate(text, level, context, machines, features):
    """The bytes of an object file.  RuntimeError, with LLVM's words, for malformed IR."""
    llvm = bindings()
    started = time.perf_counter()
    with llvm.parse_assembly(text, context) as module, loops.agreed(wants_search(text)):
        machine = machine_of(level, machines, features)
        if features.triple:
            module.triple, module.data_layout = features.triple, str(machine.target_data)
        image = emitted(machine, module)
    log.debug("compiled %d bytes of IR to %d in %.1f ms", len(text), len(image), 1e3 * (time.perf_counter() - started))
    return image


def machine_of(level, machines, features):
    """A target machine that generates code at an optimization level (0 to 3); ``machines`` are those of the thread."""
    machine = machines.get((level, features))
    if machine is None:
        machine = machines[level, features] = new_machine(level, features)
    return machine


def new_machine(level, features=None):
    """A target machine of these Features; default those of this machine."""
    features = features or host()
    if features.triple in ("", LINUX):
        # in a process, objects and their callees may be more than 2 GB apart; on AArch64 the linker inserts jumps
        return target.new_machine(features.cpu, features.text, level, "jitdefault" if features.is_x86 else "small",
                                  features.triple, jit=features.is_x86)
    return target.new_machine(features.cpu, features.text, level, "default" if features.triple == WASM else "small",
                              features.triple, jit=False, reloc="static" if features.triple == WASM else "pic")


def emitted(machine, module):
    """Return the object file of a module.  llvmlite serializes calls of LLVM, which needs that only for state shared by
    threads."""
    llvm = bindings()
    with llvm.ffi.OutputString() as wrong:
        buffer = emit_function()(machine, module, 1, wrong)
        if not buffer:
            raise RuntimeError(str(wrong))
    try:
        return ctypes.string_at(llvm.ffi.lib.LLVMPY_GetBufferStart(buffer), llvm.ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        llvm.ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


@functools.cache
def emit_function():
    """llvmlite's function that emits an object file, without its lock."""
    llvm = bindings()
    found = ctypes.CDLL(llvm.ffi.lib._name).LLVMPY_TargetMachineEmitToMemory
    found.restype = llvm.ffi.LLVMMemoryBufferRef
    return found


# --- LLVM's search for better induction variables ---------------------------------------------------------------------
def wants_search(text) -> bool:
    """True if loop strength reduction pays off: it takes four tenths of code generation, and vector loops run as fast
    without it, except in modules of ``MANY_STREAMS``."""
    return text.startswith(MANY_STREAMS)


def switch_search(on):
    llvm = bindings()
    llvm.set_option("rushlight", f"-disable-lsr={int(not on)}")


class Agreement:
    """A setting of the process: threads that need the same value run concurrently, others wait.  Afterwards it is reset
    to ``rest``, for other users."""

    def __init__(self, change, rest):
        self.change, self.rest = change, rest
        self.value, self.inside, self.free = rest, 0, threading.Condition()

    @contextlib.contextmanager
    def agreed(self, value):
        with self.free:
            self.free.wait_for(lambda: not self.inside or self.value == value)
            self.set(value)
            self.inside += 1
        try:
            yield
        finally:
            with self.free:
                self.inside -= 1
                if not self.inside:
                    self.set(self.rest)
                    self.free.notify_all()

    def acquire(self):
        """Wait until no thread is inside, and keep all threads out until ``release``."""
        self.free.acquire()
        self.free.wait_for(lambda: not self.inside)

    def release(self):
        self.free.release()

    def set(self, value):
        if value != self.value:
            self.change(value)
            self.value = value


loops = guarded("code generation", Agreement(switch_search, rest=True))

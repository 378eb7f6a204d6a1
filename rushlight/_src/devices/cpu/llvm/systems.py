"""System interfaces for generated code: threads and their synchronization, memory, mapped files."""
import platform

from ....core.platform import here
from .features import MAC, WASM, WINDOWS, targeted
from .types import i1, i32, i64, ptr
from .values import Value, constant

HUGE_PAGE, IN_HUGE_PAGES = 2 << 20, 14  # bytes, MADV_HUGEPAGE
READ, PRIVATE, END = 1, 2, 2  # PROT_READ, MAP_PRIVATE, SEEK_END
FOREVER = -1


class System:
    """A system without any of these, for a single thread.

    ``threads``: True if it starts any; ``files``: True if it maps them; ``alignment``: of large allocations;
    ``address_bytes``: of an address; ``starts``, ``ends``: functions that are called when a library is loaded or
    unloaded; ``public``: additional names that a library exports on this system.  Methods emit instructions into the
    function ``f``.
    """

    threads = files = False
    name, alignment, address_bytes = "alone", 64, 8
    starts, ends, public = ("model_begin",), ("model_end",), ()

    def wait(self, f, word, value):
        """Wait while 32 bits at an address have a value, possibly for less long."""

    def wake(self, f, word, count):
        """Wake up to ``count`` threads that wait on an address."""

    def start(self, f, handle, function: str, argument):
        """Start a thread and store its handle; 0 on success."""
        return constant(i32, 1)

    def join(self, f, handle):
        """Wait until a thread has ended."""

    def processors(self, f) -> Value:
        """Number of CPUs of the system."""
        return constant(i64, 1)

    def support(self, module):
        """Emit what a library needs on this system."""

    def allocate(self, f, alignment, nbytes) -> Value:
        """Allocate memory; ``alignment`` is a power of two that divides ``nbytes``.  Null on failure."""
        return f.call("aligned_alloc", [alignment, nbytes], ptr)

    def free(self, f, pointer):
        f.call("free", [pointer])

    def backed(self, f, made, nbytes):
        """Request huge pages for memory that was just allocated."""

    def mapped(self, f, path, refuse):
        """(address, bytes) of a file, to be read only.  ``refuse(condition, before=None)`` leaves the function."""
        raise NotImplementedError

    def unmap(self, f, base, nbytes):
        raise NotImplementedError


class Posix(System):
    """POSIX without a futex: threads wait by yielding."""

    threads = files = True
    name, online = "posix", 84  # _SC_NPROCESSORS_ONLN

    def wait(self, f, word, value):
        f.call("sched_yield", [], i32)

    def start(self, f, handle, function, argument):
        return f.call("pthread_create", [handle, constant(ptr, 0), Value(f"@{function}", ptr), argument], i32)

    def join(self, f, handle):
        f.call("pthread_join", [handle, constant(ptr, 0)], i32)

    def processors(self, f):
        return f.call("sysconf", [constant(i32, self.online)], i64)

    def mapped(self, f, path, refuse):
        file = f.call("open", [path, constant(i32, 0)], i32, variadic=2)
        refuse(f.compare("<", file, 0))
        nbytes = f.call("lseek", [file, constant(i64, 0), constant(i32, END)], i64)
        base = f.call("mmap", [constant(ptr, 0), nbytes, constant(i32, READ), constant(i32, PRIVATE), file,
                               constant(i64, 0)], ptr)
        f.call("close", [file], i32)
        refuse(f.compare("==", f.cast("ptrtoint", base, i64), -1))
        return base, nbytes

    def unmap(self, f, base, nbytes):
        f.call("munmap", [base, nbytes], i32)


class Linux(Posix):
    """Linux: ``futex`` is the number of its system call on this architecture."""

    alignment = HUGE_PAGE

    def __init__(self, futex: int):
        self.futex, self.name = futex, f"linux {futex}"

    def call_futex(self, f, word, operation, value):
        null = constant(ptr, 0)
        f.call("syscall", [constant(i64, self.futex), word, constant(i64, operation), value, null, null,
                           constant(i64, 0)], i64, variadic=1)

    def wait(self, f, word, value):
        self.call_futex(f, word, 128, value)  # FUTEX_WAIT_PRIVATE

    def wake(self, f, word, count):
        self.call_futex(f, word, 129, count)  # FUTEX_WAKE_PRIVATE

    def backed(self, f, made, nbytes):
        f.call("madvise", [made, nbytes, constant(i32, IN_HUGE_PAGES)], i32)


class MacOS(Posix):
    """macOS: threads wait by the calls of its C++ library."""

    name, online = "macos", 58
    compare, all = 1, 0x101  # UL_COMPARE_AND_WAIT, with ULF_WAKE_ALL

    def wait(self, f, word, value):
        f.call("__ulock_wait", [constant(i32, self.compare), word, f.cast("zext", value, i64), constant(i32, 0)], i32)

    def wake(self, f, word, count):
        f.call("__ulock_wake", [constant(i32, self.all), word, constant(i64, 0)], i32)


class Windows(System):
    """Windows 8 and later."""

    threads = files = True
    name = "windows"
    starts, ends = ("DllMain",), ()
    every = 0xFFFF  # ALL_PROCESSOR_GROUPS
    pinned = 5  # GET_MODULE_HANDLE_EX_FLAG_PIN, _FROM_ADDRESS
    generic_read, share_read, existing, read_only, map_read = -(1 << 31), 1, 3, 2, 4

    def wait(self, f, word, value):
        own = f.alloca(i32, 1)
        f.store(value, own)
        f.call("WaitOnAddress", [word, own, constant(i64, 4), constant(i32, FOREVER)], i32)

    def wake(self, f, word, count):
        f.call("WakeByAddressAll", [word])

    def start(self, f, handle, function, argument):
        made = f.call("CreateThread", [constant(ptr, 0), constant(i64, 0), Value(f"@{function}", ptr), argument,
                                       constant(i32, 0), constant(ptr, 0)], ptr)
        f.store(made, handle)
        return f.cast("zext", f.compare("==", f.cast("ptrtoint", made, i64), 0), i32)

    def join(self, f, handle):
        thread = f.cast("inttoptr", handle, ptr)
        f.call("WaitForSingleObject", [thread, constant(i32, FOREVER)], i32)
        f.call("CloseHandle", [thread], i32)

    def support(self, module):
        """Emit DllMain, after which the library stays loaded, since threads cannot be waited for while libraries are
        unloaded; and the function that touches the pages of large stack frames."""
        f = module.function("DllMain", [("library", ptr), ("reason", i32), ("unused", ptr)], i32)

        def loaded():
            f.call("model_begin", [])
            f.call("GetModuleHandleExA", [constant(i32, self.pinned), Value("@DllMain", ptr), f.alloca(i64, 1)], i32)

        f.when(f.compare("==", f.parameters[1], 1), loaded)
        f.ret(constant(i32, 1))
        module.define(STACK_PROBE)

    def processors(self, f):
        return f.cast("zext", f.call("GetActiveProcessorCount", [constant(i32, self.every)], i32), i64)

    def allocate(self, f, alignment, nbytes):
        return f.call("_aligned_malloc", [nbytes, alignment], ptr)

    def free(self, f, pointer):
        f.call("_aligned_free", [pointer])

    def mapped(self, f, path, refuse):
        null, zero = constant(ptr, 0), constant(i32, 0)
        reading, shared = constant(i32, self.generic_read), constant(i32, self.share_read)
        file = f.call("CreateFileA", [path, reading, shared, null, constant(i32, self.existing), zero, null], ptr)
        refuse(f.compare("==", f.cast("ptrtoint", file, i64), -1))
        room = f.alloca(i64, 1)
        f.call("GetFileSizeEx", [file, room], i32)
        view = f.call("CreateFileMappingA", [file, null, constant(i32, self.read_only), zero, zero, null], ptr)
        f.call("CloseHandle", [file], i32)
        refuse(f.compare("==", f.cast("ptrtoint", view, i64), 0))
        base = f.call("MapViewOfFile", [view, constant(i32, self.map_read), zero, zero, constant(i64, 0)], ptr)
        f.call("CloseHandle", [view], i32)
        refuse(f.compare("==", f.cast("ptrtoint", base, i64), 0))
        return base, f.load(i64, room)

    def unmap(self, f, base, nbytes):
        f.call("UnmapViewOfFile", [base], i32)


# rax: bytes of a frame, which are touched page by page; no register changes
PROBE = ("pushq %rcx", "pushq %rax", "leaq 24(%rsp), %rcx", "1: cmpq $$4096, %rax", "jbe 2f", "subq $$4096, %rcx",
         "orq $$0, (%rcx)", "subq $$4096, %rax", "jmp 1b", "2: subq %rax, %rcx", "orq $$0, (%rcx)", "popq %rax",
         "popq %rcx", "retq")
STACK_PROBE = ("define void @__chkstk() naked noinline nounwind {\n"
               f"""  call void asm sideeffect "{'|'.join(PROBE)}", ""()\n  unreachable\n}}""").replace("|", r"\0A")


class Wasm(System):
    """WebAssembly without threads: the module grows its own memory (``write_allocator``)."""

    name, ends, public = "wasm", (), ("rl_allocate", "rl_free")
    address_bytes = 4

    def support(self, module):
        write_allocator(module)

    def allocate(self, f, alignment, nbytes):
        return f.call("rl_allocate", [nbytes], ptr)

    def free(self, f, pointer):
        f.call("rl_free", [pointer])


def system():
    """The System of the machine that this thread generates code for."""
    triple = targeted().triple
    others = {MAC: MacOS, WINDOWS: Windows, WASM: Wasm}
    if not triple and here.name != "linux":
        return {"macos": MacOS, "windows": Windows}.get(here.name, Posix)()
    if triple in others:
        return others[triple]()
    futex = {"x86_64": 202, "aarch64": 98}.get(triple.partition("-")[0] or platform.machine())
    return Linux(futex) if futex else Posix()


BLOCK, WASM_PAGE = 64, 1 << 16


def write_allocator(module):
    """Emit rl_allocate(bytes) and rl_free(pointer): blocks of multiples of 64 bytes, after 64 bytes that hold the size
    and the next free block.  A block is reused for requests of at least half of it."""
    heap = module.data("heap", "[2 x i64]")  # start of the memory never used; the first free block
    start = module.outside("__heap_base")
    f = module.function("rl_allocate", [("bytes", i64)], ptr)
    wanted = f.and_(f.add(f.maximum(f.parameters[0], 1), BLOCK - 1), -BLOCK)
    number = f.cast("ptrtoint", f.offset(heap, 8), i64)

    def fits(block):
        size = f.load(i64, f.cast("inttoptr", block, ptr))
        return f.and_(f.compare(">=", size, wanted), f.compare("<=", size, f.mul(wanted, 2)))

    def goes_on(values):
        block = f.load(i64, f.cast("inttoptr", values[0], ptr))
        fine, = f.when(f.compare("!=", block, 0), lambda: [fits(block)], lambda: [constant(i1, 1)])
        return f.not_(fine)

    def following(values):
        return [f.add(f.load(i64, f.cast("inttoptr", values[0], ptr)), 8)]

    place, = f.while_loop([number], goes_on, following)  # the pointer to the block's address
    place = f.cast("inttoptr", place, ptr)
    found = f.load(i64, place)
    f.when(f.compare("!=", found, 0), lambda: taken(f, place, found))
    top = f.load(i64, heap)
    begin = f.select(f.compare("==", top, 0), f.cast("ptrtoint", start, i64), top)
    begin = f.and_(f.add(begin, BLOCK - 1), -BLOCK)
    end = f.add(begin, f.add(wanted, BLOCK))
    pages = f.cast("zext", f.call("llvm.wasm.memory.size.i32", [constant(i32, 0)], i32), i64)
    missing = f.sub(f.ashr(f.add(end, WASM_PAGE - 1), 16), pages)
    f.when(f.compare(">", missing, 0), lambda: grown(f, missing))
    f.store(end, heap)
    block = f.cast("inttoptr", begin, ptr)
    f.store(wanted, block)
    f.ret(f.offset(block, BLOCK))
    f = module.function("rl_free", [("pointer", ptr)])

    def release():
        block = f.offset(f.parameters[0], -BLOCK)
        f.store(f.load(i64, f.offset(heap, 8)), f.offset(block, 8))
        f.store(f.cast("ptrtoint", block, i64), f.offset(heap, 8))

    f.when(f.compare("!=", f.cast("ptrtoint", f.parameters[0], i64), 0), release)
    f.ret()


def taken(f, place, found):
    """Remove a block from the free list."""
    block = f.cast("inttoptr", found, ptr)
    f.store(f.load(i64, f.offset(block, 8)), place)
    f.ret(f.offset(block, BLOCK))
    f.at(f.new_block("unreached"))


def grown(f, missing):
    """Grow memory by pages, or return null."""
    before = f.call("llvm.wasm.memory.grow.i32", [constant(i32, 0), f.cast("trunc", missing, i32)], i32)
    refused, fine = f.new_block("refused"), f.new_block("fine")
    f.branch_if(f.compare("==", before, -1), refused, fine)
    f.at(refused)
    f.ret(constant(ptr, 0))
    f.at(fine)

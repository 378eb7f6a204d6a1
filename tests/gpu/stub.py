"""A stand-in for NVIDIA's ``libcuda.so.1``: a shared object of ELF that our own code generator and linker make.

Memory of a device is the host's.  Copies, fills, launches, marks and waits go to the queue of their stream.  By default
each is done at once; a lazy library does it when something asks for it (a wait for the stream or for an event, memory
that is freed), and then no stream but those on whose events it depends: work that lacks an order comes out wrong.
Between ``cuStreamBeginCapture`` and ``cuStreamEndCapture`` a stream's work goes into a graph, and what drivers refuse
meanwhile is refused.  Machine code is ``STUB``, the number of arguments (4 bytes) and a name; a launch gives the name
and the arguments to a callback, or is only noted.

Addresses that are reserved are pages of the host that nobody may touch until memory is mapped to them and may be
accessed; sizes and places that are no multiples of GRANULARITY, memory mapped twice, parts of mappings, and memory that
is unmapped while work waits are refused.

Streams and events belong to the device that was current when they were made.  A thread for which no device is current
is refused all that works on one (ANYWHERE is what does not), as are launches of nothing, memory of no bytes, and the
time of events that are not recorded or not done.

``recorded.py`` loads it, and reads what it has noted.
"""
from __future__ import annotations

from rushlight._src.devices.cpu.llvm import jit
from rushlight._src.devices.cpu.llvm.builder import Module
from rushlight._src.devices.cpu.llvm.types import i8, i32, i64, ptr
from rushlight._src.devices.cpu.llvm.values import Value, constant
from rushlight._src.packages.objects import SharedObject

# words of the state
(DEVICES, LIMIT, RESERVED, CALLBACK, LAZY, JOURNAL, NOTED, CAPTURES, STREAMS, CLOCK, KEY, BLOCKS, PINNED, EVENTS,
 QUEUES,
 GRAPHS, PROGRAMS, RELAXED, BROKEN, FAULT, STATUS, RESERVATIONS, MAPPINGS, HANDLES, PEERS) = range(25)
FIRST, COUNTS, WORDS = 32, 48, 192  # the first stream of each device; how often each entry was called; all words
ROOM, NOTE = 1 << 16, 6  # notes that are kept; words of one: entry, stream, three numbers, whether a graph was recorded
NEXT, HEAD, TAIL, GRAPH, DIRTY, ORIGIN, OWNER = range(7)  # of a stream; a graph has HEAD and TAIL too
KIND, A, B, C, ARGUMENTS, NODE, ON, COMMAND = range(1, 9)  # of a command, after NEXT; then its arguments
VERSION, DONE, WHERE, RECORDED, TIME, MAKER = range(6)  # of an event
COPY, FILL, LAUNCH, MARK, WAIT, HOST = range(1, 7)
BASE, LENGTH, HELD, ENTRY = range(1, 5)  # of a reservation, a mapping: after NEXT; a handle has HELD, LENGTH
GRANULARITY = 1 << 21  # bytes of which addresses and sizes of mapped memory are multiples
BUSY = 999  # work may still use what is unmapped
INVALID, NO_MEMORY, NOWHERE, WRONG_HANDLE, NOT_READY = 1, 2, 201, 400, 600
CONNECTED, UNSUPPORTED, INVALIDATED, UNJOINED = 704, 900, 901, 904
HEADER = 512  # bytes before a block of memory
ENTRIES = (  # name, kinds of its arguments: p an address or handle, i 32 bits, z 64, b a byte
    ("cuInit", "i"), ("cuDeviceGetCount", "p"), ("cuDeviceGetName", "pii"), ("cuDeviceTotalMem_v2", "pi"),
    ("cuDeviceGetAttribute", "pii"), ("cuMemAlloc_v2", "pz"), ("cuMemFree_v2", "p"), ("cuMemGetInfo_v2", "pp"),
    ("cuMemcpyHtoDAsync_v2", "ppzp"), ("cuMemcpyDtoHAsync_v2", "ppzp"), ("cuMemcpyDtoDAsync_v2", "ppzp"),
    ("cuMemsetD8Async", "pbzp"), ("cuMemHostAlloc", "pzi"), ("cuMemFreeHost", "p"),
    ("cuStreamCreateWithPriority", "pii"), ("cuStreamSynchronize", "p"),
    ("cuStreamQuery", "p"), ("cuEventCreate", "pi"), ("cuEventDestroy_v2", "p"), ("cuEventRecord", "pp"),
    ("cuEventSynchronize", "p"), ("cuEventQuery", "p"), ("cuStreamWaitEvent", "ppi"), ("cuEventElapsedTime", "ppp"),
    ("cuModuleLoadData", "pp"), ("cuModuleGetFunction", "ppp"), ("cuFuncSetAttribute", "pii"),
    ("cuLaunchKernel", "piiiiiiippp"), ("cuCtxSynchronize", ""), ("cuGetErrorString", "ip"),
    ("cuDevicePrimaryCtxRetain", "pi"), ("cuCtxSetCurrent", "p"), ("cuMemcpyPeerAsync", "ppppzp"),
    ("cuDeviceCanAccessPeer", "pii"), ("cuPointerGetAttribute", "pip"), ("cuStreamBeginCapture_v2", "pi"),
    ("cuStreamEndCapture", "pp"),
    ("cuStreamIsCapturing", "pp"), ("cuThreadExchangeStreamCaptureMode", "p"),
    ("cuGraphInstantiateWithFlags", "ppz"), ("cuGraphLaunch", "pp"), ("cuGraphDestroy", "p"),
    ("cuGraphExecDestroy", "p"), ("cuStreamGetCaptureInfo_v2", "pppppp"), ("cuGraphExecKernelNodeSetParams_v2", "ppp"),
    ("cuMemGetAllocationGranularity", "ppi"), ("cuMemAddressReserve", "pzzpz"), ("cuMemAddressFree", "pz"),
    ("cuMemCreate", "pzpz"), ("cuMemRelease", "p"), ("cuMemMap", "pzzpz"), ("cuMemUnmap", "pz"),
    ("cuMemSetAccess", "pzpz"),
    ("cuLaunchHostFunc", "ppp"), ("cuDeviceGetPCIBusId", "pii"), ("cuModuleUnload", "p"),
    ("cuCtxEnablePeerAccess", "pi"), ("cuCtxGetStreamPriorityRange", "pp"),
    ("cuProfilerStart", ""), ("cuProfilerStop", ""))
ANYWHERE = frozenset((
    "cuInit cuDeviceGetCount cuDeviceGetName cuDeviceTotalMem_v2 cuDeviceGetAttribute cuDeviceGetPCIBusId "
    "cuGetErrorString cuDevicePrimaryCtxRetain cuCtxSetCurrent cuDeviceCanAccessPeer cuThreadExchangeStreamCaptureMode "
    "cuMemGetAllocationGranularity cuMemAddressReserve cuMemAddressFree cuMemCreate cuMemRelease cuMemMap cuMemUnmap "
    "cuMemSetAccess").split())
NAMES = [name for name, _ in ENTRIES]
KINDS = {"p": i64, "i": i32, "z": i64, "b": i8}
WRITERS = {}


def writes(name: str):
    """The function below writes the body of an entry: it gives the status, or nothing for 0."""
    def enter(function):
        WRITERS[name] = function
        return function
    return enter


class Entry:
    """A function being written; addresses and handles are numbers."""

    def __init__(self, module: Module, name: str, kinds, result=i32, internal=False):
        self.f = module.function(name, [(f"a{k}", KINDS[kind]) for k, kind in enumerate(kinds)], result, internal)
        self.given = [a if a.type is i64 else self.f.cast("zext", a, i64) for a in self.f.parameters]
        self.state = self.f.cast("ptrtoint", Value("@state", ptr), i64)

    def number(self, value) -> Value:
        return value if isinstance(value, Value) else constant(i64, value)

    def place(self, address, word=0) -> Value:
        at = self.f.add(self.number(address), self.f.mul(self.number(word), 8))
        return self.f.cast("inttoptr", at, ptr)

    def get(self, address, word=0) -> Value:
        return self.f.load(i64, self.place(address, word), 1)

    def put(self, value, address, word=0):
        self.f.store(self.number(value), self.place(address, word), 1)

    def field(self, word) -> Value:
        return self.get(self.state, word)

    def set(self, word, value):
        self.put(value, self.state, word)

    def count(self, word, by=1):
        self.f.atomic_update("add", self.place(self.state, word), self.number(by))

    def put_int(self, value, address):
        self.f.store(self.f.cast("trunc", self.number(value), i32), self.place(address), 1)

    def zero(self, value) -> Value:
        return self.f.compare("==", value, 0)

    def some(self, value) -> Value:
        return self.f.compare("!=", value, 0)

    def made(self, words) -> Value:
        """The address of so many words of zero."""
        pointer = self.f.call("calloc", [self.number(words), constant(i64, 8)], ptr)
        return self.f.cast("ptrtoint", pointer, i64)

    def freed(self, address):
        self.f.call("free", [self.place(address)])

    def run(self, name, *given) -> Value:
        return self.f.call(name, [self.number(g) for g in given], i64)

    def stop(self, condition, status):
        """Gives a status where a condition holds."""
        then, on = self.f.new_block("refused"), self.f.new_block("on")
        self.f.branch_if(condition, then, on)
        self.f.at(then)
        self.f.ret(constant(i32, status) if isinstance(status, int) else self.f.cast("trunc", status, i32))
        self.f.at(on)

    def note(self, number: int, *values):
        """Notes what was asked."""
        at = self.f.atomic_update("add", self.place(self.state, NOTED), constant(i64, 1))
        row = self.f.add(self.field(JOURNAL), self.f.mul(self.f.and_(at, ROOM - 1), 8 * NOTE))
        for k, value in enumerate((number, *values)):
            self.put(value, row, k)

    def command(self, kind, a, b, c, count=0) -> Value:
        made = self.made(self.f.add(self.number(count), COMMAND))
        for word, value in ((KIND, kind), (A, a), (B, b), (C, c), (ARGUMENTS, count)):
            self.put(value, made, word)
        return made


def helpers(module: Module):
    """Functions that entries share."""
    appended(module)
    performing(module)
    stepping(module)
    e = Entry(module, "drain", "p", i64, True)  # all that a stream was given
    e.f.while_loop([], lambda _: e.some(e.get(e.given[0], HEAD)), lambda _: e.run("step", e.given[0]) and [])
    e.f.ret(constant(i64, 0))
    e = Entry(module, "reach", "pzp", i64, True)  # (event, version, the stream that marks it)
    event, version, stream = e.given
    e.f.while_loop([], lambda _: e.f.and_(e.f.compare("<", e.get(event, DONE), version),
                                          e.some(e.get(stream, HEAD))), lambda _: e.run("step", stream) and [])
    e.f.ret(constant(i64, 0))
    e = Entry(module, "drain_all", "", i64, True)

    def drained(at):
        e.run("drain", at[0])
        return [e.get(at[0], NEXT)]

    e.f.while_loop([e.field(STREAMS)], lambda at: e.some(at[0]), drained)
    e.f.ret(constant(i64, 0))
    e = Entry(module, "stream_of", "p", i64, True)  # 0: the first stream of the thread's device
    found, = e.f.when(e.zero(e.given[0]), lambda: [e.get(e.state, e.f.add(e.run("current"), FIRST))],
                      lambda: [e.given[0]])
    e.f.ret(found)
    e = Entry(module, "held", "", i64, True)  # the context of the calling thread, its device and 1; 0: it has none
    e.f.ret(e.f.cast("ptrtoint", e.f.call("pthread_getspecific", [e.f.cast("trunc", e.field(KEY), i32)], ptr), i64))
    e = Entry(module, "current", "", i64, True)  # the device of the calling thread
    e.f.ret(e.f.maximum(e.f.sub(e.run("held"), 1), 0))
    e = Entry(module, "new_stream", "", i64, True)
    stream = e.made(OWNER + 1)
    e.put(e.run("current"), stream, OWNER)
    e.put(e.f.atomic_update("xchg", e.place(e.state, STREAMS), stream), stream, NEXT)  # threads may do so at once
    e.f.ret(stream)
    given_to(module)


def appended(module: Module):
    """append(list, command)"""
    e = Entry(module, "append", "pp", i64, True)
    where, command = e.given
    e.f.when(e.zero(e.get(where, HEAD)), lambda: e.put(command, where, HEAD),
             lambda: e.put(command, e.get(where, TAIL), NEXT))
    e.put(command, where, TAIL)
    e.put(0, command, NEXT)
    e.f.ret(constant(i64, 0))


def performing(module: Module):
    """perform(command)"""
    e = Entry(module, "perform", "p", i64, True)
    command, = e.given
    a, b, c = (e.get(command, word) for word in (A, B, C))

    def launched():
        e.f.when(e.some(e.field(CALLBACK)), lambda: e.f.call_pointer(
            e.place(e.field(CALLBACK)), [e.place(e.get(a)), b, e.get(command, ARGUMENTS), e.place(command, COMMAND)]))

    def marked():
        e.put(e.f.maximum(e.get(a, DONE), b), a, DONE)
        e.count(CLOCK)
        e.put(e.field(CLOCK), a, TIME)

    cases = {COPY: lambda: e.f.call("memmove", [e.place(a), e.place(b), c], ptr) and [],
             FILL: lambda: e.f.fill_bytes(e.place(a), e.f.cast("trunc", b, i8), c),
             LAUNCH: launched, MARK: marked, WAIT: lambda: e.run("reach", a, b, c) and [],
             HOST: lambda: e.f.call_pointer(e.place(a), [e.place(b)])}
    for kind, run in cases.items():
        e.f.when(e.f.compare("==", e.get(command, KIND), kind), run)
    e.f.ret(constant(i64, 0))


def stepping(module: Module):
    """step(stream): the next of its commands."""
    e = Entry(module, "step", "p", i64, True)
    stream, = e.given
    command = e.get(stream, HEAD)
    e.put(e.get(command, NEXT), stream, HEAD)
    e.run("perform", command)
    e.freed(command)
    e.f.ret(constant(i64, 0))


def given_to(module: Module):
    """submit(stream, command): into its graph, or its queue."""
    e = Entry(module, "submit", "pp", i64, True)
    stream, command = e.given

    def recorded():
        e.put(e.get(stream, GRAPH), command, ON)
        e.run("append", e.get(stream, GRAPH), command)
        e.put(1, stream, DIRTY)

    def queued():
        e.run("append", stream, command)
        e.f.when(e.zero(e.field(LAZY)), lambda: e.run("drain", stream) and [])

    e.f.when(e.some(e.get(stream, GRAPH)), recorded, queued)
    e.f.ret(constant(i64, 0))


def refused(e: Entry):
    """Work that may not be asked for while a stream is recorded: the recording is lost."""
    wrong = e.f.and_(e.some(e.field(CAPTURES)), e.zero(e.field(RELAXED)))
    e.f.when(wrong, lambda: e.set(BROKEN, 1))
    e.stop(wrong, UNSUPPORTED)


def owned(e: Entry, owner):
    """What belongs to another device than the thread's cannot be used."""
    e.stop(e.f.compare("!=", owner, e.run("current")), WRONG_HANDLE)


def waited(e: Entry, stream):
    """A stream that is recorded cannot be waited for."""
    wrong = e.some(e.get(stream, GRAPH))
    e.f.when(wrong, lambda: e.set(BROKEN, 1))
    e.stop(wrong, UNSUPPORTED)


def text() -> str:
    """The library as IR."""
    from . import stub_entries, stub_modules  # noqa: F401 - their functions enter themselves
    module = Module()
    module.data("state", f"[{WORDS} x i64]")
    helpers(module)
    f = module.function("stub_state", [], ptr)
    f.ret(Value("@state", ptr))
    for number, (name, kinds) in enumerate(ENTRIES):
        e = Entry(module, name, kinds)
        e.count(COUNTS + number)
        e.stop(e.f.compare("==", e.field(FAULT), number + 1), e.field(STATUS))  # tests have it fail
        if name not in ANYWHERE:
            e.stop(e.zero(e.run("held")), NOWHERE)
        status = WRITERS[name](e, number, *e.given)
        e.f.ret(constant(i32, 0) if status is None else e.f.cast("trunc", status, i32))
    return module.text()


def image() -> bytes:
    """The file."""
    made = SharedObject()
    made.add_object(jit.compile_object(text()))
    return made.image((*NAMES, "stub_state"), "libcuda-stand-in.so.1")  # by the true name others would find it

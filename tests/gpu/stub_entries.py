"""What the entries of the stand-in for NVIDIA's library do, as code that is generated."""
from __future__ import annotations

from rushlight._src.devices.cpu.llvm.types import f32, i32, i64, ptr
from rushlight._src.devices.cpu.llvm.values import constant

from .stub import (A, ARGUMENTS, B, BLOCKS, BROKEN, C, CAPTURES, COMMAND, COPY, DEVICES, DIRTY, DONE, EVENTS, FILL,
                   FIRST, GRAPH, GRAPHS, HEAD, HEADER, INVALID, INVALIDATED, JOURNAL, KEY, KIND, LAUNCH, LAZY, LIMIT,
                   MARK,
                   NEXT, NO_MEMORY, NODE, NOT_READY, NOTE, ORIGIN, OWNER, MAKER, PINNED, PROGRAMS, QUEUES, RECORDED,
                   RELAXED,
                   RESERVED,
                   ROOM, STREAMS, TAIL, TIME, UNJOINED, UNSUPPORTED, VERSION, WAIT,
                   WHERE, owned, refused, waited, writes)

ATTRIBUTES = {75: 9, 76: 0, 16: 4}  # (9, 0) and 4 multiprocessors
TEXT = int.from_bytes(b"a stub\0\0", "little")


# --- devices ----------------------------------------------------------------------------------------------------------
@writes("cuInit")
def init(e, number, flags):
    def first():
        e.set(JOURNAL, e.made(ROOM * NOTE))
        e.f.call("pthread_key_create", [e.place(e.state, KEY), constant(ptr, 0)], i32)
        for name, value in ((DEVICES, 2), (LIMIT, 1 << 34)):
            e.f.when(e.zero(e.field(name)), lambda name=name, value=value: e.set(name, value))
        for k in range(16):
            stream = e.run("new_stream")
            e.put(k, stream, OWNER)
            e.put(stream, e.state, FIRST + k)

    e.f.when(e.zero(e.field(JOURNAL)), first)


@writes("cuDeviceGetCount")
def count(e, number, out):
    e.put_int(e.field(DEVICES), out)


@writes("cuDeviceGetName")
def name_of(e, number, out, size, index):
    e.put(TEXT, out)


@writes("cuDeviceTotalMem_v2")
def total(e, number, out, index):
    e.put(e.field(LIMIT), out)


@writes("cuDeviceGetAttribute")
def attribute(e, number, out, which, index):
    found = constant(i64, 0)
    for known, value in ATTRIBUTES.items():
        found = e.f.select(e.f.compare("==", which, known), constant(i64, value), found)
    e.put_int(found, out)


@writes("cuGetErrorString")
def words(e, number, status, out):
    e.put(TEXT, e.state, FIRST - 2)
    e.put(e.f.add(e.state, 8 * (FIRST - 2)), out)


@writes("cuDevicePrimaryCtxRetain")
def context(e, number, out, index):
    e.put(e.f.add(index, 1), out)


@writes("cuCtxSetCurrent")
def current(e, number, context):
    e.f.call("pthread_setspecific", [e.f.cast("trunc", e.field(KEY), i32), e.place(context)], i32)
    e.note(number, 0, context, 0, 0, 0)


@writes("cuDeviceCanAccessPeer")
def reaches(e, number, out, one, other):
    e.put_int(e.f.cast("zext", e.f.compare("!=", one, other), i64), out)


@writes("cuPointerGetAttribute")
def pointer(e, number, out, which, address):
    e.put_int(0, out)


# --- memory -----------------------------------------------------------------------------------------------------------
def allocated(e, number, out, nbytes, live):
    refused(e)
    e.stop(e.f.compare(">", e.f.add(e.field(RESERVED), nbytes), e.field(LIMIT)), NO_MEMORY)
    whole = e.f.mul(e.f.add(e.f.udiv(nbytes, HEADER), 2), HEADER)
    block = e.f.cast("ptrtoint", e.f.call("aligned_alloc", [constant(i64, HEADER), whole], ptr), i64)
    e.stop(e.zero(block), NO_MEMORY)
    e.put(nbytes, block)
    e.count(RESERVED, nbytes)
    e.count(live)
    address = e.f.add(block, HEADER)
    e.put(address, out)
    e.note(number, 0, address, nbytes, 0, 0)


def let_go(e, number, address, live):
    refused(e)
    e.run("drain_all")
    block = e.f.sub(address, HEADER)
    e.count(RESERVED, e.f.sub(0, e.get(block)))
    e.count(live, -1)
    e.note(number, 0, address, e.get(block), 0, 0)
    e.freed(block)


@writes("cuMemAlloc_v2")
def allocate(e, number, out, nbytes):
    allocated(e, number, out, nbytes, BLOCKS)


@writes("cuMemFree_v2")
def free(e, number, address):
    let_go(e, number, address, BLOCKS)


@writes("cuMemHostAlloc")
def pin(e, number, out, nbytes, flags):
    allocated(e, number, out, nbytes, PINNED)


@writes("cuMemFreeHost")
def unpin(e, number, address):
    let_go(e, number, address, PINNED)


@writes("cuMemGetInfo_v2")
def information(e, number, free, total):
    e.put(e.f.sub(e.field(LIMIT), e.field(RESERVED)), free)
    e.put(e.field(LIMIT), total)


def copied(e, number, target, source, nbytes, stream):
    where = e.run("stream_of", stream)
    e.note(number, stream, target, source, nbytes, e.get(where, GRAPH))
    e.run("submit", where, e.command(COPY, target, source, nbytes))


for name in ("cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2"):
    writes(name)(copied)


@writes("cuMemcpyPeerAsync")
def peer(e, number, target, target_context, source, source_context, nbytes, stream):
    copied(e, number, target, source, nbytes, stream)


@writes("cuMemsetD8Async")
def fill(e, number, target, value, nbytes, stream):
    where = e.run("stream_of", stream)
    e.note(number, stream, target, value, nbytes, e.get(where, GRAPH))
    e.run("submit", where, e.command(FILL, target, value, nbytes))


# --- streams and events -----------------------------------------------------------------------------------------------
@writes("cuStreamCreateWithPriority")
def stream(e, number, out, flags, priority):
    made = e.run("new_stream")
    e.count(QUEUES)
    e.put(made, out)


@writes("cuStreamSynchronize")
def stream_wait(e, number, stream):
    where = e.run("stream_of", stream)
    waited(e, where)
    e.note(number, stream, 0, 0, 0, 0)
    e.run("drain", where)


def goes_on(e, stream):
    """Who asks whether something is done finds it a step further, unless the library is to stand still (LAZY is 2)."""
    moves = e.f.and_(e.some(e.get(stream, HEAD)), e.f.compare("!=", e.field(LAZY), 2))
    e.f.when(moves, lambda: e.run("step", stream) and [])


@writes("cuStreamQuery")
def stream_done(e, number, stream):
    refused(e)
    where = e.run("stream_of", stream)
    waited(e, where)
    goes_on(e, where)
    return e.f.select(e.some(e.get(where, HEAD)), constant(i64, NOT_READY), constant(i64, 0))


@writes("cuCtxSynchronize")
def synchronize(e, number):
    refused(e)
    e.note(number, 0, 0, 0, 0, 0)
    e.run("drain_all")


@writes("cuEventCreate")
def event(e, number, out, flags):
    e.count(EVENTS)
    made = e.made(MAKER + 1)
    e.put(e.run("current"), made, MAKER)
    e.put(made, out)


@writes("cuEventDestroy_v2")
def event_free(e, number, event):
    e.count(EVENTS, -1)
    at = e.get(event, WHERE)
    e.f.when(e.some(at), lambda: e.run("reach", event, e.get(event, VERSION), at) and [])
    e.freed(event)


@writes("cuEventRecord")
def event_mark(e, number, event, stream):
    where = e.run("stream_of", stream)
    owned(e, e.get(where, OWNER))
    owned(e, e.get(event, MAKER))
    e.note(number, stream, event, 0, 0, e.get(where, GRAPH))
    e.put(where, event, WHERE)
    e.put(e.get(where, GRAPH), event, RECORDED)

    def queued():
        version = e.f.add(e.get(event, VERSION), 1)
        e.put(version, event, VERSION)
        e.run("submit", where, e.command(MARK, event, version, 0))

    e.f.when(e.zero(e.get(where, GRAPH)), queued)


@writes("cuEventSynchronize")
def event_wait(e, number, event):
    e.stop(e.some(e.get(event, RECORDED)), UNSUPPORTED)
    e.note(number, 0, event, 0, 0, 0)
    at = e.get(event, WHERE)
    e.f.when(e.some(at), lambda: e.run("reach", event, e.get(event, VERSION), at) and [])


@writes("cuEventQuery")
def event_done(e, number, event):
    refused(e)
    e.stop(e.some(e.get(event, RECORDED)), UNSUPPORTED)
    at, wanted = e.get(event, WHERE), e.get(event, VERSION)
    e.stop(e.f.compare(">=", e.get(event, DONE), wanted), 0)
    goes_on(e, at)
    return e.f.select(e.f.compare(">=", e.get(event, DONE), wanted), constant(i64, 0), constant(i64, NOT_READY))


@writes("cuStreamWaitEvent")
def event_before(e, number, stream, event, flags):
    where, graph = e.run("stream_of", stream), e.get(event, RECORDED)
    e.note(number, stream, event, 0, 0, graph)

    def joined():
        e.f.when(e.zero(e.get(where, GRAPH)), lambda: e.put(graph, where, GRAPH))
        e.put(0, e.get(event, WHERE), DIRTY)

    def queued():
        at = e.get(event, WHERE)
        e.f.when(e.some(at), lambda: e.run("submit", where, e.command(WAIT, event, e.get(event, VERSION), at)) and [])

    e.f.when(e.some(graph), joined, queued)


@writes("cuEventElapsedTime")
def elapsed(e, number, out, first, last):
    time = e.f.sub(e.get(last, TIME), e.get(first, TIME))
    e.f.store(e.f.cast("sitofp", time, f32), e.place(out), 1)


# --- kernels ----------------------------------------------------------------------------------------------------------
@writes("cuModuleLoadData")
def load(e, number, out, code):
    known = e.f.compare("==", e.f.cast("zext", e.f.load(i32, e.place(code), 1), i64),
                        int.from_bytes(b"STUB", "little"))
    e.stop(e.f.xor(known, True), INVALID)
    arguments = e.f.cast("zext", e.f.load(i32, e.place(e.f.add(code, 4)), 1), i64)
    name = e.f.call("strdup", [e.place(e.f.add(code, 8))], ptr)
    made = e.made(2)
    e.put(e.f.cast("ptrtoint", name, i64), made)
    e.put(arguments, made, 1)
    e.put(made, out)


@writes("cuModuleGetFunction")
def function(e, number, out, module, name):
    e.put(module, out)


@writes("cuFuncSetAttribute")
def function_set(e, number, function, which, value):
    pass


@writes("cuLaunchKernel")
def launch(e, number, function, x, y, z, threads, ty, tz, shared, stream, pointers, extra):
    where, arguments = e.run("stream_of", stream), e.get(function, 1)
    owned(e, e.get(where, OWNER))
    e.note(number, stream, function, x, threads, e.get(where, GRAPH))
    command = e.command(LAUNCH, function, x, threads, arguments)
    e.put(command, command, NODE)
    e.f.loop(0, arguments, 1, [], lambda k, _: e.put(e.get(e.get(pointers, k)), command, e.f.add(k, COMMAND)))
    e.run("submit", where, command)


# --- graphs -----------------------------------------------------------------------------------------------------------
@writes("cuStreamBeginCapture_v2")
def capture(e, number, stream, mode):
    e.stop(e.zero(stream), UNSUPPORTED)
    e.stop(e.some(e.get(stream, GRAPH)), INVALID)
    e.note(number, stream, mode, 0, 0, 0)
    graph = e.made(TIME + 1)
    e.put(graph, stream, GRAPH)
    e.put(1, stream, ORIGIN)
    e.count(CAPTURES)
    e.count(GRAPHS)
    e.set(BROKEN, 0)


@writes("cuStreamEndCapture")
def captured(e, number, stream, out):
    graph = e.get(stream, GRAPH)
    e.stop(e.zero(graph), INVALID)
    e.note(number, stream, graph, 0, 0, graph)

    def left(at):
        """A stream that was drawn into the graph leaves it; counts those whose work nobody waits for."""
        inside = e.f.compare("==", e.get(at[0], GRAPH), graph)
        loose = e.f.and_(inside, e.f.and_(e.some(e.get(at[0], DIRTY)), e.zero(e.get(at[0], ORIGIN))))

        def out_of_it():
            for word in (GRAPH, DIRTY, ORIGIN):
                e.put(0, at[0], word)

        e.f.when(inside, out_of_it)
        return [e.get(at[0], NEXT), e.f.add(at[1], e.f.cast("zext", loose, i64))]

    _, wrong = e.f.while_loop([e.field(STREAMS), constant(i64, 0)], lambda at: e.some(at[0]), left)
    e.count(CAPTURES, -1)
    e.put(0, out)
    e.stop(e.some(e.field(BROKEN)), INVALIDATED)
    e.stop(e.some(wrong), UNJOINED)
    e.put(graph, out)


@writes("cuStreamIsCapturing")
def capturing(e, number, stream, out):
    e.put_int(e.f.cast("zext", e.some(e.get(e.run("stream_of", stream), GRAPH)), i64), out)


@writes("cuThreadExchangeStreamCaptureMode")
def exchange(e, number, mode):
    given = e.f.cast("zext", e.f.load(i32, e.place(mode), 1), i64)
    e.put_int(e.f.select(e.some(e.field(RELAXED)), constant(i64, 2), constant(i64, 0)), mode)
    e.set(RELAXED, e.f.cast("zext", e.f.compare("==", given, 2), i64))


def copied_list(e, source, each):
    """Gives a copy of each command of a list to ``each``."""
    def one(at):
        count = e.get(at[0], ARGUMENTS)
        made = e.made(e.f.add(count, COMMAND))
        nbytes = e.f.mul(e.f.add(count, COMMAND), 8)
        e.f.call("memcpy", [e.place(made), e.place(at[0]), nbytes], ptr)
        each(made)
        return [e.get(at[0], NEXT)]

    e.f.while_loop([e.get(source, HEAD)], lambda at: e.some(at[0]), one)


def emptied(e, held):
    """Frees a list with its commands."""
    def one(at):
        following = e.get(at[0], NEXT)
        e.freed(at[0])
        return [following]

    e.f.while_loop([e.get(held, HEAD)], lambda at: e.some(at[0]), one)
    e.freed(held)


@writes("cuGraphInstantiateWithFlags")
def instantiate(e, number, out, graph, flags):
    made = e.made(TIME + 1)
    copied_list(e, graph, lambda command: e.run("append", made, command))
    e.count(PROGRAMS)
    e.put(made, out)


@writes("cuGraphLaunch")
def replay(e, number, program, stream):
    where = e.run("stream_of", stream)
    owned(e, e.get(where, OWNER))
    e.note(number, stream, program, 0, 0, e.get(where, GRAPH))
    copied_list(e, program, lambda command: e.run("submit", where, command))


@writes("cuGraphDestroy")
def graph_free(e, number, graph):
    e.count(GRAPHS, -1)
    emptied(e, graph)


@writes("cuGraphExecDestroy")
def replay_free(e, number, program):
    e.run("drain_all")
    e.count(PROGRAMS, -1)
    emptied(e, program)


@writes("cuStreamGetCaptureInfo_v2")
def capture_state(e, number, stream, status, name, graph, nodes, count):
    found = e.get(e.run("stream_of", stream), GRAPH)
    e.put_int(e.f.cast("zext", e.some(found), i64), status)
    e.stop(e.zero(found), 0)
    e.f.when(e.some(graph), lambda: e.put(found, graph))
    e.f.when(e.some(nodes), lambda: e.put(e.f.add(found, 8 * TAIL), nodes))  # a list of one: its last command
    e.f.when(e.some(count), lambda: e.put(e.f.select(e.some(e.get(found, HEAD)), constant(i64, 1), constant(i64, 0)),
                                          count))


@writes("cuGraphExecKernelNodeSetParams_v2")
def node_set(e, number, program, node, given):
    def one(at):
        command = at[0]

        def changed():
            pointers = e.get(given, 5)
            e.f.loop(0, e.get(command, ARGUMENTS), 1, [], lambda k, _: e.put(
                e.get(e.get(pointers, k)), command, e.f.add(k, COMMAND)))

        e.f.when(e.f.compare("==", e.get(command, NODE), node), changed)
        return [e.get(command, NEXT)]

    e.f.while_loop([e.get(program, HEAD)], lambda at: e.some(at[0]), one)
    e.note(number, 0, program, node, 0, 0)

"""What the entries of the stand-in for NVIDIA's library do, as code that is generated."""
from __future__ import annotations

from rushlight._src.devices.cpu.llvm.types import f32, i32, i64, ptr
from rushlight._src.devices.cpu.llvm.values import constant

from .stub import (A, ARGUMENTS, B, BASE, BLOCKS, BROKEN, BUSY, C, CAPTURES, COMMAND, CONNECTED, COPY, DEVICES, DIRTY,
                   DONE, ENTRY, EVENTS, FILL, FIRST, GRANULARITY, GRAPH, GRAPHS, HANDLES, HEAD, HEADER, HELD, HOST,
                   INVALID, INVALIDATED, JOURNAL, KEY, KIND, LAUNCH, LAZY, LENGTH, LIMIT, MAKER, MAPPINGS, MARK, NEXT,
                   NODE, NOTE, NOT_READY, NO_MEMORY, ORIGIN, OWNER, PEERS, PINNED, PROGRAMS, QUEUES, RECORDED, RELAXED,
                   RESERVATIONS, RESERVED, ROOM, STREAMS, TAIL, TIME, UNJOINED, UNSUPPORTED, VERSION, WAIT, WHERE,
                   WRONG_HANDLE, owned, refused, waited, writes)

ATTRIBUTES = {75: 9, 76: 0, 16: 4, 10: 32, 39: 2048}  # (9, 0), 4 multiprocessors, lanes of a warp, threads
TEXT, BUS, SLOT = (int.from_bytes(text, "little") for text in (b"a stub", b"0000:00:", b"10.0"))  # slots 10, 11
READ, WRITE, PRIVATE, FIXED = 1, 2, 0x4022, 0x10  # of mmap: PRIVATE is MAP_PRIVATE, MAP_ANONYMOUS and MAP_NORESERVE


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


@writes("cuDeviceGetPCIBusId")
def bus(e, number, out, size, index):
    e.put(BUS, out)
    e.put(e.f.add(SLOT, e.f.mul(index, 1 << 8)), out, 1)


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


@writes("cuCtxEnablePeerAccess")
def connect(e, number, context, flags):
    """Twice is refused, as is a device itself; PEERS has a bit for each way, 8 devices at most."""
    one, other = e.run("current"), e.f.sub(context, 1)
    e.stop(e.f.compare("==", one, other), INVALID)
    way = e.f.shl(constant(i64, 1), e.f.add(e.f.mul(one, 8), other))
    e.stop(e.some(e.f.and_(e.field(PEERS), way)), CONNECTED)
    e.set(PEERS, e.f.or_(e.field(PEERS), way))
    e.note(number, 0, context, 0, 0, 0)


# --- memory -----------------------------------------------------------------------------------------------------------
def allocated(e, number, out, nbytes, live):
    refused(e)
    e.stop(e.zero(nbytes), INVALID)
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


@writes("cuCtxGetStreamPriorityRange")
def priorities(e, number, lowest, highest):
    e.put_int(0, lowest)
    e.put_int(-5, highest)


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
    e.stop(e.f.or_(e.zero(e.get(first, VERSION)), e.zero(e.get(last, VERSION))), WRONG_HANDLE)
    for event in (first, last):
        e.stop(e.f.compare("<", e.get(event, DONE), e.get(event, VERSION)), NOT_READY)
    time = e.f.sub(e.get(last, TIME), e.get(first, TIME))
    e.f.store(e.f.cast("sitofp", time, f32), e.place(out), 1)


# --- kernels ----------------------------------------------------------------------------------------------------------
@writes("cuLaunchKernel")
def launch(e, number, function, x, y, z, threads, ty, tz, shared, stream, pointers, extra):
    where, arguments = e.run("stream_of", stream), e.get(function, 1)
    owned(e, e.get(where, OWNER))
    e.stop(e.zero(e.f.mul(e.f.mul(e.f.mul(x, y), z), e.f.mul(e.f.mul(threads, ty), tz))), INVALID)
    e.stop(e.f.compare(">", threads, 1024), INVALID)
    e.note(number, stream, function, x, threads, e.get(where, GRAPH))
    command = e.command(LAUNCH, function, x, threads, arguments)
    e.put(command, command, NODE)
    e.f.loop(0, arguments, 1, [], lambda k, _: e.put(e.get(e.get(pointers, k)), command, e.f.add(k, COMMAND)))
    e.run("submit", where, command)


@writes("cuLaunchHostFunc")
def host_function(e, number, stream, function, data):
    where = e.run("stream_of", stream)
    e.note(number, stream, function, data, 0, e.get(where, GRAPH))
    e.run("submit", where, e.command(HOST, function, data, 0))


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


# --- memory apart from its addresses ----------------------------------------------------------------------------------
def aligned(e, *values):
    """What is no multiple of the granularity is refused."""
    bits = values[0]
    for value in values[1:]:
        bits = e.f.or_(bits, value)
    e.stop(e.some(e.f.and_(bits, GRANULARITY - 1)), INVALID)


def pages(e, address, nbytes, access):
    """Pages at an address, of zeros, that nobody has touched."""
    place = constant(ptr, 0) if address is None else e.place(address)
    return e.f.cast("ptrtoint", e.f.call("mmap", [place, nbytes, constant(i32, access), constant(
        i32, PRIVATE if address is None else PRIVATE | FIXED), constant(i32, -1), constant(i64, 0)], ptr), i64)


def entered_in(e, word, address, nbytes, held):
    """Enters a reservation or a mapping in its list."""
    made = e.made(ENTRY)
    for k, value in ((0, e.field(word)), (BASE, address), (LENGTH, nbytes), (HELD, held)):
        e.put(value, made, k)
    e.set(word, made)


def across(e, word, address, nbytes, each):
    """What ``each(entry)`` adds up to over the entries of a list that have some of these addresses."""
    def one(at):
        begin, size = e.get(at[0], BASE), e.get(at[0], LENGTH)
        meets = e.f.and_(e.f.compare("<", begin, e.f.add(address, nbytes)),
                         e.f.compare("<", address, e.f.add(begin, size)))
        found, = e.f.when(meets, lambda: [each(at[0])], lambda: [constant(i64, 0)])
        return [e.get(at[0], NEXT), e.f.add(at[1], found)]

    return e.f.while_loop([e.field(word), constant(i64, 0)], lambda at: e.some(at[0]), one)[1]


def taken_from(e, word, address, nbytes):
    """Takes the entry with exactly these addresses out of a list; what it held, -1 where there is none."""
    def one(at):
        same = e.f.and_(e.f.compare("==", e.get(at[0], BASE), address),
                        e.f.compare("==", e.get(at[0], LENGTH), nbytes))
        following = e.get(at[0], NEXT)

        def out():
            held = e.get(at[0], HELD)
            e.f.when(e.zero(at[1]), lambda: e.set(word, following), lambda: e.put(following, at[1], NEXT))
            e.freed(at[0])
            return [held, at[1]]

        found, before = e.f.when(same, out, lambda: [at[2], at[0]])
        return [following, before, found]

    return e.f.while_loop([e.field(word), constant(i64, 0), constant(i64, -1)], lambda at: e.some(at[0]), one)[2]


@writes("cuMemGetAllocationGranularity")
def granularity(e, number, out, properties, option):
    e.put(GRANULARITY, out)


@writes("cuMemAddressReserve")
def address_reserve(e, number, out, nbytes, alignment, address, flags):
    aligned(e, nbytes)
    room = e.f.add(nbytes, GRANULARITY)
    found = pages(e, None, room, 0)
    e.stop(e.f.compare("==", found, -1), NO_MEMORY)
    first = e.f.and_(e.f.add(found, GRANULARITY - 1), -GRANULARITY)
    entered_in(e, RESERVATIONS, first, nbytes, found)
    e.put(first, out)
    e.note(number, 0, first, nbytes, 0, 0)


@writes("cuMemAddressFree")
def address_free(e, number, address, nbytes):
    e.stop(e.some(across(e, MAPPINGS, address, nbytes, lambda entry: constant(i64, 1))), INVALID)
    found = taken_from(e, RESERVATIONS, address, nbytes)
    e.stop(e.f.compare("==", found, -1), INVALID)
    e.f.call("munmap", [e.place(found), e.f.add(nbytes, GRANULARITY)], i32)
    e.note(number, 0, address, nbytes, 0, 0)


@writes("cuMemCreate")
def memory_create(e, number, out, nbytes, properties, flags):
    aligned(e, nbytes)
    e.stop(e.f.compare("!=", e.get(properties, 0), 1), INVALID)  # pinned, no handle for other processes
    e.stop(e.f.compare(">", e.f.add(e.field(RESERVED), nbytes), e.field(LIMIT)), NO_MEMORY)
    made = e.made(ENTRY)
    e.put(nbytes, made, LENGTH)
    e.put(1, made, HELD)
    e.count(RESERVED, nbytes)
    e.count(HANDLES)
    e.put(made, out)
    e.note(number, 0, made, nbytes, 0, 0)


def released(e, handle):
    """One less has the memory of a handle."""
    left = e.f.sub(e.get(handle, HELD), 1)
    e.put(left, handle, HELD)

    def gone():
        e.count(RESERVED, e.f.sub(0, e.get(handle, LENGTH)))
        e.count(HANDLES, -1)
        e.freed(handle)

    e.f.when(e.zero(left), gone)


@writes("cuMemRelease")
def memory_release(e, number, handle):
    e.note(number, 0, handle, 0, 0, 0)
    released(e, handle)


@writes("cuMemMap")
def memory_map(e, number, address, nbytes, offset, handle, flags):
    aligned(e, address, nbytes, offset)
    e.stop(e.f.compare("!=", e.get(handle, LENGTH), nbytes), INVALID)
    e.stop(e.some(across(e, MAPPINGS, address, nbytes, lambda entry: constant(i64, 1))), INVALID)  # mapped already

    def within(entry):
        begin = e.get(entry, BASE)
        end, last = e.f.add(begin, e.get(entry, LENGTH)), e.f.add(address, nbytes)
        return e.f.cast("zext", e.f.and_(e.f.compare("<=", begin, address), e.f.compare("<=", last, end)), i64)

    e.stop(e.zero(across(e, RESERVATIONS, address, nbytes, within)), INVALID)  # not reserved
    e.put(e.f.add(e.get(handle, HELD), 1), handle, HELD)
    entered_in(e, MAPPINGS, address, nbytes, handle)
    e.note(number, 0, address, nbytes, handle, 0)


@writes("cuMemSetAccess")
def memory_access(e, number, address, nbytes, access, count):
    mapped = across(e, MAPPINGS, address, nbytes, lambda entry: e.get(entry, LENGTH))
    e.stop(e.f.compare("!=", mapped, nbytes), INVALID)
    pages(e, address, nbytes, READ | WRITE)
    e.note(number, 0, address, nbytes, 0, 0)


@writes("cuMemUnmap")
def memory_unmap(e, number, address, nbytes):
    def waiting(at):
        return [e.get(at[0], NEXT), e.f.add(at[1], e.f.cast("zext", e.some(e.get(at[0], HEAD)), i64))]

    _, busy = e.f.while_loop([e.field(STREAMS), constant(i64, 0)], lambda at: e.some(at[0]), waiting)
    e.stop(e.some(busy), BUSY)
    handle = taken_from(e, MAPPINGS, address, nbytes)
    e.stop(e.f.compare("==", handle, -1), INVALID)
    pages(e, address, nbytes, 0)
    e.note(number, 0, address, nbytes, 0, 0)
    released(e, handle)

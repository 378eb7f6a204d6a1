"""A stand-in for NVIDIA's ``libcudnn.so``: its backend of descriptors, made by our own code generator and linker.

It refuses what the library refuses: attributes that a kind of descriptor does not have, of another type or count, set
after a descriptor was finalized; descriptors finalized without what they need, or that refer to others that are not, or
are of another kind; tensors without sizes; executions without a stream's handle.  An execution is a launch of the
kernel "cudnnExecute" of the stand-in for the driver; ``dnn_numpy.py`` walks the graph's descriptors and computes it.
"""
from __future__ import annotations

from rushlight._src.devices.cpu.llvm import jit
from rushlight._src.devices.cpu.llvm.builder import Module
from rushlight._src.devices.cpu.llvm.types import i32, i64, ptr
from rushlight._src.devices.cpu.llvm.values import Value, constant
from rushlight._src.packages.objects import SharedObject

from .stub import Entry

LAUNCH, FUNCTION, EXECUTED, STREAM, FINALIZED, VERSION, RANK = range(7)  # words of the state; of the last engine
WORDS = 16
DESCRIPTOR, HANDLE = 0x0D221, 0x0D222  # first words
KIND, DONE, SLOTS = 1, 2, 3  # of a descriptor; then for each row of ATTRIBUTES its count and where the elements lie
BAD, NOT_DONE, WRONG_TYPE, WRONG_KIND, UNSUPPORTED = 2000, 2004, 2010, 2012, 3000
# of an element, by type
BYTES = {0: 8, 1: 4, 2: 1, 3: 8, 4: 4, 5: 8, 6: 8, 7: 4, 8: 4, 11: 4, 14: 4, 15: 8, 18: 4, 24: 1}
(POINTWISE, ENGINE, CONFIGURATION, HEURISTICS, PLAN, POINTED, GRAPH, PACK, TENSOR, MATMUL, MULTIPLIED, REDUCTION,
 REDUCED,
 RESHAPED) = 0, 2, 3, 4, 5, 13, 15, 16, 17, 18, 19, 21, 22, 31
CONVOLUTION, FORWARD, FILTER, DATA = 1, 10, 11, 12
OPERATIONS = POINTED, MULTIPLIED, REDUCED, RESHAPED, FORWARD, FILTER, DATA
REALS = 4, 5  # types that a factor may have
# attribute: (kind of descriptor, type, least and most elements, whether it is needed, kinds that it refers to)
ATTRIBUTES = {
    0: (POINTWISE, 14, 1, 1, True, ()), 1: (POINTWISE, 1, 1, 1, True, ()), 9: (POINTWISE, 3, 1, 1, False, ()),
    750: (POINTED, 15, 1, 1, True, (POINTWISE,)), 751: (POINTED, 15, 1, 1, True, (TENSOR,)),
    752: (POINTED, 15, 1, 1, False, (TENSOR,)), 753: (POINTED, 15, 1, 1, True, (TENSOR,)),
    758: (POINTED, 15, 1, 1, False, (TENSOR,)),
    200: (HEURISTICS, 8, 1, 1, True, ()), 201: (HEURISTICS, 15, 1, 1, True, (GRAPH,)),
    400: (PLAN, 0, 1, 1, True, ()), 401: (PLAN, 15, 1, 1, True, (CONFIGURATION,)),
    800: (GRAPH, 0, 1, 1, True, ()), 801: (GRAPH, 15, 1, 64, True, OPERATIONS),
    900: (TENSOR, 3, 1, 1, True, ()), 901: (TENSOR, 1, 1, 1, True, ()), 902: (TENSOR, 3, 1, 8, True, ()),
    903: (TENSOR, 3, 1, 8, True, ()), 906: (TENSOR, 3, 1, 1, True, ()), 907: (TENSOR, 2, 1, 1, False, ()),
    908: (TENSOR, 2, 1, 1, False, ()),
    1000: (PACK, 3, 0, 64, True, ()), 1001: (PACK, 6, 0, 64, True, ()), 1003: (PACK, 6, 1, 1, True, ()),
    1500: (MATMUL, 1, 1, 1, True, ()),
    1520: (MULTIPLIED, 15, 1, 1, True, (TENSOR,)), 1521: (MULTIPLIED, 15, 1, 1, True, (TENSOR,)),
    1522: (MULTIPLIED, 15, 1, 1, True, (TENSOR,)), 1523: (MULTIPLIED, 15, 1, 1, True, (MATMUL,)),
    1600: (REDUCTION, 18, 1, 1, True, ()), 1601: (REDUCTION, 1, 1, 1, True, ()),
    1610: (REDUCED, 15, 1, 1, True, (TENSOR,)), 1611: (REDUCED, 15, 1, 1, True, (TENSOR,)),
    1612: (REDUCED, 15, 1, 1, True, (REDUCTION,)),
    100: (CONVOLUTION, 1, 1, 1, True, ()), 101: (CONVOLUTION, 7, 1, 1, True, ()),
    **{number: (CONVOLUTION, 3, 1, 8, True, ()) for number in (102, 103, 104, 105)},
    106: (CONVOLUTION, 3, 1, 1, True, ()),
    **{first + k: row for first, kind in ((700, FORWARD), (706, DATA), (712, FILTER)) for k, row in enumerate((
        (kind, REALS, 1, 1, True, ()), (kind, REALS, 1, 1, True, ()), (kind, 15, 1, 1, True, (CONVOLUTION,)),
        *((kind, 15, 1, 1, True, (TENSOR,)),) * 3))},
    2200: (RESHAPED, 15, 1, 1, True, (TENSOR,)), 2201: (RESHAPED, 15, 1, 1, True, (TENSOR,))}
ROWS = {number: row for row, number in enumerate(ATTRIBUTES)}
KINDS = sorted({row[0] for row in ATTRIBUTES.values()} | {CONFIGURATION, ENGINE})
ENTRIES = (("cudnnCreate", "p"), ("cudnnSetStream", "pp"), ("cudnnBackendCreateDescriptor", "ip"),
           ("cudnnBackendDestroyDescriptor", "p"), ("cudnnBackendSetAttribute", "piizp"),
           ("cudnnBackendGetAttribute", "piizpp"), ("cudnnBackendFinalize", "p"), ("cudnnBackendExecute", "ppp"))
NAMES = [name for name, _ in ENTRIES]
ENGINES, WORKSPACE = 2, 512
NOTES = (0, 4), ()  # of each engine: tensor cores and no fixed order
OWN = SLOTS + 2 * len(ROWS)  # words of a configuration behind its slots: its graph, and its engine's rank
WRITERS = {}


def writes(name: str):
    def enter(function):
        WRITERS["cudnn" + name] = function
        return function
    return enter


def slot(number: int) -> int:
    return SLOTS + 2 * ROWS[number]


def is_a(e, place):
    e.stop(e.zero(place), 2002)
    e.stop(e.f.compare("!=", e.get(place), DESCRIPTOR), BAD)


def new(e, kind):
    made = e.made(OWN + 2)
    e.put(DESCRIPTOR, made)
    e.put(kind, made, KIND)
    return made


@writes("Create")
def create(e, out):
    made = e.made(2)
    e.put(HANDLE, made)
    e.put(made, out)


@writes("SetStream")
def set_stream(e, handle, stream):
    e.stop(e.f.compare("!=", e.get(handle), HANDLE), BAD)
    e.put(stream, handle, 1)


@writes("BackendCreateDescriptor")
def descriptor(e, kind, out):
    known = e.f.compare("==", kind, -1)
    for number in KINDS:
        known = e.f.or_(known, e.f.compare("==", kind, number))
    e.stop(e.f.xor(known, True), UNSUPPORTED)
    e.put(new(e, kind), out)


@writes("BackendDestroyDescriptor")
def destroy(e, place):
    is_a(e, place)  # its memory stays: executions that are not done yet refer to it


@writes("BackendSetAttribute")
def set_attribute(e, place, number, kind, count, source):
    is_a(e, place)
    e.stop(e.some(e.get(place, DONE)), BAD)
    e.stop(e.zero(source), 2002)
    known = e.f.compare("==", number, -1)
    for attribute, (owner, wanted, least, most, _, _) in ATTRIBUTES.items():
        here = e.f.compare("==", number, attribute)
        known = e.f.or_(known, here)
        e.stop(e.f.and_(here, e.f.compare("!=", e.get(place, KIND), owner)), BAD)
        right = e.f.compare("!=", number, number)
        for one in wanted if isinstance(wanted, tuple) else (wanted,):
            right = e.f.or_(right, e.f.compare("==", kind, one))
        e.stop(e.f.and_(here, e.f.xor(right, True)), WRONG_TYPE)
        e.stop(e.f.and_(here, e.f.or_(e.f.compare("<", count, least), e.f.compare(">", count, most))), BAD)

        def kept(attribute=attribute, wanted=wanted):
            widest = max(BYTES[one] for one in (wanted if isinstance(wanted, tuple) else (wanted,)))
            nbytes = e.f.mul(count, e.f.select(e.f.compare("==", kind, 4), constant(i64, 4), constant(i64, widest)))
            made = e.made(e.f.add(count, 1))
            e.f.call("memcpy", [e.place(made), e.place(source), nbytes], ptr)
            e.put(count, place, slot(attribute))
            e.put(made, place, slot(attribute) + 1)

        e.f.when(here, kept)
    e.stop(e.f.xor(known, True), UNSUPPORTED)


@writes("BackendGetAttribute")
def get_attribute(e, place, number, kind, most, count, out):
    is_a(e, place)
    e.stop(e.zero(e.get(place, DONE)), NOT_DONE)
    proposals, room, engine, notes = (e.f.compare("==", number, attribute) for attribute in (202, 402, 300, 1303))
    e.stop(e.f.xor(e.f.or_(e.f.or_(proposals, room), e.f.or_(engine, notes)), True), UNSUPPORTED)
    e.stop(e.f.and_(engine, e.f.compare("!=", e.get(place, KIND), CONFIGURATION)), BAD)
    e.stop(e.f.and_(notes, e.f.compare("!=", e.get(place, KIND), ENGINE)), BAD)
    e.stop(e.f.and_(proposals, e.f.compare("!=", e.get(place, KIND), HEURISTICS)), BAD)
    e.stop(e.f.and_(room, e.f.compare("!=", e.get(place, KIND), PLAN)), BAD)

    def proposed():
        found = e.f.select(e.zero(most), constant(i64, ENGINES), e.f.minimum(most, ENGINES))
        e.put(found, count)

        def one(k, _):
            target = e.get(out, k)
            e.put(e.get(e.get(place, slot(201) + 1)), target, OWN)
            e.put(k, target, OWN + 1)
            e.put(1, target, DONE)

        e.f.when(e.some(most), lambda: e.f.loop(0, found, 1, [], one))

    def workspace():
        e.put(1, count)
        e.put(WORKSPACE, out)

    def told():
        e.put(1, count)
        e.put(1, e.get(out), DONE)
        e.put(e.get(place, OWN + 1), e.get(out), OWN + 1)

    def noted():
        e.put(0, count)
        for rank, known in enumerate(NOTES):
            def listed(known=known):
                e.put(len(known), count)
                for at, one in enumerate(known):
                    e.put_int(one, e.f.add(out, 4 * at))
            e.f.when(e.f.compare("==", e.get(place, OWN + 1), rank), listed)

    for here, run in ((proposals, proposed), (room, workspace), (engine, told), (notes, noted)):
        e.f.when(here, run)


@writes("BackendFinalize")
def finalize(e, place):
    is_a(e, place)
    e.stop(e.some(e.get(place, DONE)), BAD)
    for attribute, (owner, kind, _, _, needed, others) in ATTRIBUTES.items():
        here = e.f.compare("==", e.get(place, KIND), owner)
        if needed:
            e.stop(e.f.and_(here, e.zero(e.get(place, slot(attribute) + 1))), BAD)
        if others:
            wrong, = e.f.when(here, lambda attribute=attribute, others=others: [refers(e, place, attribute, others)],
                              lambda: [constant(i64, 0)])
            e.stop(e.some(wrong), wrong)
        if kind == 0:
            def handled(attribute=attribute):
                return [e.f.cast("zext", e.f.compare("!=", e.get(e.get(e.get(place, slot(attribute) + 1))), HANDLE),
                                 i64)]
            wrong, = e.f.when(here, handled, lambda: [constant(i64, 0)])
            e.stop(e.some(wrong), BAD)
    tensor = e.f.compare("==", e.get(place, KIND), TENSOR)
    e.stop(e.f.and_(tensor, e.f.compare("!=", e.get(place, slot(902)), e.get(place, slot(903)))), BAD)
    pack = e.f.compare("==", e.get(place, KIND), PACK)
    e.stop(e.f.and_(pack, e.f.compare("!=", e.get(place, slot(1000)), e.get(place, slot(1001)))), BAD)
    e.put(1, place, DONE)
    e.count(FINALIZED)


def refers(e, place, attribute: int, others: tuple):
    """The status of descriptors that one refers to: 0 where all are finalized, and of these kinds."""
    def one(k, state):
        other = e.get(e.get(place, slot(attribute) + 1), k)
        known = e.f.compare("==", e.get(other, KIND), -1)
        for kind in others:
            known = e.f.or_(known, e.f.compare("==", e.get(other, KIND), kind))
        status = e.f.select(e.f.and_(known, e.f.compare("==", e.get(other), DESCRIPTOR)), e.f.select(
            e.some(e.get(other, DONE)), constant(i64, 0), constant(i64, NOT_DONE)), constant(i64, WRONG_KIND))
        return [e.f.select(e.some(state[0]), state[0], status)]

    return e.f.loop(0, e.get(place, slot(attribute)), 1, [constant(i64, 0)], one)[0]


@writes("BackendExecute")
def execute(e, handle, plan, pack):
    e.stop(e.f.compare("!=", e.get(handle), HANDLE), BAD)
    for place, kind in ((plan, PLAN), (pack, PACK)):
        is_a(e, place)
        e.stop(e.f.compare("!=", e.get(place, KIND), kind), WRONG_KIND)
        e.stop(e.zero(e.get(place, DONE)), NOT_DONE)
    e.stop(e.f.compare("!=", e.get(e.get(plan, slot(400) + 1)), handle), BAD)
    count = e.get(pack, slot(1000))
    configuration = e.get(e.get(plan, slot(401) + 1))
    graph = e.get(configuration, OWN)
    e.put(e.get(configuration, OWN + 1), e.state, RANK)
    held = e.made(e.f.add(e.f.mul(count, 3), 1))  # what the pack has, and the words that lie there now
    e.put(count, held)

    def one(k, _):
        at = e.f.add(held, e.f.add(e.f.mul(k, 24), 8))
        address = e.get(e.get(pack, slot(1001) + 1), k)
        e.put(e.get(e.get(pack, slot(1000) + 1), k), at)
        e.put(address, at, 1)
        e.put(e.f.cast("zext", e.f.load(i32, e.place(address), 1), i64), at, 2)

    e.f.loop(0, count, 1, [], one)
    values = e.made(4)
    for number, value in enumerate((graph, held, e.f.add(values, 0), e.f.add(values, 8))):
        e.put(value, values, number)
    e.count(EXECUTED)
    one = constant(i32, 1)
    got = e.f.call_pointer(e.place(e.field(LAUNCH)), [
        e.place(e.field(FUNCTION)), one, one, one, one, one, one, constant(i32, 0), e.place(e.get(handle, 1)),
        e.place(e.f.add(values, 16)), constant(ptr, 0)], i32)
    e.freed(values)
    e.stop(e.f.compare("!=", got, constant(i32, 0)), 5000)


def text() -> str:
    """The library as IR."""
    module = Module()
    module.data("state", f"[{WORDS} x i64]")
    f = module.function("stub_state", [], ptr)
    f.ret(Value("@state", ptr))
    f = module.function("cudnnGetVersion", [], i64)
    f.ret(f.load(i64, f.offset(Value("@state", ptr), VERSION, i64)))
    e = Entry(module, "cudnnGetErrorString", "i", ptr)
    e.f.ret(e.place(e.state, WORDS - 2))
    for name, kinds in ENTRIES:
        e = Entry(module, name, kinds)
        status = WRITERS[name](e, *e.given)
        e.f.ret(constant(i32, 0) if status is None else e.f.cast("trunc", status, i32))
    return module.text()


def image() -> bytes:
    """The file."""
    made = SharedObject()
    made.add_object(jit.compile_object(text()))
    return made.image((*NAMES, "cudnnGetVersion", "cudnnGetErrorString", "stub_state"), "libcudnn-stand-in.so.9")

"""The thread pool that kernels run on, and the runner of programs, both generated code.

A region is `extent` units cut into chunks of `grain`. Caller and workers claim chunks from one atomic ticket
(generation, chunk count, next chunk), so a worker that wakes late costs nothing: the caller waits only for chunks that
were started.  Both spin for a while, then sleep on a futex: if other programs use the CPUs, a caller must not spend its
share on waiting. For many threads, chunks are only as small as is needed to keep all of them busy, since claims of one
ticket are serialized; workers of high indices, for which a small region has no chunks, read only the cache line that
announces it. Workers start lazily, which is also how the pool survives a fork. A region started while another one runs
(from a kernel, or from a second Python thread) is run by its caller alone, chunk by chunk.
"""

import atexit
import ctypes
import functools
import threading

from ....core.forking import guarded
from ....core.llvm.loaded import callable_at
from ....core.llvm.machine import forever
from ....core.platform import here
from ....core.settings import settings
from . import jit
from .builder import Module
from .values import Value, constant
from .features import host, targeting
from .systems import system
from .types import i32, i64, ptr

SPIN = 6000          # pauses before a worker sleeps: some 100 us
JOIN_SPIN = 20000    # pauses before a waiting caller sleeps: some 300 us
MAX_THREADS = 1024
MANY = 16            # chunks for each thread: finer ones would only be claimed more often
_CHUNK_BITS = 20     # chunks of a region, and the next one to claim, in the ticket
_CHUNK_MASK = (1 << _CHUNK_BITS) - 1

# Offsets in the pool's state. Fields that different threads write at different times are in different cache lines.
_STATE = {"generation": 0, "wanted": 8, "ticket": 64, "done": 128, "joining": 136, "sleepers": 192, "busy": 256,
          "kernel": 320,
          "args": 328, "extent": 336, "grain": 344, "threads": 384, "started": 392, "stopping": 400, "handles": 448}
_STATE_BYTES = 448 + 8 * MAX_THREADS


def _field(b, name):
    return b.offset(Value("@state", ptr), _STATE[name])


def _pause(b):
    if b.features.is_x86:
        b.call("llvm.x86.sse2.pause", [])


def _wait(b, word, value):
    """Sleep while a word of the state has a value."""
    system().wait(b, _field(b, word), value)


def _wake(b, word, count):
    """Wake threads that sleep on a word of the state."""
    system().wake(b, _field(b, word), count)


def _write_chunk(module):
    """Emit the function that runs one chunk of a region."""
    f = module.function("run_chunk", [("kernel", ptr), ("args", ptr), ("extent", i64), ("grain", i64), ("chunk", i64),
                                      ("worker", i64)], internal=True)
    kernel, args, extent, grain, chunk, worker = f.parameters
    begin = f.mul(chunk, grain)
    f.call_pointer(kernel, [args, begin, f.minimum(f.add(begin, grain), extent), worker])
    f.ret()
    return f


def _write_drain(module, run_chunk):
    """Emit the function that claims and runs chunks of the current region until none is left."""
    f = module.function("drain", [("worker", i64)], internal=True)
    ticket, done = _field(f, "ticket"), _field(f, "done")
    claim, attempt, run, out = (f.new_block(name) for name in ("claim", "attempt", "run", "out"))

    def position(value):
        return f.and_(value, _CHUNK_MASK), f.and_(f.lshr(value, _CHUNK_BITS), _CHUNK_MASK)

    f.branch(claim)
    f.at(claim)
    # looking first keeps late workers from pushing the counter into the next field
    following, count = position(f.atomic_load(i64, ticket))
    f.branch_if(f.compare("<", following, count), attempt, out)
    f.at(attempt)
    chunk, count = position(f.atomic_update("add", ticket, constant(i64, 1)))
    f.branch_if(f.compare("<", chunk, count), run, out)
    f.at(run)
    # a claimed chunk keeps its region alive, so these fields are its own
    kernel, args = f.load(ptr, _field(f, "kernel")), f.load(ptr, _field(f, "args"))
    extent, grain = f.load(i64, _field(f, "extent")), f.load(i64, _field(f, "grain"))
    f.call(run_chunk, [kernel, args, extent, grain, chunk, f.parameters[0]])
    f.atomic_update("add", done, constant(i64, 1), "seq_cst")
    asleep = f.compare("!=", f.atomic_load(i32, _field(f, "joining"), "seq_cst"), 0)
    f.when(asleep, lambda: _wake(f, "done", constant(i32, 1)))
    f.branch(claim)
    f.at(out)
    f.ret()
    return f


def _write_worker(module, drain):
    """Emit the main loop of a worker: wait for a new generation, help, repeat, until the pool stops."""
    f = module.function("worker", [("number", ptr)], ptr, internal=True)
    number = f.cast("ptrtoint", f.parameters[0], i64)
    generation, sleepers = _field(f, "generation"), _field(f, "sleepers")
    wait, spin, pause, sleep, check, nap, awake, work, choose, help_, over, leave = (f.new_block(name) for name in (
        "wait", "spin", "pause", "sleep", "check", "nap", "awake", "work", "choose", "help", "over", "leave"))
    entry = f.block
    f.branch(wait)
    f.at(wait)
    seen = f.phi(i32, (constant(i32, 0), entry))
    f.branch(spin)
    f.at(spin)
    left = f.phi(i32, (constant(i32, SPIN), wait))
    fresh = f.compare("!=", f.atomic_load(i32, generation), seen.value)
    f.branch_if(fresh, work, pause)
    f.at(pause)
    _pause(f)
    fewer = f.sub(left.value, 1)
    left.add(fewer, pause)
    f.branch_if(f.compare(">", fewer, 0), spin, sleep)
    f.at(sleep)
    f.atomic_update("add", sleepers, constant(i32, 1), "seq_cst")
    f.branch(check)
    f.at(check)
    same = f.compare("==", f.atomic_load(i32, generation, "seq_cst"), seen.value)
    f.branch_if(same, nap, awake)
    f.at(nap)
    _wait(f, "generation", seen.value)
    f.branch(check)
    f.at(awake)
    f.atomic_update("sub", sleepers, constant(i32, 1), "seq_cst")
    f.branch(work)
    f.at(work)
    # a woken worker helps, whatever its index: it was woken in place of others
    woken = f.phi(i64, (constant(i64, 0), spin), (constant(i64, MAX_THREADS), awake))
    current = f.atomic_load(i32, generation)  # before the wanted count, or the end could be missed
    most = f.maximum(f.atomic_load(i64, _field(f, "wanted")), woken.value)
    f.branch_if(f.compare("<=", number, most), choose, over)
    f.at(choose)
    stopping = f.compare("!=", f.atomic_load(i64, _field(f, "stopping")), 0)
    f.branch_if(stopping, leave, help_)
    f.at(help_)
    f.call(drain, [number])
    f.branch(over)
    f.at(over)
    seen.add(current, over)
    f.branch(wait)
    f.at(leave)
    f.ret(constant(ptr, 0))
    return f


def _publish(b, wake):
    """Announce a new generation to the first `wake` workers, waking as many sleepers."""
    generation = _field(b, "generation")
    b.atomic_store(b.cast("sext", wake, i64), _field(b, "wanted"))
    b.atomic_store(b.add(b.load(i32, generation), 1), generation, "seq_cst")
    asleep = b.compare("!=", b.atomic_load(i32, _field(b, "sleepers"), "seq_cst"), 0)
    b.when(asleep, lambda: _wake(b, "generation", wake))


def _write_start(module, worker):
    """Emit the function that starts missing workers."""
    f = module.function("start", [], internal=True)
    started, threads = _field(f, "started"), f.load(i64, _field(f, "threads"))

    def one(number, _):
        handle = f.offset(_field(f, "handles"), number, i64)
        failed = system().start(f, handle, "worker", f.cast("inttoptr", number, ptr))
        # with fewer threads than wished for, the caller simply claims more chunks
        f.when(f.compare("==", failed, 0), lambda: f.store(f.add(number, 1), started))

    if system().threads:
        f.loop(f.load(i64, started), threads, 1, [], one)
    f.ret()
    return f


def _write_stop(module):
    """Emit the function that ends all workers and waits for them. The caller makes sure that no region runs."""
    f = module.function("pool_stop", [])
    started = _field(f, "started")
    f.atomic_store(constant(i64, 1), _field(f, "stopping"), "seq_cst")
    # a drained ticket: a worker that is late for the last region finds nothing
    f.atomic_store(constant(i64, 0), _field(f, "ticket"))
    _publish(f, constant(i32, MAX_THREADS))

    def join(number, _):
        handle = f.load(i64, f.offset(_field(f, "handles"), number, i64))
        system().join(f, handle)

    if system().threads:
        f.loop(1, f.load(i64, started), 1, [], join)
    f.call("pool_forget", [])
    f.ret()


def _write_forget(module):
    """Emit the function that resets the pool: after stopping, and in the child of a fork."""
    f = module.function("pool_forget", [])
    for name in ("ticket", "done", "busy", "stopping"):
        f.store(constant(i64, 0), _field(f, name))
    for name in ("generation", "sleepers", "joining"):
        f.store(constant(i32, 0), _field(f, name))
    f.store(constant(i64, 1), _field(f, "started"))
    f.ret()


def _write_run_alone(module, run_chunk):
    """Emit the function that runs all chunks of a region in the calling thread, as worker 0."""
    f = module.function("run_alone", [("kernel", ptr), ("args", ptr), ("extent", i64), ("grain", i64), ("chunks", i64)],
                        internal=True)
    kernel, args, extent, grain, chunks = f.parameters
    f.loop(0, chunks, 1, [], lambda chunk, _: f.call(run_chunk, [kernel, args, extent, grain, chunk, constant(i64, 0)]))
    f.ret()
    return f


def _write_run(module, drain, start, run_alone):
    """The entry: `pool_run(kernel, args, extent, grain)`."""
    f = module.function("pool_run", [("kernel", ptr), ("args", ptr), ("extent", i64), ("grain", i64)])
    kernel, args, extent, grain = f.parameters
    small, large, alone, claim, together, join, again, sleep, check, nap, awake, out = (f.new_block(n) for n in (
        "small", "large", "alone", "claim", "together", "join", "again", "sleep", "check", "nap", "awake", "out"))
    f.branch_if(f.compare("<=", extent, grain), small, large)
    f.at(small)
    f.call_pointer(kernel, [args, constant(i64, 0), extent, constant(i64, 0)])
    f.ret()

    f.at(large)
    # the ticket's chunk count is limited; coarser chunks are always allowed
    threads = f.load(i64, _field(f, "threads"))
    least = f.add(f.div(extent, f.minimum(f.mul(threads, MANY), _CHUNK_MASK // 2)), 1)
    grain = f.maximum(grain, least)
    chunks = f.div(f.add(extent, f.sub(grain, 1)), grain)
    f.branch_if(f.compare("<=", threads, 1), alone, claim)
    f.at(claim)
    _, claimed = f.compare_exchange(_field(f, "busy"), constant(i64, 0), constant(i64, 1))
    f.branch_if(claimed, together, alone)
    f.at(alone)
    f.call(run_alone, [kernel, args, extent, grain, chunks])
    f.ret()

    f.at(together)
    missing = f.compare("<", f.load(i64, _field(f, "started")), f.load(i64, _field(f, "threads")))
    f.when(missing, lambda: f.call(start, []))
    for name, value in (("kernel", kernel), ("args", args), ("extent", extent), ("grain", grain)):
        f.store(value, _field(f, name))
    f.atomic_store(constant(i64, 0), _field(f, "done"))
    generation = f.add(f.cast("zext", f.load(i32, _field(f, "generation")), i64), 1)
    ticket = f.or_(f.shl(generation, 2 * _CHUNK_BITS), f.shl(chunks, _CHUNK_BITS))
    f.atomic_store(ticket, _field(f, "ticket"))
    _publish(f, f.cast("trunc", f.sub(chunks, 1), i32))
    f.call(drain, [constant(i64, 0)])
    start_join = f.block
    f.branch(join)

    f.at(join)
    count = f.phi(i32, (constant(i32, 0), start_join))
    finished = f.compare(">=", f.atomic_load(i64, _field(f, "done")), chunks)
    f.branch_if(finished, out, again)
    f.at(again)
    _pause(f)
    more = f.add(count.value, 1)
    count.add(more, again)
    f.branch_if(f.compare(">", more, JOIN_SPIN), sleep, join)
    f.at(sleep)  # a worker that finishes a chunk counts it, then looks for a sleeper; so either sees the other
    f.atomic_store(constant(i32, 1), _field(f, "joining"), "seq_cst")
    f.branch(check)
    f.at(check)
    counted = f.atomic_load(i64, _field(f, "done"), "seq_cst")
    f.branch_if(f.compare(">=", counted, chunks), awake, nap)
    f.at(nap)
    _wait(f, "done", f.cast("trunc", counted, i32))
    f.branch(check)
    f.at(awake)
    f.atomic_store(constant(i32, 0), _field(f, "joining"))
    f.branch(out)
    f.at(out)
    f.atomic_store(constant(i64, 0), _field(f, "busy"))
    f.ret()
    return f


def _write_threads(module):
    """`pool_threads(n)` sets, `pool_lock() -> stored` and `pool_unlock()` keep regions away meanwhile."""
    f = module.function("pool_threads", [("count", i64)])
    f.store(f.parameters[0], _field(f, "threads"))
    f.ret()
    f = module.function("pool_lock", [], i64)
    _, stored = f.compare_exchange(_field(f, "busy"), constant(i64, 0), constant(i64, 1))
    f.ret(f.cast("zext", stored, i64))


def _write_step(module, pool_run):
    """Emit the function that runs one step of a program and returns the address of the next one."""
    f = module.function("run_step", [("code", ptr), ("values", ptr)], ptr, internal=True)
    code, values = f.parameters
    kernel, extent, grain, count = (f.load(kind, f.offset(code, 8 * k)) for k, kind in enumerate((ptr, i64, i64, i64)))
    pairs = f.offset(code, 32)
    args = f.alloca(i64, f.maximum(count, 1))

    def slot(k, _):
        pair = f.offset(pairs, f.mul(k, 16))
        source, number = f.load(i64, pair), f.load(i64, f.offset(pair, 8))
        base, = f.when(f.compare("<", source, 0), lambda: [constant(i64, 0)],
                       lambda: [f.load(i64, f.offset(values, source, i64))])
        f.store(f.add(base, number), f.offset(args, k, i64))

    f.loop(0, count, 1, [], slot)
    f.call(pool_run, [kernel, args, extent, grain])
    f.ret(f.offset(pairs, f.mul(count, 16)))
    return f


def _write_program(module, run_step):
    """The entry: `program_run(code, values)`."""
    f = module.function("program_run", [("code", ptr), ("values", ptr)])
    code, values = f.parameters
    f.loop(0, f.load(i64, code), 1, [f.offset(code, 8)], lambda k, at: [f.call(run_step, [at[0], values])])
    f.ret()


def _text():
    module = Module()
    module.data("state", f"[{_STATE_BYTES} x i8]")
    run_chunk = _write_chunk(module)
    drain = _write_drain(module, run_chunk)
    start = _write_start(module, _write_worker(module, drain))
    _write_forget(module)
    _write_stop(module)
    pool_run = _write_run(module, drain, start, _write_run_alone(module, run_chunk))
    _write_threads(module)
    _write_program(module, _write_step(module, pool_run))
    return module.text()


_EXPORTS = ["pool_run", "program_run", "pool_stop", "pool_forget", "pool_threads", "pool_lock"]
_lock = guarded("pool", threading.RLock())
_threads = None


def default_num_threads():
    """Number of physical cores this process may run on, or `RUSHLIGHT_NUM_THREADS` or `OMP_NUM_THREADS` if set."""
    wanted = settings.threads or settings.openmp_threads
    if wanted:
        return min(wanted, MAX_THREADS)
    return max(1, min(here.cores(), MAX_THREADS))


def built():
    """Addresses of the pool's functions for the current target (``features.targeting``), not yet in use."""
    return jit.build(f"pool {SPIN} {MANY} {system().name}", _text, _EXPORTS)


@functools.lru_cache(maxsize=None)
def addresses():
    """Addresses of `pool_run` and `program_run` (and of the pool's own upkeep) as ints, to import or to call.

    Example:
        >>> addresses()["program_run"] > 0
        True
    """
    global _threads
    with targeting(host()):  # the first call may come while code for another machine is planned
        found = forever(built())
    with _lock:
        callable_at(found["pool_forget"], ctypes.CFUNCTYPE(None))()
        _threads = default_num_threads() if system().threads else 1
        callable_at(found["pool_threads"], ctypes.CFUNCTYPE(None, ctypes.c_int64))(_threads)
        here.after_fork(callable_at(found["pool_forget"], ctypes.PYFUNCTYPE(None)))
        # workers must not outlive the interpreter that owns the buffers they read
        atexit.register(callable_at(found["pool_stop"], ctypes.CFUNCTYPE(None)))
        return found


def get_num_threads():
    """Return the number of threads a region may use, the caller included."""
    addresses()
    return _threads


def set_num_threads(count):
    """Set the number of threads regions may use; waits for a running region.

    Plans made before keep the scratch they reserved, so make plans after this call. Raises ValueError below 1 or above
    1024.
    """
    global _threads
    if not 1 <= count <= MAX_THREADS:
        raise ValueError(f"the number of threads is {count}; it must be between 1 and {MAX_THREADS}")
    if not system().threads:
        count = 1
    found = addresses()
    take = callable_at(found["pool_lock"], ctypes.CFUNCTYPE(ctypes.c_int64))
    with _lock:
        if count == _threads:
            return
        while not take():
            here.give_way()
        callable_at(found["pool_threads"], ctypes.CFUNCTYPE(None, ctypes.c_int64))(count)
        callable_at(found["pool_stop"], ctypes.CFUNCTYPE(None))()
        _threads = count


@functools.lru_cache(maxsize=None)
def caller(name, hold_gil=False):
    """A ctypes callable of "program_run" (code, values) or "pool_run" (kernel, args, extent, grain), arguments as ints.

    It releases the GIL during the call unless `hold_gil`; holding it saves some 50 ns on tiny programs.
    """
    arity = {"program_run": 2, "pool_run": 4}[name]
    make = ctypes.PYFUNCTYPE if hold_gil else ctypes.CFUNCTYPE
    return callable_at(addresses()[name], make(None, *[ctypes.c_void_p] * arity))

"""Calls on tensors of devices: which device a program runs on, what may mix, and how a device runs it.

A program runs on one device: that of its tensors, or the one that it names.  While it is traced, this is the thread's
preferred device, so that tensors made by bodies are on it too.
"""
from __future__ import annotations

from ..core.devices import cpu, device, placed, preferred
from ..core.native import LeavingDevice, Op, Plan, Tensor, mine, state
from ..core.native.hooks import connect
from ..core.native.memory import load_i64, store_i64
from ..core.native.objects import ELSEWHERE, INTO, RUN
from ..core.op import OPS, applied, body_of, parted
from ..core.tensor import empty_of, flat

INDEXING = frozenset(("_index", "_index_put", "_pick"))  # indices may be on the host
JOINING = frozenset(("cat", "stack"))  # scalar tensors are not exempt here
# they need only the shape of the second tensor
SHAPED = {"view_as": "view", "expand_as": "expand", "reshape_as": "reshape"}


def device_of(args) -> device | None:
    """Return the device of a call: that of its tensors (0-dim tensors on the host may be scalars), or the one that it
    names; None if undetermined."""
    named = host = None
    for value in flat(args):
        meta = getattr(value, "_rush_meta", None)
        if meta is not None:
            if meta.shape or not meta.device.provider.on_host:
                return meta.device
            host = meta.device
        elif type(value) is device:
            named = value
    return host or named


def mixed(args) -> bool:
    """True if the tensors of a call are on several devices."""
    first = None
    for value in flat(args):
        meta = getattr(value, "_rush_meta", None)
        if meta is not None and meta.device is not (first or meta.device):
            return True
        first = first or meta and meta.device
    return False


def meeting(op: Op, args, names):
    """Return a function that makes a call on tensors of several devices: scalars go to the device, ``copy_`` goes
    between devices.  RuntimeError for other mixtures."""
    where = device_of(args[:1]) if op.name == "copy_" else device_of(args)
    if not all(v._rush_meta.device.provider.has_data for v in flat(args) if isinstance(v, Tensor)):
        return None  # the meta-device plan decides or raises the error
    if op.name == "copy_":
        return between
    if op.name in SHAPED:
        return lambda args, names: applied(
            lambda input, other: OPS[SHAPED[op.name]](input, tuple(other.shape)), args, names)
    for value in flat(args):
        if isinstance(value, Tensor) and value._rush_meta.device is not where and not goes_along(op, value):
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {where} and "
                f"{value._rush_meta.device}! (when checking {op.name})")

    def gathered(value):
        if type(value) in (list, tuple):
            return type(value)(map(gathered, value))
        return value.to(where) if isinstance(value, Tensor) and value._rush_meta.device is not where else value

    return lambda args, names: applied(op, gathered(tuple(args)), names)


def goes_along(op: Op, value: Tensor) -> bool:
    """True if a tensor on the host may be among those of a device: a scalar, or an index."""
    return value._rush_meta.device.provider.on_host and (not value._rush_meta.shape and op.name not in JOINING
                                                         or is_index(op, value._rush_meta))


def is_index(op: Op, meta) -> bool:
    """True if an argument of an operator is an index that may be on the host."""
    return op.name in INDEXING and not meta.dtype.is_inexact


def between(args, names):
    """Make a ``copy_`` from one device to another."""
    from ..core.convert import written
    positional, named = parted(args, names)
    given = dict(zip(("input", "src", "non_blocking"), positional)) | named
    return written(given["input"], given["src"], bool(given.get("non_blocking", False)))


class placing:
    """A context in which the thread's preferred device is that of a call; unchanged if ``where`` is None."""

    def __init__(self, where: device | None):
        self.where = None if where is preferred() else where

    def __enter__(self):
        if self.where is not None:
            self.where.__enter__()

    def __exit__(self, *error):
        if self.where is not None:
            self.where.__exit__(*error)


class On:
    """A context in which the thread's preferred device is an available one other than the host."""

    __slots__ = ("where",)

    def __init__(self, where: device):
        self.where = where

    def __enter__(self):
        where = self.where
        mine.devices += (mine.device,)
        mine.device = where  # no call in between: interrupts arrive at calls only

    __exit__ = LeavingDevice()


def settled_on(plan: Plan, where: device | None) -> Plan:
    """Prepare a plan whose program a device runs; those of the host stay unchanged."""
    if where is None or where.provider.on_host or not where.provider.has_data:
        return plan
    if plan.inner:
        settled_on(plan.inner[0], where)
    if plan.kind == RUN:
        plan.kind = ELSEWHERE
        plan.inside = plan.reused = ()  # results have their own memory
    if plan.kind in (ELSEWHERE, INTO):
        plan.place = where
    return plan


def execute(plan: Plan, args, values: int, used: int) -> tuple:
    """Run a plan's program into fresh memory of its device; return the fresh results."""
    if (made := plan.place.provider.replayed(plan, args, values, used)) is not None:
        return made
    made = tuple(map(empty_of, plan.outputs))
    for result in made:
        store_i64(values, used, result._rush_storage.address)
        used += 1
    launch(plan, args, values, used)
    return made


def launch(plan: Plan, args, values: int, used: int):
    """Run a plan's program on its device: temporaries, the RNG stream offset and the error word follow the ``used``
    words at ``values``."""
    where = plan.place
    provider, workspace = where.provider, []
    for nbytes in plan.temporaries:
        workspace.append(provider.storage(where.index, nbytes))
        store_i64(values, used, workspace[-1].address)
        used += 1
    if plan.random:
        mine.seed, mine.drawn = provider.generator(where.index).reserve(plan.random)
        store_i64(values, used, mine.seed)
        store_i64(values, used + 1, mine.drawn)
        used += 2
    store_i64(values, used, values + (used + 1) * 8)
    store_i64(values, used + 1, 0)
    provider.run(where.index, plan.code, values)
    if flag := load_i64(values, used + 1):
        state.failed(plan, args, flag)
    provider.prepare(where.index, plan)


def on_host(op: Op, args, names):
    """Make a call whose data-dependent results only the host computes, between two copies."""
    where = device_of(args)
    where.provider.fallback(op.name)

    def there(value):
        if type(value) in (list, tuple):
            return type(value)(map(there, value))
        return value.to(cpu) if isinstance(value, Tensor) else cpu if value is where else value

    def back(value):
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(back, value))
        if isinstance(value, (list, tuple)):
            return type(value)(map(back, value))
        return value.to(where) if isinstance(value, Tensor) else value

    with cpu:
        return back(applied(op, there(tuple(args)), names))


def body_runner(op: Op, known: device | None = None):
    """Return a function that runs a composite operator's body on tensors of a device, or on the host if its results
    depend on data.  ``known``: the device other than the host of all calls; None: looked up in each."""
    dynamic = op.traits.get("dynamic")

    def run(args, names):
        where = known or device_of(args)
        if dynamic and (where or preferred()).provider.has_data:
            return on_host(op, args, names)
        with placing(where):
            return applied(body_of(op, args), args, names)

    if dynamic or known is None or known.index is None:
        return run
    block = On(placed(known))

    def run_there(args, names):
        with block:
            return applied(body_of(op, args), args, names)
    return run_there


def launch_failed(plan: Plan, status: int):
    """Raise the error that a device's driver reported for a launch."""
    plan.place.provider.launch_failed(status)


def far_storage(queue, nbytes: int):
    """Allocate a storage for a device's queue that has no free block."""
    return queue.place.provider.storage(queue.place.index, nbytes)


connect("_src/eager/elsewhere.py", elsewhere=execute, launch_elsewhere=launch, launch_failed=launch_failed,
        far_storage=far_storage)

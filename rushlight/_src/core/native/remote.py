"""Run plans on the thread's queue of a device: memory from the queue, launches by the device's own machine code.

Higher layers handle the missing cases: a program that was not made ready, or a class without free blocks."""
from __future__ import annotations

from .allocator import UNCOUNTED
from .arguments import collect
from .language import Args, cast, filled, i64, native, new_tuple, tuple_set
from .memory import call_kernel, load_i64, store_i64
from .objects import Plan, Storage, mine, state, wrap
from .queues import KIND, MOST, Queue, class_on, take_block


@native
def kept_storage(queue: Queue, nbytes: i64) -> object:
    """A storage of a queue's device in a block that was used before, contents undefined; None where there is none."""
    if nbytes > MOST or queue.noted != 0:
        return None
    index = class_on(queue, nbytes)
    address = take_block(queue, index)
    if address == 0:
        return None
    storage = Storage()
    storage.nbytes = nbytes
    storage.owner = queue
    storage.address = address
    storage.kind = KIND + index
    return storage


@native
def storage_on(queue: Queue, nbytes: i64) -> Storage:
    """A fresh storage of a queue's device, contents undefined."""
    kept = kept_storage(queue, nbytes)
    if kept is None:
        return cast(Storage, state.far_storage(queue, nbytes))
    return cast(Storage, kept)


@native
def attempt(plan: Plan, args: Args, values: i64, used: i64) -> object:
    """The fresh results of a plan that the thread's queue has run; None where it has to be run otherwise."""
    if plan.ready == 0 or mine.queue is None:
        return None
    queue = cast(Queue, mine.queue)
    if queue.board is not plan.board:
        return None
    metas = plan.outputs
    count = len(metas)
    results = new_tuple(count)
    for k in range(count):
        nbytes: i64 = plan.sizes[k]
        storage = storage_on(queue, nbytes)
        if mine.inference != 0:
            storage.version = UNCOUNTED
        tuple_set(results, k, wrap(storage, 0, metas[k], plan.itemsizes[k]))
        store_i64(values, used, storage.address)
        used += 1
    made = filled(results)
    if launched(queue, plan, values, used):
        return made
    return None


@native
def into(plan: Plan, args: Args, values: i64, used: i64) -> None:
    """Runs a plan that writes into an argument of its device."""
    if plan.ready != 0 and mine.queue is not None:
        queue = cast(Queue, mine.queue)
        if queue.board is plan.board:
            if launched(queue, plan, values, used):
                return
    state.launch_elsewhere(plan, collect(args), values, used)


@native
def launched(queue: Queue, plan: Plan, values: i64, used: i64) -> bool:
    """Gives a queue the launches of a plan; False where it was not made ready for these values, and nothing was
    done."""
    temporaries = plan.temporaries
    workspace = new_tuple(len(temporaries))
    for k in range(len(temporaries)):
        nbytes: i64 = temporaries[k]
        storage = storage_on(queue, nbytes)
        tuple_set(workspace, k, storage)
        store_i64(values, used, storage.address)
        used += 1
    position = 0
    if plan.random != 0:
        own = mine
        position = load_i64(queue.random, 1)
        own.seed = load_i64(queue.random, 0)
        own.drawn = position
        store_i64(values, used, own.seed)
        store_i64(values, used + 1, position)
        store_i64(queue.random, 1, position + plan.random)
        used += 2
    store_i64(values, used, values + (used + 1) * 8)
    store_i64(values, used + 1, 0)
    call_kernel(queue.runner, values, plan.ready, queue.words)
    status = load_i64(plan.ready, 0)
    if status == 0:
        return True
    if status > 0:
        state.launch_failed(plan, status)
    if plan.random != 0:
        store_i64(queue.random, 1, position)
    return False

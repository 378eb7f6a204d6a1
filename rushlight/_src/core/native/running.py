"""Run plans: memory for results and temporaries, and the RNG offset."""
from __future__ import annotations

from .allocator import LARGE, UNCOUNTED, allocate, divide, provide
from .arguments import collect, storages_of, tensor_argument
from .blocks import give
from .language import Args, cast, exclusive, filled, i64, native, new_tuple, tuple_set
from .memory import load_i64, run_program, run_program_nogil, store_i64
from .objects import Plan, Storage, Tensor, counter, mine, part_of, state, wrap
from .history import record
from .remote import into
from .sharing import check_writable, count_writes, touch
from .weights import run_packed


@native
def execute(plan: Plan, args: Args, values: i64, used: i64, mask: i64) -> object:
    """Runs a plan's program into fresh memory."""
    if len(plan.inside) + len(plan.reused) != 0:
        return execute_within(plan, args, values, used, mask)
    metas = plan.outputs
    count = len(metas)
    results = new_tuple(count)
    for k in range(count):
        nbytes: i64 = plan.sizes[k]
        storage = allocate(nbytes)
        if mine.inference != 0:
            storage.version = UNCOUNTED
        tuple_set(results, k, wrap(storage, 0, metas[k], plan.itemsizes[k]))
        store_i64(values, used, storage.address)
        used += 1
    made = filled(results)
    launch(plan, args, values, used)
    return finish(plan, args, made, values, mask)


@native
def finish(plan: Plan, args: Args, made: tuple, values: i64, mask: i64) -> object:
    """Convert a program's fresh results to the results of the call."""
    if mask != 0:
        if len(plan.written) != 0:
            count_writes(args)  # recording may raise
        record(plan, args, made, values)
    if len(plan.written) != 0:
        touch(plan, args)
    if len(plan.passed) != 0:
        made = pass_on(plan, args, made)
    if plan.several != 0:
        return made[: len(made) - plan.extra]
    return made[0]


@native
def execute_within(plan: Plan, args: Args, values: i64, used: i64, mask: i64) -> object:
    """Run a plan's program that places results among its temporaries, or over residuals that it has read; afterwards
    each result owns its part of the memory, and the rest is freed."""
    metas = plan.outputs
    count = len(metas)
    results = new_tuple(count)
    for k in range(count):
        storage = Storage()
        nbytes: i64 = plan.sizes[k]
        storage.nbytes = nbytes
        if mine.inference != 0:
            storage.version = UNCOUNTED
        tuple_set(results, k, wrap(storage, 0, metas[k], plan.itemsizes[k]))
    made = filled(results)
    arena: Storage = None
    if len(plan.inside) != 0:
        nbytes = plan.temporaries[0]
        arena = allocate(nbytes)
        lay(made, plan.inside, arena)
    donated: Storage = None
    if len(plan.reused) != 0:
        tensor = cast(Tensor, tensor_argument(args, plan.source))
        if tensor._rush_storage.kind == LARGE and tensor._rush_offset == 0:
            donated = tensor._rush_storage
            lay(made, plan.reused, donated)
    for k in range(count):
        storage = cast(Tensor, made[k])._rush_storage
        if storage.address == 0:
            provide(storage)
        store_i64(values, used, storage.address)
        used += 1
    if arena is None:
        launch(plan, args, values, used)
    else:
        store_i64(values, used, arena.address)
        start(plan, args, values, used + 1)
        settle(made, plan.inside, arena)
    if donated is not None:
        settle(made, plan.reused, donated)
        donated.writes += 1
        donated.nbytes = 0
    return finish(plan, args, made, values, mask)


@native
def lay(made: tuple, places: tuple, whole: Storage) -> None:
    """Gives results addresses within other memory; ``places``: pairs of a result's number and its offset in bytes, by
    offset."""
    for k in range(len(places)):
        place: tuple = places[k]
        offset: i64 = place[1]
        cast(Tensor, made[place[0]])._rush_storage.address = whole.address + offset


@native
def settle(made: tuple, places: tuple, whole: Storage) -> None:
    """Divide memory among the results in it."""
    rest = whole.address
    for k in range(len(places)):
        place: tuple = places[k]
        rest = divide(whole, cast(Tensor, made[place[0]])._rush_storage, rest)
    if rest != 0:
        give(rest)


@native
def pass_on(plan: Plan, args: Args, fresh: tuple) -> tuple:
    """The results of a plan some of which are parts of its arguments."""
    passed = plan.passed
    views = plan.views
    results = new_tuple(len(passed))
    for k in range(len(passed)):
        code: i64 = passed[k]
        if code >= 0:
            tuple_set(results, k, fresh[code])
        else:
            view: tuple = views[-1 - code]
            source = cast(Tensor, tensor_argument(args, view[0]))
            offset: i64 = view[1]
            if view[2] is None:
                tuple_set(results, k, source)
            else:
                tuple_set(results, k, part_of(source, source._rush_offset + offset, view[2], view[3]))
    return filled(results)


@native
def overwrite(plan: Plan, target: Tensor, args: Args, values: i64, used: i64, mask: i64) -> object:
    """Runs a plan whose result goes into an argument's memory, and returns that argument."""
    check_writable(target)
    if mine.grad != 0:
        base = cast(Tensor, target._base)
        if mask != 0 or target._rush_needs_grad != 0 or (base is not None and base._rush_needs_grad != 0):
            return mutate(plan, target, args, values, used, storages_of(args))
    if plan.place is not None:
        into(plan, args, values, used)
    else:
        launch(plan, args, values, used)
    counter(target).version += 1
    target._rush_storage.writes += 1
    return target


@native
def mutate(plan: Plan, target: Tensor, args: Args, values: i64, used: i64, held: tuple) -> object:
    """``overwrite`` under autograd.  ``held``: as for ``run_unlocked``."""
    return state.mutate(plan, target, collect(args), values, used)


@native
def launch(plan: Plan, args: Args, values: i64, used: i64) -> None:
    """Adds temporaries to ``values``, and runs the program."""
    temporaries = plan.temporaries
    workspace = new_tuple(len(temporaries))
    for k in range(len(temporaries)):
        nbytes: i64 = temporaries[k]
        storage = allocate(nbytes)
        tuple_set(workspace, k, storage)
        store_i64(values, used, storage.address)
        used += 1
    start(plan, args, values, used)


@native
def start(plan: Plan, args: Args, values: i64, used: i64) -> None:
    """Adds the random position and the error flag to ``values``, and runs the program."""
    if plan.random != 0:
        draw(values + used * 8, plan.random)
        used += 2
    store_i64(values, used, values + (used + 1) * 8)
    store_i64(values, used + 1, 0)
    if plan.long != 0:
        run_unlocked(plan, args, values, used, storages_of(args))
    elif plan.packing is None or not run_packed(plan, args, values, used):
        run_program(plan.code, values)
    if load_i64(values, used + 1) != 0:
        count_writes(args)
        state.failed(plan, collect(args), load_i64(values, used + 1))


@native
def run_unlocked(plan: Plan, args: Args, values: i64, used: i64, held: tuple) -> None:
    """Runs a program while other threads may run.  ``held``: the storages of its arguments, which stay until it has
    ended though another thread gives one of the tensors other memory."""
    if plan.packing is None or not run_packed(plan, args, values, used):
        run_program_nogil(plan.code, values)


@native
@exclusive
def draw(place: i64, blocks: i64) -> None:
    """Takes the next ``blocks`` blocks of the default random stream: its seed and the first of them go to ``place``."""
    own = mine
    if own.stream != 0:
        own.seed = load_i64(own.stream, 0)
        own.drawn = load_i64(own.stream, 1)
        store_i64(own.stream, 1, own.drawn + blocks)
    else:
        own.seed = state.seed
        own.drawn = state.position
        state.position += blocks
    store_i64(place, 0, own.seed)
    store_i64(place, 1, own.drawn)


@native
@exclusive
def reserve(blocks: i64) -> tuple:
    """Takes the next ``blocks`` blocks of the default random stream: (seed, first block)."""
    own = mine
    if own.stream != 0:
        first = load_i64(own.stream, 1)
        store_i64(own.stream, 1, first + blocks)
        return (load_i64(own.stream, 0), first)
    first = state.position
    state.position += blocks
    return (state.seed, first)


@native
@exclusive
def seek(seed: i64, position: i64) -> None:
    """Goes to a place in the default random stream."""
    own = mine
    if own.stream != 0:
        store_i64(own.stream, 0, seed)
        store_i64(own.stream, 1, position)
    else:
        state.seed = seed
        state.position = position

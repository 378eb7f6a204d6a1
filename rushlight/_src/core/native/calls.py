"""Calling an operator: find the plan for what is known of the arguments, run it, remember how for the backward pass."""
from __future__ import annotations

from .allocator import LARGE, UNCOUNTED, allocate, divide, provide
from .blocks import give
from .language import Args, cast, exclusive, f64, filled, i64, native, new_tuple, tuple_set, vectorcall
from .memory import load_f64, load_i64, run_program, run_program_nogil, stack, store_f64, store_i64
from .objects import (ACCUMULATE, CHOICE, DERIVED, ELSEWHERE, FLOAT_VALUE, INTEGER_VALUE, INTO, LAST, POSITION_VALUE,
                      PYTHON, RUN, SAME, SEED_VALUE, Plan, GradNode, Storage, Tensor, counter, mine, state)

ROOM = 96  # values of one call: inputs, results, temporaries, random position, error flag
MOST = 48  # values the arguments may give to such a call; those with more take ``call_many``
WIDEST = 16384  # values of a call that the stack holds
UNRECORDED = -2  # see ``made_at``
MULTIPLE = -(1 << 40)  # likewise, and ``note_multiple``
TRUE, FALSE = (bool, True), (bool, False)  # in keys
WORD = 60  # tensors of which one integer tells which want gradients


@native(binds=True, attributes=True)
class Op:
    """An operator.  Called with tensors and numbers; as an attribute of Tensor it is a method."""

    name: object
    body: object  # the decomposition, or None for a primitive
    kind: object  # the kind of a primitive, or None
    signature: object
    autocast: i64  # what it does to its arguments' precision under autocast: 0 nothing, 1 lowers it, 2 raises it
    scalars: i64  # bit k: parameter k, where a number, is a run-time value
    masks: dict  # names of keyword arguments -> bits, as in ``scalars``
    plans: dict
    polymorphic: dict
    rules: dict
    traits: dict  # what it declares: see core/traits.py
    caches: dict  # what was derived from it, or noted of it
    doc: object

    @vectorcall
    def call(self, args: Args, names: tuple) -> object:
        own = mine
        if own.autocast != 0 and self.autocast != 0:
            return state.cast(self, collect(args), names)
        if len(own.stack) + len(own.modes) != 0:
            return state.slow(self, collect(args), names)
        count = len(args)
        scalars = self.scalars
        if names is not None:
            positional = count - len(names)
            found = self.masks.get(names)
            if found is None:
                found = state.keyword_mask(self, names)
            named: i64 = found
            scalars = (scalars & ((1 << positional) - 1)) | (named << positional)
        key = new_tuple(count + 2)
        values = stack(ROOM)
        used = 0
        mask = 0
        bit = 1
        for k in range(count):
            argument = args[k]
            kind = type(argument)
            if kind is state.tensor or kind is state.parameter:
                tensor = cast(Tensor, argument)
                tuple_set(key, k, tensor._meta)
                store_i64(values, used, tensor._storage.address + tensor._offset * tensor.itemsize)
                if tensor._needs_grad:
                    mask |= bit
                elif tensor._base is not None:
                    if joins(tensor):
                        mask |= bit
                bit = bit << 1
                used += 1
            elif kind is float:
                if (scalars >> k) & 1:
                    tuple_set(key, k, float)
                    store_f64(values, used, argument)
                    used += 1
                else:
                    tuple_set(key, k, exact(argument))
            elif kind is int or kind is bool:
                if (scalars >> k) & 1:
                    tuple_set(key, k, kind)
                    try:
                        store_i64(values, used, argument)
                    except OverflowError:
                        return state.slow(self, collect(args), names)
                    used += 1
                elif kind is int:
                    tuple_set(key, k, argument)
                else:
                    tuple_set(key, k, TRUE if argument else FALSE)
            elif kind is list or kind is tuple:
                inner = list_key(argument, values, ROOM, MOST, used, mask, bit)
                if inner is None:
                    return call_many(self, args, names, scalars)
                tuple_set(key, k, inner)
                used = load_i64(values, ROOM - 1)
                mask = load_i64(values, ROOM - 2)
                bit = load_i64(values, ROOM - 3)
            elif argument is None or kind is str or kind in state.static_types:
                tuple_set(key, k, argument)
            else:
                return state.slow(self, collect(args), names)
            if used > MOST:
                return call_many(self, args, names, scalars)
        if own.grad == 0:
            mask = 0
        tuple_set(key, count, names)
        tuple_set(key, count + 1, mask)
        whole = filled(key)
        found_plan = self.plans.get(whole)
        if found_plan is None:
            found_plan = state.plan(self, collect(args), names, whole, mask)
        plan = cast(Plan, found_plan)
        if plan.large != 0:
            if plan.large == CHOICE:
                plan = chosen(plan, args, names, whole, mask)
            if plan.large != 0:
                return call_many(self, args, names, scalars)
        return run(plan, args, names, values, used, mask)


@native
def exact(value: object) -> object:
    """What stands in a key for a value: equal only for values of one type and the same bits (``-0.0 == 0.0`` and
    ``True == 1``; NaN is none)."""
    kind = type(value)
    if kind is int or kind is str or value is None or kind in state.static_types:
        return value
    if kind is float:
        number: f64 = value
        return (kind, repr(value)) if number == 0.0 or number != number else (kind, value)
    if kind is complex:
        return (kind, repr(value))
    if kind is tuple or kind is list:
        count: i64 = len(value)
        parts = new_tuple(count)
        for k in range(count):
            tuple_set(parts, k, exact(value[k]))
        return filled(parts)
    return (kind, value)


@native
def chosen(plan: Plan, args: Args, names: tuple, key: tuple, mask: object) -> Plan:
    """The plan for the numbers of a call, of several for its key."""
    return cast(Plan, state.choose(plan, collect(args), names, key, mask))


@native
def collect(args: Args) -> tuple:
    """The arguments as a tuple."""
    count = len(args)
    out = new_tuple(count)
    for k in range(count):
        tuple_set(out, k, args[k])
    return filled(out)


@native
def call_many(op: Op, args: Args, names: tuple, scalars: i64) -> object:
    """A call of more values than ``Op.call`` has room for: a model with its parameters, a backward pass with what was
    saved."""
    count = len(args)
    most = value_count(args)
    if most > WIDEST:
        return state.slow(op, collect(args), names)
    key = new_tuple(count + 2)
    given = stack(most + 3)
    used = 0
    for k in range(count):
        argument = args[k]
        kind = type(argument)
        if kind is state.tensor or kind is state.parameter:
            tensor = cast(Tensor, argument)
            tuple_set(key, k, tensor._meta)
            store_i64(given, used, tensor._storage.address + tensor._offset * tensor.itemsize)
            used += 1
        elif kind is float or kind is int or kind is bool:
            if k >= WORD:
                return state.slow(op, collect(args), names)
            if (scalars >> k) & 1:
                tuple_set(key, k, kind)
                if kind is float:
                    store_f64(given, used, argument)
                else:
                    try:
                        store_i64(given, used, argument)
                    except OverflowError:
                        return state.slow(op, collect(args), names)
                used += 1
            else:
                tuple_set(key, k, exact(argument))
        elif kind is list or kind is tuple:
            inner = list_key(argument, given, most + 3, most, used, 0, 0)
            if inner is None:
                return state.slow(op, collect(args), names)
            tuple_set(key, k, inner)
            used = load_i64(given, most + 2)
        elif argument is None or kind is str or kind in state.static_types:
            tuple_set(key, k, argument)
        else:
            return state.slow(op, collect(args), names)
    mask: object = 0
    if mine.grad != 0:
        mask = state.whole_mask(gradient_words(args))
    tuple_set(key, count, names)
    tuple_set(key, count + 1, mask)
    whole = filled(key)
    found_plan = op.plans.get(whole)
    if found_plan is None:
        found_plan = state.plan(op, collect(args), names, whole, mask)
    plan = cast(Plan, found_plan)
    if plan.large == CHOICE:
        plan = chosen(plan, args, names, whole, mask)
    more = len(plan.outputs) + len(plan.temporaries)
    if more > WIDEST:
        return state.slow(op, collect(args), names)
    values = stack(used + more + 8)
    for k in range(used):
        store_i64(values, k, load_i64(given, k))
    return run(plan, args, names, values, used, 0 if mask == 0 else 1)


@native
def value_count(args: Args) -> i64:
    """How many values the arguments give at most."""
    found = len(args)
    for k in range(len(args)):
        kind = type(args[k])
        if kind is list or kind is tuple:
            inner: i64 = len(args[k])
            found += inner
    return found


@native
def gradient_words(args: Args) -> list:
    """Which of the tensors among the arguments want a gradient: integers of ``WORD`` bits."""
    words = []
    word = 0
    place = 0
    for k in range(len(args)):
        argument = args[k]
        kind = type(argument)
        inner = 1
        if kind is list or kind is tuple:
            inner = len(argument)
        for j in range(inner):
            element = argument
            if kind is list or kind is tuple:
                element = argument[j]
            if isinstance(element, Tensor):
                tensor = cast(Tensor, element)
                if tensor._needs_grad != 0 or (tensor._base is not None and joins(tensor)):
                    word |= 1 << place
                place += 1
                if place == WORD:
                    words.append(word)
                    word = 0
                    place = 0
    words.append(word)
    return words


@native
def list_key(items: object, values: i64, room: i64, most: i64, used: i64, mask: i64, bit: i64) -> object:
    """The key of a list argument; its tensors' addresses go to ``values``, of which there may be ``most``.  None if the
    fast path can't take it.  The counters come back in the last of the ``room`` slots of ``values``."""
    count: i64 = len(items)
    key = new_tuple(count)
    for k in range(count):
        element = items[k]
        kind = type(element)
        if kind is state.tensor or kind is state.parameter:
            if used >= most:
                return None
            tensor = cast(Tensor, element)
            tuple_set(key, k, tensor._meta)
            store_i64(values, used, tensor._storage.address + tensor._offset * tensor.itemsize)
            if tensor._needs_grad:
                mask |= bit
            elif tensor._base is not None:
                if joins(tensor):
                    mask |= bit
            bit = bit << 1
            used += 1
        elif kind is int or element is None or kind is str:
            tuple_set(key, k, element)
        elif kind is tuple or kind is list:
            inner = static_items(element)
            if inner is None:
                return None
            tuple_set(key, k, inner)
        else:
            return None
    store_i64(values, room - 1, used)
    store_i64(values, room - 2, mask)
    store_i64(values, room - 3, bit)
    return filled(key)


@native
def static_items(items: object) -> object:
    """What stands in a key for a sequence within a list argument; None where it does not consist of static
    parameters."""
    count: i64 = len(items)
    key = new_tuple(count)
    for k in range(count):
        element = items[k]
        kind = type(element)
        if kind is not int and element is not None and kind is not str:
            return None
        tuple_set(key, k, element)
    return filled(key)


@native
def joins(view: Tensor) -> bool:
    """Whether operators on a view without history are recorded: its base wants a gradient, perhaps since it was changed
    in place, and ``edge`` asks for the history that the view has now."""
    return cast(Tensor, view._base)._needs_grad != 0 and counter(view).version >= 0


@native
def tensor_argument(args: Args, index: i64) -> object:
    """The ``index``-th tensor among the arguments, looking into lists."""
    count = len(args)
    for k in range(count):
        argument = args[k]
        kind = type(argument)
        if isinstance(argument, Tensor):
            if index == 0:
                return argument
            index -= 1
        elif kind is list or kind is tuple:
            inner: i64 = len(argument)
            for j in range(inner):
                element = argument[j]
                if isinstance(element, Tensor):
                    if index == 0:
                        return element
                    index -= 1
    return None


@native
def part_of(tensor: Tensor, offset: i64, meta: object, itemsize: i64) -> Tensor:
    """A tensor over the memory of another, whose writes count as writes to that one."""
    part = wrap(tensor._storage, offset, meta, itemsize)
    if tensor._counter is not None:
        part._counter = tensor._counter
    return part


@native
def wrap(storage: Storage, offset: i64, meta: object, itemsize: i64) -> Tensor:
    """A tensor over this memory."""
    tensor = Tensor()
    tensor._storage = storage
    tensor._offset = offset
    tensor._meta = meta
    tensor.itemsize = itemsize
    return tensor


@native
def run(plan: Plan, args: Args, names: tuple, values: i64, used: i64, mask: i64) -> object:
    """Carries out a plan."""
    kind = plan.kind
    if kind == RUN:
        if len(plan.written) != 0:
            if collides(plan, args):
                return plan.function(collect(args), names)
        return execute(plan, args, values, used, mask)
    if kind == PYTHON:
        return plan.function(collect(args), names)
    if kind == ELSEWHERE:
        if len(plan.written) != 0:
            if collides(plan, args):
                return plan.function(collect(args), names)
        return finish(plan, args, state.elsewhere(plan, collect(args), values, used), values, mask)
    target = cast(Tensor, tensor_argument(args, plan.source))
    if kind == SAME:
        return target
    if kind == INTO:
        if shares(plan, target, args):
            others = state.shared(plan, collect(args), names)
            if others is not None:
                return state.slow(plan.op, others, names)
        return overwrite(plan, target, args, values, used, mask)
    itemsize: i64 = plan.itemsizes[0]
    start = target._offset if itemsize == target.itemsize else target._offset * target.itemsize // itemsize
    result = part_of(target, start + plan.offset, plan.outputs[0], itemsize)
    if plan.apart == 0:
        result._base = target if target._base is None else target._base
    result._seen = made_at(target)
    if mask != 0:
        record(plan, args, (result,), values)
    return result


@native
def made_at(target: Tensor) -> i64:
    """What a view of a tensor notes of when it was made: the version of the memory, which ``seen_at`` gives back; below
    UNRECORDED where nothing is recorded, or was when the tensor was made; below MULTIPLE for a view of one of several
    results."""
    version = counter(target).version
    if mine.grad == 0 or (target._seen < UNRECORDED and target._seen > MULTIPLE):
        return UNRECORDED - 1 - version
    return version if target._seen >= UNRECORDED else MULTIPLE - version


@native
def seen_at(view: Tensor) -> i64:
    """The version of its memory at which a view has the history it has."""
    seen = view._seen
    if seen >= UNRECORDED:
        return seen
    return UNRECORDED - 1 - seen if seen > MULTIPLE else MULTIPLE - seen


@native
def note_multiple(view: Tensor) -> None:
    """Notes that a view is one of several results of an operator: its node has the others, too, so no write may give
    it another one."""
    version = counter(view).version
    if view._base is not None and version >= 0 and view._seen >= UNRECORDED:
        view._seen = MULTIPLE - version


@native
def shares(plan: Plan, target: Tensor, args: Args) -> bool:
    """Whether an argument that is read shows the memory to be written, in a way that must be looked at."""
    same = 0
    for k in range(len(args)):
        argument = args[k]
        kind = type(argument)
        if isinstance(argument, Tensor):
            how = sharing(target, cast(Tensor, argument))
            if how == 2:
                return True
            same += how
        elif kind is list or kind is tuple:
            inner: i64 = len(argument)
            for j in range(inner):
                element = argument[j]
                if isinstance(element, Tensor):
                    how = sharing(target, cast(Tensor, element))
                    if how == 2:
                        return True
                    same += how
    return same > 1 and plan.apart != 0


@native
def sharing(target: Tensor, tensor: Tensor) -> i64:
    """0 for tensors in different memory, 1 for the same elements, 2 where that is not clear at once."""
    a, b = tensor._storage, target._storage
    if a is not b and (a.address + a.nbytes <= b.address or b.address + b.nbytes <= a.address):
        return 0
    return 1 if a is b and tensor._offset == target._offset and tensor._meta is target._meta else 2


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
    """What a program's fresh results become for the caller."""
    if mask != 0:
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
    """Runs a plan's program that lays results among its temporaries, or where residuals lay that it has read;
    afterwards these have the memory they lie in, and what is left of it is free."""
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
        if tensor._storage.kind == LARGE and tensor._offset == 0:
            donated = tensor._storage
            lay(made, plan.reused, donated)
    for k in range(count):
        storage = cast(Tensor, made[k])._storage
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
        donated.nbytes = 0
    return finish(plan, args, made, values, mask)


@native
def lay(made: tuple, places: tuple, whole: Storage) -> None:
    """Gives results addresses within other memory; ``places``: pairs of a result's number and its offset in bytes, by
    offset."""
    for k in range(len(places)):
        place: tuple = places[k]
        offset: i64 = place[1]
        cast(Tensor, made[place[0]])._storage.address = whole.address + offset


@native
def settle(made: tuple, places: tuple, whole: Storage) -> None:
    """Divides memory among the results that lie in it."""
    rest = whole.address
    for k in range(len(places)):
        place: tuple = places[k]
        rest = divide(whole, cast(Tensor, made[place[0]])._storage, rest)
    if rest != 0:
        give(rest)


@native
def collides(plan: Plan, args: Args) -> bool:
    """Whether memory that a program writes is that of another argument too."""
    written = plan.written
    state.search += 1
    search = state.search
    for k in range(len(written)):
        target = cast(Tensor, tensor_argument(args, written[k]))
        check_writable(target)
        target._storage.mark = search
    found = 0
    for k in range(len(args)):
        argument = args[k]
        kind = type(argument)
        if isinstance(argument, Tensor):
            if cast(Tensor, argument)._storage.mark == search:
                found += 1
        elif kind is list or kind is tuple:
            inner: i64 = len(argument)
            for j in range(inner):
                element = argument[j]
                if isinstance(element, Tensor):
                    if cast(Tensor, element)._storage.mark == search:
                        found += 1
    return found != len(written)


@native
def touch(plan: Plan, args: Args) -> None:
    """Notes that a program wrote into arguments."""
    written = plan.written
    for k in range(len(written)):
        target = cast(Tensor, tensor_argument(args, written[k]))
        counter(target).version += 1


@native
def check_writable(target: Tensor) -> None:
    """Raises for an inference tensor, which only code in inference mode may write."""
    if counter(target).version < 0 and mine.inference == 0:
        state.unwritable(target)


@native
def count_write(target: Tensor) -> None:
    """Notes that a tensor was written.  Raises as ``check_writable``."""
    check_writable(target)
    counter(target).version += 1


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
                tuple_set(results, k, part_of(source, source._offset + offset, view[2], view[3]))
    return filled(results)


@native
def overwrite(plan: Plan, target: Tensor, args: Args, values: i64, used: i64, mask: i64) -> object:
    """Runs a plan whose result goes into an argument's memory, and returns that argument."""
    check_writable(target)
    if mine.grad != 0:
        base = cast(Tensor, target._base)
        if mask != 0 or target._needs_grad != 0 or (base is not None and base._needs_grad != 0):
            return state.mutate(plan, target, collect(args), values, used)
    if plan.place is not None:
        state.launch_elsewhere(plan, collect(args), values, used)
    else:
        launch(plan, args, values, used)
    counter(target).version += 1
    return target


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
        run_program_nogil(plan.code, values)
    else:
        run_program(plan.code, values)
    if load_i64(values, used + 1) != 0:
        state.failed(plan, collect(args), load_i64(values, used + 1))


@native
@exclusive
def draw(place: i64, blocks: i64) -> None:
    """Takes the next ``blocks`` blocks of the default random stream: its seed and the first of them go to ``place``."""
    own = mine
    own.seed = state.seed
    own.drawn = state.position
    state.position += blocks
    store_i64(place, 0, own.seed)
    store_i64(place, 1, own.drawn)


@native
@exclusive
def reserve(blocks: i64) -> tuple:
    """Takes the next ``blocks`` blocks of the default random stream: (seed, first block)."""
    first = state.position
    state.position += blocks
    return (state.seed, first)


@native
@exclusive
def seek(seed: i64, position: i64) -> None:
    """Goes to a place in the default random stream."""
    state.seed = seed
    state.position = position


@native
def edge(tensor: Tensor) -> object:
    """The node that a gradient of this tensor goes to; None if it wants none."""
    if tensor._base is not None and (tensor._grad_node is not None or joins(tensor)):
        if seen_at(tensor) != counter(tensor).version:
            return state.refresh(tensor)
    if tensor._grad_node is not None:
        return tensor._grad_node
    if tensor._needs_grad == 0:
        return None
    if tensor._accumulator is not None:
        known = tensor._accumulator()
        if known is not None:
            return known
    node = GradNode()
    node.kind = ACCUMULATE
    node.variable = tensor
    node.number = LAST
    node.edges = ()
    node.slots = ()
    tensor._accumulator = state.weak(node)
    return node


@native
def record(plan: Plan, args: Args, results: tuple, values: i64) -> None:
    """Notes on the results how to find the gradients of the arguments."""
    wanted = plan.wanted
    count = len(wanted)
    if count == 0:
        return
    node = GradNode()
    edges = new_tuple(count)
    slots = new_tuple(count)
    for k in range(count):
        tensor = cast(Tensor, tensor_argument(args, wanted[k]))
        tuple_set(edges, k, edge(tensor))
        tuple_set(slots, k, tensor._output)
    node.edges = filled(edges)
    node.slots = filled(slots)
    node.plan = plan
    node.kind = DERIVED
    state.sequence += 1
    node.number = state.sequence
    if state.anomaly != 0:
        state.watch(node, None)
    carrying = plan.cotangents
    for k in range(len(carrying)):
        slot: i64 = carrying[k]
        result = cast(Tensor, results[slot])
        result._grad_node = node
        result._output = slot
        result._needs_grad = 1
    keep(node, plan, args, results, values)
    if mine.packing != 0:
        state.pack(node)


@native
def keep(node: GradNode, plan: Plan, args: Args, results: tuple, values: i64) -> None:
    """Saves what the backward will read, with the version it was read at."""
    saves = plan.saves
    count = len(saves)
    saved = new_tuple(count)
    versions = new_tuple(count)
    for k in range(count):
        code: i64 = saves[k]
        version = 0
        if code >= INTEGER_VALUE:
            if code == SEED_VALUE:
                tuple_set(saved, k, mine.seed)
            elif code == POSITION_VALUE:
                tuple_set(saved, k, mine.drawn)
            else:
                tuple_set(saved, k, load_i64(values, code - INTEGER_VALUE))
        elif code >= FLOAT_VALUE:
            tuple_set(saved, k, load_f64(values, code - FLOAT_VALUE))
        elif code >= 0:
            tensor = cast(Tensor, tensor_argument(args, code))
            tuple_set(saved, k, tensor)
            version = counter(tensor).version
            if version < 0:
                state.unsaveable(tensor)
        else:
            result = cast(Tensor, results[-1 - code])
            alias = part_of(result, result._offset, result._meta, result.itemsize)
            alias._output = result._output
            tuple_set(saved, k, alias)
            version = counter(result).version
        tuple_set(versions, k, version)
    node.saved = filled(saved)
    node.versions = filled(versions)

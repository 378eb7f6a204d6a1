"""Record an operator call for the backward pass: the node of its results, and its saved tensors."""
from __future__ import annotations

from .allocator import Storage
from .arguments import tensor_argument
from .language import Args, cast, filled, i64, native, new_tuple, tuple_set
from .memory import load_f64, load_i64
from .objects import (ACCUMULATE, DERIVED, FLOAT_VALUE, INTEGER_VALUE, LAST, POSITION_VALUE, SEED_VALUE, GradNode, Plan,
                      Tensor, counter, mine, part_of, state)

UNRECORDED = -2  # see ``made_at``
INFERRED = -(1 << 39)  # likewise, of inference mode
MULTIPLE = -(1 << 40)  # likewise, and ``note_multiple``
CROWDED = 16  # references to nodes at one storage, from which on those to dead ones are dropped


@native
def joins(view: Tensor) -> bool:
    """True if operators on a view without history are recorded: its base requires a gradient, perhaps since it was
    mutated, and ``edge`` looks up the view's current history."""
    return cast(Tensor, view._base)._rush_needs_grad != 0 and counter(view).version >= 0


@native
def made_at(target: Tensor) -> i64:
    """The state in which a view of a tensor is made: the version of the memory, which ``seen_at`` returns; below
    UNRECORDED if nothing is recorded, or was when the tensor was made (below INFERRED: in inference mode); below
    MULTIPLE for a view of one of several results."""
    version = counter(target).version
    seen = target._rush_seen
    if version >= 0 and (mine.inference != 0 or (seen <= INFERRED and seen > MULTIPLE)):
        return INFERRED - 1 - version
    if mine.grad == 0 or (seen < UNRECORDED and seen > MULTIPLE):
        return UNRECORDED - 1 - version
    return version if target._rush_seen >= UNRECORDED else MULTIPLE - version


@native
def seen_at(view: Tensor) -> i64:
    """The version of its memory at which a view has the history it has."""
    seen = view._rush_seen
    if seen >= UNRECORDED:
        return seen
    if seen > INFERRED:
        return UNRECORDED - 1 - seen
    return INFERRED - 1 - seen if seen > MULTIPLE else MULTIPLE - seen


@native
def note_multiple(view: Tensor) -> None:
    """Notes that a view is one of several results of an operator: its node has the others, too, so no write may give
    it another one."""
    version = counter(view).version
    if view._base is not None and version >= 0 and view._rush_seen >= UNRECORDED:
        view._rush_seen = MULTIPLE - version


@native
def edge(tensor: Tensor) -> object:
    """The node that receives a gradient of this tensor; None if it requires none."""
    if tensor._base is not None and (tensor._rush_grad_node is not None or joins(tensor)):
        if seen_at(tensor) != counter(tensor).version:
            return state.refresh(tensor)
    if tensor._rush_grad_node is not None:
        return tensor._rush_grad_node
    if tensor._rush_needs_grad == 0:
        return None
    if tensor._rush_accumulator is not None:
        known = tensor._rush_accumulator()
        if known is not None:
            return known
    node = GradNode()
    node.kind = ACCUMULATE
    node.variable = tensor
    node.number = LAST
    node.edges = ()
    node.slots = ()
    tensor._rush_accumulator = state.weak(node)
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
        tuple_set(slots, k, tensor._rush_output)
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
        result._rush_grad_node = node
        result._rush_output = slot
        result._rush_needs_grad = 1
    keep(node, plan, args, results, values)
    if mine.packing != 0:
        state.pack(node)


@native
def keep(node: GradNode, plan: Plan, args: Args, results: tuple, values: i64) -> None:
    """Save the values that the backward will read, with their current versions."""
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
            alias = part_of(result, result._rush_offset, result._rush_meta, result.itemsize)
            alias._rush_output = result._rush_output
            tuple_set(saved, k, alias)
            version = counter(result).version
        tuple_set(versions, k, version)
    node.saved = filled(saved)
    node.versions = filled(versions)
    if len(plan.lent) != 0:
        lend(node, plan)


@native
def lend(node: GradNode, plan: Plan) -> None:
    """Notes at the memory of saved values that users may write that the node needs copies before that.  Memory whose
    address others know may be written at any time without notice: the node gets its copies at once."""
    reference = state.weak(node)
    for k in range(len(plan.lent)):
        place: i64 = plan.lent[k]
        storage = cast(Tensor, node.saved[place])._rush_storage
        lend_storage(storage, reference)
        if storage.shown != 0:
            state.copy_lent(storage)


@native
def lend_storage(storage: Storage, reference: object) -> None:
    """Record a weak reference to a node that needs copies of its values before this memory is written."""
    if storage.lent is None:
        storage.lent = []
    lent = storage.lent
    lent.append(reference)
    count = len(lent)
    if count >= CROWDED and count & (count - 1) == 0:
        storage.lent = living(lent)


@native
def living(references: list) -> list:
    """Those of weak references whose objects live."""
    found: list = []
    for k in range(len(references)):
        if references[k]() is not None:
            found.append(references[k])
    return found

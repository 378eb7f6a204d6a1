"""Call an operator: find the plan for the arguments' metadata, run it, and record it for the backward pass."""
from __future__ import annotations

from .arguments import collect, storages_of, tensor_argument
from .history import joins, made_at, record
from .keys import WORD, exact, gradient_words, list_key, value_count
from .language import Args, cast, filled, i64, native, new_tuple, tuple_set, vectorcall
from .memory import load_i64, stack, store_f64, store_i64
from .objects import CHOICE, ELSEWHERE, INTO, PYTHON, RUN, SAME, Plan, Tensor, mine, part_of, state
from .remote import attempt
from .running import execute, finish, overwrite
from .sharing import collides, shares

ROOM = 96  # values of one call: inputs, results, temporaries, random position, error flag
MOST = 48  # values the arguments may give to such a call; those with more take ``call_many``
WIDEST = 16384  # values of a call that the stack holds
TRUE, FALSE = (bool, True), (bool, False)  # in keys


@native(binds=True, attributes=True, weakref=True)
class Op:
    """An operator.  Called with tensors and numbers; as an attribute of Tensor it is a method."""

    name: object
    body: object  # the decomposition, or None for a primitive
    kind: object  # the kind of a primitive, or None
    signature: object
    autocast: i64  # the bits of ``mine.autocast`` with which its arguments are cast
    scalars: i64  # bit k: parameter k, where a number, is a run-time value
    masks: dict  # names of keyword arguments -> bits, as in ``scalars``
    plans: dict
    polymorphic: dict
    rules: dict
    traits: dict  # its declared properties: see core/traits.py
    caches: dict  # data derived from it, or recorded about it
    precisions: dict  # list of autocast -> its class there: see core/precisions.py
    doc: object

    @vectorcall
    def call(self, args: Args, names: tuple) -> object:
        own = mine
        if own.autocast & self.autocast != 0:
            return state.cast(self, collect(args), names)
        if len(own.stack) + len(own.modes) != 0:
            return state.slow(self, collect(args), names)
        count = len(args)
        scalars = self.scalars
        if names is not None:
            found = self.masks.get(names)
            if found is None:
                found = state.keyword_mask(self, names)
            named: i64 = found
            scalars = (scalars & ((1 << (count - len(names))) - 1)) | (named << (count - len(names)))
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
                tuple_set(key, k, tensor._rush_meta)
                store_i64(values, used, tensor._rush_storage.address + tensor._rush_offset * tensor.itemsize)
                if tensor._rush_needs_grad:
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
        mask = 0 if own.grad == 0 else mask
        tuple_set(key, count, names)
        tuple_set(key, count + 1, mask)
        whole = filled(key)
        found_plan = self.plans.get(whole)
        if found_plan is not None:
            plan = cast(Plan, found_plan)
            if plan.large == 0:
                return run(plan, args, names, values, used, mask)
        return plan_and_run(self, found_plan, args, names, scalars, whole, values, used, mask, storages_of(args))


@native
def plan_and_run(op: Op, found: object, args: Args, names: tuple, scalars: i64, key: tuple, values: i64, used: i64,
                 mask: i64, held: tuple) -> object:
    """Plans a call for whose key nothing, or a choice of plans, was found, and runs it.

    ``held``: the storages of the arguments, whose addresses are in ``values``: other threads run while a plan is made,
    and may give the tensors other memory.
    """
    if found is None:
        found = state.plan(op, collect(args), names, key, mask)
    plan = cast(Plan, found)
    if plan.large == CHOICE:
        plan = chosen(plan, args, names, key, mask)
    if plan.large != 0:
        return call_many(op, args, names, scalars)
    return run(plan, args, names, values, used, mask)


@native
def chosen(plan: Plan, args: Args, names: tuple, key: tuple, mask: object) -> Plan:
    """The plan for the numbers of a call, of several for its key."""
    return cast(Plan, state.choose(plan, collect(args), names, key, mask))


@native
def call_many(op: Op, args: Args, names: tuple, scalars: i64) -> object:
    """A call with more values than ``Op.call`` has room for: a model with its parameters, a backward pass with its
    saved tensors."""
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
            tuple_set(key, k, tensor._rush_meta)
            store_i64(given, used, tensor._rush_storage.address + tensor._rush_offset * tensor.itemsize)
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
    return run_many(op, args, names, whole, given, used, mask, storages_of(args))


@native
def run_many(op: Op, args: Args, names: tuple, key: tuple, given: i64, used: i64, mask: object,
             held: tuple) -> object:
    """Finds the plan of a call of many values, and runs it.  ``held``: as for ``plan_and_run``."""
    found = op.plans.get(key)
    if found is None:
        found = state.plan(op, collect(args), names, key, mask)
    plan = cast(Plan, found)
    if plan.large == CHOICE:
        plan = chosen(plan, args, names, key, mask)
    more = len(plan.outputs) + len(plan.temporaries)
    if more > WIDEST:
        return state.slow(op, collect(args), names)
    values = stack(used + more + 8)
    for k in range(used):
        store_i64(values, k, load_i64(given, k))
    return run(plan, args, names, values, used, 0 if mask == 0 else 1)


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
        made = attempt(plan, args, values, used)
        if made is None:
            made = state.elsewhere(plan, collect(args), values, used)
        return finish(plan, args, cast(tuple, made), values, mask)
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
    start = target._rush_offset if itemsize == target.itemsize else target._rush_offset * target.itemsize // itemsize
    result = part_of(target, start + plan.offset, plan.outputs[0], itemsize)
    if plan.apart == 0:
        result._base = target if target._base is None else target._base
    result._rush_seen = made_at(target)
    if mask != 0:
        record(plan, args, (result,), values)
    return result

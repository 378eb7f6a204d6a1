"""Plans: from one operator call to native code, made once for the known properties of the arguments.

``core/native/calls.py`` looks plans up and runs them; this module makes them on a miss: ``programs.py`` chooses the
kind of plan, ``draft.py`` substitutes sizes, ``slow_calls.py`` answers calls with other than plain tensors and numbers.
"""
from __future__ import annotations

import contextlib
import functools
import threading

import numpy as np

from ..aot.alias import Recording
from ..core import advice, collector, interpret
from ..core.devices import cpu, preferred
from ..core.forking import guarded
from ..core.log import logger
from ..core.meta import Meta
from ..core.native import Op, Plan, Tensor
from ..core.native.objects import RUN
from ..core.op import OPS, body_of, in_parts, respelled
from ..core.operands import check_operands
from ..core.progress import progress
from ..core.runtime import holds
from ..core.settings import settings
from ..core.shutdown import allow_imports
from ..core.targets import check_exact
from ..graph.graph import Graph, Store
from ..graph.regions import Lengthened, shortened
from ..ops.out import refuse_gradient
from ..transforms.trace import Trace, Traced, ValueNeeded
from . import elsewhere, polymorphic, joins, numbers, regions, store
from .arguments import NUMBER_METAS, Arguments
from .backward import backward_operator, give_backward
from .detours import (another, call_again, call_body, call_of_numbers, call_respelled, call_with_numbers, is_count,
                      takes_tensor, writing)
from .draft import Draft, around, blank_plan, describe, python_plan
from .elsewhere import flat
from .programs import (alias_of, into_plan, is_only_known, meta_plan, own, passes, passing_plan, program_plan,
                       refuse_mixture, run_plan, same_plan, view_plan)
from .weights import give_packing, steady

log, graph_log = logger("plans"), logger("graph")
planning = guarded("plans", threading.RLock())  # plans are made by one thread at a time


def plan_for(op: Op, args, names, key, mask) -> Plan:
    """Return the plan of a call that was not seen lately."""
    allow_imports()
    if cpu.provider.planning.others:  # the thread makes a package for another host: a call runs on this one
        with cpu.provider.planned_for():
            return plan_for(op, args, names, key, mask)
    found = op.plans.again(key)
    if found is None and (found := polymorphic.served(op, key, args)) is not None:
        elsewhere.settled_on(found, elsewhere.device_of(args))
    return found or made_for(op, args, names, key, mask)


def made_for(op: Op, args, names, key, mask) -> Plan:
    """Make and remember the plan of a call that was not seen before."""
    if names and respelled(op, args, names)[1] != names or any(type(a) is type or isinstance(a, np.generic)
                                                               for a in flat(args)):
        return op.plans.enter(key, python_plan(op, call_respelled(op)).settle(op))
    if another(op, args, names) is None:
        check_operands(op, args, names)
    where = elsewhere.device_of(args)
    if in_parts(op, mask):
        out = bool(names) and "out" in names and "library" not in op.traits  # users' operators have their own out
        if where is not None and not where.provider.on_host:
            run = writing(op) if out else elsewhere.body_runner(op, where)
            return op.plans.enter(key, python_plan(op, run).settle(op))
        return op.plans.enter(key, plan_in_parts(op, out))
    meeting = elsewhere.meeting(op, args, names) if elsewhere.mixed(args) else None
    if meeting is not None:
        return op.plans.enter(key, python_plan(op, meeting).settle(op))
    direct = joins.directly(op, args, names, key) if op in (OPS["cat"], OPS["stack"]) else None
    if direct is not None:
        return python_plan(op, direct).settle(op)
    if numbers.learned(op, args, names, key):
        return python_plan(op, call_again(op)).settle(op)
    call, target = polymorphic.call_of(op, key, args), (where or preferred()).provider.target()
    with chosen_settings(op):
        made, draft = call and call.plan() or (None, None)
        target.settle()  # it may share kernels with a plan that another thread is making
        entry = store.entry(op, key) if made is None or call.early() else None
    text = draft.conditions if draft else ""
    warned = advice.Given.count
    if made is None:
        made, text = entry and stored_plan(op, entry, args) or (None, "")
        if made is not None:
            entry = None  # it is stored already
        else:
            try:
                with planning, chosen_settings(op), target.ahead():  # templates choose when sizes are substituted
                    made, draft = call and call.generalized(names, mask,
                                                        functools.partial(draft_plan, where=where)) or (None, None)
                    if made is None:
                        draft = draft_plan(op, args, names, mask, numbers.scalar_bits(key), where)
                        made = draft.settle(op)
                    if entry and settings.tune:
                        entry = store.entry(op, key)  # planning may have found measurements that the entry depends on
            except Exception:
                return without_numbers(op, args, names, key)
            text = draft.conditions
            if body_of(op, args) is op.body:  # a rule for quantized tensors applies only to these
                numbers.given_up(op, args, names, draft.fixed)
        if call:
            call.remember()
    if entry and (advice.Given.count == warned or OPS.get(op.name) is not op):  # warn in every process
        store.put(entry, made, text)
    chosen = op.traits.get("settings")
    if chosen:  # its backward is planned later, under the same settings
        inner = made.inner[0] if made.inner else made
        for backward in (inner.derived, inner.donating):
            if isinstance(backward, Op):
                backward.traits["settings"] = chosen
    numbers.remember(op, key, elsewhere.settled_on(made, where), text)
    log.debug("%s: %s%s", op.name, describe(made), f" where {text}" if text else "")
    return made


def choose(choice: Plan, args, names, key, mask) -> Plan:
    """Return the plan for a call whose key has several, selected by its numbers."""
    found = choice.function.find(args)
    if found is None:
        found = made_for(choice.op, args, names, key, mask)
    return found


def plan_in_parts(op: Op, out: bool) -> Plan:
    """Return the plan of an operator whose body runs on the tensors themselves: one for all calls, and one for those
    with ``out``."""
    known = op.caches.setdefault("parts", {})
    if out not in known:
        known[out] = python_plan(op, writing(op) if out else call_body(op)).settle(op)
    return known[out]


def without_numbers(op: Op, args, names, key) -> Plan:
    """After an error: return a plan that retries the call with numbers that were learned to vary as parts of its key.
    If that fails too, they were not the cause."""
    places = numbers.given_up(op, args, names, [k for k, part in enumerate(key[:-2]) if part in numbers.KINDS])
    if not places:
        raise

    def run(args, names):
        try:
            return call_again(op)(args, names)
        except Exception:
            numbers.taken_back(op, places)
            raise
    return python_plan(op, run).settle(op)


def chosen_settings(op: Op):
    """Return a context with the settings under which a compiled graph is planned."""
    chosen = op.traits.get("settings")
    return settings.set(**chosen) if chosen else contextlib.nullcontext()


def draft_plan(op: Op, args, names, mask, scalars=None, where=None) -> "Draft":
    """Return the plan of a call on the device ``where`` (None: the preferred one); the caller holds the lock and has
    applied the operator's settings."""
    with elsewhere.placing(where or cpu), interpret.unwound(), interpret.precision(0), collector.waiting():
        progress.begin(op.name)
        try:
            return regional_plan(op, args, names, mask) or make_plan(op, args, names, mask, scalars)
        except ValueNeeded:
            if not any(is_count(a) for a in flat(args[takes_tensor(op):])):
                raise
            return python_plan(op, call_with_numbers(op))
        finally:
            progress.end()


def stored_plan(op: Op, entry: str, args):
    """Return the plan that this or another process made before, and its conditions on numbers; None if there is none,
    or they do not hold."""
    found = store.get(entry)
    if found is None or found.conditions and not holds(found.conditions)(args):
        return None
    return restored(op, found, entry), found.conditions


def restored(op: Op, found: store.Stored, entry: str) -> Plan:
    """Return a plan from its stored form."""
    if found.inner is not None:
        inner, *rest = found.inner
        return around(op, restored(op, inner, entry), *rest)
    plan = blank_plan(op, RUN)
    for field, value in found.fields.items():
        setattr(plan, field, value)
    if plan.written:
        plan.function = call_body(op)
    if found.code is not None:
        plan.code, plan.code_owner = found.code.address, found.code
        give_packing(plan, found.code)
    if found.backward is not None:
        if isinstance(found.backward[2], store.Underived):
            found.backward[2].op, found.backward[2].derive = op, backward_again
        give_backward(plan, *found.backward)
        store.name_backward(plan, entry, *found.rows)
    return plan


def make_plan(op: Op, args, names, mask, scalars=None) -> Draft:
    if another(op, args, names) is not None:
        return python_plan(op, lambda args, names: another(op, args, names)(args[0]))
    if names and "out" in names and op.traits.get("into") is None:
        return out_plan(op, args, names, mask, scalars)
    trace = Recording(writes="into" not in op.traits)
    arguments = Arguments(op, args, names, trace, scalars)
    draft = planned(op, args, names, mask, trace, arguments)
    if not mask and draft.outline is not None and "backward" not in op.traits:  # after which weights change
        draft.outline.steady = steady(args, arguments.tensors, draft.outline.given)
    draft.conditions, draft.fixed = arguments.conditions.text, frozenset(arguments.conditions.fixed)
    return draft


def planned(op: Op, args, names, mask, trace, arguments) -> Draft:
    """Return the plan of a call by tracing it."""
    if op.traits.get("numbers") and not arguments.tensors and args and type(args[0]) in NUMBER_METAS:
        return python_plan(op, call_of_numbers(op))
    with trace:
        if op.kind is None and not (mask and "vjp" in op.rules):
            results = body_of(op, arguments.args)(*arguments.args, **arguments.kwargs)
        else:
            results = trace.call(op, arguments.args, arguments.kwargs)
        several = isinstance(results, (tuple, list))
        results = list(results) if several else [results]
        if not all(isinstance(r, Traced) for r in results):
            raise TypeError(f"{op.name}: its body returned {results}, not tensors")
        if arguments.tensors and any(isinstance(size, Tensor) for r in results for size in r._rush_meta.shape):
            raise ValueNeeded(
                f"{op.name}: a size is a tensor whose value is unknown while its program is traced")
        if is_only_known(arguments):
            refuse_mixture(op, arguments)
            return meta_plan(op, trace, arguments, results, several, mask)
        into = op.traits.get("into")
        if into is not None:
            return into_plan(op, trace, arguments, results[0], arguments.tensors[into], mask)
        stores = [Store(own(value), node) for node, value in trace.written()]
        if stores or several and any(passes(op, r, trace, arguments, mask) for r in results):
            return program_plan(op, trace, arguments, results, several, mask, stores)
        outputs = [r.node for r in results]
        if not several and outputs[0] in arguments.tensors:
            return same_plan(op, arguments, outputs[0])
        if op.traits.get("view") and not several:
            found = alias_of(outputs[0], arguments.tensors)
            if found is not None:
                return view_plan(op, trace, arguments, outputs[0], *found, mask)
        if op.traits.get("derived") and not mask:
            return passing_plan(op, trace, arguments, outputs, several)
        outputs = [own(node) for node in outputs]
        return run_plan(op, trace, arguments, outputs, several, mask)


# --- programs with a repeated subgraph --------------------------------------------------------------------------------
def region_of(op: Op):
    """Return the Region of an operator whose program has a repeated subgraph, or None."""
    if "region" not in op.caches:
        graph, found = op.traits.get("derived"), None
        if isinstance(graph, Lengthened):
            found = graph
        elif "shorter" in op.traits and not op.traits.get("symbols") and not op.traits.get("held"):
            found = shortened(graph)
        op.caches["region"] = found
    return op.caches["region"]


def regional_plan(op: Op, args, names, mask) -> Draft | None:
    """Return the plan of a program with a repeated subgraph, made from one with few repetitions; None for others."""
    region = region_of(op) if settings.regions and not names else None
    if region is None or any(isinstance(a, polymorphic.SymbolicArgument)
                             or isinstance(a, Tensor) and a._rush_meta.turned for a in args):
        return None
    try:
        places = [k for k, node in enumerate(op.traits["inputs"]) if node is not None]
        call = regions.RegionCall(region, args, places, mask)
        given, wanted = call.short
        short = make_plan(short_operator(op, region), given, (), wanted)
        if short.conditions:  # on arguments of the short call
            raise regions.Irregular("it depends on run-time scalars")
        made = regions.Lengthening(region, call, short)
        backward = regions.Backward(made, made.short.derived.caches["made"]) if made.short.derived else None
    except regions.Irregular as reason:
        graph_log.debug("%s: planned in full: %s", op.name, reason)
        return None
    graph_log.debug("%s: %s", op.name, region)
    return lengthened_plan(op, made, backward, mask)


def short_operator(op: Op, region) -> Op:
    """Return the operator whose program is the short form of a region."""
    if "shorter" in op.traits:
        return op.traits["shorter"](region.short)
    made = backward_operator(op.name, region.short)
    if "donated" in op.traits:
        made.traits["donated"] = region.donated
    return made


def lengthened_plan(op: Op, made, backward, mask) -> Draft:
    """Return the plan of a full program; ``made``: the Lengthening of the short plan, ``backward``: that of its
    backward program."""
    short, call, plan = made.short, made.call, Draft(op, RUN)
    plan.outline, plan.mixed, plan.several, plan.random = made.outline, preferred().provider.on_host, short.several, 0
    plan.extra = len(made.outline.outputs) - len(made.fresh)
    if getattr(short, "passed", ()):
        plan.passed, plan.views = tuple(made.passed), tuple(made.views)
    if getattr(short, "written", ()):
        written = {call.node_of_tensor[k] for k in short.written}
        plan.written, plan.function = tuple(call.tensor[call.place[thing]] for thing in made.region.thing_of_input
                                            if thing[0] in written), call_body(op)
    if made.outline.donated is not None:
        plan.source = call.tensor[made.outline.donated]
    if backward is not None:
        plan.wanted, plan.cotangents, plan.saves = backward.wanted, backward.cotangent_numbers, tuple(backward.saves)
        given = [meta or type(number)(0) for meta, number in zip(call.metas, call.args)]
        pure = store.Underived(given, mask, backward.again, op, backward_again) if backward.again else None
        give_backward(plan, backward.graph, backward.used, pure, backward.chosen, backward.donated)
    return plan


def backward_again(op: Op, given, mask) -> Graph:
    """Return the program for a call's gradients under double backward; ``given``: the Metas of its tensors, and
    numbers."""
    given = [polymorphic.SymbolicArgument(a) if isinstance(a, Meta) else a for a in given]
    with planning, elsewhere.placing(elsewhere.device_of(given)
                                     or cpu), interpret.unwound(), interpret.precision(0), chosen_settings(op):
        draft = make_plan(op, given, (), mask)
    return draft.derived.caches["made"][2]


def out_plan(op: Op, args, names, mask, scalars) -> Draft:
    """``out=``: a single result that fits is computed into its target; others are computed first and copied."""
    trace = Trace()
    arguments = Arguments(op, args, names, trace, scalars)
    out = arguments.kwargs.pop("out")
    if not isinstance(out, Traced):
        return python_plan(op, writing(op))
    if mask:
        refuse_gradient(op)
    with trace:
        result = body_of(op, arguments.args)(*arguments.args, **arguments.kwargs)
        if not isinstance(result, Traced) or is_only_known(arguments) or tuple(result.shape) != tuple(out.shape):
            return python_plan(op, writing(op))
        check_exact(op, result._rush_meta, out._rush_meta)
        draft = into_plan(op, trace, arguments, result, out.node, 0)
        draft.conditions, draft.fixed = arguments.conditions.text, frozenset(arguments.conditions.fixed)
        return draft

"""Plans: from one operator call to native code, made once for what is known of the arguments.

``core/native/calls.py`` looks plans up and runs them; this file makes them on a miss, and answers the calls that are
not plain tensors and numbers.
"""
from __future__ import annotations

import contextlib
import ctypes
import functools
import inspect
import threading
from logging import DEBUG

import numpy as np

from ..aot.alias import Recording
from ..aot.joint import active_nodes, carries_gradient
from ..devices.cpu.code import Code
from ..devices.cpu.target import target as processor
from ..compiler.pipeline import DERIVING, Compilation, code_of, outlined, run
from ..compiler.reference import failures as raised
from ..compiler.residuals import dense
from ..core import advice, collector, failures, interpret
from ..core.devices import cpu, meta as meta_device, preferred
from ..core.dtypes import INTEGER, bool_, dtype, float64, int32, int64, meant, uint64
from ..core.errors import OutOfMemoryError
from ..core.expr import Expr
from ..core.forking import guarded
from ..core.kinds import P
from ..core.log import logger
from ..core.meta import Meta, settled
from ..core.native import Op, Plan, Tensor, calls, mine, state
from ..core.native.objects import (CHOICE, FLOAT_VALUE, ELSEWHERE, INTEGER_VALUE, INTO, POSITION_VALUE, PYTHON, RUN,
                                   SAME, SEED_VALUE, VIEW)
from ..core.op import OPS, body_of, in_parts, keywords, make, respelled
from ..core.operands import BEYOND, check_operands
from ..core.progress import progress
from ..core.runtime import Conditions, Known, holds
from ..core.settings import settings
from ..core.overriding import DISPATCH, FUNCTION, NOBODY, Dispatch, answered, overriding
from ..core.targets import check_cast, check_distinct, check_shape, is_expanded
from ..core.tensor import alias, check_size, empty_of
from ..graph.graph import Graph, Node, Store
from ..graph.regions import Lengthened, shortened
from ..graph.views import shown, view_of_input
from ..ops.expanded import write_changes
from ..ops.shape import region
from ..transforms.trace import Trace, Traced, ValueNeeded, traced
from . import elsewhere, polymorphic, joins, numbers, regions, store
from .destination import check_exact, into_out, reads_apart, refuse_gradient, shared
from .elsewhere import flat

log, graph_log, output_log = logger("plans"), logger("graph"), logger("output")
NUMBER_METAS = {float: Meta.of((), float64), int: Meta.of((), int64), bool: Meta.of((), bool_)}
planning = guarded("plans", threading.RLock())  # plans are made by one thread at a time


class Arguments:
    """The arguments of one call as a trace sees them: each tensor and run-time number an input, in order.

    ``scalars``: the bits of arguments that are run-time numbers (default: as the operator says).  ``conditions``: what
      was assumed of these.
    """

    def __init__(self, op: Op, args, names, trace: Trace, scalars=None):
        self.trace, self.tensors, self.conditions = trace, [], Conditions()
        positional = len(args) - len(names or ())
        self.scalars = calls_mask(op, names, positional) if scalars is None else scalars
        values = [self.enter(a, k, self.scalars >> k & 1) for k, a in enumerate(args)]
        self.args, self.kwargs = values[:positional], dict(zip(names or (), values[positional:]))

    def enter(self, value, place, scalar):
        if isinstance(value, (Tensor, polymorphic.SymbolicArgument)):
            entered = self.trace.input(value._meta)
            self.tensors.append(entered.node)
            return entered
        if scalar and type(value) in NUMBER_METAS:
            return self.trace.input(NUMBER_METAS[type(value)].on(preferred()), "s", True,
                                    Known(value, f"a[{place}]", frozenset((place,)), self.conditions))
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return type(value)(self.enter(v, place, 0) for v in value)
        return value


def calls_mask(op: Op, names, positional: int) -> int:
    """The bits of arguments that are run-time numbers, for a call with these keyword names."""
    scalars = op.traits.get("all_scalars", op.scalars)  # more bits than the hot path has room for
    if not names:
        return scalars
    return scalars & ((1 << positional) - 1) | keyword_mask(op, names) << positional


def gradient_bit(k: int) -> int:
    """The bit that says whether tensor argument k wants a gradient."""
    return 1 << k


def whole_mask(words) -> int:
    """The bits that the hot path gathered in several words."""
    return sum(word << k * calls.WORD for k, word in enumerate(words))


def keyword_mask(op: Op, names) -> int:
    found = op.masks.get(names)
    if found is None:
        order = list(op.signature.parameters)
        bits = [op.scalars >> order.index(n) & 1 if n in order else 0 for n in keywords(op, names)]
        found = op.masks[names] = sum(bit << k for k, bit in enumerate(bits))
    return found


def plan_for(op: Op, args, names, key, mask) -> Plan:
    """The plan of a call that was not seen lately."""
    found = op.plans.again(key)
    if found is None and (found := polymorphic.served(op, key, args)) is not None:
        elsewhere.settled_on(found, elsewhere.device_of(args))
    return found or made_for(op, args, names, key, mask)


def made_for(op: Op, args, names, key, mask) -> Plan:
    """Makes and remembers the plan of a call that was not seen before."""
    if names and respelled(op, args, names)[1] != names or any(type(a) is type or isinstance(a, np.generic)
                                                               for a in flat(args)):
        return op.plans.enter(key, python_plan(op, call_respelled(op)).settle(op))
    if another(op, args, names) is None:
        check_operands(op, args, names)
    where = elsewhere.device_of(args)
    if in_parts(op):
        if where is not None and where.provider.has_data and not where.provider.on_host:
            return op.plans.enter(key, python_plan(op, writing(op) if names and "out" in names
                                                   else elsewhere.body_runner(op)).settle(op))
        return op.plans.enter(key, plan_in_parts(op, bool(names) and "out" in names))
    meeting = elsewhere.meeting(op, args, names) if elsewhere.mixed(args) else None
    if meeting is not None:
        return op.plans.enter(key, python_plan(op, meeting).settle(op))
    direct = joins.directly(op, args, names, key) if op is OPS["cat"] else None
    if direct is not None:
        return python_plan(op, direct).settle(op)
    if numbers.learned(op, args, names, key):
        return python_plan(op, call_again(op)).settle(op)
    call = polymorphic.call_of(op, key, args)
    with chosen_settings(op):
        made, draft = call and call.plan() or (None, None)
        processor.settle()  # it may share kernels with a plan that another thread is making
        entry = store.entry(op, key) if made is None or call.early() else None
    text = draft.conditions if draft else ""
    warned = advice.Given.count
    if made is None:
        made, text = entry and stored_plan(op, entry, args) or (None, "")
        if made is not None:
            entry = None  # it is kept already
        else:
            try:
                with planning, chosen_settings(op), processor.ahead():  # templates choose when sizes are put in
                    made, draft = call and call.generalized(names, mask,
                                                        functools.partial(draft_plan, where=where)) or (None, None)
                    if made is None:
                        draft = draft_plan(op, args, names, mask, numbers.scalar_bits(key), where)
                        made = draft.settle(op)
            except Exception:
                return without_numbers(op, args, names, key)
            text = draft.conditions
            if body_of(op, args) is op.body:  # a rule for quantized tensors speaks for these alone
                numbers.given_up(op, args, names, draft.fixed)
        if call:
            call.remember()
    if entry and (advice.Given.count == warned or OPS.get(op.name) is not op):  # what warns does so in every process
        store.put(entry, made, text)
    chosen = op.traits.get("settings")
    if chosen:  # its backward is planned later, and likewise
        inner = made.inner[0] if made.inner else made
        for backward in (inner.derived, inner.donating):
            if isinstance(backward, Op):
                backward.traits["settings"] = chosen
    numbers.remember(op, key, elsewhere.settled_on(made, where), text)
    log.debug("%s: %s%s", op.name, describe(made), f" where {text}" if text else "")
    return made


def choose(choice: Plan, args, names, key, mask) -> Plan:
    """The plan for a call whose key has several, by what its numbers are."""
    found = choice.function.find(args)
    if found is None:
        found = made_for(choice.op, args, names, key, mask)
    return found


def plan_in_parts(op: Op, out: bool) -> Plan:
    """The plan of an operator whose body runs on the tensors themselves: one for all calls, and one for those that are
    given ``out``."""
    known = op.traits.setdefault("parts", {})
    if out not in known:
        known[out] = python_plan(op, writing(op) if out else call_body(op)).settle(op)
    return known[out]


def call_again(op: Op):
    """Makes a call again, since its key is another one now."""
    return lambda args, names: op(*args[:len(args) - len(names or ())],
                                  **dict(zip(names or (), args[len(args) - len(names or ()):])))


def without_numbers(op: Op, args, names, key) -> Plan:
    """After an error: the call with numbers that were learned to vary as parts of its key.  Where that fails, too,
    nothing was wrong with them."""
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
    """The settings that a compiled graph was asked to be planned under, for a block."""
    chosen = op.traits.get("settings")
    return settings.set(**chosen) if chosen else contextlib.nullcontext()


def call_with_numbers(op: Op):
    """Calls an operator with the numbers in its integer tensors without dimensions, where it takes sizes or places."""
    def run(args, names):
        first, positional = takes_tensor(op), len(args) - len(names or ())
        given = (*args[:first], *(a.item() if is_count(a) else tuple(v.item() if is_count(v) else v for v in a)
                                  if type(a) in (list, tuple) else a for a in args[first:]))
        return op(*given[:positional], **dict(zip(names or (), given[positional:])))
    return run


def takes_tensor(op: Op) -> bool:
    """Whether the first argument of an operator is a tensor, whatever the others are."""
    return op.signature is None or next(iter(op.signature.parameters), "input") == "input"


def is_count(value) -> bool:
    """Whether a value may stand for a size: an integer tensor without dimensions."""
    return isinstance(value, Tensor) and value.dtype.category == INTEGER and not value.dim()


def draft_plan(op: Op, args, names, mask, scalars=None, where=None) -> "Draft":
    """The plan of a call that lies on a device (``where``; None: the one that is preferred); the caller holds the lock,
    and has put the settings in force that the operator was asked to be planned under."""
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
    """The plan that this or another process made before, and its conditions on numbers; None where there is none, or
    these do not hold."""
    found = store.get(entry)
    if found is None or found.conditions and not holds(found.conditions)(args):
        return None
    return restored(op, found, entry), found.conditions


def restored(op: Op, found: store.Stored, entry: str) -> Plan:
    """The plan that was stored."""
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
    if found.backward is not None:
        if isinstance(found.backward[2], store.Underived):
            found.backward[2].op, found.backward[2].derive = op, backward_again
        give_backward(plan, *found.backward)
        store.name_backward(plan, entry, *found.rows)
    return plan


def describe(plan: Plan) -> str:
    kind = {RUN: "program", VIEW: "view", SAME: "same tensor", PYTHON: "python", INTO: "in place",
            ELSEWHERE: "program of a device"}[plan.kind]
    return f"{kind} -> {', '.join(map(str, plan.outputs or ()))}"


def blank_plan(op: Op, kind: int) -> Plan:
    plan = Plan()
    plan.kind, plan.op = kind, op
    plan.outputs = plan.sizes = plan.itemsizes = plan.temporaries = plan.inside = plan.reused = ()
    plan.wanted = plan.cotangents = plan.saves = plan.constants = plan.passed = plan.views = plan.written = ()
    return plan


class Draft:
    """A plan that is being made: sizes in it may be symbols.  What is set on it, but for the attributes named here, are
    fields of the Plan."""

    OWN = ("op", "outline", "mixed", "around", "derived", "donating", "opened", "conditions", "fixed")

    def __init__(self, op: Op, kind: int):
        self.op, self.kind = op, kind
        # of the program; whether its large results may lie among its temporaries
        self.outline, self.mixed = None, False
        self.around = None    # what ``around`` takes, of a plan that runs another one
        self.derived, self.donating = None, None
        self.opened = None    # backward operators for all sizes: see ``open_backward``
        # on run-time numbers, and the arguments among them that it holds for one value of
        self.conditions, self.fixed = "", frozenset()

    def settle(self, op: Op, sizes=None) -> Plan:
        """The plan for these values of the symbols."""
        if self.around is not None:
            inner, *rest = self.around
            return around(op, inner.settle(op, sizes), *(settled(rest, sizes) if sizes else rest))
        plan = blank_plan(op, self.kind)
        for field, value in vars(self).items():
            if field not in self.OWN:
                setattr(plan, field, settled(value, sizes) if sizes else value)
        if self.outline is not None:
            for meta in settled(self.outline.outputs, sizes) if sizes else self.outline.outputs:
                check_size(meta)
            install(plan, code_of(self.outline, sizes, self.mixed))
        if self.derived is not None and sizes:
            plan.derived, plan.donating = self.open_backward(tuple(sizes))
            plan.constants = tuple(sizes.values())
        elif self.derived is not None:
            plan.derived, plan.donating = self.derived, self.donating
        return plan

    def open_backward(self, symbols) -> tuple:
        """The operators that plans of all sizes run backward, which are given the values of the symbols: (derived,
        donating)."""
        if self.opened is None:
            made = blank_plan(self.op, self.kind)
            made.saves = self.saves
            give_backward(made, *self.derived.traits["made"], symbols)
            self.opened = made.derived, made.donating
        return self.opened


def python_plan(op: Op, function) -> Draft:
    plan = Draft(op, PYTHON)
    plan.function = function
    return plan


def call_body(op: Op):
    """Runs a composite operator's body on the tensors themselves."""
    def run(args, names):
        if mine.device is not None:  # what the body makes of nothing lies where its tensors lie
            return elsewhere.body_runner(op)(args, names)
        body = body_of(op, args)
        if not names:
            return body(*args)
        positional = len(args) - len(names)
        return body(*args[:positional], **dict(zip(names, args[positional:])))
    return run


def call_respelled(op: Op):
    """Calls an operator by its own names of the keywords, with dtypes for Python's types, and Python's numbers for
    NumPy's."""
    def run(args, names):
        if any(type(a) is type and meant(a) is a for a in args):
            raise TypeError(
                f"{op.name}(): expected tensors, numbers and dtypes, but got the class "
                f"{next(a for a in args if type(a) is type and meant(a) is a).__name__}")
        args, names = respelled(op, tuple(meant(in_python(a)) for a in args), names or ())
        return op(*args[:len(args) - len(names)], **dict(zip(names, args[len(args) - len(names):])))
    return run


def in_python(value):
    """NumPy's numbers as Python's, in lists and tuples, too; any other value itself."""
    if type(value) in (list, tuple):
        return type(value)(map(in_python, value))
    return value.item() if isinstance(value, np.generic) else value


def call_of_numbers(op: Op):
    """Calls an operator of which no argument is a tensor with the first one as a tensor."""
    def run(args, names):
        positional = len(args) - len(names or ())
        return op(OPS["full"]((), args[0]), *args[1:positional], **dict(zip(names or (), args[positional:])))
    return run


def is_only_known(arguments) -> bool:
    """Whether a call is on tensors without data, or makes one."""
    return not preferred().provider.has_data or any(not m.meta.device.provider.has_data for m in arguments.tensors)


def refuse_mixture(op: Op, arguments):
    """RuntimeError for tensors with data beside those without, but for copies and numbers."""
    if op.name != "copy_" and any(m.meta.shape and m.meta.device.provider.has_data for m in arguments.tensors):
        raise RuntimeError(
            f"{op.name}: Expected all tensors to be on the same device, but found some on meta, without data, and "
            "some on cpu. Give both data "
            "(to_empty(device='cpu'), then load their values), or neither.")


def another(op: Op, args, names):
    """What such a call means instead, as a function of the first argument; None for most calls."""
    otherwise = op.traits.get("otherwise")
    if otherwise is None or names and getattr(otherwise, "by_position", False):
        return None
    return otherwise(*args[1:])


def make_plan(op: Op, args, names, mask, scalars=None) -> Draft:
    if another(op, args, names) is not None:
        return python_plan(op, lambda args, names: another(op, args, names)(args[0]))
    if names and "out" in names and op.traits.get("into") is None:
        return out_plan(op, args, names, mask, scalars)
    trace = Recording(writes="into" not in op.traits)
    arguments = Arguments(op, args, names, trace, scalars)
    draft = planned(op, args, names, mask, trace, arguments)
    draft.conditions, draft.fixed = arguments.conditions.text, frozenset(arguments.conditions.fixed)
    return draft


def planned(op: Op, args, names, mask, trace, arguments) -> Draft:
    """The plan of a call that is traced."""
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
        if arguments.tensors and any(isinstance(size, Tensor) for r in results for size in r._meta.shape):
            raise ValueNeeded(
                f"{op.name}: a size is a tensor whose value is not known while its program is written down")
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


def passes(op: Op, result: Traced, trace, arguments, mask) -> bool:
    """Whether a result of a program shows an argument in a way that passing_plan does not make."""
    found = shown_argument(result, trace, arguments)
    if found is None or not op.traits.get("derived"):
        return found is not None
    source, meta, _ = found
    return bool(op.traits.get("captured")) and (mask or source.dtype is not result.dtype or meta.turned
                                                != source.turned)


# --- programs that repeat a stretch -----------------------------------------------------------------------------------
def region_of(op: Op):
    """The Region of an operator whose program repeats a stretch, or None."""
    if "region" not in op.traits:
        graph, found = op.traits.get("derived"), None
        if isinstance(graph, Lengthened):
            found = graph
        elif "shorter" in op.traits and not op.traits.get("symbols") and not op.traits.get("held"):
            found = shortened(graph)
        op.traits["region"] = found
    return op.traits["region"]


def regional_plan(op: Op, args, names, mask) -> Draft | None:
    """The plan of a program that repeats a stretch, by that of one with few of them; None for all others."""
    region = region_of(op) if settings.regions and not names else None
    if region is None or any(isinstance(a, polymorphic.SymbolicArgument) or isinstance(a, Tensor) and a._meta.turned
                             for a in args):
        return None
    try:
        places = [k for k, node in enumerate(op.traits["inputs"]) if node is not None]
        call = regions.RegionCall(region, args, places, mask)
        given, wanted = call.short
        short = make_plan(short_operator(op, region), given, (), wanted)
        if short.conditions:  # on arguments of the short call
            raise regions.Irregular("it decides by run-time numbers")
        made = regions.Lengthening(region, call, short)
        backward = regions.Backward(made, made.short.derived.traits["made"]) if made.short.derived else None
    except regions.Irregular as reason:
        graph_log.debug("%s: planned as a whole: %s", op.name, reason)
        return None
    graph_log.debug("%s: %s", op.name, region)
    return lengthened_plan(op, made, backward, mask)


def short_operator(op: Op, region) -> Op:
    """The operator whose program is the short form of a region."""
    if "shorter" in op.traits:
        return op.traits["shorter"](region.short)
    made = backward_operator(op.name, region.short)
    if "donated" in op.traits:
        made.traits["donated"] = region.donated
    return made


def lengthened_plan(op: Op, made, backward, mask) -> Draft:
    """The plan of a whole program; ``made``: the Lengthening of the short one's plan, ``backward`` of its backward
    program's."""
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
    """The program that computes the gradients of a call if they are differentiated; ``given``: the Metas of its
    tensors, and numbers."""
    given = [polymorphic.SymbolicArgument(a) if isinstance(a, Meta) else a for a in given]
    with planning, elsewhere.placing(elsewhere.device_of(given)
                                     or cpu), interpret.unwound(), interpret.precision(0), chosen_settings(op):
        draft = make_plan(op, given, (), mask)
    return draft.derived.traits["made"][2]


def writing(op: Op):
    """Calls an operator and writes what it returns into ``out``."""
    return lambda args, names: into_out(op, args, names)


def out_plan(op: Op, args, names, mask, scalars) -> Draft:
    """``out=``: one result that fits is computed into its target; anything else is computed first and copied."""
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
        check_exact(op, result._meta, out._meta)
        draft = into_plan(op, trace, arguments, result, out.node, 0)
        draft.conditions, draft.fixed = arguments.conditions.text, frozenset(arguments.conditions.fixed)
        return draft


def own(node: Node) -> Node:
    """The node itself if it can be written to memory of its own, else a copy of it."""
    if node.op is None:
        return P.convert(traced(node), dtype=node.dtype).node
    return node


def same_plan(op, arguments, node) -> Draft:
    plan = Draft(op, SAME)
    plan.source = arguments.tensors.index(node)
    return plan


def meta_plan(op, trace, arguments, results, several, mask) -> Draft:
    """Of a call on tensors without data: what it gives, and what that shares."""
    if op.traits.get("into") is not None:
        return python_plan(op, lambda args, names: noted_write(args[0]))
    viewing = op.traits.get("view")
    turned = [r._turned if viewing else 0 for r in results]
    shown = [alias_of(r.node, arguments.tensors) if viewing and not bits else None for r, bits in zip(results, turned)]
    if not several and shown[0] is not None:
        source, meta, offset = shown[0]
        plan = view_plan(op, trace, arguments, results[0].node, source, meta, offset, mask)
        plan.outputs = (without_data(results[0]._meta),)
        return plan
    metas = [without_data(r._meta if found else dense(r._meta)) for r, found in zip(results, shown)]
    places = [None if found is None else (arguments.tensors.index(found[0]), found[2]) for found in shown]

    def run(args, names):
        given = [a for a in flat(args) if isinstance(a, Tensor)]
        made = tuple(alias(empty_of(m), m.turning(bits)) if bits else empty_of(m) if place is None
                     else alias(given[place[0]], m, given[place[0]]._offset + place[1])
                     for m, bits, place in zip(metas, turned, places))
        return made if several else made[0]

    return python_plan(op, run)


def noted_write(tensor):
    """A tensor without data that an operator writes into: nothing but the write is noted."""
    calls.count_write(tensor)
    return tensor


def without_data(meta: Meta) -> Meta:
    """How a tensor of the meta device looks."""
    return Meta(tuple(meta.shape), meta.strides, meta.dtype, meta_device)


def alias_of(node: Node, tensors):
    """What a chain of views from one of these inputs shows, as ``view_of_input`` does; None where a copy is needed."""
    found = view_of_input(node)
    return found if found and found[0] in tensors else None


def view_plan(op, trace, arguments, node, source, meta, offset, mask) -> Draft:
    plan = Draft(op, VIEW)
    plan.source, plan.offset = arguments.tensors.index(source), offset
    plan.outputs, plan.itemsizes = (node.meta.turning(meta.turned),), (node.meta.itemsize,)
    plan.apart = int(bool(op.traits.get("detaches")))
    if mask and not op.traits.get("detaches"):
        attach_backward(plan, run(DERIVING, compilation(op, trace, arguments, [node], mask, viewing=True)), arguments)
    return plan


def passing_plan(op, trace, arguments, outputs, several) -> Draft:
    """A backward whose results may be parts of what it was given: no copies of gradients that only pass through."""
    fresh, passed, views = {}, [], []
    for node in outputs:
        source, meta, offset = alias_of(node, arguments.tensors) or (None, None, 0)
        if source is None or source.dtype is not node.dtype or source.turned != meta.turned:
            passed.append(fresh.setdefault(node, len(fresh)))
        else:
            views.append((arguments.tensors.index(source), offset, node.meta.turning(meta.turned), node.meta.itemsize))
            passed.append(-len(views))
    plan = run_plan(op, trace, arguments, list(fresh), several, 0)
    if views or len(fresh) < len(outputs):
        plan.passed, plan.views = tuple(passed), tuple(views)
    return plan


def compilation(op, trace, arguments, outputs, mask, **more) -> Compilation:
    """What the compiler is asked for; ``mask``: the bits of tensor arguments that want a gradient."""
    sources = [n for k, n in enumerate(arguments.tensors) if mask & gradient_bit(k)]
    return Compilation(op.name, trace, outputs, sources=sources, captured=bool(op.traits.get("captured")),
                       writable=bool(op.traits.get("writable")), **more)


def run_plan(op, trace, arguments, outputs, several, mask, stores=()) -> Draft:
    plan = Draft(op, RUN)
    given, donated, held = list(trace.inputs), op.traits.get("donated"), op.traits.get("held", ())
    held = dict(zip(arguments.tensors[len(arguments.tensors) - len(held):], map(address_bits, held)))
    made = compilation(op, trace, arguments, outputs, 0 if op.traits.get("detaches") else mask, stores=stores,
                       donated=None if donated is None else given[donated], held=held)
    run(DERIVING, made)
    attach_backward(plan, made, arguments)
    graph_log.debug("%s\n%s", op.name, made.graph)
    # headers of the heap lie between results and temporaries: never in a device's memory
    plan.outline, plan.mixed = outlined(made), preferred().provider.on_host
    plan.extra = len(made.metas) - len(outputs)
    plan.several, plan.random = int(several), trace.drawn
    if donated is not None:
        plan.source = arguments.tensors.index(given[donated])
    return plan


def way_to(result: Traced, trace, source: Node):
    """How a result shows an argument: "itself", as a "view" of it, or as one that is "cut" off from its history."""
    if any(value is result for value in trace.given.values()):
        return "itself"
    steps = getattr(result, "path", None)
    if steps is None:
        steps, node = [], result.node
        while node is not source:
            steps.append(node)
            node = node.args[0]
    return "cut" if any(step.constant for step in steps) else "view"


def shown_argument(result: Traced, trace, arguments):
    """The argument that a result is, or shows a part of, the Meta it is seen through and the element offset; None for
    results of their own."""
    owner = result if result._base is None else result._base
    given = next((node for node, value in trace.given.items() if value is owner), None)
    if given is None:
        return alias_of(result.node, arguments.tensors)
    found = shown(given.meta.turning(given.turned), getattr(result, "path", ()))
    return found and (given, *found)


def program_plan(op, trace, arguments, results, several, mask, stores) -> Draft:
    """A program that writes into arguments, or returns some of them or views of them: only the other results are
    computed into fresh memory.  Where a write would have to become part of the derivative, or the memory written is
    that of another argument too, its body runs on the tensors themselves."""
    body = call_body(op)
    reason = part_of_derivative(trace, arguments, mask, stores)
    if reason:
        log.debug("%s: runs call by call: %s", op.name, reason)
        return python_plan(op, body)
    fresh, shown = {}, []  # for each result: (fresh result, None, 0, "") or (argument, Meta, offset, way)
    for result in results:
        source, meta, offset = shown_argument(result, trace, arguments) or (None, None, 0)
        if source is None:
            shown.append((fresh.setdefault(own(result.node), len(fresh)), None, 0, ""))
        else:
            shown.append((arguments.tensors.index(source), result._meta.turning(meta.turned), offset,
                          way_to(result, trace, source)))
    inner = run_plan(op, trace, arguments, list(fresh), True, mask, stores)
    written = [arguments.tensors.index(store.into) for store in stores]
    if not mask and all(way in ("", "itself") for *_, way in shown):
        inner.views = tuple((k, 0, None, 0) for k, meta, *_ in shown if meta is not None)
        given = iter(range(-1, -len(inner.views) - 1, -1))
        inner.passed = tuple(k if meta is None else next(given) for k, meta, *_ in shown)
        inner.written, inner.several, inner.function = tuple(written), int(several), body
        return inner

    plan = Draft(op, PYTHON)
    plan.around = inner, tuple(written), tuple(shown), int(several), mask, arguments.scalars
    return plan


def around(op, inner: Plan, written, shown, several: int, mask, scalars: int) -> Plan:
    """A plan that runs another one for the fresh results of a program; ``shown`` tells for each result which fresh one
    it is, or what of which argument it shows; ``written``: the arguments that the program writes into; ``scalars``: the
    bits of those that are run-time numbers."""
    def run(args, names):
        tensors = [a for a in flat(args) if isinstance(a, Tensor)]
        if any(other._storage is tensors[k]._storage for k in written for j, other in enumerate(tensors) if j != k):
            return call_body(op)(args, names)
        for k in written:
            calls.check_writable(tensors[k])
        made = launch_plan(inner, args, scalars, mask)
        for k in written:
            calls.count_write(tensors[k])
        results = tuple(made[k] if meta is None else view_of(tensors[k], meta, offset, way)
                        for k, meta, offset, way in shown)
        return results if several else results[0]

    plan = blank_plan(op, PYTHON)
    plan.function, plan.inner = run, (inner, written, shown, several, mask, scalars)
    return plan


def view_of(tensor: Tensor, meta: Meta, offset: int, way: str) -> Tensor:
    """The argument itself, or a view of it (see ``way_to``)."""
    if way == "itself":
        return tensor
    source = OPS["detach"](tensor) if way == "cut" else tensor
    return source if way == "cut" and meta is tensor._meta and not offset else region(source, meta, offset)


def part_of_derivative(trace, arguments, mask, stores) -> str:
    """Why writes into arguments would have to become part of the derivative; empty where they need not."""
    sources = [n for k, n in enumerate(arguments.tensors) if mask & gradient_bit(k) and carries_gradient(n.meta)]
    active = active_nodes(trace.nodes, sources)
    for write in stores:
        if write.into in active:
            return f"argument {write.into.name} has a history and is written"
        if write.node in active:
            return f"argument {write.into.name} is overwritten with values that carry a gradient"
    return ""


def install(plan: Plan, code: Code):
    plan.outputs = tuple(code.outputs)
    plan.sizes = tuple(m.nbytes for m in code.outputs)
    plan.itemsizes = tuple(m.itemsize for m in code.outputs)
    plan.temporaries, plan.inside, plan.reused = tuple(code.temporaries), code.inside, code.reused
    plan.code, plan.code_owner, plan.long = code.address, code, int(code.long)
    if output_log.isEnabledFor(DEBUG):
        from ..devices.cpu.host import written
        output_log.debug("%s\n%s", plan.op.name, written(code, plan.op.name))
    plan.large = int(calls.MOST + len(code.outputs) + len(code.temporaries) + 4 > calls.ROOM)


def into_plan(op, trace, arguments, result, target, mask) -> Draft:
    """In place: the result goes into the memory of an argument."""
    check_shape(result._meta, target.meta)
    check_cast(result._meta, target.meta)
    if op.traits.get("some") and not mask and is_expanded(target.meta):
        whole = OPS[op.name.removesuffix("_")]
        return python_plan(op, lambda args, names: write_changes(op.name, args[0], call_body(whole)(args, names)))
    if not op.traits.get("uniform"):  # a single value may go to one place many times
        check_distinct(op.name, target.meta)
    plan = Draft(op, INTO)
    plan.source = arguments.tensors.index(target)
    stored = result.node
    plan.apart = int(bool(op.traits.get("moves")) or reads_apart(stored, target))
    if stored.dtype is not target.dtype or stored is target:
        stored = P.convert(result, dtype=target.dtype).node
    made = run(DERIVING, compilation(op, trace, arguments, [stored], mask, into=target))
    attach_backward(plan, made, arguments)
    graph_log.debug("%s\n%s", op.name, made.graph)
    plan.outline = outlined(made)
    plan.extra = len(made.metas)
    return plan


# --- the derived backward ---------------------------------------------------------------------------------------------
def attach_backward(plan: Draft, made: Compilation, arguments: Arguments):
    """Gives a plan the operator that its steps run backward, if the Compilation has derived one."""
    d = made.derivative
    if d is None:
        return
    plan.wanted = tuple(arguments.tensors.index(s) for s, _ in d.found)
    plan.cotangents = tuple(d.carrying)
    values = {n: k for k, n in enumerate(made.given)}
    kept = {n: k for k, n in reversed(list(enumerate([*d.results, *d.extras])))}

    def code(node):
        if node in kept:
            return ~kept[node]
        if node in made.stream:
            return SEED_VALUE if node is made.stream[0] else POSITION_VALUE
        if node.is_scalar:
            return (FLOAT_VALUE if node.dtype is float64 else INTEGER_VALUE) + values[node]
        return arguments.tensors.index(node)

    shared = set(made.buffer.nodes)
    saves = [code(n) for n in d.cut.residuals if n not in shared]
    if shared:
        saves.insert(d.at, ~(len(d.results) + len(d.extras)))
    plan.saves, used, pure, chosen = tuple(saves), len(saves), None, ()
    if d.again is not None:
        plan.saves += tuple(c for c in map(code, d.again.residuals) if c not in plan.saves)
        pure, chosen = d.again.backward, [plan.saves.index(code(n)) for n in d.again.residuals]
    give_backward(plan, d.backward, used, pure, chosen, d.at)


def give_backward(plan, backward, used: int, pure, chosen, donated=None, symbols=()):
    """The operator that a plan's steps run backward: a program that takes the first ``used`` of what is saved, then the
    values of the ``symbols`` in it, then cotangents; for gradients of gradients the program ``pure``, which takes those
    that are ``chosen``.  ``donated``: the place of a residual that may be overwritten once it is read."""
    name = f"{plan.op.name}.backward"
    plan.derived = backward_operator(name, backward, used, symbols)
    plan.derived.traits["made"] = backward, used, pure, chosen, donated
    if pure is not None:
        plan.derived.traits["recorded"] = backward_operator(name, pure, len(chosen), symbols), chosen
        plan.derived.traits["residuals"] = used
        if len(plan.saves) > used:
            plan.derived = taking(plan.derived, plan.saves, used)
    if donated is not None:
        derived = plan.derived
        plan.donating = make(derived.name, derived.body, None, derived.signature, derived.scalars, **derived.traits,
                             donated=donated)


def taking(operator: Op, saves, used: int) -> Op:
    """The same backward operator for callers that pass more residuals (``saves``) than it reads."""
    inner, given = operator.body, len(saves)
    numbers = operator.traits.get("all_scalars",
                                 operator.scalars) & (1 << used) - 1 | sum(1 << k for k in range(used, given)
                                                                           if saves[k] >= FLOAT_VALUE)
    traits = {k: v for k, v in operator.traits.items() if k != "all_scalars"}
    inputs = traits["inputs"]
    traits["inputs"] = [*inputs[:used], *[None] * (given - used), *inputs[used:]]
    return make(operator.name, lambda *values: inner(*values[:used], *values[given:]), None, operator.signature,
                numbers, **traits)


def backward_operator(name: str, graph: Graph, used=0, symbols=()) -> Op:
    """An operator that runs a backward program: residuals and cotangents in, gradients out; after the first ``used``
    come the values of the program's ``symbols``."""
    sizes = [Node(f"size_{symbol}", None, meta=NUMBER_METAS[int]) for symbol in symbols]
    inputs, last = [*graph.inputs[:used], *sizes, *graph.inputs[used:]], used + len(sizes)
    scalars = sum(1 << k for k, n in enumerate(inputs) if n.weak)

    def body(*values):
        program, trace = graph, interpret.top()
        if sizes:
            given, values = values[used:last], values[:used] + values[last:]
            if any(value is not symbol for value, symbol in zip(given, symbols)):
                program = polymorphic.Settling(graph, dict(zip(symbols, given)))
        found = trace.adopted(program, values) if isinstance(trace, Trace) else None
        return tuple(program.run(values)) if found is None else found

    signature = inspect.Signature([inspect.Parameter(n.name, inspect.Parameter.POSITIONAL_ONLY) for n in inputs])
    return make(name, body, None, signature, scalars, derived=graph, several=True, inputs=inputs,
                **({"symbols": {n.name: s for n, s in zip(sizes, symbols)}} if sizes else {}))


# --- calls that are not plain tensors and numbers ---------------------------------------------------------------------
def slow(op: Op, args, names):
    """Every call that the hot path does not take."""
    if op.traits.get("spread") and not names and len(args) == 2 and type(args[1]) in (list, tuple):
        args = (args[0], *args[1])  # who sees the call finds operands one by one
    positional = len(args) - len(names or ())
    if mine.modes or overriding(args, FUNCTION | DISPATCH):
        found = overridden(op, args[:positional], dict(zip(names or (), args[positional:])))
        if found is not NOBODY:
            return found
    args = tuple(meant(in_python(a)) for a in args)
    if op.traits.get("operator"):
        args = tuple(operand(a) for a in args)
        if len(args) == 2 and not names and (found := reflected(op.traits["operator"], *args)) is not NotImplemented:
            return found
    if names:
        args, names = respelled(op, args, names)
        positional = len(args) - len(names)
    interpreter = interpret.top()
    if interpreter is not None:
        return interpreter.call(op, args[:positional], dict(zip(names or (), args[positional:])))
    args = tuple(map(normalise, args))
    if any(getattr(a, "level", None) for a in flat(args)):
        args = tuple(map(escaped, args))
    masks = calls_mask(op, names, positional)
    args = tuple(within_word(op, a, args) if type(a) is int and masks >> k & 1 and not -BEYOND <= a < BEYOND else a
                 for k, a in enumerate(args))
    words, mask, tensors = [], 0, 0

    def key_of(value, scalar):
        nonlocal mask, tensors
        if isinstance(value, Tensor):
            words.append(address_bits(value))
            if value._needs_grad or value._base is not None and calls.joins(value):
                mask |= gradient_bit(tensors)
            tensors += 1
            return value._meta
        kind = type(value)
        if scalar and kind in NUMBER_METAS:
            words.append(float_bits(value) if kind is float else int(value))
            return kind
        if kind in (list, tuple):
            return tuple(key_of(v, 0) for v in value)
        try:
            hash(value)
        except TypeError:
            raise TypeError(f"{op.name}: unexpected argument of type {kind.__name__}") from None
        return calls.exact(value)

    key = tuple(key_of(a, masks >> k & 1) for k, a in enumerate(args))
    if not interpret.is_recording():
        mask = 0
    key = (*key, names, mask)
    plan = op.plans.get(key) or plan_for(op, args, names, key, mask)
    if plan.large == CHOICE:
        plan = choose(plan, args, names, key, mask)
    return run_values(plan, args, names, words, mask)


def within_word(op: Op, value: int, args):
    """A run-time number that is no signed word: beside floats the float next to it, operand of whole ones the word of
    the same bits.  RuntimeError where PyTorch takes neither."""
    beside = [a.dtype for a in flat(args) if isinstance(a, Tensor)] + [a for a in args if type(a) is dtype]
    if 0 <= value < 2 * BEYOND and beside:
        if any(d.is_inexact for d in beside):
            return float(value)
        if not any(d is bool_ for d in beside) and (OPS.get(op.name.removesuffix("_"),
                                                            op).traits.get("operator") not in (None, "pow")
                                                    or all(d is uint64 for d in beside)):
            return value - 2 * BEYOND
    raise RuntimeError(f"value cannot be converted to type int64_t without overflow: {op.name} was given {value}")


def operand(value):
    """An array beside a Python operator as a tensor."""
    if type(value).__module__ == "numpy" and hasattr(value, "strides") and value.ndim:
        from ..core.exchange import from_numpy
        return from_numpy(value)
    return value


def reflected(symbol: str, left, right):
    """What a right operand of a foreign class makes of a Python operator; NotImplemented where the operator is ours."""
    kind = type(right)
    method = getattr(kind, f"__r{symbol}__", None)
    if method is None or not isinstance(left, Tensor) or isinstance(right, (int, float, complex)) or hasattr(
            kind, "_meta") or kind.__module__ in ("numpy", Expr.__module__):
        return NotImplemented
    return method(right, left)


def overridden(op: Op, args, kwargs):
    """What a mode or the class of an argument makes of a call; NOBODY where none does."""
    found = answered(op, args, kwargs)
    if found is NOBODY and interpret.top() is None:
        kinds = overriding((*args, *kwargs.values()), DISPATCH)
        if kinds:
            return Dispatch.call(op, args, kwargs, kinds)
    return found


def run_values(plan: Plan, args, names, words, mask):
    """Runs a plan on the addresses and words of its arguments."""
    room = len(words) + len(plan.outputs) + len(plan.temporaries) + 8
    values = (ctypes.c_int64 * room)(*words)
    return calls.run(plan, args, names, ctypes.addressof(values), len(words), int(mask != 0))


def escaped(value):
    """A tensor of a transform that has ended as what it stood for."""
    if isinstance(value, Tensor) and hasattr(value, "escaped"):
        return escaped(value.escaped())
    return tuple(map(escaped, value)) if type(value) is tuple else value


def launch_plan(plan: Plan, args, scalars: int, mask):
    """Runs a plan that is not looked up by its arguments."""
    words = []

    def gather(value, scalar):
        if isinstance(value, Tensor):
            words.append(address_bits(value))
        elif scalar and type(value) in NUMBER_METAS:
            words.append(float_bits(value) if type(value) is float else int(value))
        elif type(value) in (list, tuple):
            for v in value:
                gather(v, 0)

    for k, value in enumerate(args):
        gather(value, scalars >> k & 1)
    return run_values(plan, args, None, words, mask)


def address_bits(tensor: Tensor) -> int:
    return tensor._storage.address + tensor._offset * tensor.itemsize


def float_bits(value: float) -> int:
    return ctypes.c_int64.from_buffer(ctypes.c_double(value)).value


def normalise(value):
    """NumPy scalars as Python numbers, sizes as tuples, nested lists as tuples."""
    if type(value) is list:
        return tuple(map(normalise, value))
    if type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return value.item()
    return value


def failed(plan: Plan, args, flag: int):
    """Raises what a program reported: an error inside a NumPy step, one that the flag names, or an index out of
    range."""
    pending, raised.pending = raised.pending, None
    kind = plan.op.traits.get("out_of_range", IndexError)
    if isinstance(pending, MemoryError):
        raise OutOfMemoryError(f"{plan.op.name}: {pending}", "at most what the machine has left") from pending
    if pending is not None:
        raise kind(*pending.args) if isinstance(pending, IndexError) else pending
    named = failures.error(flag)
    if named is not None:
        raise named
    raise kind(f"{plan.op.name.strip('_')}: an index is out of "
               f"range{indices_among(args) if OPS.get(plan.op.name) is plan.op else ''}")


def indices_among(args) -> str:
    """What the arguments of a call with a wrong index were, for its error."""
    indices = [a for a in flat(args) if isinstance(a, Tensor) and a.dtype in (int32, int64) and a.numel()]
    first = next((list(a.shape) for a in flat(args) if isinstance(a, Tensor) and not any(a is i for i in indices)),
                 None)
    if not indices or first is None:
        return ""
    with interpret.recording(False):
        ranges = ", ".join(f"from {a.min().item()} to {a.max().item()}" for a in indices)
    return f": {ranges}, where the tensor has the shape {first}"


def activate():
    """Connects the hot path with what answers its misses."""
    import weakref

    from ..core.devices import device
    from ..core.meta import Size

    state.tensor = state.parameter = Tensor
    state.shared = shared
    state.slow, state.plan, state.choose, state.failed = slow, plan_for, choose, failed
    state.keyword_mask, state.whole_mask = keyword_mask, whole_mask
    state.metas, state.meta = Meta.known, lambda key: Meta(*key)
    state.weak = weakref.ref
    state.static_types = frozenset({dtype, device, Size})

"""Choose the kind of plan for a traced call."""
from __future__ import annotations

from ..aot.joint import active_nodes, carries_gradient
from ..compiler.pipeline import DERIVING, Compilation, outlined, run
from ..compiler.residuals import dense
from ..core.devices import meta as meta_device, preferred
from ..core.dtypes import float64
from ..core.kinds import P
from ..core.log import logger
from ..core.meta import Meta
from ..core.native import Op, Tensor, sharing
from ..core.native.objects import (FLOAT_VALUE, INTEGER_VALUE, INTO, POSITION_VALUE, PYTHON, RUN, SAME, SEED_VALUE,
                                   VIEW)
from ..core.convert import NO_DATA
from ..core.op import OPS, bind
from ..core.targets import check_cast, check_distinct, check_exact, check_shape, is_expanded
from ..core.tensor import alias, empty_of
from ..graph.graph import Node
from ..graph.views import shown, view_of_input
from ..ops.expanded import write_changes
from ..transforms.trace import Traced, traced
from .arguments import Arguments, address_bits, gradient_bit
from .backward import give_backward
from .destination import reads_apart
from .detours import call_body
from .draft import Draft, python_plan
from .elsewhere import flat, is_index

log, graph_log = logger("plans"), logger("graph")


def is_only_known(arguments) -> bool:
    """True if a call is on meta tensors, or makes one."""
    return not preferred().provider.has_data or any(not m.meta.device.provider.has_data for m in arguments.tensors)


def refuse_mixture(op: Op, arguments):
    """Raise RuntimeError for a mixture of meta tensors and tensors with data, except scalars, indices, and copies to
    meta tensors.  NotImplementedError for copies from meta tensors to tensors with data."""
    into, tensors = op.traits.get("into"), arguments.tensors
    target = None if into is None else tensors[into]
    if op.name == "copy_":
        if target.meta.device.provider.has_data:
            raise NotImplementedError(NO_DATA)
        return
    stay = [m for m in tensors if m.meta.shape and (m is tensors[0] or not is_index(op, m.meta))] + [target]
    if any(m is not None and m.meta.device.provider.has_data for m in stay):
        raise RuntimeError(
            f"{op.name}: Expected all tensors to be on the same device, but found some on meta, without data, and "
            "some on cpu. Give both data "
            "(to_empty(device='cpu'), then load their values), or neither.")


def passes(op: Op, result: Traced, trace, arguments, mask) -> bool:
    """True if a result aliases an argument in a way that passing_plan does not support."""
    found = shown_argument(result, trace, arguments)
    if found is None or not op.traits.get("derived"):
        return found is not None
    source, meta, _ = found
    return bool(op.traits.get("captured")) and (mask or source.dtype is not result.dtype or meta.turned
                                                != source.turned)


def own(node: Node) -> Node:
    """Return the node itself if it can be written to its own memory, else a copy of it."""
    if node.op is None:
        return P.convert(traced(node), dtype=node.dtype).node
    return node


def same_plan(op, arguments, node) -> Draft:
    plan = Draft(op, SAME)
    plan.source = arguments.tensors.index(node)
    return plan


def meta_plan(op, trace, arguments, results, several, mask) -> Draft:
    """Return the plan of a call on meta tensors: its results, and what they alias."""
    if op.traits.get("into") is not None:
        return python_plan(op, lambda args, names: noted_write(args[0]))
    viewing = op.traits.get("view")
    turned = [r._rush_turned if viewing else 0 for r in results]
    shown = [alias_of(r.node, arguments.tensors) if viewing and not bits else None for r, bits in zip(results, turned)]
    if not several and shown[0] is not None:
        source, meta, offset = shown[0]
        plan = view_plan(op, trace, arguments, results[0].node, source, meta, offset, mask)
        plan.outputs = (without_data(results[0]._rush_meta),)
        return plan
    metas = [without_data(r._rush_meta if found else dense(r._rush_meta)) for r, found in zip(results, shown)]
    places = [None if found is None else (arguments.tensors.index(found[0]), found[2]) for found in shown]

    def run(args, names):
        given = [a for a in flat(args) if isinstance(a, Tensor)]
        made = tuple(alias(empty_of(m), m.turning(bits)) if bits else empty_of(m) if place is None
                     else alias(given[place[0]], m, given[place[0]]._rush_offset + place[1])
                     for m, bits, place in zip(metas, turned, places))
        return made if several else made[0]

    return python_plan(op, run)


def noted_write(tensor):
    """Return a meta tensor that an operator writes into, after recording the write."""
    sharing.count_write(tensor)
    return tensor


def without_data(meta: Meta) -> Meta:
    """Return the Meta of a tensor on the meta device."""
    return Meta(tuple(meta.shape), meta.strides, meta.dtype, meta_device)


def alias_of(node: Node, tensors):
    """Return what a chain of views from one of these inputs aliases, as ``view_of_input`` does; None if a copy is
    needed."""
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
    """Return the plan of a backward whose results may alias its arguments: gradients that only pass through are not
    copied."""
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
    """Return the Compilation of a program; ``mask``: the bits of tensor arguments that require grad."""
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
    # host headers are stored between results and temporaries: never in device memory
    plan.outline, plan.mixed = outlined(made), preferred().provider.on_host
    plan.extra = len(made.metas) - len(outputs)
    plan.several, plan.random = int(several), trace.drawn
    if donated is not None:
        plan.source = arguments.tensors.index(given[donated])
    return plan


def way_to(result: Traced, trace, source: Node):
    """Return how a result aliases an argument: "itself", a "view" of it, or "cut" off from its history."""
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
    """Return the argument that a result is or aliases, its Meta and the element offset; None for results with their own
    memory."""
    owner = result if result._base is None else result._base
    given = next((node for node, value in trace.given.items() if value is owner), None)
    if given is None:
        return alias_of(result.node, arguments.tensors)
    found = shown(given.meta.turning(given.turned), getattr(result, "path", ()))
    return found and (given, *found)


def program_plan(op, trace, arguments, results, several, mask, stores) -> Draft:
    """Return the plan of a program that writes into arguments, or returns some of them or views of them: only the other
    results are computed into fresh memory.  If a write would have to become part of the derivative, or the written
    memory is another argument's too, the body runs on the tensors themselves."""
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
            shown.append((arguments.tensors.index(source), result._rush_meta.turning(meta.turned), offset,
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


def part_of_derivative(trace, arguments, mask, stores) -> str:
    """Return why writes into arguments would have to become part of the derivative; empty if they need not."""
    sources = [n for k, n in enumerate(arguments.tensors) if mask & gradient_bit(k) and carries_gradient(n.meta)]
    active = active_nodes(trace.nodes, sources)
    for write in stores:
        if write.into in active:
            return f"argument {write.into.name} has a history and is written"
        if write.node in active:
            return f"argument {write.into.name} is overwritten with values that carry a gradient"
    return ""


def into_plan(op, trace, arguments, result, target, mask) -> Draft:
    """Return the plan of an in-place call: the result goes into the memory of an argument."""
    check_shape(result._rush_meta, target.meta)
    check_cast(result._rush_meta, target.meta)
    check_exact(op, result._rush_meta, target.meta)
    if op.traits.get("some") and not mask and is_expanded(target.meta):
        whole = OPS[op.name.removesuffix("_")]
        return python_plan(op, lambda args, names: write_changes(op.name, args[0], call_body(whole)(args, names)))
    if not op.traits.get("uniform"):  # several elements may be one stored value
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
def overwritable(op, arguments: Arguments, derivative) -> set:
    """Return the codes in ``saves`` of arguments and results that users may overwrite before the backward pass, as the
    operator declares."""
    names = op.traits.get("overwritable", ())
    given = bind(op, arguments.args, arguments.kwargs) if names else {}
    names = names(**given) if callable(names) else names
    tensors = [v.node for name in names if name in given for v in flat((given[name],)) if isinstance(v, Traced)]
    codes = {arguments.tensors.index(node) for node in tensors if node in arguments.tensors}
    return codes | {~k for k in range(len(derivative.results))} if "result" in names else codes


def attach_backward(plan: Draft, made: Compilation, arguments: Arguments):
    """Give a plan the operator that computes its backward, if the Compilation has derived one."""
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
    plan.spare = len(plan.saves) - used
    plan.lasting = int(bool(plan.op.traits.get("saves_nothing")))
    lent = overwritable(plan.op, arguments, d)
    plan.lent = tuple(k for k, c in enumerate(plan.saves) if c in lent)
    give_backward(plan, d.backward, used, pure, chosen, d.at)

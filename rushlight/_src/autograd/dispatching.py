"""Classes with ``__torch_dispatch__``: they handle operators below autograd; this module records the gradients."""
from __future__ import annotations

import contextlib

from ..core import overriding
from ..core.interpret import Interpreter, Suspended, derivatives, is_recording, recording, top
from ..core.meta import row_major
from ..core.native import GradNode, Op, Tensor, counter, history, sharing, state
from ..core.native.objects import DERIVED, FLOAT_VALUE, FUNCTION
from ..core.op import OPS, bind, body_of
from ..core.overriding import DISPATCH, kind_of
from ..core.pytree import tree_map
from ..core.tensor import needs_gradient
from ..transforms.trace import ValueNeeded
from .function import version_of
from .node import class_name
from .mutation import VIEWED, ViewStep, copy_before, prepare_write, written
from .slow_paths import changed
from ..._ops import composition, dispatched, ops, overload_of


def call(op: Op, args, kwargs, kinds):
    """Result of the classes among the arguments, recorded for the backward pass."""
    if "out" in kwargs and kwargs["out"] is None:  # as if it were not there: operators have an overload with it
        kwargs = {name: value for name, value in kwargs.items() if name != "out"}
    whole = next((kind for kind in kinds if hasattr(kind, "__operator__")), None)
    found = None if whole is not None else seen(op, args, kwargs)
    if whole is not None and opened(op) and op.traits.get("composite"):
        return whole.__operator__(op, args, kwargs)
    if whole is None and found is None:  # of simpler operators, each of which is answered
        return instead(op, args)(*args, **kwargs)
    wanted = tensors_of((*args, *kwargs.values()))
    apart = op.traits.get("detaches") or op.traits.get("fresh")  # results that have no history of the arguments
    if not (is_recording() and any(map(needs_gradient, wanted))) or apart:
        return relate(op, args, kwargs, answered(op, args, kwargs, kinds, found), found)
    if whole is None and op.traits.get("composite") and not derivable(op, args, kwargs, wanted):
        return body_of(op, args)(*args, **kwargs)

    def answer(args, kwargs):
        return answered(op, args, kwargs, kinds, None if whole is not None else seen(op, args, kwargs))

    return differentiate(op, args, kwargs, answer, getattr(whole, "__within__", contextlib.nullcontext),
                         found)


def differentiate(op, args, kwargs, answer, within, found):
    """Return the result of ``answer(args, kwargs)`` with a gradient history; its backward runs in a block ``within()``.
    ``found``: as of ``relate``; run-time scalars are constants of the derived program with it, else arguments."""
    record = getattr(top(), "differentiate", None)
    if record is not None:  # a program is being traced: the call becomes a part of it
        return record(op, args, kwargs, answer, within)
    target = target_of(op, args, kwargs)
    if target is not None:
        prepare_write(target)
    tensors, numbers = tensors_of((*args, *kwargs.values())), found is None
    wanted = tuple(k for k, t in enumerate(tensors) if needs_gradient(t))
    before, edges = as_before(op, args, kwargs, numbers), ends(tensors, wanted)
    # aliases of a target are stale once that is written
    versions = versions_of(*before) if target is not None else None
    with recording(False):
        results = answer(args, kwargs)
    if target is None and any(results is t for t in tensors):
        return results
    relate(op, args, kwargs, results, found)
    recorded(op, *before, wanted, edges, results, within, numbers, versions)
    if target is not None:
        target._rush_seen = counter(target).version
        written(target)
    return results


def target_of(op, args, kwargs):
    """Return the tensor that an in-place operator writes; None for other operators."""
    at = op.traits.get("into")
    if at is None:
        return None
    found = args[at] if at < len(args) else list(bind(op, args, kwargs).values())[at]
    return found if isinstance(found, Tensor) else None


def relate(op, args, kwargs, results, found):
    """Return the results of a call.  Those that an instance of such a class shows become views of it: they have its
    base, its count of writes, and the steps that lead from the base to them.  A class with ``__operator__`` marks these
    by ``_shows``; for others the overload that answered tells, the first of ``found``."""
    outputs = results if isinstance(results, (tuple, list)) else (results,)
    source = next(iter(tensors_of((*args, *kwargs.values()))), None)
    if source is None or not kind_of(type(source)) & DISPATCH:
        return results
    for k, out in enumerate(outputs):
        if not isinstance(out, Tensor) or not kind_of(type(out)) & DISPATCH or any(
                out is t for t in (source, source._base)):
            continue
        if not getattr(out, "_shows", found is not None and found[0].is_view):
            continue
        out._rush_counter = counter(source)
        if op.traits.get("detaches"):
            continue
        out._base, out._rush_seen = source if source._base is None else source._base, history.made_at(source)
        given = tree_map(lambda value: VIEWED if value is source else value, (tuple(args), kwargs))
        out._rush_views = (*source._rush_views, ViewStep(op, *given, k if outputs is results else None, source))
        if outputs is results:
            history.note_multiple(out)
    return results


def derivable(op, args, kwargs, tensors) -> bool:
    """True if a composite can be differentiated as a unit: not if it reads elements."""
    try:
        wanted = tuple(k for k, t in enumerate(tensors) if needs_gradient(t))
        derivatives.linearised(op, args, kwargs, wanted, numbers=False)
    except ValueNeeded:
        return False
    return True


def opened(op) -> bool:
    """True if an operator is dispatched as the operators of its body: not if it makes tensors like another, which no
    simpler operator calls, nor if its result sizes are data-dependent."""
    return "library" not in op.traits and not op.traits.get("fresh") and "unmeasured" not in op.rules and (
        op.traits.get("composite") or op.name not in OPS)


def seen(op, args, kwargs):
    """(overload, args, kwargs) of a call for a class or mode; None if it sees simpler operators."""
    found = dispatched(op, args, kwargs)
    if found is not None:
        return found
    if composition(op) is not None or opened(op):
        return None
    func = overload_of(op, args, kwargs)
    if op.name == "_to_dtype":  # keyword-only in _to_copy
        args, kwargs = args[:1], {"dtype": args[1]} if len(args) > 1 else kwargs
    return func, *func.spelled(args, kwargs)


def instead(op, args):
    """Return the function that runs if an operator is dispatched as simpler ones."""
    return composition(op) or body_of(op, args)


def answered(op, args, kwargs, kinds, found):
    """Result of the first class that handles the call: an operator's overload, or any operator if the class has
    ``__operator__``.  A write is counted, unless the class wrote to the same memory."""
    target = target_of(op, args, kwargs)
    version = None if target is None else counter(target).version
    results = ask_classes(op, args, kwargs, kinds, found)
    if target is not None and counter(target).version == version:
        sharing.count_write(target)
    return results


def ask_classes(op, args, kwargs, kinds, found):
    """Return the answer of the first class that handles the call.  TypeError if none does."""
    for kind in kinds:
        if hasattr(kind, "__operator__"):
            return kind.__operator__(op, args, kwargs)
    func, args, kwargs = found
    packet = op.traits.get("library")
    for kind in kinds:
        rule = packet and packet.custom.rules.dispatch.get(kind)
        result = rule(kind, func, kinds, tuple(args), kwargs) if rule else kind.__torch_dispatch__(func, kinds,
                                                                                                   tuple(args), kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(
        f"Multiple dispatch failed for '{func}'; all __torch_dispatch__ handlers returned NotImplemented: "
        f"{', '.join(k.__name__ for k in kinds)}. "
        "Handle the operator in one of them.")


def tensors_of(values, found=None) -> list:
    """The tensors among arguments, also in lists."""
    found = [] if found is None else found
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            tensors_of(value, found)
    return found


def recorded(op, args, kwargs, wanted, edges, results, within, numbers, versions):
    """Give results a node that derives the operator again from the classes' results for its parts
    (``differentiate``), and passes gradients of the arguments ``wanted`` on to ``edges``.  ``versions``: of the
    arguments, before the call; None for those of now."""
    node = GradNode()
    state.sequence += 1
    node.number = state.sequence
    outputs = results if isinstance(results, (tuple, list)) else (results,)
    for k, out in enumerate(outputs):
        if isinstance(out, Tensor) and out.dtype.is_inexact:
            out._rush_grad_node, out._rush_output, out._rush_needs_grad = node, k, 1
    derive(node, f"{op.name}Backward", *edges, outputs,
           pulling(op, args, kwargs, wanted, outputs, within, numbers, versions))


def versions_of(args, kwargs) -> dict:
    """Version of each tensor among arguments, by its id."""
    return {id(t): version_of(t) for t in tensors_of((*args, *kwargs.values()))}


def as_before(op, args, kwargs, numbers=False) -> tuple:
    """Arguments of a recorded call, with a copy of the target in its place if the operator writes it and its derivative
    reads the old value."""
    if "into" not in op.traits:
        return args, kwargs
    target = target_of(op, args, kwargs)
    tensors = tensors_of((*args, *kwargs.values()))
    wanted = tuple(k for k, t in enumerate(tensors) if needs_gradient(t))
    values, linear = derivatives.linearised(op, args, kwargs, wanted, numbers)
    read = values if linear.forward is not None else [values[k] for k in linear.residuals if k < len(values)]
    if linear.backward is None or not any(value is target for value in read):
        return args, kwargs
    before = copy_before(target, target)
    return tree_map(lambda value: before if value is target else value, (tuple(args), kwargs))


def ends(tensors, wanted) -> tuple:
    """Edges for gradients of the ``wanted`` tensors: nodes, and the index of each output."""
    return tuple(history.edge(tensors[k]) for k in wanted), tuple(tensors[k]._rush_output for k in wanted)


def derive(node, name, edges, slots, outputs, function):
    """Make a node run a function of the gradients of ``outputs``, which returns those of ``edges``."""
    node.kind, node.extra, node.edges, node.slots = FUNCTION, name, edges, slots
    node.outputs = tuple(o._rush_meta if isinstance(o, Tensor) else None for o in outputs)
    node.function, node.saved = function, None


def derived_again(op, args, kwargs, answer):
    """Return ``answer()``.  If its history saves more than the arguments, which the modes have not seen, the node
    derives the operator again, with operators that they see."""
    tensors = tensors_of((*args, *kwargs.values()))
    apart = any(op.traits.get(trait) for trait in ("detaches", "fresh", "library", "captured", "view"))
    noted = is_recording() and any(map(needs_gradient, tensors)) and not apart
    if not noted or not derivable(op, args, kwargs, tensors):
        return answer()
    wanted = tuple(k for k, t in enumerate(tensors) if needs_gradient(t))
    edges, slots = ends(tensors, wanted)
    given, named = as_before(op, args, kwargs)
    last = state.sequence
    results = answer()
    outputs = results if isinstance(results, (tuple, list)) else (results,)
    made = next((o._rush_grad_node for o in outputs if isinstance(o, Tensor) and o._rush_grad_node is not None), None)
    if made is None or made.number <= last or "into" not in op.traits and keeps_arguments(made, edges):
        return results
    for k, out in enumerate(outputs):
        if isinstance(out, Tensor) and out._rush_grad_node is not None:
            out._rush_grad_node, out._rush_output = made, k
    derive(made, class_name(made), edges, slots, outputs,
           pulling(op, given, named, wanted, outputs, contextlib.nullcontext))
    return results


def keeps_arguments(node, edges) -> bool:
    """True if a node saved only arguments of its operator, no results or scalars."""
    return node.kind == DERIVED and node.edges == edges and all(0 <= code < FLOAT_VALUE for code in node.plan.saves)


def pulling(op, args, kwargs, wanted, outputs, within, numbers=False, versions=None):
    """The backward of one call (``differentiate``): maps cotangents of its results to those of the tensors ``wanted``.
    StaleValueError if a saved value was written since; ``versions``: of the arguments, by default the current ones."""
    from .reverse import zeros_like
    versions = {**(versions_of(args, kwargs) if versions is None else versions), **versions_of(outputs, {})}

    def unwritten(value):
        if isinstance(value, Tensor) and version_of(value) != versions.get(id(value), version_of(value)):
            changed(value, op.name, versions[id(value)])
        return value

    def pull(*cotangents):
        values, linear = derivatives.linearised(op, args, kwargs, wanted, numbers)
        if linear.backward is None:
            return (None,) * len(wanted)
        with within():
            extras = () if linear.forward is None else linear.forward(*map(unwritten, values))[linear.count:]
            seen = (*values, *outputs, *extras)
            given = [zeros_like(outputs[k]) if cotangents[k] is None else cotangents[k] for k in linear.carrying]
            found = dict(zip(linear.reached, linear.backward(*(unwritten(seen[k]) for k in linear.residuals), *given)))
        return tuple(found.get(k) for k in wanted)

    return pull


def read(function, args, kwargs):
    """Read elements of an instance of such a class by a member of Tensor."""
    tensor, name = args[0], function.__name__
    if name in ("numpy", "__array__", "tolist"):
        raise RuntimeError(
            f"{name}() is not supported for tensor subclasses with __torch_dispatch__, such as "
            f"{type(tensor).__name__}: it has no memory of its own. "
            "Convert it to a plain tensor first.")
    func = overload_of("_local_scalar_dense", args, {})
    found = type(tensor).__torch_dispatch__(func, (type(tensor),), (tensor,), {})
    if found is NotImplemented:
        raise TypeError(
            f"{type(tensor).__name__}.__torch_dispatch__ returned NotImplemented for {func}, which {name}() calls")
    convert = {"__bool__": bool, "__int__": int, "__index__": int, "__float__": float}.get(name)
    return convert(found) if convert else found


def emptied(meta):
    """(overload, args, kwargs) of an uninitialized tensor."""
    how = {"dtype": meta.dtype, "device": meta.device, "pin_memory": False}
    if tuple(meta.strides) == row_major(meta.shape):
        return ops.aten.empty.memory_format, (list(meta.shape),), how
    return ops.aten.empty_strided.default, (list(meta.shape), list(meta.strides)), how


class DispatchMode(Interpreter):
    """A TorchDispatchMode in the stack of interpreters."""

    def __init__(self, mode):
        self.mode = mode

    def call(self, op: Op, args, kwargs):
        if not self.mode._sees_memory and opened(op) and not tensors_of((*args, *kwargs.values())):
            return body_of(op, args)(*args, **kwargs)
        found = seen(op, args, kwargs)
        if found is None:
            return instead(op, args)(*args, **kwargs)
        if self.mode._derives:
            return derived_again(op, args, kwargs, lambda: self.asked(*found))
        return self.asked(*found)

    def asked(self, func, args, kwargs):
        """Result of the mode for a call of an overload."""
        kinds = overriding.overriding((*args, *kwargs.values()), DISPATCH)
        with Suspended(self):
            result = self.mode.__torch_dispatch__(func, kinds, tuple(args), kwargs)
        if result is NotImplemented:
            raise TypeError(f"{func}: the mode {type(self.mode).__name__} returned NotImplemented")
        return result

    def read_element(self, tensor):
        """The only element of a tensor."""
        return self.asked(overload_of("_local_scalar_dense", (tensor,), {}), (tensor,), {})

    def empty(self, meta):
        return self.asked(*emptied(meta)) if self.mode._sees_memory else None

    def constant(self, make):
        """A tensor of given elements, which the mode may replace."""
        if not self.mode._sees_memory:
            return make()
        with Suspended(self):
            made = make()
        return self.asked(overload_of("lift_fresh", (made,), {}), (made,), {})


def activate():
    """Install the dispatch functions for these classes."""
    overriding.Dispatch.call, overriding.Dispatch.read = call, read

"""Programs that write into tensors, as programs that do not: every write gives the tensor a new value, and its views too.

What an input is worth at the end, where it was written to, becomes a Store.
"""
from __future__ import annotations

from ..core.dtypes import int64
from ..core.interpret import is_recording, recording
from ..core.kinds import P
from ..core.meta import Meta
from ..core.op import Op, bind, op, rule
from ..graph.graph import Node
from ..transforms.trace import Trace, Traced, traced

WHOLE = ("reshape", "permute", "flip")  # views that show every element once


class Recording(Trace):
    """A Trace whose values may be written to, and which draws random numbers when the program runs.

    ``stream`` holds the nodes of the random stream's seed and position once something was drawn, ``drawn`` how many blocks.
    Without ``writes``, what an in-place operator computes is just its result.
    """

    def __init__(self, writes=True):
        super().__init__()
        self.stream, self.drawn, self.given, self.writes = (), 0, {}, writes

    def input(self, meta: Meta, stem="x", weak=False) -> Traced:
        made = super().input(meta, stem, weak)
        self.given[made.value] = made
        return made

    def written(self) -> list:
        """(input, its last value) for each input that was written to."""
        return [(node, value.value) for node, value in self.given.items() if value.value is not node]

    # --- random numbers ----------------------------------------------------------------------------------------------------------
    def reserve(self, blocks: int):
        if not self.stream:
            scalar = Meta.of((), int64)
            self.stream = tuple(super(Recording, self).input(scalar, stem, weak=True).value for stem in ("seed", "position"))
        seed, position = map(traced, self.stream)
        if self.drawn:
            position = P.add(position, self.drawn)
        self.drawn += blocks
        return seed, position

    # --- writing --------------------------------------------------------------------------------------------------------------------
    def call(self, op: Op, args, kwargs):
        into = op.facts.get("into")
        if into is not None and self.writes:
            return self.write_result(op, into, args, kwargs)
        result = super().call(op, args, kwargs)
        if op.facts.get("view") and isinstance(result, Traced):
            source = args[0] if args else next(iter(kwargs.values()))
            if isinstance(source, Traced) and result is not source:
                relate(result, source)
        return result

    def write_result(self, op: Op, into: int, args, kwargs):
        target = list(bind(op, args, kwargs).values())[into]
        value = super().call(op, args, kwargs)
        if tuple(value.shape) != tuple(target.shape):
            raise RuntimeError(f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(value.shape)}")
        if value.dtype is not target.dtype:
            value = P.convert(value, dtype=target.dtype)
        write(target, value)
        return target


def relate(result: Traced, source: Traced):
    """Makes ``result`` a view of ``source``, if views alone lead from one to the other and memory can be shared."""
    path, node, goal = [], result.value, source.node
    while node is not goal:
        if node.op is None or node.op.kind is None or node.op.kind.name != "view":
            return
        if node.op.kind.strided(node.op, node.args[0].meta, **node.params) is None:
            return
        path.append(node)
        node = node.args[0]
    owner = source if source._base is None else source._base
    result._base, result._seen = owner, writes(owner)
    result.path = (*getattr(source, "path", ()), *reversed(path))
    result.refresh = replay


def writes(owner: Traced) -> int:
    return getattr(owner, "count", 0)


def replay(view: Traced):
    """Gives a view its value anew after its owner was written to."""
    owner = view._base
    if view._seen == writes(owner):
        return
    view._seen = writes(owner)
    value = owner
    for step in view.path:  # what was detached stays so, wherever it is looked at
        with recording(not step.constant):
            value = step.op(value, **step.params)
    view.value = value.value


@op(method=False, name="_rewritten")
def rewritten(before, value):
    """``value``, with the history of ``before``: what a tensor is worth after a write that no gradient knows of."""
    return P.permute(value, dims=tuple(range(len(value.shape))))


@rule(rewritten)
def vjp(g, y, before, value):
    return [g, None]


def unrecorded(before: Node, value: Node) -> Node:
    """What a tensor of the program is worth after a write under ``no_grad`` or through a detached view: its history stays as it was."""
    if before.op is None or before.constant or not before.meta.dtype.is_inexact:
        return value
    with recording(True):
        return rewritten(traced(before), traced(value)).node


def write(target: Traced, value: Traced):
    """Gives ``target``, or the part of its owner that it shows, a new value."""
    owner = target._base
    if owner is None:
        target.value = value.node if is_recording() else unrecorded(target.value, value.node)
        target.count = writes(target) + 1
        return
    steps, shown = target.path, [traced(owner.node)]
    for step in steps[:-1]:
        shown.append(step.op(shown[-1], **step.params))
    for step, before in zip(reversed(steps), reversed(shown)):
        value = put_back(step, before, value)
    silent = not is_recording() or any(step.constant for step in steps)
    owner.value = unrecorded(owner.value, value.node) if silent else value.node
    owner.count = writes(owner) + 1


def put_back(step: Node, before: Traced, value: Traced) -> Traced:
    """What ``before`` becomes when ``value`` is written through the view that ``step`` makes of it."""
    view = step.op.kind
    if any(stride == 0 and size != 1 for size, stride in zip(value.shape, step.meta.strides)):
        raise RuntimeError("unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
                           "Please clone() the tensor before performing the operation.")
    back, = view.vjp(step.op, value, None, before, **step.params)
    if step.op.name.rpartition(".")[2] in WHOLE:
        return back
    ones = P.full(shape=tuple(value.shape), value=1, dtype=int64)
    shown, = view.vjp(step.op, ones, None, before, **step.params)
    return P.where(P.ne(shown, 0), back, before)

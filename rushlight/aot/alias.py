"""Programs that write into tensors, as programs that do not: every write gives the tensor a new value, and its views too.

What an input is worth at the end, where it was written to, becomes a Store.
"""
from __future__ import annotations

from ..core.dtypes import int64
from ..core.kinds import P
from ..core.meta import Meta
from ..core.op import Op, bind
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
    owner = source if source.base is None else source.base
    result.base, result.seen = owner, writes(owner)
    result.path = (*getattr(source, "path", ()), *reversed(path))
    result.refresh = replay


def writes(owner: Traced) -> int:
    return getattr(owner, "count", 0)


def replay(view: Traced):
    """Gives a view its value anew after its owner was written to."""
    owner = view.base
    if view.seen == writes(owner):
        return
    view.seen = writes(owner)
    value = owner
    for step in view.path:
        value = step.op(value, **step.params)
    view.value = value.value


def write(target: Traced, value: Traced):
    """Gives ``target``, or the part of its owner that it shows, a new value."""
    owner = target.base
    if owner is None:
        target.value = value.node
        target.count = writes(target) + 1
        return
    steps, shown = target.path, [traced(owner.node)]
    for step in steps[:-1]:
        shown.append(step.op(shown[-1], **step.params))
    for step, before in zip(reversed(steps), reversed(shown)):
        value = put_back(step, before, value)
    owner.value = value.node
    owner.count = writes(owner) + 1


def put_back(step: Node, before: Traced, value: Traced) -> Traced:
    """What ``before`` becomes when ``value`` is written through the view that ``step`` makes of it."""
    view, shape = step.op.kind, tuple(before.shape)
    if any(stride == 0 and size != 1 for size, stride in zip(value.shape, step.meta.strides)):
        raise RuntimeError("unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
                           "Please clone() the tensor before performing the operation.")
    back = view.transpose(value, shape, **step.params)
    if step.op.name.rpartition(".")[2] in WHOLE:
        return back
    ones = P.full(shape=tuple(value.shape), value=1, dtype=int64)
    return P.where(P.ne(view.transpose(ones, shape, **step.params), 0), back, before)

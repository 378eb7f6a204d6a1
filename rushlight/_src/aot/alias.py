"""Functionalization: every write gives the tensor, and its views, a new value.

The final value of an input that was written becomes a Store.
"""
from __future__ import annotations

from ..core.devices import preferred
from ..core.dtypes import int64
from ..core.interpret import is_recording, recording, top
from ..core.kinds import P
from ..core.meta import Meta, dense_strides, has_gaps, product, span
from ..core.op import Op, bind, op, rule
from ..core.targets import check_cast, check_distinct, check_exact, check_shape, is_expanded
from ..graph.graph import Node
from ..graph.views import step_of, view_of_input
from ..ops.prims.views import locate, overlapping, put_flat
from ..transforms.trace import Trace, Traced, traced

WHOLE = ("reshape", "permute", "flip")  # views that contain every element once


class Recording(Trace):
    """A Trace whose values may be written to, and which draws random numbers when the program runs.

    ``stream`` holds the nodes of the random stream's seed and position once something was drawn, ``drawn`` how many
    blocks.  Without ``writes``, what an in-place operator computes is just its result.
    """

    def __init__(self, writes=True):
        super().__init__()
        self.stream, self.drawn, self.given, self.writes = (), 0, {}, writes

    def input(self, meta: Meta, stem="x", weak=False, number=None) -> Traced:
        made = super().input(meta, stem, weak, number)
        self.given[made.value] = made
        return made

    def written(self) -> list:
        """Return (input, its last value) for each input that was written."""
        return [(node, value.value) for node, value in self.given.items() if value.value is not node]

    def inner(self) -> Trace:
        return Inner(self)

    # --- random numbers -----------------------------------------------------------------------------------------------
    def reserve(self, blocks: int):
        if not self.stream:
            scalar = Meta.of((), int64, preferred())
            self.stream = tuple(super(Recording, self).input(scalar, stem, weak=True).value
                                for stem in ("seed", "position"))
        seed, position = map(traced, self.stream)
        if self.drawn:
            position = P.add(position, self.drawn)
        self.drawn += blocks
        return seed, position

    # --- writing ------------------------------------------------------------------------------------------------------
    def call(self, op: Op, args, kwargs):
        into = op.traits.get("into")
        if into is not None and self.writes:
            return self.write_result(op, into, args, kwargs)
        result = super().call(op, args, kwargs)
        if op.traits.get("view") and isinstance(result, Traced):
            source = args[0] if args else next(iter(kwargs.values()))
            if isinstance(source, Traced) and result is not source:
                relate(result, source)
        return result

    def turn(self, value: Traced, view: Traced):
        """Make a value become a view of it.  The former value of an owner moves to another object, which its views
        refer to."""
        if view._base is value:
            view._base = owner = traced(value.value)
            owner.count = writes(value)
            self.given.update({node: owner for node, given in self.given.items() if given is value})
        super().turn(value, view)
        if view._base is not None:
            value._base, value.path, value._rush_seen, value.refresh = view._base, view.path, view._rush_seen, replay

    def write_result(self, op: Op, into: int, args, kwargs):
        target = list(bind(op, args, kwargs).values())[into]
        some = bool(op.traits.get("some")) and is_expanded(target._rush_meta)  # such a target keeps unwritten elements
        if not some and not op.traits.get("uniform"):
            check_distinct(op.name, target._rush_meta)
        value = super().call(op, args, kwargs)
        check_shape(value._rush_meta, target._rush_meta)
        check_cast(value._rush_meta, target._rush_meta)
        check_exact(op, value._rush_meta, target._rush_meta)
        if value.dtype is not target.dtype:
            value = P.convert(value, dtype=target.dtype)
        write(target, value, P.convert(P.ne(value, target), dtype=int64) if some else None)
        return target


class Inner(Recording):
    """The Recording of a body that a node carries: it may write into values that it makes, and draws no random
    numbers."""

    reserve = Trace.reserve

    def __init__(self, outer: Trace):
        super().__init__()
        self.names = outer.names


def relate(result: Traced, source: Traced):
    """Make ``result`` a view of ``source``, if it derives from it by views alone and can share its storage."""
    path, node, goal = [], result.value, source.node
    while node is not goal:
        if not picks(node) and not (step_of(node) and node.op.kind.strided(node.op, node.args[0].meta, **node.params)):
            return
        path.append(node)
        node = node.args[0]
    owner = whole(source)
    result._base = owner
    result._rush_seen = -1 if any(map(shows_storage, path)) else writes(owner)
    result.path = (*getattr(source, "path", ()), *reversed(path))
    result.refresh = replay


def shows_storage(step: Node) -> bool:
    """True if a node is an ``as_strided`` of a computed value that is not contiguous: ``replay`` recomputes it."""
    return step.op is P.strided and not step.args[0].meta.contiguous and view_of_input(step.args[0]) is None


def picks(node: Node) -> bool:
    """True if a node is the slice at an index that is only known at run time."""
    return node.op is P.take and node.args[1].shape == ()


def repeated(step: Node, value: Traced, before=()) -> Traced:
    """Return the view that a step makes, of another value.

    ``before``: the owner, then the steps that lead from it to the value.
    """
    if step.op is P.strided and not value._rush_meta.contiguous and view_of_input(value.node) is None:
        return restride(step, value, before)
    return step.op(value, *map(traced, step.args[1:]), **step.params)


def repeat_each(owner: Traced, steps):
    """Yield the owner's value, then the result of each step applied to the one before."""
    value = traced(owner.node)
    yield value
    for k, step in enumerate(steps):
        with recording(not step.constant):  # a detached value stays detached in all its views
            value = repeated(step, value, (owner, *steps[:k]))
        yield value


def restride(step: Node, value: Traced, before) -> Traced:
    """Return the region that an ``as_strided`` step shows of a computed value which is not contiguous.

    A computed value has no storage yet, so a vector stands for it.  What the value does not show of it comes from the
    input from which it descends.
    """
    begin, length = region_of(step, value._rush_meta)
    vector = None
    if has_gaps(value._rush_meta) or length > span(value.shape, value.stride()):
        vector = read_input(before, begin, length)
    if vector is None:
        vector = P.full(shape=(length,), value=0, dtype=value.dtype)
    vector = put_flat(vector, locate(value.shape, value.stride(), -begin), value, "set")
    return P.strided(vector, **{**step.params, "offset": step.params["offset"] - begin})


def read_input(before, begin, length) -> Traced:
    """Return a region of an input's storage, relative to the first element of what steps show of the input."""
    owner, *steps = before or (None,)
    origin = next((node for node, given in getattr(top(), "given", {}).items() if given is owner), None)
    if origin is None:
        raise NotImplementedError("as_strided of a computed value that is not contiguous shows elements of its storage "
                                  "outside of the value: call contiguous() first")
    value = traced(origin)
    for step in steps:
        value = repeated(step, value)
    return P.strided(value, shape=(length,), strides=(1,), offset=begin)


def region_of(step: Node, meta: Meta):
    """Return (begin, length) of the storage that a value and an ``as_strided`` step of it show, relative to the value's
    first element."""
    shape, strides, offset = (step.params[k] for k in ("shape", "strides", "offset"))
    begin = min(0, offset)
    return begin, max(span(meta.shape, meta.strides), offset + span(shape, strides)) - begin


def whole(value: Traced) -> Traced:
    """Return the owner of a value: itself, its base, or the base that it had before it became a view."""
    while value._base is not None:
        value = value._base
    return value


def writes(owner: Traced) -> int:
    return getattr(owner, "count", 0)


def replay(view: Traced):
    """Recompute the value of a view after its owner was written."""
    owner = view._base = whole(view)
    if view._rush_seen == writes(owner):
        return
    view._rush_seen = writes(owner)
    *_, value = repeat_each(owner, view.path)
    view.value = value.value


@op(method=False, name="_rewritten")
def rewritten(before, value):
    """``value`` with the gradient history of ``before``: a tensor after a write that autograd does not record."""
    return P.permute(value, dims=tuple(range(len(value.shape))))


@rule(rewritten)
def vjp(g, y, before, value):
    return [g, None]


def unrecorded(before: Node, value: Node) -> Node:
    """Value of a tensor of the program after a write under ``no_grad`` or through a detached view: its gradient history
    is unchanged."""
    if before.op is None or before.constant or not before.meta.dtype.is_inexact:
        return value
    with recording(True):
        return rewritten(traced(before), traced(value)).node


def write(target: Traced, value: Traced, written=None):
    """Give ``target``, or the part of its owner that it views, a new value; ``written``: nonzero for elements that have
    one (None: all)."""
    owner = whole(target)
    steps = () if target._base is None else target.path
    shown = [*repeat_each(owner, steps[:-1])]
    for step, before in zip(reversed(steps), reversed(shown)):
        value, written = put_back(step, before, value, written)
    if is_expanded(owner._rush_meta) or steps and shares_elements(owner._rush_meta):
        value = in_memory(shown[0], value, written)
    value = placed(value, owner._rush_meta)
    silent = not is_recording() or any(step.constant for step in steps)
    owner.value = unrecorded(owner.value, value.node) if silent else value.node
    owner.count = writes(owner) + 1


def shares_elements(meta: Meta) -> bool:
    """True if several elements of a tensor may be one element of its storage."""
    return not meta.contiguous and dense_strides(meta.shape, meta.strides) is None and overlapping(
        meta.shape, meta.strides)


def placed(value: Traced, meta: Meta) -> Traced:
    """Return a value with the strides of ``meta``: a write does not move its tensor, so views of it stay valid."""
    return value if value.node.meta is meta else top().emit(P.convert, (value,), {"dtype": meta.dtype}, meta=meta)


def put_back(step: Node, before: Traced, value: Traced, written):
    """Return ``before`` after ``value`` is written, at the elements in ``written``, through the view that ``step``
    makes of it; and the mask of the written elements."""
    view = step.op.kind
    if picks(step):
        return put_at(step, before, value), put_at(step, zeros(before.shape), ones(value.shape) if written is None
                                                   else written)
    if view.name in ("recast", "bytes"):
        return view.put(before, value), None if written is None else recast_places(step, before, written)
    if step.op is P.meaning:  # the same numbers, read otherwise
        return P.meaning(value, dtype=before._rush_meta.dtype), written
    if step.op is P.within:  # it contains every element
        return value, written
    if step.op is P.strided and not before._rush_meta.contiguous:
        return put_region(step, before, value, written)
    if shows_again(step, before):
        return put_places(step, before, value, written)

    def back(values):
        return view.vjp(step.op, values, None, before, **step.params)[0]

    if step.op.name.rpartition(".")[2] in WHOLE:
        return back(value), written if written is None else back(written)
    hit = back(ones(value.shape) if written is None else written)
    return P.where(P.ne(hit, 0), back(value), before), hit


def put_at(step: Node, before: Traced, value: Traced) -> Traced:
    """Return ``before`` with another slice at the index that a step looks up."""
    dim = step.params["dim"]
    at = P.reshape(traced(step.args[1]), shape=(1,))
    return P.put(before, at, P.reshape(value, shape=(*before.shape[:dim], 1, *before.shape[dim + 1:])), dim=dim,
                 combine="set")


def zeros(shape) -> Traced:
    return P.full(shape=tuple(shape), value=0, dtype=int64)


def ones(shape) -> Traced:
    return P.full(shape=tuple(shape), value=1, dtype=int64)


def recast_places(step: Node, before: Traced, written: Traced) -> Traced:
    """Mask of the elements of ``before`` that are written if ``written`` gives those of a reinterpreted view, whose
    elements are parts of these or consist of several."""
    if tuple(step.meta.shape) == tuple(before.shape):
        return written
    if step.op.kind.name == "bytes":
        few, many = step.meta.shape[-1], before.shape[-1]
        if many > few:
            return P.reshape(P.expand(P.reshape(written, shape=(*written.shape, 1)),
                                      shape=(*written.shape, many // few)), shape=tuple(before.shape))
        grouped = P.reshape(written, shape=(*before.shape, few // many))
        return P.reshape(P.amax(grouped, (len(before.shape),)), shape=tuple(before.shape))
    if step.dtype.is_complex:
        return P.expand(P.reshape(written, shape=(*written.shape, 1)), shape=tuple(before.shape))
    return P.reshape(P.amax(written, (len(written.shape) - 1,)), shape=tuple(before.shape))


def shows_again(step: Node, before: Traced) -> bool:
    """True if a view may contain an element several times."""
    name = step.op.name.rpartition(".")[2]
    return name == "expand" and tuple(step.meta.shape) != tuple(before.shape) or name in ("unfold", "strided")


def put_places(step: Node, before: Traced, value: Traced, written):
    """Like ``put_back``, element by element: the last of several writes to one element stays."""
    count, seen = product(before.shape), product(value.shape)
    at = step.op(P.reshape(P.iota(size=count, dtype=int64), shape=tuple(before.shape)), **step.params)
    if written is not None:
        at = P.where(P.ne(written, 0), at, count)  # past the end, which is never read

    def put(memory, values):
        last = P.full(shape=(1,), value=0, dtype=memory.dtype)
        whole = P.put(P.cat((P.reshape(memory, shape=(count,)), last), dim=0), P.reshape(at, shape=(seen,)),
                      P.reshape(values, shape=(seen,)), dim=0, combine="set")
        return P.reshape(P.slice(whole, starts=(0,), steps=(1,), shape=(count,)), shape=tuple(before.shape))

    return put(before, value), put(zeros(before.shape), ones(value.shape))


def put_region(step: Node, before: Traced, value: Traced, written):
    """Like ``put_back``, through an ``as_strided`` step of a tensor that is not contiguous."""
    if has_gaps(before._rush_meta):
        raise NotImplementedError(f"a write through as_strided of a tensor with strides {before.stride()}, whose "
                                  "storage has elements outside of the tensor: call contiguous() first")
    begin, length = region_of(step, before._rush_meta)
    shape, strides, offset = (step.params[k] for k in ("shape", "strides", "offset"))
    return put_storage(before, locate(shape, strides, offset - begin), value, written, -begin, length)


def put_storage(before: Traced, at, value: Traced, written, start, length):
    """Return ``before`` after ``value`` is written, at the elements in ``written``, to indices of its storage, which it
    views from ``start`` on; and the mask of the written elements.  The last of several writes to one index stays."""
    if written is not None:
        at = P.where(P.ne(written, 0), at, length)  # past the end, which is never read

    def put(values):
        vector = P.full(shape=(length + 1,), value=0, dtype=values.dtype)
        return P.strided(put_flat(vector, at, values, "set"), shape=tuple(before.shape), strides=before.stride(),
                         offset=start)

    hit = put(ones(value.shape))
    return P.where(P.ne(hit, 0), put(value), before), hit


def in_memory(before: Traced, value: Traced, written) -> Traced:
    """Value of a tensor with overlapping elements after some of them were written."""
    shape, strides = before.shape, before.stride()
    return put_storage(before, locate(shape, strides, 0), value, written, 0, span(shape, strides))[0]

"""Infer an operator's results on fake tensors: metadata, views, writes."""
from __future__ import annotations

from ..aot.alias import Recording
from ..core.shape_env import ShapeEnv
from ..core.interpret import precision
from ..core.meta import Meta, Size
from ..core.native import Tensor, keys
from ..core.cached import Recent
from ..core.op import body_of
from ..core.runtime import Known
from ..eager.programs import alias_of
from ..transforms.trace import Traced, ValueNeeded
from .errors import Break

_inferred = Recent()


class Inference:
    """The results of a call: Metas, and ``several``; and indices among its tensor arguments: ``same``: for each result,
    the argument that it is (or None), ``base``: the one whose memory the result shares, ``writes``: those that are
    mutated; ``start``: offset of the result from its base in elements, None if unknown."""

    def __init__(self, metas, several, same, base, writes, start=None):
        self.metas, self.several, self.same, self.base, self.writes = metas, several, same, base, writes
        self.start = start


def key_of(value):
    """Return the properties of an argument that an operator's results depend on."""
    if isinstance(value, Tensor):
        return value._rush_meta, getattr(value, "weak", False)
    if isinstance(value, (list, tuple)):
        return type(value), *map(key_of, value)
    return keys.exact(value)


def infer(op, args, kwargs, symbolic=False, conditions=None) -> Inference:
    """Return the Inference for such arguments; cached, unless sizes are symbols, so that facts must be recorded, or
    ``conditions`` on run-time floats are recorded."""
    if symbolic:
        facts = ShapeEnv.current()
        before, facts.estimating = facts.estimating, True
        try:
            return inference(op, args, kwargs, conditions)
        finally:
            facts.estimating = before
    if conditions is not None:
        return inference(op, args, kwargs, conditions)
    key = op, tuple(map(key_of, args)), tuple((k, key_of(v)) for k, v in kwargs.items())
    try:
        found = _inferred.get(key) or _inferred.again(key)
    except TypeError:
        return inference(op, args, kwargs)
    return found or _inferred.enter(key, inference(op, args, kwargs))


def inference(op, args, kwargs, conditions=None) -> Inference:
    into = op.traits.get("into")
    trace, entered = Recording(writes=into is None), []

    def enter(value):
        if isinstance(value, Tensor):
            entered.append(trace.input(value._rush_meta, weak=getattr(value, "weak", False),
                                       number=run_time_number(value, conditions)))
            return entered[-1]
        if type(value) in (list, tuple, Size):
            return tuple(map(enter, value)) if type(value) is not list else list(map(enter, value))
        return value

    positional = [enter(a) for a in args]
    keywords = {k: enter(v) for k, v in kwargs.items()}
    nodes = [e.node for e in entered]
    with trace, precision(0):
        results = body_of(op, positional)(*positional, **keywords) if op.kind is None else trace.call(op, positional,
                                                                                                      keywords)
    several = isinstance(results, (tuple, list))
    results = list(results) if several else [results]
    if any(not isinstance(r, Traced) or not isinstance(r._rush_meta, Meta) for r in results):
        raise Break("RB012", f"{op.name}() has a result whose size is unknown before it runs")
    if any(isinstance(size, Tensor) for r in results for size in r._rush_meta.shape):
        raise ValueNeeded(f"{op.name}: a size is a tensor")
    writes = [nodes.index(node) for node, _ in trace.written()] if into is None else [into]
    same = [position(result, entered, nodes) for result in results]
    if into is not None:
        same = [into]
    base, start, metas = None, None, [r._rush_meta for r in results]
    if op.traits.get("view") and not several and same == [None]:
        root, meta, start = alias_of(results[0].node, nodes) or (None, metas[0], None)
        base = nodes.index(root) if root is not None else 0 if op.name == "_pick" else None
        metas = [metas[0].turning(meta.turned)]
    return Inference(metas, several, same, base, writes, start)


def run_time_number(value, conditions):
    """Return the Known value of a varying float if ``conditions`` on it are recorded; None for other tensors."""
    real = getattr(value, "stands_for", None)
    return None if real is None or conditions is None else Known(real.number.hint, real.number.text,
                                                                 frozenset((value,)), conditions)


def position(result, entered, nodes):
    """Return the index of the argument that a result is, or None."""
    return next((k for k, (value, node) in enumerate(zip(entered, nodes)) if value is result or node is result.node),
                None)

"""How many lanes the vectors of a kernel have, and how many vectors it works on at a time."""
from __future__ import annotations

from ....core.expr import Expr
from ....compiler import math
from ....compiler.kernel import Kernel
from .scalars import COMPUTED


UNROLL = 4  # vectors in flight


def lanes_of(kernel: Kernel, features) -> int:
    """Lanes of a vector: as many as the widest type computed with in all lanes allows.  Random words are 32 bits wide,
    whatever holds them."""
    if kernel.serial:
        return 1
    widest = 1
    for stage in kernel.stages:
        roots = list(stage.exprs())
        axis = kernel.lane if kernel.lane is not None else stage.loops[-1] if stage.loops else None
        words = [e for e in parts(roots) if e.op == "philox"]
        words += [e for e in parts(roots) if e.op == "right_shift" and e.args[0] in words] + [e.args[2] for e in words]
        for e in parts(roots):
            if e in words or axis not in e.free and not (kernel.lane is not None
                                                         and any(x.op == "result" for x in e.free)):
                continue
            if e.dtype is not None and e.op not in ("load", "number", "scalar"):
                widest = max(widest, COMPUTED[e.dtype.name].bytes)
            elif e.op == "load":
                alone = any(e is r for r in roots)
                widest = max(widest, e.dtype.itemsize if alone else COMPUTED[e.dtype.name].bytes)
        for r in stage.reductions:
            widest = max(widest, 4, COMPUTED[r.value.dtype.name].bytes)
    return features.lanes(widest) if kernel.across is None else min(16, features.lanes(widest))


def parts(roots):
    """Every part of these Exprs, once."""
    seen, stack = set(), list(roots)
    while stack:
        e = stack.pop()
        if isinstance(e, Expr) and e not in seen:
            seen.add(e)
            yield e
            stack.extend(e.args)


def unrolling(kernel: Kernel) -> int:
    """Number of vectors that a kernel computes at a time: fewer if its body is long."""
    if kernel.serial or kernel.running and kernel.lane is None:
        return 1
    work = sum(math.work(e.op) for s in kernel.stages for e in parts(s.exprs()) if e.dtype is not None)
    return UNROLL if work <= 24 else 2 if work < math.LONG_WORK else 1

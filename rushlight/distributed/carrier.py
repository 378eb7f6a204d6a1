"""What collectives that are operators exchange: arrays."""
from __future__ import annotations

import numpy as np

from .counting import counted_as
from .engine import Region
from .membership import _resolve_process_group
from .regions import REAL
from .reduction import NAMED


def region(array) -> Region:
    name, itemsize = REAL.get(array.dtype.name, (array.dtype.name, array.dtype.itemsize))
    return Region(array.ctypes.data, array.nbytes, name, itemsize)


def pieces(array, counts) -> list:
    """The memory of an array, cut into numbers of rows."""
    whole = region(array)
    row = whole.nbytes // array.shape[0] if array.shape[0] else 0
    ends = np.cumsum([0, *counts]) * row
    return [whole.part(int(begin), int(end - begin)) for begin, end in zip(ends, ends[1:])]


def kind_of(group, reduce: str, array):
    """(kind, scale) of a reduction.  RuntimeError where it does not reduce such numbers."""
    if reduce not in NAMED or reduce == "premul_sum":
        raise RuntimeError(
            f"unknown reduction {reduce!r}: it is one of {', '.join(n for n in NAMED if n != 'premul_sum')}")
    if reduce in ("band", "bor", "bxor") and array.dtype.kind not in "biu":
        raise RuntimeError(f"Cannot use ReduceOp.{reduce.upper()} with non-integral dtype")
    if reduce == "avg" and array.dtype.kind not in "fc":
        raise RuntimeError(f"result type Float can't be cast to the desired output type {array.dtype.name}")
    return reduce, 1.0 / group.size()


def all_reduce(group, array, reduce):
    made = np.array(array, order="C")
    kind = kind_of(group, reduce, made)
    return made, lambda: group.engine.all_reduce(region(made), *kind)


def all_gather(group, array, size):
    made = np.empty((array.shape[0] * size, *array.shape[1:]), array.dtype)
    return made, lambda: group.engine.all_gather(pieces(made, [array.shape[0]] * size), region(array))


def reduce_scatter(group, array, reduce, size):
    made = np.empty((array.shape[0] // size, *array.shape[1:]), array.dtype)
    kind = kind_of(group, reduce, made)
    return made, lambda: group.engine.reduce_scatter(region(made),
                                                     [Region(p.address, p.nbytes, region(made).name,
                                                             region(made).itemsize)
                                                      for p in pieces(array, [len(made)] * size)], *kind)


def all_to_all(group, array, taken, given):
    made = np.empty((sum(taken), *array.shape[1:]), array.dtype)
    row = array[:1].nbytes if array.shape[0] else made[:1].nbytes

    def cut(of, counts):
        ends = np.cumsum([0, *counts]) * row
        return [region(of).part(int(begin), int(end - begin)) for begin, end in zip(ends, ends[1:])]
    return made, lambda: group.engine.all_to_all(cut(made, taken), cut(array, given))


def broadcast(group, array, root):
    made = np.array(array, order="C")
    return made, lambda: group.engine.broadcast(region(made), root) if group.size() > 1 else None


def reduce(group, array, root):
    made = np.array(array, order="C")

    def run():
        group.engine.reduce(region(made), "sum", 1.0, root)
        if group.rank() != root:
            made.fill(0)
    return made, run


COUNTED = {"all_reduce": "c10d_functional.all_reduce", "all_gather": "c10d_functional.all_gather_into_tensor",
           "reduce_scatter": "c10d_functional.reduce_scatter_tensor", "broadcast": "c10d_functional.broadcast",
           "all_to_all": "c10d_functional.all_to_all_single", "reduce": "c10d.reduce_"}
KINDS = {"all_reduce": all_reduce, "all_gather": all_gather, "reduce_scatter": reduce_scatter, "all_to_all": all_to_all,
         "broadcast": broadcast, "reduce": reduce}


def carry(what: str, array, group_name: str, *given):
    """The result of a collective for one array, in the group of this name.  ValueError where there is no such group."""
    group = _resolve_process_group(group_name)
    source = np.ascontiguousarray(array).reshape(np.shape(array))
    if any(size not in (group.size(),) for size in given if what in ("all_gather", "reduce_scatter")
           and isinstance(size, int)):
        raise RuntimeError(f"{what}: the group {group_name!r} has {group.size()} processes, not {given[-1]}")
    made, run = KINDS[what](group, source, *given)
    with counted_as(COUNTED[what]):
        group.exchange(run, [], False)
    return made

"""Collectives over arrays, for collectives that are operators."""
from __future__ import annotations

import itertools
import os

import numpy as np

from .counting import counted_as
from .engine import Region
from .membership import _resolve_process_group
from .regions import REAL
from .reduction import NAMED


def region(array) -> Region:
    name, itemsize = REAL.get(array.dtype.name, (array.dtype.name, array.dtype.itemsize))
    return Region(array.ctypes.data, array.nbytes, name, itemsize)


def kind_of(group, reduce: str, array):
    """Return (kind, scale) of a reduction.  RuntimeError if it does not support the dtype."""
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
    return made, lambda: group.engine.gather_whole(region(made), region(array))


def reduce_scatter(group, array, reduce, size):
    made = np.empty((array.shape[0] // size, *array.shape[1:]), array.dtype)
    kind = kind_of(group, reduce, made)
    return made, lambda: group.engine.reduce_scatter_whole(region(made), region(array), *kind)


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


def prepared(what: str, array, group_name: str, given):
    """Return (the group of this name, the array to read, the result array, the function that fills it).  ValueError
    if there is no such group."""
    group = _resolve_process_group(group_name)
    source = np.ascontiguousarray(array).reshape(np.shape(array))
    if any(size not in (group.size(),) for size in given if what in ("all_gather", "reduce_scatter")
           and isinstance(size, int)):
        raise RuntimeError(f"{what}: the group {group_name!r} has {group.size()} processes, not {given[-1]}")
    made, run = KINDS[what](group, source, *given)
    return group, source, made, run


def carry(what: str, array, group_name: str, *given):
    """Return the result of a collective for one array, in the group of this name.  ValueError if there is no such
    group."""
    group, _, made, run = prepared(what, array, group_name, given)
    with counted_as(COUNTED[what]):
        group.exchange(run, [], False)
    if group.coalescing is not None:
        group.coalescing.works[-1].wait()  # others of the block are waited for at its end, this one is read now
    return made


class Flight:
    """A collective that is running: its Work, its result array, and the array it reads, or the error that kept it from
    starting."""

    def __init__(self, what: str, array, group_name: str, given):
        self.error = None
        try:
            group, self.source, self.made, run = prepared(what, array, group_name, given)
            with counted_as(COUNTED[what]):
                self.work = group.exchange(run, [], True) or group.coalescing.works[-1]
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self.error = error

    def land(self):
        """Wait, and return the result.  Raises the collective's error if it failed."""
        if self.error is not None:
            raise self.error
        try:
            self.work.wait()
        except BaseException:
            self.work.finished.wait()  # interrupted: until then it reads memory that the program frees
            raise
        return self.made


flights: dict = {}  # by number: those that no caller has waited for
numbers = itertools.count(int.from_bytes(os.urandom(6), "little"))  # random start: uninitialized memory has no number


def begin(what: str, array, group_name: str, *given) -> int:
    """Start a collective for one array, which must stay unchanged until ``finish``; return its number.  Errors are
    raised by ``finish``."""
    number = next(numbers)
    flights[number] = Flight(what, array, group_name, given)
    return number


def finish(number: int):
    """The result of a collective that ``begin`` started, once it is there."""
    return flights.pop(number).land()


def device_regions(placed, counts=None) -> list:
    """Return the memory of (address, Meta), split into the numbers of rows ``counts`` if given."""
    at, meta = placed
    name, itemsize = REAL.get(meta.dtype.name, (meta.dtype.name, meta.dtype.itemsize))
    whole = Region(at, meta.numel * meta.itemsize, name, itemsize)
    if counts is None:
        return [whole]
    row = whole.nbytes // meta.shape[0] if meta.shape[0] else 0
    ends = [row * sum(counts[:k]) for k in range(len(counts) + 1)]
    return [whole.part(begin, end - begin) for begin, end in zip(ends, ends[1:])]


def carry_there(what: str, where, given, made, group_name: str, *params) -> bool:
    """Run ``carry`` between two addresses in a device's memory, on its streams; False if the group has none.
    ValueError and TypeError for reductions that the device's library lacks.

    ``given``, ``made``: (address, Meta) of dense memory.
    """
    group = _resolve_process_group(group_name)
    if what == "reduce" or not group.streams_for(where):
        return False
    engine, size = group.engine_at(where), group.size()
    source, target = device_regions(given)[0], device_regions(made)[0]
    runs = {"all_reduce": lambda reduce: engine.reduce_into(source.address, target, reduce, 1.0),
            "all_gather": lambda of: engine.gather_whole(target, source),
            "reduce_scatter": lambda reduce, of: engine.reduce_scatter_whole(target, source, reduce, 1.0),
            "all_to_all": lambda taken, sent: engine.all_to_all(device_regions(made, taken),
                                                                device_regions(given, sent)),
            "broadcast": lambda root: engine.broadcast_into(source.address, target, root)}
    of = params[-1] if what in ("all_gather", "reduce_scatter") else size
    if of != size:
        raise RuntimeError(f"{what}: the group {group_name!r} has {size} processes, not {of}")
    if what in ("all_reduce", "reduce_scatter"):
        engine.check_reduction(given[1], NAMED[params[0]])
    with counted_as(COUNTED[what]):
        group.exchange(lambda: runs[what](*params), [], False, engine=engine)
    return True

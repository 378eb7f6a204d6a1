"""Schedules as lists of Actions in the order in which a rank of a group runs them."""
from __future__ import annotations

from typing import NamedTuple


class Action(NamedTuple):
    """``kind``: "F" forward, "B" backward, "I" backward to inputs alone, "W" to weights alone."""

    kind: str
    stage: int
    batch: int

    def __repr__(self):
        return f"{self.stage}{self.kind}{self.batch}"


def looped(ranks: int, stages: int) -> list[int]:
    """Return the rank of each stage, if ranks take turns.

    >>> looped(2, 4)
    [0, 1, 0, 1]
    """
    return [stage % ranks for stage in range(stages)]


def in_a_v(ranks: int, stages: int) -> list[int]:
    """Return the rank of each stage, if every second round runs in reverse.

    >>> in_a_v(2, 4)
    [0, 1, 1, 0]
    """
    return [k if turn % 2 == 0 else ranks - 1 - k for turn in range(stages // ranks) for k in range(ranks)]


def all_forward_first(stages, batches: int) -> list[Action]:
    """All microbatches forward through each stage of a rank, then backward, last stages first."""
    return [*(Action("F", s, b) for s in stages for b in range(batches)),
            *(Action("B", s, b) for s in reversed(stages) for b in reversed(range(batches)))]


def one_forward_one_backward(stage: int, stages: int, batches: int) -> list[Action]:
    """As many forward passes as stages from this one on, then alternately one backward and one forward pass."""
    ahead = min(batches, stages - stage)
    order = [Action("F", stage, b) for b in range(ahead)]
    for b in range(batches):
        order.append(Action("B", stage, b))
        if b + ahead < batches:
            order.append(Action("F", stage, b + ahead))
    return order


def interleaved(rank: int, ranks: int, stages: list[int], batches: int, halves: bool = False) -> list[Action]:
    """Alternately one forward and one backward pass, over several stages of a rank: microbatches go in rounds, and each
    round passes all stages before the next.  With ``halves`` weight gradients follow input gradients as late as the
    memory of the plain order allows."""
    count = len(stages)
    rounds = max(1, batches // ranks)
    each = batches // rounds
    total = count * batches
    ahead = min(total, (count - 1) * each + (1 if halves else 2) * (ranks - 1 - rank))

    def batch_of(k):
        return k // (each * count) * each + k % each

    forward = [Action("F", stages[k // each % count], batch_of(k)) for k in range(total)]
    backward = [Action("I" if halves else "B", stages[count - 1 - k // each % count], batch_of(k))
                for k in range(total)]
    order = forward[:ahead]
    for k, back in enumerate(backward):
        order += [*forward[ahead + k:ahead + k + 1], back]
    return with_weights(order, rank) if halves else order


def with_weights(order: list[Action], behind: int) -> list[Action]:
    """An order with "W" actions, each ``behind`` backward steps after its "I"; the rest at the end."""
    found, waiting = [], []
    for action in order:
        found.append(action)
        if action.kind == "I":
            waiting.append(Action("W", action.stage, action.batch))
            if len(waiting) > behind:
                found.append(waiting.pop(0))
    return found + waiting


def back_and_forth(rank: int, ranks: int, batches: int) -> list[Action]:
    """Two stages of a rank, one on the way out and one on the way back, with "W" in idle time: the order of a run with
    equal times."""
    place, last = in_a_v(ranks, 2 * ranks), 2 * ranks - 1
    done: dict[Action, int] = {}
    orders: list[list[Action]] = [[] for _ in range(ranks)]
    waiting: list[list[Action]] = [[] for _ in range(ranks)]
    nexts = {(kind, s): 0 for kind in "FI" for s in range(last + 1)}
    moment = 0
    while any(n < batches for n in nexts.values()) or any(waiting):
        begun = []
        for r in range(ranks):
            ready = [Action(kind, s, nexts[kind, s]) for s in range(last + 1) if place[s] == r for kind in "IF"
                     if nexts[kind, s] < batches and all(n in done and done[n] <= moment for n in
                                                         needs(kind, s, nexts[kind, s], last))
                     and (kind == "I" or in_flight(nexts, s) < 2 * ranks)]
            ready.sort(key=lambda a: (a.kind == "F", -a.stage if a.kind == "F" else a.stage, a.batch))
            chosen = ready[0] if ready else waiting[r].pop(0) if waiting[r] else None
            if chosen is None:
                continue
            begun.append(chosen)
            orders[r].append(chosen)
            if chosen.kind in "FI":
                nexts[chosen.kind, chosen.stage] += 1
            if chosen.kind == "I":
                waiting[r].append(Action("W", chosen.stage, chosen.batch))
        moment += 1
        done.update((action, moment) for action in begun)
    return orders[rank]


def both_ways(rank: int, ranks: int, batches: int) -> list[Action]:
    """Two stages of a rank, one on the way out (0) and one on the way back (1), as in DualPipeV: microbatches fill the
    pipeline, then forward passes of one stage and backward passes of the other alternate, and at the end weight
    gradients fill idle time.  There are at least ``2 * ranks`` microbatches."""
    stages, found, counts, waiting = (rank, 2 * ranks - 1 - rank), [], {}, []

    def act(kind, way):
        batch = counts.setdefault((kind == "F", way), 0)
        counts[kind == "F", way] = batch + 1
        found.append(Action(kind, stages[way], batch))
        if kind == "I":
            waiting.append(Action("W", stages[way], batch))

    def weights():
        found.extend(waiting[:1])
        del waiting[:1]

    rest = ranks - rank - 1
    for _ in range(2 * rest):
        act("F", 0)
    for _ in range(rank + 1):
        act("F", 0), act("F", 1)
    for _ in range(rest):
        act("I", 1), weights(), act("F", 1)
    for _ in range(batches - 2 * ranks + rank + 1):
        act("F", 0), act("B", 1), act("F", 1), act("B", 0)
    for _ in range(rest):
        act("B", 1), act("F", 1), act("B", 0)
    for k in range(rank + 1):
        first, second = (2 * k > rank, 2 * k >= rank) if rank % 2 == 0 else (2 * k > rank,) * 2
        act("I" if first else "B", 1), act("I" if second else "B", 0)
    for _ in range(rest):
        weights(), act("I", 0)
    return found + waiting


def needs(kind, stage, batch, last) -> list[Action]:
    """Return the actions that must run before an action."""
    if kind == "F":
        return [Action("F", stage - 1, batch)] if stage else []
    return [Action("F", stage, batch), *([Action("I", stage + 1, batch)] if stage < last else [])]


def in_flight(nexts, stage) -> int:
    """Return the number of microbatches of a stage that have gone forward and not back."""
    return nexts["F", stage] - nexts["I", stage]

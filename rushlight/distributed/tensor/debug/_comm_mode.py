"""Counts of the collectives within a block."""
from __future__ import annotations

from collections import defaultdict

from .... import ops
from ...counting import COUNTERS
from ...worlds import here


def operator(name: str):
    """The operator of ``torch.ops`` that is called so.

    >>> str(operator("c10d.barrier"))
    'c10d.barrier'
    """
    namespace, _, own = name.partition(".")
    return getattr(getattr(ops, namespace), own)


class CommDebugMode:
    """A block that counts collectives by operator: redistributions of DTensors and functional collectives as
    ``torch.ops.c10d_functional``, others as ``torch.ops.c10d``.

    >>> from rushlight import distributed as dist, ones
    >>> from rushlight.distributed import threads
    >>> def member(rank):
    ...     with CommDebugMode() as mode:
    ...         dist.all_reduce(ones(2))
    ...     return mode.get_total_counts(), [(str(op), count) for op, count in mode.get_comm_counts().items()]
    >>> threads.run(2, member)[0]
    (1, [('c10d.allreduce_', 1)])
    """

    def __init__(self):
        self.comm_counts: dict = defaultdict(int)
        self.entries: list = []

    def note(self, name: str):
        self.comm_counts[operator(name)] += 1

    def __enter__(self):
        self.comm_counts.clear()
        self.entries.append((here(), self.note))
        COUNTERS.append(self.entries[-1])
        return self

    def __exit__(self, *error):
        entry = self.entries.pop()
        COUNTERS[:] = [other for other in COUNTERS if other is not entry]

    def get_comm_counts(self) -> dict:
        """Operator -> how often; 0 for those that did not run."""
        return self.comm_counts

    def get_total_counts(self) -> int:
        return sum(self.comm_counts.values())

    def __repr__(self):
        return f"CommDebugMode(get_total_counts()={self.get_total_counts()})"

"""The smallest cut of a network (Dinic 1970)."""
from __future__ import annotations

ENDLESS = 1 << 60


class Network:
    """Directed edges with capacities between numbered points; 0 is the source, 1 the sink."""

    def __init__(self, points: int):
        self.edges = [[] for _ in range(points)]  # of each point: numbers of edges; edge k ^ 1 is edge k backwards
        self.target, self.room = [], []

    def edge(self, start: int, end: int, capacity: int):
        self.edges[start].append(len(self.target))
        self.edges[end].append(len(self.target) + 1)
        self.target += end, start
        self.room += capacity, 0

    def levels(self):
        """Each point's distance from the source over edges with room, or None if the sink is out of reach."""
        level = [-1] * len(self.edges)
        level[0], queue = 0, [0]
        for point in queue:
            for k in self.edges[point]:
                if self.room[k] and level[self.target[k]] < 0:
                    level[self.target[k]] = level[point] + 1
                    queue.append(self.target[k])
        return level if level[1] >= 0 else None

    def saturate(self):
        """Sends as much as there is room for."""
        while (level := self.levels()) is not None:
            unused = [list(numbers) for numbers in self.edges]
            while self.push(level, unused):
                pass

    def push(self, level, unused) -> bool:
        """One path from the source to the sink filled; False where there is none."""
        path, point = [], 0
        while point != 1:
            while unused[point]:
                k = unused[point][-1]
                if self.room[k] and level[self.target[k]] == level[point] + 1:
                    break
                unused[point].pop()
            else:
                if not path:
                    return False
                k = path.pop()
                point = self.target[k ^ 1]
                unused[point].pop()
                continue
            path.append(k)
            point = self.target[k]
        amount = min(self.room[k] for k in path)
        for k in path:
            self.room[k] -= amount
            self.room[k ^ 1] += amount
        return True

    def sink_side(self) -> set:
        """The points on the sink's side of the smallest cut, of several such cuts the one nearest to the sink.

        >>> network = Network(3)
        >>> network.edge(0, 2, 5)
        >>> network.edge(2, 1, 3)
        >>> network.sink_side()
        {1}
        """
        self.saturate()
        found, queue = {1}, [1]
        for point in queue:
            for k in self.edges[point]:
                if self.room[k ^ 1] and self.target[k] not in found:
                    found.add(self.target[k])
                    queue.append(self.target[k])
        return found

"""What a call of a compiled function costs beyond its kernel: a tiny function, a model of 200 modules, each graph
break.

    python -m benchmarks.calls [--write]
"""
from __future__ import annotations

import time

import rushlight as torch
import rushlight.nn as nn

from .results import keep, parser


class Many(nn.Module):
    """As many modules as asked for, whose forward computes almost nothing."""

    def __init__(self, count):
        super().__init__()
        self.parts = nn.ModuleList([nn.Identity() for _ in range(count)])
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x * self.scale




def unrolled(count):
    lines = ["def f(x):", "    x = x + 1", *["    torch.compiler.graph_break()"] * count, "    return x"]
    namespace = {"torch": torch}
    exec("\n".join(lines), namespace)
    return namespace["f"]


def microseconds(function, *args, calls=20000, rounds=7):
    """The best of several rounds, a call."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(calls):
            function(*args)
        best = min(best, time.process_time() - start)
    return best / calls * 1e6


def rows():
    """(what, microseconds) of each measurement."""
    x = torch.ones(16)
    tiny = torch.compile(lambda x: x + 1)
    tiny(x)
    graph = tiny.owner.stats.graphs[0]
    with torch.no_grad():
        kernel = microseconds(lambda: graph(x))
        yield "the graph alone", kernel
        yield "a tiny function", microseconds(tiny, x)
        model = Many(200)
        compiled = torch.compile(model)
        compiled(x)
        yield "200 modules", microseconds(compiled, x)
        yield "200 modules, uncompiled", microseconds(model, x, calls=500)
        plain = torch.compile(unrolled(0))
        one, ten = torch.compile(unrolled(1)), torch.compile(unrolled(11))
        for f in (plain, one, ten):
            f(x)
        yield "no break", microseconds(plain, x)
        yield "one break", microseconds(one, x)
        yield "each further break", (microseconds(ten, x) - microseconds(one, x)) / 10
    many = torch.compile(lambda x, items, table: x + items[0] + table["k"] + sum(items))
    given = x, [1, 2, 3], {"k": 1}
    many(*given)
    yield "containers as arguments", microseconds(many, *given)


def main():
    options, figures = parser(__doc__).parse_args(), {}
    for what, time_of in rows():
        figures[what] = round(time_of, 2)
        print(f"{what:28s} {time_of:8.2f} us")
    keep("calls", figures, options)


if __name__ == "__main__":
    main()

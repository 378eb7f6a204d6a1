"""What calling compiled code costs, beside the same code uncompiled; microseconds a call, milliseconds a capture.

    python -m benchmarks.capture [--write]
"""
import time

import rushlight as torch
from rushlight import nn
from rushlight._src.core.epoch import Epoch

from .results import keep, parser


def microseconds(function, *args, calls=5000):
    """The best of five rounds."""
    for _ in range(20):
        function(*args)
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(calls):
            function(*args)
        best = min(best, (time.perf_counter() - began) / calls)
    return 1e6 * best


def with_break(x):
    y = x + 1
    torch.compiler.graph_break()
    return y * 2


def main():
    options, figures, x = parser(__doc__).parse_args(), {}, torch.ones(4)
    for name, function in (("nothing", lambda x: x), ("one add", lambda x: x + 1),
                           ("two operators, a break between", with_break)):
        figures[name] = {"compiled us": microseconds(torch.compile(function), x),
                         "uncompiled us": microseconds(function, x)}
    for count in (1, 50, 200):
        model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(count)]).requires_grad_(False)
        compiled, x = torch.compile(model), torch.ones(2, 4)
        compiled(x)
        entry, values = next(iter(compiled.owner.entries.values())), (model, (x,), {})
        began = time.perf_counter()
        segment = entry.capture(values)
        capture = 1e3 * (time.perf_counter() - began)

        def rearmed():
            Epoch.value += 1
            return segment.guard(values)

        figures[f"{count} linear layers"] = {
            "compiled us": microseconds(compiled, x, calls=500), "uncompiled us": microseconds(model, x, calls=500),
            "capture ms": capture,
            "guards us": microseconds(segment.guard, values),
            "guards after a module changed us": microseconds(rearmed, calls=200)}
    for name, found in figures.items():
        print(f"{name}: " + ", ".join(f"{what} {value:.2f}" for what, value in found.items()))
    keep("capture", figures, options)


if __name__ == "__main__":
    main()

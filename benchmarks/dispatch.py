"""Microseconds per operator on 16 elements, beside torch: add with and without gradient, a three-operator chain forward
and backward, a view.

    python -m benchmarks.dispatch [--write]
"""
import timeit

import torch

import rushlight

from .results import keep, parser

torch.set_num_threads(1)


def microseconds(function, number=2000, repeat=7):
    function()
    return min(timeit.repeat(function, number=number, repeat=repeat)) / number * 1e6


def cases(t):
    a, b = t.ones(16), t.ones(16)
    x, y = t.ones(16, requires_grad=True), t.ones(16, requires_grad=True)
    seed = t.ones(16)

    def chain():
        return ((x * y) + x) * y

    def both():
        x.grad = y.grad = None
        chain().backward(seed)

    return {"a + b": lambda: a + b, "a + b, recorded": lambda: x + y, "a.view(4, 4)": lambda: a.view(4, 4),
            "3 operators": chain, "3 operators and backward": both}


def main():
    options, figures = parser(__doc__).parse_args(), {}
    ours, theirs = cases(rushlight), cases(torch)
    print(f"{'':28}{'rushlight':>10}{'torch':>10}{'ratio':>8}")
    for name in ours:
        mine, judge = microseconds(ours[name]), microseconds(theirs[name])
        figures[name] = [round(mine, 3), round(judge, 3)]
        print(f"{name:28}{mine:10.2f}{judge:10.2f}{mine / judge:8.2f}")
    keep("dispatch", figures, options)


if __name__ == "__main__":
    main()

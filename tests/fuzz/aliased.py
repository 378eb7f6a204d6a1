"""Compiled functions whose arguments and buffers share memory: results, writes, gradients and what shares memory must
be those of PyTorch's eager mode, whichever way arguments shared memory in the calls before.

``python -m tests.fuzz.aliased --programs 500 --seed 7`` runs random programs, each on several arrangements of its
arguments in turn, by one compiled function.
"""
from __future__ import annotations

import argparse
import random
import warnings

from .writes import close, difference, looked_at, seen

ARRANGEMENTS = {  # arguments a and b and the buffer c as views of x; y is other memory, n the number of columns
    "other memory": lambda x, y, n: (grid(x, n), grid(y, n), y[40:40 + n]),
    "disjoint": lambda x, y, n: (grid(x, n), grid(x[30:], n), y[40:40 + n]),
    "same": lambda x, y, n: 2 * (grid(x, n),) + (y[:n],),
    "twins": lambda x, y, n: (grid(x, n), grid(x, n), y[:n]),
    "shifted": lambda x, y, n: (grid(x, n), grid(x[7:], n), y[:n]),
    "shifted back": lambda x, y, n: (grid(x[n:], n), grid(x, n), y[:n]),
    "square": lambda x, y, n: (x[:16].view(4, 4), x[:16].view(4, 4).t(), y[:4]),
    "interleaved": lambda x, y, n: (x[:8 * n].view(4, 2 * n)[:, ::2], x[:8 * n].view(4, 2 * n)[:, 1::2], y[:n]),
    "row": lambda x, y, n: (grid(x, n), grid(x, n)[1], y[:n]),
    "whole and part": lambda x, y, n: (grid(x, n)[1:3], grid(x, n)[2], y[:n]),
    "element": lambda x, y, n: (grid(x, n), grid(x, n)[2, 1], y[:n]),
    "column": lambda x, y, n: (grid(x, n), grid(x, n)[:, :1], y[:n]),
    "detached": lambda x, y, n: ((a := grid(x, n)), a.detach(), y[:n]),
    "buffer in a": lambda x, y, n: ((a := grid(x, n)), grid(y, n), a[1]),
    "buffer in both": lambda x, y, n: ((a := grid(x, n)), grid(x, n), a[0]),
    "buffer is b": lambda x, y, n: (grid(x, n), (b := grid(x, n)[3]), b),
    "buffer in other memory": lambda x, y, n: (grid(x, n), grid(y, n), y[1:1 + n]),
}
WRITES = ("a.mul_(2)", "a.add_(b)", "b.add_(a.sum())", "b.copy_(a.mean() * 2)", "a[0] = 1", "a[1:].add_(b.sum())",
          "self.c.add_(1)", "self.c.mul_(b.sum())", "a.copy_(b * 2 + 1)", "a += b * 2", "b -= a.sum()", "a.zero_()",
          "b.fill_(3)", "a.t().mul_(3)", "a[..., ::2].add_(1)", "t = b * 2; a.add_(1); b.add_(t)",
          "v = a[1:]; b.mul_(2); v.add_(b.mean())", "s = a.sum(); b.mul_(s); a.sub_(s)", "self.c.copy_(a[0].detach())",
          "a.masked_fill_(b > 1, 2)", "b.relu_()", "a[1].copy_(a[0])",
          "u = a + self.c; self.c.zero_(); b.add_(u.sum())", "torch._dynamo.graph_break(); b.mul_(2)",
          "a.detach().add_(1)", "a.data.mul_(2)", "n = b.sum().item(); a.add_(n); b.sub_(b.sum().item())",
          "self.c = self.c + b.sum()", "torch._foreach_add_([a, b], [b.detach() * 1, b.detach() + 1])",
          "a.flatten()[3] = b.flatten()[0]", "b = b.mul_(2) if a.sum() > 0 else b.add_(1)",
          "p = a.clone(); q = b * p; p.zero_(); a.copy_(q)",
          "a.index_add_(0, torch.tensor([0, 0]), a[2:].detach() * 2)", "b.copy_(a[0, 0]); a[0, 0] = 7",
          "r = torch.cat([a.flatten(), b.flatten()]); a.fill_(0); b.add_(r.sum())", "a, b = b, a", "a = a.detach()",
          "b = b.clone()", "a.neg_(); b.neg_()", "b.clamp_(max=a.max())", "pass")
RESULTS = ("(r := a * 2, r[0], r.t())", "(a, a)", "(a[0], a[0], b)", "(b.flatten(), a.flatten()[1:])", "a", "b",
           "(a, b)", "a * b", "a[1:]", "(b.sum(), a + self.c)", "(a.t(), b.detach())", "a.sum() + b.sum()",
           "(a.clone(), b.view_as(b))", "self.c", "(self.c * 1, a[0], a * a)", "(a * b, b * 2, self.c + b.sum())")
FORMS = ({}, {"dynamic": True}, {"dynamic": False}, {}, {"backend": "aot_eager"})
WIDTHS = (5, 5, 6, 7)
CALLS = 3
BROADCAST = "row", "whole and part", "element", "column"  # in which b is some elements of a


def is_undefined(text: str, arrangement: str) -> bool:
    """True if PyTorch's answer depends on the order in which it reads and writes elements."""
    return arrangement in BROADCAST and "a.add_(b)" in text


def grid(x, n):
    return x[:4 * n].view(4, n)


def module(package, text: str, result: str, buffer):
    """A program as a module with the buffer c."""
    space = {"torch": package}
    exec(f"class Program(torch.nn.Module):\n def forward(self, a, b):\n  {text}\n  return {result}", space)
    made = space["Program"]()
    made.register_buffer("c", buffer)
    return made


def given(package, arrangement: str, n: int, history: bool):
    """The leaves x and y, the tensors whose memory is shared, and the arguments and the buffer."""
    leaves = [((package.arange(96) * step % 11 - 3).to(package.float32) / 4).requires_grad_(history)
              for step in (1, 3)]
    made = [x * 1 if history else x for x in leaves]
    return leaves, made, ARRANGEMENTS[arrangement](*made, n)


def outcome(package, call, program, arrangement, n, history):
    """What a call gives, leaves in memory, and has for gradients; the kind of its error."""
    leaves, memory, (a, b, c) = given(package, arrangement, n, history)
    versions = [x._version for x in (a, b)]
    program.c = c
    try:
        results = call(a, b)
        shared = sharing(results)
        found = looked_at(package, leaves, a, b, results) | {"shared": shared}
    except (RuntimeError, IndexError, TypeError) as error:
        found = {"error": "TypeError" if isinstance(error, TypeError) else "RuntimeError"}
    else:
        found["c"] = seen(package, program.c, a, b)
        found["written"] = [x._version > before for x, before in zip((a, b), versions)]
    return found | {"memory": [x.detach().tolist() for x in memory]} if "error" not in found else found


def sharing(results) -> list:
    """Pairs of results that are the same tensor, or share memory at some distance."""
    results = results if isinstance(results, tuple) else (results,)
    return [(j, k, x is y, y.data_ptr() - x.data_ptr()) for k, y in enumerate(results)
            for j, x in enumerate(results[:k])
            if x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr() and x.numel() and y.numel()]


def random_case(rng):
    """(program, result, arrangements with widths, history, options of compile)."""
    texts = [rng.choice(WRITES) for _ in range(rng.choice((1, 2, 2, 3)))]
    first = rng.choice((5, 5, 6))
    calls = [(rng.choice(list(ARRANGEMENTS)), first if rng.random() < 0.6 else rng.choice(WIDTHS))
             for _ in range(CALLS)]
    return "; ".join(texts), rng.choice(RESULTS), calls, rng.random() < 0.5, rng.choice(FORMS)


def parted(theirs, ours, text, result, calls, history, options):
    """[(call, form, how)] of the calls of one program that part from PyTorch."""
    programs = [module(package, text, result, package.zeros(5)) for package in (theirs, ours, ours)]
    forms = [programs[0], programs[1], ours.compile(programs[2], **options)]
    found = []
    for arrangement, n in calls:
        if is_undefined(text, arrangement):
            continue
        expected, eager, compiled = (
            reported(package, form, program, arrangement, n, history)
            for package, form, program in zip((theirs, ours, ours), forms, programs))
        for form, got in (("eager", eager), ("compiled", compiled)):
            if not close(expected, got):
                found.append(((arrangement, n), form, difference(expected, got)))
    return found


def reported(*what):
    try:
        return outcome(*what)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
        return {"error": repr(error)[:200]}


def run(theirs, ours, cases, report=lambda *_: None):
    """The calls in which a form parts from PyTorch, and how many were made."""
    found, count = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases:
            count += len(case[2])
            for how in parted(theirs, ours, *case):
                found.append((case, how))
                report(case, how)
    return found, count


def main():
    import torch._dynamo

    import rushlight
    from rushlight._src.core.settings import settings
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kernels", type=int, default=0, help="1: compile kernels, too")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with settings.set(kernels=bool(options.kernels), store=False):
        found, count = run(torch, rushlight, (random_case(rng) for _ in range(options.programs)),
                           report=lambda *what: print(*what, flush=True))
    print(f"{count} calls, {len(found)} differences")


if __name__ == "__main__":
    main()

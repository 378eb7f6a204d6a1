"""Compiled autograd: a backward pass is generated as Python once for each structure, and captured like user code.

Derived operators, accumulation and the hooks of leaves go into graphs; custom functions and hooks of intermediate
values run between graphs.
"""
from __future__ import annotations

import builtins
import collections
import functools

from ..autograd.backward import Whole, edge_of
from ..autograd.slow_paths import freed, full_of, stale
from ..compiling import compile, disable
from ..core.interpret import recording
from ..core.native import Tensor, counter, state
from ..core.native.objects import ACCUMULATE, DERIVED
from .stance import counters

MOST_TAPES = 256
HELPERS = '''
def plus(a, b):
    return b if a is None else a if b is None else a + b


def accumulate(leaf, hooks, afterwards, gradient):
    for hook in hooks:
        changed = hook(gradient)
        gradient = gradient if changed is None else changed
    if leaf.grad is None:
        leaf.grad = gradient.clone()
    else:
        leaf.grad.add_(gradient)
    for hook in afterwards:
        hook(leaf)

'''


@disable
def called(step, gradients, retain):
    """Return the gradients of a step that Python code computes."""
    return state.call_function(step, gradients, retain)


@disable
def hooked(step, gradients):
    """Return gradients after the hooks of an intermediate value."""
    return state.run_hooks(step, gradients)


@disable
def finished(step, results, gradients):
    """Pass the gradients that a node computed to its hooks."""
    return state.run_posthooks(step, results, gradients)


@disable
def conformed(step, slot, gradient):
    """Return a gradient as one of a result whose tensor's metadata have changed since."""
    return state.conform(None, step, slot, gradient)


class Tape:
    """The steps of a backward pass in reverse topological order, as the engine would run them."""

    def __init__(self, roots):
        self.roots = roots
        found, pending = {}, [step for step, _ in roots]
        while pending:
            step = pending.pop()
            if step not in found:
                found[step] = None
                pending += [e for e in step.edges if e is not None]
        self.steps = sorted(found, key=lambda s: s.number if s.kind != ACCUMULATE else -1, reverse=True)
        self.place = {step: k for k, step in enumerate(self.steps)}
        self.leaves = [leaf_of(s) for s in self.steps if s.kind == ACCUMULATE]

    def key(self):
        """Return a key that is equal for tapes that share a program."""
        place = self.place
        return tuple((place[s], slot) for s, slot in self.roots), tuple(
            (s.kind, s.plan.derived if s.kind == DERIVED else None, tuple(place.get(e) for e in s.edges), s.slots,
             bool(s.hooks), bool(s.posthooks), bool(s.expected)) for s in self.steps)

    def saved(self):
        """Return the saved tensors of each derived step; raises the engine's errors if they were released or
        modified."""
        out = []
        for step in self.steps:
            if step.kind == DERIVED:
                if step.saved is None:
                    freed(step)
                for k, value in enumerate(step.saved):
                    read = k < len(step.saved) - step.plan.spare
                    if read and isinstance(value, Tensor) and counter(value).version != step.versions[k]:
                        stale(step, k)
            out.append(step.saved if step.kind == DERIVED else ())
        return tuple(out)

    def source(self) -> str:
        """Return the backward pass as Python source."""
        lines = ["def backward(saved, gradients, leaves, steps, retain):"]
        arriving: dict = collections.defaultdict(dict)  # index of a step -> {slot: expression}

        def deliver(place, slot, text):
            if self.steps[place].expected:
                text = f"conformed(steps[{place}], {slot}, {text})"
            known = arriving[place].get(slot)
            arriving[place][slot] = text if known is None else f"plus({known}, {text})"

        for k, (step, slot) in enumerate(self.roots):
            deliver(self.place[step], slot, f"gradients[{k}]")
        leaf = 0
        for n, step in enumerate(self.steps):
            slots = arriving[n]
            if step.kind == ACCUMULATE:
                if slots:
                    lines += [f"    g = {slots[0]}", "    if g is not None:", f"        accumulate(*leaves[{leaf}], g)"]
                leaf += 1
                continue
            count = max(slots, default=-1) + 1
            lines.append(f"    g{n} = [{', '.join(slots.get(k, 'None') for k in range(count))}]")
            lines += self.lines_of(n, step, count)
            for k, (edge, slot) in enumerate(zip(step.edges, step.slots)):
                if edge is not None:
                    deliver(self.place[edge], slot, f"r{n}[{k}]")
        return HELPERS + "\n".join([*lines, "    return None"])

    def lines_of(self, n, step, count) -> list:
        """Return statements that compute ``r{n}`` from ``g{n}``."""
        lines = [f"    g{n} = hooked(steps[{n}], g{n})"] if step.hooks else []
        given = " and ".join(f"g{n}[{k}] is None" for k in range(count)) or "True"
        if step.kind == DERIVED:
            saved = "".join(f"saved[{n}][{k}], " for k in range(len(step.saved)))
            constants = "".join(f"c{n}[{k}], " for k in range(len(step.plan.constants)))
            cotangents = [f"(zero{n}({k}) if g{n}[{k}] is None else g{n}[{k}])" if k < count else f"zero{n}({k})"
                          for k in step.plan.cotangents]
            compute = f"d{n}({saved}{constants}{', '.join(cotangents)})"
        else:
            compute = f"called(steps[{n}], g{n}, retain)"
        lines += [f"    if {given}:", f"        r{n} = ({'None, ' * len(step.edges)})", "    else:",
                  f"        r{n} = {compute}"]
        return [*lines, f"        r{n} = finished(steps[{n}], r{n}, g{n})"] if step.posthooks else lines

    def function(self):
        """Return the backward pass as a Python function."""
        names = {"called": called, "hooked": hooked, "finished": finished, "conformed": conformed,
                 "__name__": "backward"}
        for n, step in enumerate(self.steps):
            if step.kind == DERIVED:
                names[f"d{n}"], names[f"c{n}"] = step.plan.derived, step.plan.constants
                names[f"zero{n}"] = functools.partial(zero, step.plan.outputs)
        text = self.source()
        exec(builtins.compile(text, "<backward>", "exec"), names)
        return names["backward"]


def zero(metas, k):
    """Return a zero gradient for a result with an undefined gradient."""
    return full_of(metas[k], 0)


def leaf_of(step):
    leaf = step.variable
    return leaf, tuple((leaf._rush_hooks or {}).values()), tuple(getattr(leaf, "_rush_post_accumulate_hooks",
                                                                         {}).values())


class Compiled:
    """The backward passes that were compiled by one ``compiler``, by the structure of their tapes."""

    def __init__(self, compiler):
        self.compiler, self.functions = compiler, {}

    def __call__(self, tensors, gradients, retain):
        tape = Tape([edge_of(t) for t in tensors])
        key = tape.key()
        run = self.functions.get(key)
        if run is None:
            counters["compiled_autograd"]["captures"] += 1
            if len(self.functions) >= MOST_TAPES:
                self.functions.clear()
            run = self.functions[key] = self.compiler(tape.function())
        saved = tape.saved()
        with recording(False):
            run(saved, tuple(gradients), tuple(tape.leaves), tuple(tape.steps), bool(retain))
        if not retain:
            for step in tape.steps:
                if step.kind == DERIVED and not step.plan.lasting:
                    step.saved = None


class enable:
    """A context whose backward passes are compiled as a whole by ``compiler`` (a function of functions, such as
    ``torch.compile``).

    >>> import rushlight as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch._dynamo.compiled_autograd.enable(torch.compile):
    ...     (x * x).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __init__(self, compiler_fn=compile, dynamic=True, ignore_active_disable_ctx=True):
        self.run = Compiled(compiler_fn)

    def __enter__(self):
        self.before, Whole.run = Whole.run, self.run

    def __exit__(self, *exception):
        Whole.run = self.before


class without:
    """A context whose backward passes the engine runs step by step."""

    def __enter__(self):
        self.before, Whole.run = Whole.run, None

    def __exit__(self, *exception):
        Whole.run = self.before

"""The backward operators of plans."""
from __future__ import annotations

import inspect

from ..core import interpret
from ..core.native import Op
from ..core.native.objects import FLOAT_VALUE
from ..core.op import make
from ..graph.graph import Graph, Node
from ..transforms.trace import Trace
from . import polymorphic
from .arguments import NUMBER_METAS


def give_backward(plan, backward, used: int, pure, chosen, donated=None, symbols=()):
    """Give a plan its backward operator: a program that takes the first ``used`` saved values, then the values of its
    ``symbols``, then cotangents; for double backward the program ``pure``, which takes the ``chosen`` ones.
    ``donated``: the index of a residual that may be overwritten once it is read."""
    name = f"{plan.op.name}.backward"
    plan.derived = backward_operator(name, backward, used, symbols, apart=True)
    plan.derived.caches["made"] = backward, used, pure, chosen, donated
    if pure is not None:
        recorded = backward_operator(name, pure, len(chosen), symbols, apart=True)
        plan.derived.caches["recorded"] = recorded, chosen
        if len(plan.saves) > used:
            plan.derived = taking(plan.derived, plan.saves, used)
    if donated is not None:
        derived = plan.derived
        plan.donating = make(derived.name, derived.body, None, derived.signature, derived.scalars, **derived.traits,
                             donated=donated)


def taking(operator: Op, saves, used: int) -> Op:
    """Return the same backward operator for callers that pass more residuals (``saves``) than it reads."""
    inner, given = operator.body, len(saves)
    numbers = operator.traits.get("all_scalars",
                                 operator.scalars) & (1 << used) - 1 | sum(1 << k for k in range(used, given)
                                                                           if saves[k] >= FLOAT_VALUE)
    traits = {k: v for k, v in operator.traits.items() if k != "all_scalars"}
    inputs = traits["inputs"]
    traits["inputs"] = [*inputs[:used], *[None] * (given - used), *inputs[used:]]
    made = make(operator.name, lambda *values: inner(*values[:used], *values[given:]), None, operator.signature,
                numbers, **traits)
    made.caches.update(operator.caches)
    return made


def backward_operator(name: str, graph: Graph, used=0, symbols=(), **traits) -> Op:
    """Return an operator that runs a backward program: residuals and cotangents in, gradients out; the values of the
    program's ``symbols`` follow the first ``used``.  ``apart``: results that were used alone give gradients only
    to the inputs that they depend on."""
    sizes = [Node(f"size_{symbol}", None, meta=NUMBER_METAS[int]) for symbol in symbols]
    inputs, last = [*graph.inputs[:used], *sizes, *graph.inputs[used:]], used + len(sizes)
    scalars = sum(1 << k for k, n in enumerate(inputs) if n.weak)

    def body(*values):
        program, trace = graph, interpret.top()
        if sizes:
            given, values = values[used:last], values[:used] + values[last:]
            if any(value is not symbol for value, symbol in zip(given, symbols)):
                program = polymorphic.Settling(graph, dict(zip(symbols, given)))
        found = trace.adopted(program, values) if isinstance(trace, Trace) else None
        return tuple(program.run(values)) if found is None else found

    signature = inspect.Signature([inspect.Parameter(n.name, inspect.Parameter.POSITIONAL_ONLY) for n in inputs])
    return make(name, body, None, signature, scalars, derived=graph, backward=True, several=True, inputs=inputs,
                **traits, **({"symbols": {n.name: s for n, s in zip(sizes, symbols)}} if sizes else {}))

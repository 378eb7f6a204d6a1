"""The derivative of one call, as forward and backward operators."""
from __future__ import annotations

from ..aot.alias import Recording
from ..aot.joint import carries_gradient
from ..compiler.pipeline import CUTTING, Compilation, run
from ..core.interpret import recording
from ..core.native import Op, Tensor
from ..core.overriding import DisableTorchFunction
from ..core.runtime import holds
from ..transforms.trace import Trace
from .arguments import NUMBER_METAS, Arguments, calls_mask
from .backward import backward_operator

MOST_CHOICES = 16  # derivatives of one call, by the values of its run-time scalars
MOST_KNOWN = 512  # derivatives of calls of one operator, by arguments


class Linearised:
    """Derivative of a call.

    ``forward(*values)`` gives the results and what else the backward reads (None: the operator itself will do);
    ``backward(*residuals, *cotangents)`` the cotangents of the arguments ``reached`` (None: there are none).
    """

    # ``holds``: True if the guards on run-time scalars hold for these arguments
    forward = backward = holds = None
    residuals = carrying = reached = ()

    def __init__(self, count, several):
        self.count, self.several = count, several


def linearised(op: Op, args, kwargs, wanted, numbers=True) -> tuple:
    """Return the values of a call (tensors and run-time scalars, in order), and its derivative with respect to tensors
    ``wanted``.  Without ``numbers`` scalars are constants of the derivative."""
    names = tuple(kwargs) or None
    given = (*args, *kwargs.values()) if kwargs else args
    masks = calls_mask(op, names, len(args)) if numbers else 0
    values, key = [], [names, wanted]
    describe(given, masks, values, key)
    key = tuple(key)
    known = op.caches.get("linearised")
    if known is None:
        known = op.caches["linearised"] = {}
    if len(known) >= MOST_KNOWN and key not in known:
        known.clear()
    choices = known.setdefault(key, [])
    found = next((made for made in choices if made.holds is None or made.holds(given)), None)
    if found is None:
        found = linearise(op, tuple(given), names, wanted, masks)
        choices[MOST_CHOICES - 1:] = []
        choices.insert(0, found)
    return values, found


def describe(given, scalars, values, key):
    """Add the tensors and run-time scalars of arguments to ``values``, and what a derivative depends on to ``key``."""
    for k, value in enumerate(given):
        kind = type(value)
        if isinstance(value, Tensor):
            values.append(value)
            key.append(value._rush_meta)
        elif scalars >> k & 1 and kind in NUMBER_METAS:
            values.append(value)
            key.append(kind)
        elif kind is tuple or kind is list:
            inner = [kind]
            describe(value, 0, values, inner)
            key.append(tuple(inner))
        else:
            key.append(kind)
            key.append(value)


def linearise(op: Op, given, names, wanted, scalars: int) -> Linearised:
    # a body may write into its intermediate values
    written = op.traits.get("captured") or op.traits.get("composite") and "into" not in op.traits
    trace = Recording() if written else Trace()
    arguments = Arguments(op, given, names, trace, scalars)
    with trace, recording(1), DisableTorchFunction():  # the program's modes see its calls, not their derivatives
        results = trace.call(op, arguments.args, arguments.kwargs)
        several = isinstance(results, (tuple, list))
        outputs = [r.node for r in (results if several else [results])]
        made = Linearised(len(outputs), several)
        sources = [arguments.tensors[k] for k in wanted if carries_gradient(arguments.tensors[k].meta)]
        c = run(CUTTING, Compilation(op.name, trace, outputs, sources=sources))
    if arguments.conditions.tests:
        made.holds = holds(arguments.conditions.text)
    d = c.derivative
    if d is None:
        return made
    seen = [*c.given, *d.results, *d.cut.extras]
    made.carrying = tuple(d.carrying)
    made.residuals = tuple(seen.index(n) for n in d.cut.residuals)
    made.reached = tuple(arguments.tensors.index(s) for s, _ in d.found)
    made.backward = backward_operator(f"{op.name}.backward", d.backward)
    if d.cut.extras or op.traits.get("captured"):  # its own body writes, which lower levels may refuse
        made.forward = backward_operator(f"{op.name}.forward", c.graph)
    if op.traits.get("random"):
        for part in filter(None, (made.forward, made.backward)):
            part.traits["random"] = True
    return made

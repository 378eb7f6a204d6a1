"""Draft: a plan under construction, and its specialization to sizes."""
from __future__ import annotations

from logging import DEBUG

from ..compiler.pipeline import code_of
from ..core.log import logger
from ..core.meta import Meta, settled
from ..core.native import Op, Plan, Tensor, calls, sharing
from ..core.native.objects import ELSEWHERE, INTO, PYTHON, RUN, SAME, VIEW
from ..core.op import OPS
from ..core.tensor import check_size
from ..ops.slices import region
from .arguments import launch_plan
from .backward import give_backward
from .detours import call_body
from .elsewhere import flat
from .weights import give_packing

output_log = logger("output")


def describe(plan: Plan) -> str:
    kind = {RUN: "program", VIEW: "view", SAME: "same tensor", PYTHON: "python", INTO: "in place",
            ELSEWHERE: "program of a device"}[plan.kind]
    return f"{kind} -> {', '.join(map(str, plan.outputs or ()))}"


def blank_plan(op: Op, kind: int) -> Plan:
    plan = Plan()
    plan.kind, plan.op = kind, op
    plan.outputs = plan.sizes = plan.itemsizes = plan.temporaries = plan.inside = plan.reused = ()
    plan.wanted = plan.cotangents = plan.saves = plan.lent = plan.constants = plan.passed = ()
    plan.views = plan.written = ()
    return plan


class Draft:
    """A plan under construction: sizes in it may be symbols.  Attributes set on it, except those named here, are fields
    of the Plan."""

    OWN = ("op", "outline", "mixed", "around", "derived", "donating", "opened", "conditions", "fixed")

    def __init__(self, op: Op, kind: int):
        self.op, self.kind = op, kind
        # mixed: large results may be stored among its temporaries
        self.outline, self.mixed = None, False
        self.around = None    # arguments of ``around``, for a plan that runs another one
        self.derived, self.donating = None, None
        self.opened = None    # backward operators for all sizes: see ``open_backward``
        # conditions on run-time scalars; fixed: the arguments among them with a single valid value
        self.conditions, self.fixed = "", frozenset()

    def settle(self, op: Op, sizes=None) -> Plan:
        """Return the plan for these values of the symbols."""
        if self.around is not None:
            inner, *rest = self.around
            return around(op, inner.settle(op, sizes), *(settled(rest, sizes) if sizes else rest))
        plan = blank_plan(op, self.kind)
        for field, value in vars(self).items():
            if field not in self.OWN:
                setattr(plan, field, settled(value, sizes) if sizes else value)
        if self.outline is not None:
            for meta in settled(self.outline.outputs, sizes) if sizes else self.outline.outputs:
                check_size(meta)
            install(plan, code_of(self.outline, sizes, self.mixed))
        if self.derived is not None and sizes:
            plan.derived, plan.donating = self.open_backward(tuple(sizes))
            plan.constants = tuple(sizes.values())
        elif self.derived is not None:
            plan.derived, plan.donating = self.derived, self.donating
        return plan

    def open_backward(self, symbols) -> tuple:
        """Return the backward operators of plans of all sizes, which take the values of the symbols: (derived,
        donating)."""
        if self.opened is None:
            made = blank_plan(self.op, self.kind)
            made.saves = self.saves
            give_backward(made, *self.derived.caches["made"], symbols)
            self.opened = made.derived, made.donating
        return self.opened


def python_plan(op: Op, function) -> Draft:
    plan = Draft(op, PYTHON)
    plan.function = function
    return plan


def around(op, inner: Plan, written, shown, several: int, mask, scalars: int) -> Plan:
    """Return a plan that runs another one for the fresh results of a program; ``shown``: for each result, the fresh one
    that it is, or a view of an argument; ``written``: the arguments that the program writes into; ``scalars``: the bits
    of run-time scalars."""
    def run(args, names):
        tensors = [a for a in flat(args) if isinstance(a, Tensor)]
        if any(other._rush_storage is tensors[k]._rush_storage for k in written for j, other in enumerate(tensors)
               if j != k):
            return call_body(op)(args, names)
        for k in written:
            sharing.check_writable(tensors[k])
        try:
            made = launch_plan(inner, args, scalars, mask)
        finally:  # writes before an error remain
            for k in written:
                sharing.count_end(tensors[k])
        for k in written:
            sharing.count_write(tensors[k])
        results = tuple(made[k] if meta is None else view_of(tensors[k], meta, offset, way)
                        for k, meta, offset, way in shown)
        return results if several else results[0]

    plan = blank_plan(op, PYTHON)
    plan.function, plan.inner = run, (inner, written, shown, several, mask, scalars)
    return plan


def view_of(tensor: Tensor, meta: Meta, offset: int, way: str) -> Tensor:
    """Return the argument itself, or a view of it (see ``way_to``)."""
    if way == "itself":
        return tensor
    source = OPS["detach"](tensor) if way == "cut" else tensor
    return source if way == "cut" and meta is tensor._rush_meta and not offset else region(source, meta, offset)


def install(plan: Plan, code):
    """Give a plan the program that it runs, as encoded by a Target."""
    plan.outputs = tuple(code.outputs)
    plan.sizes = tuple(m.nbytes for m in code.outputs)
    plan.itemsizes = tuple(m.itemsize for m in code.outputs)
    plan.temporaries, plan.inside, plan.reused = tuple(code.temporaries), code.inside, code.reused
    plan.code, plan.code_owner, plan.long = code.address, code, int(code.long)
    give_packing(plan, code)
    if output_log.isEnabledFor(DEBUG):
        output_log.debug("%s\n%s", plan.op.name, code.written(plan.op.name))
    plan.large = int(calls.MOST + len(code.outputs) + len(code.temporaries) + 4 > calls.ROOM)

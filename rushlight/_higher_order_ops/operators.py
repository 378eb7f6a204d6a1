"""``torch.ops.higher_order``: control flow and calls as operators of programs, which take programs as arguments."""
from __future__ import annotations

from .._src.core.native import Tensor
from .._src.core.op import OPS
from .base import HigherOrderOperator
from .cond import choose
from .out_dtype import out_dtype
from .scan import steps
from .while_loop import while_loop
from .wrap import wrap

__all__ = ["HigherOrderOperator", "ProgramOperator", "operator_named"]


class ProgramOperator(HigherOrderOperator):
    """An operator over programs.  ``run``: what a call runs; ``operands``: of a call's arguments that are no programs
    those that the programs take; ``given``: what each program takes; ``metas``: what the call gives, by what the last
    program gives."""

    def __init__(self, name, run=None):
        super().__init__(name)
        self.run = run or self.run

    def __call__(self, *args, **kwargs):
        return self.run(*args, **kwargs)

    def __reduce__(self):
        return operator_named, (self._name,)

    def run(self, *args, **kwargs):
        raise NotImplementedError(f"{self!r} exists here only as a name: it is not implemented")

    def operands(self, *rest):
        return rest

    def given(self, count, operands) -> list:
        return [tuple(operands)] * count

    def metas(self, found, operands):
        return found


class Cond(ProgramOperator):
    """``cond(pred, true_graph, false_graph, operands)``"""

    def run(self, pred, true_fn, false_fn, operands=()):
        return choose(pred, true_fn, false_fn, tuple(operands))

    def operands(self, pred, operands):
        return operands


class Loop(ProgramOperator):
    """``while_loop(cond_graph, body_graph, carried, additional)``"""

    def run(self, cond_fn, body_fn, carried_inputs, additional_inputs=()):
        return while_loop(lambda *a: one(cond_fn(*a)), lambda *a: tuple(body_fn(*a)), tuple(carried_inputs),
                          tuple(additional_inputs))

    def operands(self, carried, additional=()):
        return (*carried, *additional)


def one(result):
    """The only result of a program."""
    return result[0] if isinstance(result, (tuple, list)) else result


def row(value):
    """The first of the rows that a tensor, or a Meta, consists of."""
    return value[0] if isinstance(value, Tensor) else value


class Scan(ProgramOperator):
    """``scan(combine_graph, [init], [xs], additional)``: rows of the first dimension."""

    def run(self, combine_fn, init, xs, additional_inputs=(), dim=0, reverse=False):
        count = len(init)

        def combine(carry, x):
            found = combine_fn(*carry, *x, *additional_inputs)
            if len(found) == 2 and isinstance(found[0], (tuple, list)):
                return found
            return tuple(found[:count]), tuple(found[count:])

        carry, ys = steps(combine, tuple(init), tuple(xs))
        return (*carry, *ys)

    def operands(self, init, xs, additional=()):
        return Rows(init, xs, additional)

    def given(self, count, operands):
        return [(*operands.init, *map(row, operands.xs), *operands.additional)]

    def metas(self, found, operands):
        length, count = operands.xs[0]._rush_meta.shape[0], len(operands.init)
        return [*found[:count], *(m.like((length, *m.shape)) for m in found[count:])]


class Rows:
    """What a loop over rows takes."""

    def __init__(self, init, xs, additional):
        self.init, self.xs, self.additional = tuple(init), tuple(xs), tuple(additional)


class Map(Scan):
    """``map_impl(body_graph, [xs], [args])``"""

    def run(self, f, xs, args=()):
        return tuple(steps(lambda carry, x: (carry, tuple(f(*x, *args))), (), tuple(xs))[1])

    def operands(self, xs, additional=()):
        return Rows((), xs, additional)


class AssociativeScan(Scan):
    """``associative_scan(combine_graph, [xs], additional)``: of rows of the first dimension."""

    def run(self, combine_fn, xs, additional_inputs=()):
        from ..func import vmap
        from .associative_scan import associative_scan
        many = [None] * len(additional_inputs)

        def combine(a, b):
            rows = [0] * (2 * len(a))
            return vmap(lambda *values: tuple(combine_fn(*values)), in_dims=(*rows, *many))(*a, *b, *additional_inputs)

        return tuple(associative_scan(combine, tuple(xs), 0))

    def operands(self, xs, additional=()):
        return Rows((), xs, additional)

    def given(self, count, operands):
        rows = tuple(map(row, operands.xs))
        return [(*rows, *rows, *operands.additional)]


def auto_functionalized(overload, **kwargs):
    """A call of an operator that writes, on copies of what it writes into: its results, then these copies."""
    custom = overload.overloadpacket.custom
    names = [n for n in custom.schema.signature.parameters if n in custom.schema.mutated]
    given = {k: OPS["clone"](v) if k in names and isinstance(v, Tensor) else v for k, v in kwargs.items()}
    results = overload(**given)
    results = tuple(results) if isinstance(results, (tuple, list)) else (results,)
    return (*results, *(given[name] for name in names))


Cond("cond")
Loop("while_loop")
Scan("scan")
Map("map_impl")
AssociativeScan("associative_scan")
ProgramOperator("auto_functionalized", auto_functionalized)
ProgramOperator("out_dtype", out_dtype)
ProgramOperator("wrap", wrap)


def operator_named(name: str):
    """The operator that is called so, or None."""
    return HigherOrderOperator.made.get({"map": "map_impl"}.get(name, name))

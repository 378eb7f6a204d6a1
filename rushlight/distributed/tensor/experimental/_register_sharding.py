"""Rules of users for operators."""
from __future__ import annotations

import rushlight as torch

from ...._src.transforms.level import map_call, map_results
from .. import _dispatch
from .._api import DTensor, relaid
from ..transfer import step_cost
from ..placement_types import Placement

__all__ = ["register_sharding"]


def register_sharding(op):
    """Registers a sharding rule of an operator (or several): from the operator's arguments, with a DTensorSpec for each
    tensor, the function returns rows (placements of the results, placements of the arguments, None for values that are
    not tensors) along one mesh dimension.  The cheapest row is taken."""
    def enter(function):
        for one in op if isinstance(op, (list, tuple)) else (op,):
            target = getattr(one, "op", one)
            _dispatch.CUSTOM[target] = rule(function)
        return function
    return enter


def rule(function):
    def run(op, args, kwargs, mesh):
        given, named = map_call(lambda t: t._spec if isinstance(t, DTensor) else t, args, kwargs)
        rows = [(list(outs), list(ins)) for outs, ins in function(*given, **named)]
        places = [k for k, value in enumerate((*args, *kwargs.values())) if isinstance(value, DTensor)]
        values = [value for value in (*args, *kwargs.values()) if isinstance(value, DTensor)]

        def price(row, k):
            return sum(step_cost(tuple(v.shape), v.placements, k, row[1][p], mesh.shape)
                       for v, p in zip(values, places))

        chosen = [min(rows, key=lambda row: price(row, k)) for k in range(mesh.ndim)]
        parts = iter([relaid(v, tuple(row[1][p] for row in chosen))._local_tensor for v, p in zip(values, places)])
        local, keywords = map_call(lambda t: next(parts) if isinstance(t, DTensor) else t, args, kwargs)
        whole, more = map_call(lambda t: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")
                               if isinstance(t, DTensor) else t, args, kwargs)
        metas, number = [], iter(range(len(rows[0][0])))
        map_results(lambda r: metas.append(r._rush_meta), op(*whole, **more))

        def wrapped(result):
            k = next(number)
            return DTensor.wrapped(result, mesh, tuple(placed(row[0][k]) for row in chosen), metas[k])
        return map_results(wrapped, op(*local, **keywords))
    return run


def placed(value) -> Placement:
    if not isinstance(value, Placement):
        raise TypeError(f"register_sharding: a row has {value!r} where a placement of a result is wanted")
    return value

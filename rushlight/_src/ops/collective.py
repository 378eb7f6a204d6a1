"""Collectives as operators: a tensor of each process in, a new tensor out.  ``torch.distributed`` transports the data;
gradients go the other way.

``group_name`` names a group of this process.  All processes of the group run the same collectives in the same order,
also within compiled programs.
"""
from __future__ import annotations

import numpy as np

from ..core.dtypes import int64
from ..core.kinds import Exchanged, Foreign, P
from ..core.later import entered
from ..core.op import op
from .prims.primitive import primitive

carry = entered("distributed.carrier", "carry")  # (what, array, group, ...) -> array
begin = entered("distributed.carrier", "begin")  # (what, array, group, ...) -> number
finish = entered("distributed.carrier", "finish")  # number -> array
carry_there = entered("distributed.carrier", "carry_there")  # (what, device, given, made, group, ...) -> bool

tell = entered("nn.parallel.captured", "tell")  # (whom): a program averages gradients now

check_name = entered("distributed.reduction", "check_name")  # (what, reduction, dtype): whether it reduces such numbers


def exchanged(what: str, describe, gradient, *order):
    """Kind of a collective: ``order`` names its parameters apart from the group."""
    def numpy(x, group, **params):
        return carry(what, x, group, *(params[name] for name in order))

    def there(where, source, target, /, group, **params):
        return carry_there(what, where, source, target, group, *(params[name] for name in order))

    def begun(x, group, **params):
        return begin(what, x, group, *(params[name] for name in order))

    return Exchanged(numpy, describe, gradient, there, begun)


def told(kind: Exchanged) -> Exchanged:
    """A collective that notifies ``whom``, a parameter that this adds, before it begins."""
    def telling(function):
        def run(*args, whom, **params):
            tell(whom)
            return function(*args, **params)
        return run

    return Exchanged(telling(kind.numpy), lambda *args, whom, **params: kind.describe(*args, **params),
                     lambda *args, whom, **params: kind.gradient(*args, **params), telling(kind.there),
                     telling(kind.begin))


def same(x, **_):
    return x.like(tuple(x.shape))


def resized(x, rows: int):
    return x.like((rows, *tuple(x.shape)[1:]))


def reduced_gradient(g, y, x, reduce, group):
    if reduce not in ("sum", "avg"):
        raise RuntimeError(f"all_reduce: the derivative of {reduce!r} is not known; those of 'sum' and 'avg' are")
    return [P.all_reduce(g, reduce=reduce, group=group)]


def scattered_gradient(g, y, x, reduce, size, group):
    if reduce not in ("sum", "avg"):
        raise RuntimeError(f"reduce_scatter: the derivative of {reduce!r} is not known; those of 'sum' and 'avg' are")
    found = P.all_gather(g, size=size, group=group)
    return [found if reduce == "sum" else P.mul(found, 1.0 / size)]


primitive("all_reduce", exchanged("all_reduce", lambda x, reduce, group: same(x), reduced_gradient, "reduce"),
          lambda x, reduce, group: 0, arity=1, leading=True,
          doc="The reduction over a group, in every process.")
primitive("average_gradients", told(P.all_reduce.kind), lambda x, reduce, whom, group: 0, arity=1,
          doc="``all_reduce`` of gradients, of which it tells.")
primitive("all_gather", exchanged("all_gather", lambda x, size, group: resized(x, x.shape[0] * size),
                                  lambda g, y, x, size, group: [P.reduce_scatter(g, reduce="sum", size=size,
                                                                                 group=group)], "size"),
          lambda x, size, group: 0, arity=1,
          doc="The rows of all processes, those of rank 0 first.")
primitive("reduce_scatter", exchanged("reduce_scatter",
                                      lambda x, reduce, size, group: resized(x, x.shape[0] // size),
                                      scattered_gradient, "reduce", "size"),
          lambda x, reduce, size, group: 0, arity=1,
          doc="This process's rows of the reduction over a group.")
primitive("all_to_all", exchanged("all_to_all", lambda x, taken, given, group: resized(x, sum(taken)),
                                  lambda g, y, x, taken, given, group: [P.all_to_all(g, taken=given, given=taken,
                                                                                     group=group)], "taken", "given"),
          lambda x, taken, given, group: 0, arity=1,
          doc="``given[k]`` rows go to rank k, ``taken[k]`` rows come from it.")
primitive("broadcast_from", exchanged("broadcast", same,
                                      lambda g, y, x, root, group: [P.reduce_to(g, root=root, group=group)], "root"),
          lambda x, root, group: 0, arity=1, leading=True, doc="The tensor of one rank, in every process.")
primitive("reduce_to", exchanged("reduce", same,
                                 lambda g, y, x, root, group: [P.broadcast_from(g, root=root, group=group)], "root"),
          lambda x, root, group: 0, arity=1, leading=True, doc="The sum over a group in one rank, zeros in the others.")


def kind_of(name: str) -> Exchanged:
    return getattr(P, name).kind


primitive("start_exchange", Foreign(lambda x, name, params: np.array([kind_of(name).begin(x, **dict(params))]),
                                    lambda x, name, params: x.like((1,), dtype=int64)),
          lambda x, name, params: 0, arity=1, doc="Starts the collective of this name; its number.")
primitive("finish_exchange", Foreign(lambda number, x, name, params: finish(int(number[0])),
                                     lambda number, x, name, params: kind_of(name).describe(x, **dict(params))),
          lambda number, x, name, params: 0, arity=2,
          doc="The result of a collective that was started with ``x``, once it has arrived.")


def rows(name: str, x, size: int):
    if not x.shape or x.shape[0] % size:
        raise RuntimeError(
            f"{name}: the first dimension of a tensor of shape {list(x.shape)} does not divide into {size} equal parts")


@op(namespace="_c10d_functional")
def all_reduce(input, reduce_op: str, group_name: str):
    """The reduction ("sum", "avg", "product", "min", "max", "band", "bor", "bxor") of the tensors of a group, in every
    process: as ``input`` in shape and dtype."""
    check_name("all_reduce", reduce_op.lower(), input.dtype)
    return P.all_reduce(input, reduce=reduce_op.lower(), group=group_name)


@op(name="_average_gradients", method=False)
def average_gradients(input, whom: str, group_name: str):
    """Average of gradients over a group, in one vector; ``whom`` (``nn.parallel.captured.tell``) is notified."""
    return P.average_gradients(input, reduce="avg", whom=whom, group=group_name)


@op(namespace="_c10d_functional")
def all_gather_into_tensor(input, group_size: int, group_name: str):
    """The tensors of a group, joined along the first dimension: [n, ...] gives [group_size * n, ...]."""
    return P.all_gather(P.reshape(input, shape=(1,)) if not input.shape else input, size=group_size, group=group_name)


@op(namespace="_c10d_functional")
def reduce_scatter_tensor(input, reduce_op: str, group_size: int, group_name: str):
    """This process's part, along the first dimension, of the reduction over a group: [group_size * n, ...] gives [n,
    ...]."""
    check_name("reduce_scatter_tensor", reduce_op.lower(), input.dtype)
    rows("reduce_scatter_tensor", input, group_size)
    return P.reduce_scatter(input, reduce=reduce_op.lower(), size=group_size, group=group_name)


@op(namespace="_c10d_functional")
def all_to_all_single(input, output_split_sizes, input_split_sizes, group_name: str):
    """Rows for each process of a group, exchanged: ``input_split_sizes[k]`` rows go to rank k and
    ``output_split_sizes[k]`` come from it."""
    if sum(input_split_sizes) != input.shape[0]:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    return P.all_to_all(input, taken=tuple(output_split_sizes), given=tuple(input_split_sizes), group=group_name)


@op(namespace="_c10d_functional")
def broadcast(input, src: int, group_name: str):
    """The tensor of the rank ``src`` of a group, in every process."""
    return P.broadcast_from(input, root=src, group=group_name)


@op(namespace="_c10d_functional")
def reduce(input, dst: int, group_name: str):
    """The sum over a group in the rank ``dst``, zeros in the others."""
    return P.reduce_to(input, root=dst, group=group_name)


@op(namespace="_c10d_functional")
def wait_tensor(input):
    """Wait until the result of a collective has arrived; returns it."""
    return input

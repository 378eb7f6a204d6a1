"""Operators as functions of simpler ones, under PyTorch's names: the tables that ``make_fx`` and ``run_decompositions``
take.

What an operator decomposes into is the body that declares it.
"""
from __future__ import annotations

from collections.abc import MutableMapping

from .._ops import OpOverload, OpOverloadPacket, ops
from .._src.core.op import OPS

CORE = """_safe_softmax absolute addcdiv addcmul addr arccos arccosh arcsin arcsinh arctan arctan2 arctanh baddbmm celu
clamp_max clamp_min column_stack cosine_similarity count_nonzero cross deg2rad diag_embed diff divide dot dstack
einsum fix fliplr flipud float_power frac ger glu greater greater_equal group_norm hardshrink hardsigmoid hardswish
heaviside hstack index_add inner instance_norm isclose isfinite isneginf isposinf kron layer_norm lerp less
less_equal linear linspace log_softmax logaddexp logaddexp2 logit logsumexp masked_fill meshgrid mish multiply mv
nan_to_num nanmean nansum negative new_full new_ones new_zeros norm not_equal outer pixel_shuffle pixel_unshuffle
prelu rad2deg relu6 rms_norm roll rot90 rsub select_scatter selu sgn silu sinc softplus softshrink special_entr
special_log_ndtr special_xlog1py square stack std std_mean subtract t threshold trace tril triu true_divide vdot
vstack xlogy""".split()
OVERLOADS = ("default", "Tensor", "Scalar")  # those that a name without an overload stands for
GIVEN: dict = {}  # overload -> function, as passed to ``register_decomposition``


def overloads_of(operator) -> list[OpOverload]:
    """The overloads that an overload, or the name of several, stands for.  TypeError for anything else."""
    if isinstance(operator, OpOverload):
        return [operator]
    if not isinstance(operator, OpOverloadPacket):
        raise TypeError(
            f"expected an operator such as torch.ops.aten.gelu, or one overload of it, got {type(operator).__name__}")
    return [operator.overload(name) for name in dict.fromkeys((*OVERLOADS, *operator.made))]


def simpler(overload: OpOverload):
    """The body of an overload's operator, or None: primitives, and what is one step around a primitive of its name,
    have nothing simpler.

    Where users' operator is one step around an inner one (``silu`` around ``_silu``), that one's body counts: it is
    what runs while programs are traced.
    """
    if overload.namespace != "aten" or overload.op is None or f"prims.{overload._opname}" in OPS:
        return None
    if overload.op.name.removeprefix("_") in ("softmax", "log_softmax"):  # the inner one is a step around users'
        whole = OPS[overload.op.name.removeprefix("_")]
        return (lambda input, dim, half_to_float=False: whole.body(input, dim)) if overload._opname[
            0] == "_" else whole.body
    where, dot, name = overload.op.name.rpartition(".")
    return OPS.get(f"{where}{dot}_{name}", overload.op).body


class Table(MutableMapping):
    """Overload -> function for every operator with a body, and for those that were given; iteration is over the latter
    and ``CORE``."""

    def __getitem__(self, overload):
        found = GIVEN.get(overload)
        if found is None and isinstance(overload, OpOverload):
            found = simpler(overload)
        if found is None:
            raise KeyError(overload)
        return found

    def __setitem__(self, overload, function):
        GIVEN[overload] = function

    def __delitem__(self, overload):
        del GIVEN[overload]

    def __iter__(self):
        yield from dict.fromkeys((*GIVEN, *core_aten_decompositions()))

    def __len__(self):
        return sum(1 for _ in self)


decomposition_table = Table()
global_decomposition_table = {"post_autograd": decomposition_table, "pre_autograd": {}, "meta": {}}


def register_decomposition(aten_op, registry=None, *, type="post_autograd", unsafe=False):
    """Decorates a function that computes an operator, or each of several, by others: it takes the place of the
    operator's body in ``registry``, or, without one, in ``decomposition_table``.

    >>> import rushlight as torch
    >>> @register_decomposition(torch.ops.aten.tanhshrink, table := {})
    ... def tanhshrink(x):
    ...     return x - x.tanh()
    >>> table[torch.ops.aten.tanhshrink.default](torch.zeros(2))
    tensor([0., 0.])
    """
    table = global_decomposition_table[type] if registry is None else registry

    def register(function):
        for operator in aten_op if isinstance(aten_op, (list, tuple)) else (aten_op,):
            for overload in overloads_of(operator):
                table[overload] = function
        return function

    return register


def get_decompositions(aten_ops, type="post_autograd") -> dict:
    """Overload -> function for operators (or overloads); those with nothing simpler are left out.

    >>> import rushlight as torch
    >>> from rushlight.fx.experimental.proxy_tensor import make_fx
    >>> table = get_decompositions([torch.ops.aten.hardswish])
    >>> graph = make_fx(torch.nn.functional.hardswish, table)(torch.ones(2)).graph
    >>> torch.ops.aten.hardswish.default in [node.target for node in graph.nodes]
    False
    """
    table = global_decomposition_table[type]
    return {overload: table[overload] for operator in aten_ops for overload in overloads_of(operator)
            if overload in table}


def core_aten_decompositions() -> dict:
    """Overload -> function for operators that are not among those that PyTorch calls its core."""
    return get_decompositions([getattr(ops.aten, name) for name in CORE])


def remove_decompositions(decompositions, aten_ops) -> None:
    """Takes operators (or overloads) out of a table."""
    for operator in aten_ops:
        for overload in overloads_of(operator):
            decompositions.pop(overload, None)

"""In-place collectives and their groups as compiled programs record them: operators of ``functional`` whose results
are copied (``capture/calls.py`` calls these for functions of their names).

A call that cannot be recorded raises ValueError here: the graph breaks there, and the call runs eagerly.
"""
from __future__ import annotations

from .._src.core.op import OPS
from .collectives import check_list, check_same, check_tensors, rank_in
from .functional import called, name_of, resolved
from .reduction import RedOpType, check_op


def joined(group, async_op: bool):
    """The group that is meant."""
    if async_op:
        raise ValueError("async_op=True within a compiled program: a Work cannot be recorded; wait for the collective, "
                         "or call it outside")
    return resolved(group)


def write(target, found):
    """Copy a result into a tensor of equal size, without recording it for gradients, as eager collectives do."""
    OPS["copy_"](target.detach() if target.requires_grad else target, found.detach().reshape(target.shape))


def gather_rows(tensor, group):
    """The tensors of all ranks, each a row."""
    return called("all_gather_into_tensor", tensor.detach().reshape(1, -1), group.size(), group.group_name)


def scatter_rows(tensor, op, group):
    """This rank's row of the reduction over the group."""
    check_op(tensor, op)
    rows = tensor.detach().reshape(group.size(), -1)
    return called("reduce_scatter_tensor", rows, name_of(op), group.size(), group.group_name)


def all_reduce(tensor, op=RedOpType.SUM, group=None, async_op=False):
    group = joined(group, async_op)
    check_op(tensor, op)
    write(tensor, called("all_reduce", tensor.detach(), name_of(op), group.group_name))


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    group = joined(group, async_op)
    root = rank_in(group, src, group_src, "src", "ProcessGroupGloo::broadcast", True)
    write(tensor, called("broadcast", tensor.detach(), root, group.group_name))


def all_gather(tensor_list, tensor, group=None, async_op=False):
    group = joined(group, async_op)
    check_tensors(tensor_list, "tensor_list")
    check_list(group, tensor_list, "output", tensor, "ProcessGroupGloo::allgather")
    for target, row in zip(tensor_list, gather_rows(tensor, group).unbind(0)):
        write(target, row)


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    group = joined(group, async_op)
    check_same([output_tensor, input_tensor])
    write(output_tensor, gather_rows(input_tensor, group))


def all_gather_single(output_tensor, input_tensor, group=None, async_op=False):
    all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


def reduce_scatter(output, input_list, op=RedOpType.SUM, group=None, async_op=False):
    group = joined(group, async_op)
    check_tensors(input_list, "input_list")
    check_list(group, input_list, "input", output, "ProcessGroupGloo::reduce_scatter")
    write(output, scatter_rows(OPS["stack"]([t.reshape(-1) for t in input_list]), op, group))


def reduce_scatter_tensor(output, input, op=RedOpType.SUM, group=None, async_op=False):
    group = joined(group, async_op)
    check_same([output, input])
    write(output, scatter_rows(input, op, group))


def reduce_scatter_single(output, input, op=RedOpType.SUM, group=None, async_op=False):
    reduce_scatter_tensor(output, input, op, group, async_op)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    group = joined(group, async_op)
    check_same([output, input])
    given, taken = (tuple(sizes) if sizes else equal_parts(tensor, group)
                    for tensor, sizes in ((input, input_split_sizes), (output, output_split_sizes)))
    write(output, called("all_to_all_single", input.detach(), taken, given, group.group_name))


def equal_parts(tensor, group) -> tuple:
    """Return equal numbers of rows of a tensor for each rank.  ValueError if the rows cannot be divided."""
    rows, left = divmod(tensor.size(0), group.size())
    if left:
        raise ValueError(f"all_to_all_single: {tensor.size(0)} rows for {group.size()} ranks, without split sizes")
    return (rows,) * group.size()


def get_world_size(group=None) -> int:
    return resolved(group).size()


def get_rank(group=None) -> int:
    return resolved(group).rank()


def WORLD(cls):
    """``group.WORLD``: programs hold as long as the group of all processes has the same members."""
    return resolved(None)

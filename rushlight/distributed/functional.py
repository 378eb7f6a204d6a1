"""Collectives that return what they give, and through which gradients flow: in a group of one each is the identity."""
from __future__ import annotations

from .._src.core.native import Tensor
from .._src.core.op import OPS
from .._src.core.errors import OneProcessError
from .collectives import check_tensor, check_tensors, rank_in
from .membership import chosen
from .reduction import NAMED, RedOpType, check_op


def check_list(values, name):
    check_tensors(values, name)
    if len(values) != 1:
        raise RuntimeError(f"invalid {name}: {len(values)} tensors for a group of size 1")


def check_root(group, rank, group_rank, name):
    rank_in(chosen(), rank, group_rank, name, "collective")


class AsyncCollectiveTensor(Tensor):
    """A result that may not have arrived: none here is one, since nothing travels."""


def given(tensor, group, op=None):
    """The tensor, after the checks that all collectives make."""
    check_tensor(tensor, "tensor")
    group = group[0] if isinstance(group, tuple) else group
    found = chosen(group.get_group() if hasattr(group, "get_group") else None if isinstance(group, (list, str)) else group)
    if found is not None and found.size() > 1:
        raise OneProcessError(f"a collective with a result in a group of {found.size()}", "a group of one", "use torch.distributed's functions")
    if op is not None:
        check_op(tensor, NAMED[op.lower()] if isinstance(op, str) else op)
    return tensor


def copied(tensor, group, op=None):
    """A new tensor with what all processes give."""
    return given(tensor, group, op).clone()


def wait_tensor(tensor):
    """The tensor, which has arrived."""
    return tensor


def all_reduce(self, reduceOp: str, group, tag: str = ""):
    """The sum (or another ``reduceOp``) over the group, as a new tensor."""
    return copied(self, group, reduceOp)


def broadcast(self, src: int, group, tag: str = ""):
    """The tensor of one process, as a new tensor."""
    check_root(group, src, None, "src")
    return copied(self, group)


def all_gather_tensor(self, gather_dim: int, group, tag: str = ""):
    """The tensors of all processes, joined along a dimension."""
    return copied(self, group)


def reduce_scatter_tensor(self, reduceOp: str, scatter_dim: int, group, tag: str = ""):
    """This process's part along a dimension of the sum over the group."""
    return copied(self, group, reduceOp)


def all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag: str = ""):
    """Rows for each process, exchanged.  RuntimeError where sizes are not those of the tensor."""
    for sizes in (output_split_sizes, input_split_sizes):
        if sizes is not None and sum(sizes) != self.size(0):
            raise RuntimeError(f"Split sizes {list(sizes)} do not add up to {self.size(0)} rows")
    return copied(self, group)


def permute_tensor(self, src_dst, group, tag: str = ""):
    """The tensor of the process that sends to this one."""
    return copied(self, group)


all_gather_tensor_autograd, reduce_scatter_tensor_autograd, all_to_all_single_autograd = all_gather_tensor, reduce_scatter_tensor, all_to_all_single


def all_reduce_coalesced(self, reduceOp: str, group, tag: str = "") -> list:
    return [copied(t, group, reduceOp) for t in self]


def all_gather_into_tensor_coalesced(self, group, tag: str = "") -> list:
    return [copied(t, group) for t in self]


def reduce_scatter_tensor_coalesced(inputs, reduceOp: str, scatter_dim, group, tag: str = "") -> list:
    return [copied(t, group, reduceOp) for t in inputs]


# torch.distributed.nn.functional

def nn_all_reduce(tensor, op=RedOpType.SUM, group=None):
    """The sum over the group, as a new tensor."""
    return copied(tensor, group, op)


def nn_all_gather(tensor, group=None) -> tuple:
    """The tensors of all processes."""
    return (copied(tensor, group),)


def nn_broadcast(tensor, src, group=None):
    """The tensor of one process."""
    return broadcast(tensor, src, group)


def nn_gather(tensor, dst=0, group=None) -> tuple:
    """The tensors of all processes, in the process ``dst``."""
    check_root(group, dst, None, "dst")
    return (copied(tensor, group),)


def nn_scatter(tensors, src=0, group=None):
    """This process's tensor of a list in the process ``src``."""
    check_list(tensors, "tensors")
    return broadcast(tensors[0], src, group)


def nn_reduce(tensor, dst, op=RedOpType.SUM, group=None):
    """The sum over the group, in the process ``dst``."""
    check_root(group, dst, None, "dst")
    return copied(tensor, group, op)


def nn_reduce_scatter(output, input_list, op=RedOpType.SUM, group=None):
    """The sum over the group of the list's element for this process, written into ``output``."""
    check_list(input_list, "input_list")
    return OPS["copy_"](output, given(input_list[0], group, op))


def nn_all_to_all(output_tensor_list, input_tensor_list, group=None) -> tuple:
    """The tensors that processes have for this one, written into a list."""
    check_list(input_tensor_list, "input_tensor_list")
    check_list(output_tensor_list, "output_tensor_list")
    return tuple(OPS["copy_"](target, given(source, group)) for target, source in zip(output_tensor_list, input_tensor_list))


def nn_all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None):
    """``all_to_all_single``, written into ``output``."""
    return OPS["copy_"](output, all_to_all_single(input, output_split_sizes, input_split_sizes, group))

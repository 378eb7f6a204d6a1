"""Functional collectives, which return their results and are differentiable
(``torch.distributed._functional_collectives``, ``torch.distributed.nn.functional``).

They are operators (``_src/ops/collective.py``): within compiled programs they are nodes like any operator.
"""
from __future__ import annotations

from dataclasses import dataclass

from .._src.core.interpret import decided
from .._src.core.native import Tensor
from .._src.core.op import OPS
from .collectives import check_tensor, check_tensors, rank_in
from .membership import _resolve_process_group, chosen
from .process_group import ProcessGroup
from .reduction import RedOpType, check_op
from .worlds import GroupMember, here

NAMESPACE = "_c10d_functional"


class AsyncCollectiveTensor(Tensor):
    """A result that may not have arrived; never made here, since a collective returns finished results."""


@dataclass(frozen=True)
class Meant:
    """A group as a program refers to it: by its name, its ranks, or None for that of all processes."""

    given: str | tuple | None

    def group(self) -> ProcessGroup:
        """Return the group that the reference now names.  ValueError if there is none."""
        if isinstance(self.given, str):
            return _resolve_process_group(self.given)
        if self.given is None:
            return chosen()
        for each in here().groups:
            if tuple(each.ranks) == self.given:
                return each
        raise ValueError(f"there is no group of the ranks {list(self.given)}: make one with new_group")

    @property
    def members(self) -> tuple:
        """The constants of the group in compiled programs: its name, the rank of this process, and all ranks."""
        group = self.group()
        return group.group_name, group.rank(), tuple(group.ranks)


def found(given) -> ProcessGroup:
    """The group that is called so; a program that is being compiled holds as long as that group has these members."""
    meant = Meant(given)
    decided(meant, "members")
    return meant.group()


def resolved(group) -> ProcessGroup:
    """A group, given as itself, its name, a list of ranks, or a mesh of one dimension (or a mesh and which of its
    dimensions); None for that of all processes."""
    if isinstance(group, tuple) and len(group) == 2 and hasattr(group[0], "get_group"):
        return group[0].get_group(group[1])
    if hasattr(group, "get_group"):
        return group.get_group()
    if isinstance(group, (list, tuple)):
        return found(tuple(rank for part in group for rank in (part if isinstance(part, (list, tuple)) else [part])))
    if group is None or isinstance(group, str):
        return found(group)
    if group is GroupMember.NON_GROUP_MEMBER:
        raise ValueError("a collective with a result in a group to which this process does not belong")
    return group


def called(name: str, tensor, *given):
    check_tensor(tensor, "self")
    return OPS[f"{NAMESPACE}.{name}"](tensor, *given)


def along(tensor, dim: int):
    """Return the tensor with a dimension moved to the front, so that its parts are rows, and the inverse function."""
    check_tensor(tensor, "self")
    dim = dim % max(tensor.dim(), 1)
    if dim == 0:
        return tensor, lambda result: result
    return tensor.movedim(dim, 0), lambda result: result.movedim(0, dim)


def wait_tensor(tensor):
    """The tensor, which has arrived."""
    return tensor


def all_reduce(self, reduceOp: str, group, tag: str = ""):
    """The reduction ("sum", "avg", ...) over the group, as a new tensor."""
    return called("all_reduce", self, reduceOp.lower(), resolved(group).group_name)


def broadcast(self, src: int, group, tag: str = ""):
    """The tensor of the process ``src`` of the world, as a new tensor."""
    group = resolved(group)
    return called("broadcast", self, rank_in(group, src, None, "src", "broadcast"), group.group_name)


def all_gather_tensor(self, gather_dim: int, group, tag: str = ""):
    """The tensors of all processes, joined along a dimension."""
    group = resolved(group)
    moved, back = along(self, gather_dim)
    return back(called("all_gather_into_tensor", moved, group.size(), group.group_name))


def reduce_scatter_tensor(self, reduceOp: str, scatter_dim: int, group, tag: str = ""):
    """Return this process's part along a dimension of the reduction over the group.  AssertionError if the size is not
    divisible."""
    group = resolved(group)
    moved, back = along(self, scatter_dim)
    assert self.size(scatter_dim) % group.size() == 0, (
        f"input dimension {scatter_dim} ({self.size(scatter_dim)}) must be a multiple of group_size {group.size()}")
    return back(called("reduce_scatter_tensor", moved, reduceOp.lower(), group.size(), group.group_name))


def all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag: str = ""):
    """Rows for each process, exchanged.  RuntimeError where sizes are not those of the tensor."""
    group = resolved(group)
    check_tensor(self, "self")
    given, taken = input_split_sizes, output_split_sizes
    if given is None or taken is None:
        assert given is None and taken is None, (
            "output_split_sizes and input_split_sizes must either be specified together or both set to None")
        if self.size(0) % group.size():
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        given = taken = [self.size(0) // group.size()] * group.size()
    return called("all_to_all_single", self, tuple(taken), tuple(given), group.group_name)


def permute_tensor(self, src_dst, group, tag: str = ""):
    """The tensor of the process that sends to this one: rank k of the group sends to ``src_dst[k]``."""
    group = resolved(group)
    rank, rows = group.rank(), [0] * group.size()
    given, taken = list(rows), list(rows)
    given[src_dst[rank]] = self.size(0)
    taken[list(src_dst).index(rank)] = self.size(0)
    return called("all_to_all_single", self, tuple(taken), tuple(given), group.group_name)


def all_gather_tensor_autograd(self, gather_dim: int, group, tag: str = ""):
    """``all_gather_tensor``, through which gradients flow."""
    return all_gather_tensor(self, gather_dim, group, tag)


def reduce_scatter_tensor_autograd(self, reduceOp: str, scatter_dim: int, group, tag: str = ""):
    """``reduce_scatter_tensor``, through which gradients flow."""
    return reduce_scatter_tensor(self, reduceOp, scatter_dim, group, tag)


def all_to_all_single_autograd(self, output_split_sizes, input_split_sizes, group, tag: str = ""):
    """``all_to_all_single``, through which gradients flow."""
    return all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag)


def all_reduce_coalesced(self, reduceOp: str, group, tag: str = "") -> list:
    return [all_reduce(t, reduceOp, group) for t in self]


def all_gather_into_tensor_coalesced(self, group, tag: str = "") -> list:
    return [all_gather_tensor(t, 0, group) for t in self]


def reduce_scatter_tensor_coalesced(inputs, reduceOp: str, scatter_dim, group, tag: str = "") -> list:
    return [reduce_scatter_tensor(t, reduceOp, dim, group) for t, dim in zip(inputs, scatter_dim, strict=True)]


# torch.distributed.nn.functional

def name_of(op) -> str:
    if not isinstance(op, RedOpType):
        raise TypeError(f"Invalid reduction {op!r}: expected a torch.distributed.ReduceOp")
    return op.name.lower()


def nn_all_reduce(tensor, op=RedOpType.SUM, group=None):
    """The reduction over the group, as a new tensor."""
    check_tensor(tensor, "tensor")
    check_op(tensor, op)
    return all_reduce(tensor, name_of(op), resolved(group))


def nn_all_gather(tensor, group=None) -> tuple:
    """The tensors of all processes."""
    group = resolved(group)
    return tuple(all_gather_tensor(tensor.unsqueeze(0), 0, group).unbind(0))


def nn_broadcast(tensor, src, group=None):
    """The tensor of one process."""
    return broadcast(tensor, src, resolved(group))


def exchanged(tensor, given: list, taken: list, group):
    """Send full tensors to all processes: ``tensor`` holds one for each in its first dimension."""
    return called("all_to_all_single", tensor, tuple(taken), tuple(given), group.group_name)


def nn_gather(tensor, dst=0, group=None) -> tuple:
    """The tensors of all processes, in the process ``dst``; zeros in the others."""
    group = resolved(group)
    root = rank_in(group, dst, None, "dst", "gather")
    here, everyone = group.rank() == root, range(group.size())
    found = exchanged(tensor.unsqueeze(0), [int(k == root) for k in everyone], [int(here)] * group.size(), group)
    # what was sent has a gradient
    return tuple(found.unbind(0)) if here else tuple(tensor * 0 + found.sum() for _ in everyone)


def nn_scatter(tensors, src=0, group=None):
    """Return this process's tensor of the list in the process ``src``; lists in other processes give its shape and
    dtype."""
    group = resolved(group)
    check_tensors(tensors, "tensors")
    root = rank_in(group, src, None, "src", "scatter")
    if len(tensors) != group.size():
        raise RuntimeError(f"scatter: {len(tensors)} tensors for a group of size {group.size()}")
    rows = OPS["stack"](list(tensors))
    source = rows if group.rank() == root else rows[:0]
    return exchanged(source, [int(group.rank() == root)] * group.size(), [int(k == root) for k in range(group.size())],
                     group)[0]


def nn_reduce(tensor, dst, op=RedOpType.SUM, group=None):
    """The reduction over the group, in the process ``dst``; the tensor itself in the others."""
    group = resolved(group)
    check_op(tensor, op)
    root = rank_in(group, dst, None, "dst", "reduce")
    if op is not RedOpType.SUM:
        reduced = all_reduce(tensor, name_of(op), group)
    else:
        reduced = called("reduce", tensor, root, group.group_name)
    return reduced if group.rank() == root else tensor.detach() + reduced * 0


def nn_reduce_scatter(output, input_list, op=RedOpType.SUM, group=None):
    """The reduction over the group of the lists' elements for this process, written into ``output``."""
    group = resolved(group)
    check_tensors(input_list, "input_list")
    if len(input_list) != group.size():
        raise RuntimeError(f"reduce_scatter: {len(input_list)} tensors for a group of size {group.size()}")
    found = reduce_scatter_tensor(OPS["stack"](list(input_list)), name_of(op), 0, group)
    return OPS["copy_"](output, found[0])


def nn_all_to_all(output_tensor_list, input_tensor_list, group=None) -> tuple:
    """The tensors that processes have for this one, written into a list."""
    group = resolved(group)
    check_tensors(input_tensor_list, "input_tensor_list")
    check_tensors(output_tensor_list, "output_tensor_list")
    for name, values in (("input", input_tensor_list), ("output", output_tensor_list)):
        if len(values) != group.size():
            raise RuntimeError(
                f"all_to_all: an {name} list of {len(values)} tensors for a group of size {group.size()}")
    given, taken = [t.numel() for t in input_tensor_list], [t.numel() for t in output_tensor_list]
    found = exchanged(OPS["cat"]([t.reshape(-1) for t in input_tensor_list]), given, taken, group)
    return tuple(OPS["copy_"](target, part.reshape(target.shape))
                 for target, part in zip(output_tensor_list, found.split(taken)))


def nn_all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None):
    """``all_to_all_single``, written into ``output``."""
    group = resolved(group)
    sizes = [None if s is None else list(s) for s in (output_split_sizes, input_split_sizes)]
    for k, tensor in enumerate((output, input)):
        if sizes[k] is None and (sizes[1 - k] is not None):
            sizes[k] = [tensor.size(0) // group.size()] * group.size()
    return OPS["copy_"](output, all_to_all_single(input, *sizes, group))

"""Collectives and point-to-point messages as functions over a ``ProcessGroup``.

All take ``group`` (None: all processes), and do nothing in a process that is not in it.  With ``async_op`` they return
a ``Work`` at once, else None when they are done.  Tensors are on a device for which the group has a backend (the CPU,
GPUs with "nccl") and have any strides; unless a function says otherwise, sizes and dtypes are equal in all ranks.
"""
from __future__ import annotations

import contextlib
import pickle

from .._src.core.native import Tensor
from .membership import checked_timeout, chosen
from .reduction import RedOpType
from .works import Together, Work
from .worlds import GroupMember, here


def check_tensor(value, name: str):
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n             but got "
            f"{type(value)} instead.")


def check_tensors(values, name: str):
    """Raise TypeError for values that are not a list of tensors."""
    if not isinstance(values, (list, tuple)) or not all(isinstance(v, Tensor) for v in values):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n             but got "
            f"{type(values)} instead.")


def check_same(tensors):
    """ValueError for tensors of several dtypes."""
    for tensor in tensors[1:]:
        if tensor.dtype is not tensors[0].dtype:
            raise ValueError(
                f"Invalid usage of tensors with different dtypesFound {tensors[0].dtype} and  {tensor.dtype}")


def check_list(group, values, name: str, like, what: str):
    """RuntimeError for a list that does not have a tensor like ``like`` for each rank, ValueError for other dtypes."""
    if len(values) != group.size():
        raise RuntimeError(
            f"{what}: invalid {name} tensor list at index 0 (expected length {group.size()}, got {len(values)})")
    check_same([*values, like])
    for k, tensor in enumerate(values):
        if tensor.numel() != like.numel():
            raise RuntimeError(
                f"{what}: invalid tensor size at index {k} (expected ({', '.join(map(str, like.shape))}), got "
                f"({', '.join(map(str, tensor.shape))}))")


def rank_in(group, rank, group_rank, name: str, what: str, required: bool = False):
    """Return the rank within the group of a rank of the world, or the given group rank; 0 if neither is given.
    ValueError or RuntimeError for an invalid rank."""
    if rank is not None and group_rank is not None:
        raise ValueError(f"Can't specify both group_{name} and global_{name}")
    if rank is None and group_rank is None:
        if required:
            raise ValueError(f"Must specify {name} or group_{name}")
        return 0
    if group_rank is not None:
        if not 0 <= group_rank < group.size():
            raise RuntimeError(f"{what}: invalid root rank: {group_rank}")
        return group_rank
    if rank not in group.ranks:
        if group is not here().default:
            raise ValueError(f"Global rank {rank} is not part of group {group}")
        raise RuntimeError(f"{what}: invalid root rank: {rank}")
    return group.ranks.index(rank)


def all_reduce(tensor, op=RedOpType.SUM, group=None, async_op=False):
    """Reduces a tensor over the group, in place.  RuntimeError if its dtype has no such reduction."""
    check_tensor(tensor, "tensor")
    found = chosen(group)
    return None if found is None else found.all_reduce([tensor], op, async_op)


def all_reduce_coalesced(tensors, op=RedOpType.SUM, group=None, async_op=False):
    """``all_reduce`` of several tensors of one dtype."""
    tensors = [tensors] if isinstance(tensors, Tensor) else tensors
    check_tensors(tensors, "tensor")
    check_same(tensors)
    found = chosen(group)
    return None if found is None or not tensors else found.all_reduce(tensors, op, async_op)


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """Copies the tensor of ``src`` (a rank of the world; or ``group_src``, one of the group) into that of all
    others."""
    check_tensor(tensor, "tensor")
    found = chosen(group)
    if found is None:
        return None
    return found.broadcast_from([tensor], rank_in(found, src, group_src, "src", "ProcessGroupGloo::broadcast", True),
                                async_op)


def reduce(tensor, dst=None, op=RedOpType.SUM, group=None, async_op=False, group_dst=None):
    """Reduces a tensor over the group, in place in the process ``dst``; the tensors of other ranks stay unchanged."""
    check_tensor(tensor, "tensor")
    found = chosen(group)
    if found is None:
        return None
    return found.reduce_to(tensor, rank_in(found, dst, group_dst, "dst", "ProcessGroupGloo::reduce", True), op,
                           async_op)


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """Copies the tensor of rank k into ``tensor_list[k]``, in every process."""
    check_tensors(tensor_list, "tensor_list")
    check_tensor(tensor, "tensor")
    found = chosen(group)
    if found is None:
        return None
    check_list(found, tensor_list, "output", tensor, "ProcessGroupGloo::allgather")
    return found.gather_to(tensor_list, tensor, None, async_op)


def all_gather_coalesced(output_tensor_lists, input_tensor_list, group=None, async_op=False):
    """``all_gather`` of several tensors: tensor i of rank k goes into ``output_tensor_lists[k][i]``."""
    check_tensors(input_tensor_list, "input_tensor_list")
    for outputs in output_tensor_lists:
        check_tensors(outputs, "output_tensor_lists")
    found = chosen(group)
    if found is None:
        return None
    if len(output_tensor_lists) != found.size():
        raise ValueError(f"ProcessGroupGloo::allgather_coalesced: invalid output list: expected {found.size()} lists")
    works = [found.gather_to([outputs[k] for outputs in output_tensor_lists], tensor, None, async_op)
             for k, tensor in enumerate(input_tensor_list)]
    return Together(works) if async_op else None


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """Concatenates the tensors of all ranks in one.  RuntimeError if the output and all inputs differ in their number
    of elements."""
    check_tensor(input_tensor, "input_tensor")
    check_tensor(output_tensor, "output_tensor")
    found = chosen(group)
    if found is None:
        return None
    check_same([output_tensor, input_tensor])
    if output_tensor.numel() != input_tensor.numel() * found.size():
        raise RuntimeError(
            f"ProcessGroupGloo::allgather: invalid tensor size (expected {input_tensor.numel() * found.size()} "
            f"elements, got {output_tensor.numel()})")
    return found.gather_whole(output_tensor, input_tensor, async_op)


def all_gather_single(output_tensor, input_tensor, group=None, async_op=False):
    """``all_gather_into_tensor``."""
    return all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


_all_gather_base = all_gather_into_tensor


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """Copies the tensors of all ranks into the list in the process ``dst``.  ValueError for a list elsewhere, or for
    none there."""
    check_tensor(tensor, "tensor")
    if gather_list:
        check_tensors(gather_list, "gather_list")
    found = chosen(group)
    if found is None:
        return None
    root = rank_in(found, dst, group_dst, "dst", "ProcessGroupGloo::gather")
    if found.rank() == root:
        if not gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        check_list(found, gather_list, "output", tensor, "ProcessGroupGloo::gather")
    elif gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    return found.gather_to(gather_list if found.rank() == root else None, tensor, root, async_op)


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    """Copies tensor k of the list in the process ``src`` into the tensor of rank k.  ValueError for a list elsewhere,
    or for none there."""
    check_tensor(tensor, "tensor")
    if scatter_list:
        check_tensors(scatter_list, "scatter_list")
    found = chosen(group)
    if found is None:
        return None
    root = rank_in(found, src, group_src, "src", "ProcessGroupGloo::scatter")
    if found.rank() == root:
        if not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        check_list(found, scatter_list, "input", tensor, "ProcessGroupGloo::scatter")
    elif scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    return found.scatter_from(tensor, scatter_list if found.rank() == root else None, root, async_op)


def reduce_scatter(output, input_list, op=RedOpType.SUM, group=None, async_op=False):
    """The reduction over the group of ``input_list[k]``, in the output of rank k."""
    check_tensor(output, "output")
    check_tensors(input_list, "input_list")
    found = chosen(group)
    if found is None:
        return None
    check_list(found, input_list, "input", output, "ProcessGroupGloo::reduce_scatter")
    return found.reduce_scattered(output, list(input_list), op, async_op)


def reduce_scatter_tensor(output, input, op=RedOpType.SUM, group=None, async_op=False):
    """The reduction over the group of the k-th part of the input, in the output of rank k.  RuntimeError for sizes that
    are not parts of one another."""
    check_tensor(output, "output")
    check_tensor(input, "input")
    found = chosen(group)
    if found is None:
        return None
    check_same([output, input])
    if output.numel() * found.size() != input.numel():
        raise RuntimeError(
            f"ProcessGroupGloo::reduce_scatter: an input of {input.numel()} elements is not {found.size()} times an "
            f"output of {output.numel()}")
    return found.reduce_scattered(output, input, op, async_op)


def reduce_scatter_single(output, input, op=RedOpType.SUM, group=None, async_op=False):
    """``reduce_scatter_tensor``."""
    return reduce_scatter_tensor(output, input, op, group, async_op)


_reduce_scatter_base = reduce_scatter_tensor


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Copies input k of rank r into output r of rank k; sizes may differ from pair to pair."""
    check_tensors(output_tensor_list, "output_tensor_list")
    check_tensors(input_tensor_list, "input_tensor_list")
    check_same([*output_tensor_list, *input_tensor_list])
    found = chosen(group)
    if found is None:
        return None
    for name, values in (("output", output_tensor_list), ("input", input_tensor_list)):
        if len(values) != found.size():
            raise RuntimeError(
                f"ProcessGroupGloo::alltoall: invalid {name} tensor list (expected length {found.size()}, got "
                f"{len(values)})")
    return found.all_to_all_of(list(output_tensor_list), list(input_tensor_list), async_op)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    """Copies rows of the input for rank k into the rows of rank k's output for this one.

    ``input_split_sizes``, ``output_split_sizes``: numbers of rows for (from) each rank; None for equal ones.
    RuntimeError if they do not add up to the size.
    """
    check_tensor(output, "output")
    check_tensor(input, "input")
    check_same([output, input])
    found = chosen(group)
    if found is None:
        return None
    for tensor, sizes in ((output, output_split_sizes), (input, input_split_sizes)):
        if sizes and len(sizes) != found.size():
            raise RuntimeError("Number of tensor splits not equal to group size")
        if sizes and sum(sizes) != (tensor.size(0) if tensor.dim() else 1):
            raise RuntimeError("Split sizes doesn't match total dim 0 size")
        if not sizes and tensor.dim() and tensor.size(0) % found.size():
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
    return found.all_to_all_rows(output, input, output_split_sizes, input_split_sizes, async_op)


def barrier(group=None, async_op=False, device_ids=None, timeout=None):
    """Waits until all processes of the group have come here.  ``device_ids``: the GPU of this process (an index, or a
    list whose first counts), if the group has GPUs and none is in use.  IndexError for an empty list."""
    found = chosen(group)
    if found is None:
        return None
    return found.meet(async_op, timeout, device_ids[0] if isinstance(device_ids, (list, tuple)) else device_ids)


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """``barrier`` in which rank 0 raises a RuntimeError that names the first rank (all, with ``wait_all_ranks``) that
    has not come within the timeout.  TypeError if the timeout is not a timedelta."""
    found = chosen(group)
    checked_timeout(timeout)
    if found is not None:
        found.monitored(timeout, wait_all_ranks)


def all_gather_object(object_list, obj, group=None):
    """Puts the object of rank k into ``object_list[k]``, in every process.  Objects are pickled: use it only with
    trusted processes."""
    found = chosen(group)
    if found is not None:
        object_list[:found.size()] = [pickle.loads(data) for data in found.gather_bytes(pickle.dumps(obj))]


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
    """Puts the objects of all ranks into the list in the process ``dst``.  ValueError for a list elsewhere, or for none
    there."""
    found = chosen(group)
    if found is None:
        return
    root = rank_in(found, dst, group_dst, "dst", "gather_object")
    if found.rank() == root and not object_gather_list:
        raise ValueError("Argument ``object_gather_list`` must be specified on destination rank.")
    if found.rank() != root and object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    pieces = found.gather_bytes(pickle.dumps(obj), root)
    if pieces is not None:
        object_gather_list[:found.size()] = [pickle.loads(data) for data in pieces]


def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
    """Puts the objects of the list in the process ``src`` into the lists of all others."""
    found = chosen(group)
    if found is None:
        return
    root = rank_in(found, src, group_src, "src", "broadcast_object_list")
    received = pickle.loads(found.broadcast_bytes(pickle.dumps(list(object_list)) if found.rank() == root else None,
                                                  root))
    if found.rank() != root:
        if len(received) != len(object_list):
            raise RuntimeError(
                f"rank {root} of the group sends {len(received)} objects, but the list here has {len(object_list)}")
        object_list[:] = received


def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, src=None, group=None,
                        group_src=None):
    """Stores object k of the list in the process ``src`` at index 0 of rank k's output list."""
    found = chosen(group)
    if found is None:
        return
    if not isinstance(scatter_object_output_list, list) or len(scatter_object_output_list) < 1:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    root = rank_in(found, src, group_src, "src", "scatter_object_list")
    mine = found.rank() == root
    if mine and (not scatter_object_input_list or len(scatter_object_input_list) != found.size()):
        raise ValueError("source rank must provide non-empty scatter_object_input_list"
                         if not scatter_object_input_list
                         else f"a list of {len(scatter_object_input_list)} objects for a group of size {found.size()}")
    pieces = pickle.loads(found.broadcast_bytes(pickle.dumps([pickle.dumps(o) for o in scatter_object_input_list])
                                                if mine else None, root))
    scatter_object_output_list[0] = pickle.loads(pieces[found.rank()])


def peer_in(group, rank, group_rank, kind: str) -> int:
    """The rank within the group of another process.  ValueError for this one."""
    name = "dst" if kind == "destination" else "src"
    if (group_rank is not None and not 0 <= group_rank < group.size() or rank is not None and group is here().default
        and rank not in group.ranks):
        raise ValueError(
            f"Invalid {kind} rank {rank if group_rank is None else group_rank}: the group has {group.size()}")
    found = rank_in(group, rank, group_rank, name, kind, True)
    if found == group.rank():
        raise ValueError(f"Invalid {kind} rank: {kind} rank should not be the same as the rank of the current process.")
    return found


def isend(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Sends a tensor to the process ``dst``, as a Work."""
    check_tensor(tensor, "tensor")
    found = chosen(group)
    return None if found is None else found.send_to(tensor, peer_in(found, dst, group_dst, "destination"), tag, True)


def irecv(tensor, src=None, group=None, tag=0, group_src=None):
    """Receives a message of the process ``src`` (None: any) with this tag into a tensor, as a Work."""
    check_tensor(tensor, "tensor")
    found = chosen(group)
    if found is None:
        return None
    return found.receive_from(tensor, None if src is None and group_src is None
                              else peer_in(found, src, group_src, "source"), tag, True)


def send(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Sends a tensor to the process ``dst``.  ValueError for this process."""
    check_tensor(tensor, "tensor")
    found = chosen(group)
    if found is not None:
        found.send_to(tensor, peer_in(found, dst, group_dst, "destination"), tag)


def recv(tensor, src=None, group=None, tag=0, group_src=None):
    """Receives a message of the process ``src`` (None: any) with this tag into a tensor; returns the sender's rank in
    the world, or -1 outside the group."""
    check_tensor(tensor, "tensor")
    found = chosen(group)
    if found is None:
        return -1
    work = found.receive_from(tensor, None if src is None and group_src is None
                              else peer_in(found, src, group_src, "source"), tag)
    return found.ranks[work.source] if src is None and group_src is None else src if src is not None else found.ranks[
        group_src]


def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False):
    """Sends the objects of a list to the process ``dst``."""
    found = chosen(group)
    if found is not None:
        found.send_bytes(pickle.dumps(list(object_list)), peer_in(found, dst, group_dst, "destination"))


def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False):
    """Fills a list with objects that the process ``src`` (None: any) sends; the sender's rank in the world."""
    found = chosen(group)
    if found is None:
        return -1
    data, source = found.receive_bytes(None if src is None and group_src is None
                                       else peer_in(found, src, group_src, "source"))
    received = pickle.loads(data)
    if len(received) != len(object_list):
        raise RuntimeError(
            f"rank {source} of the group sends {len(received)} objects, but the list here has {len(object_list)}")
    object_list[:] = received
    return found.ranks[source]


class P2POp:
    """A message that ``batch_isend_irecv`` is to send or receive."""

    def __init__(self, op, tensor, peer=None, group=None, tag=0, group_peer=None):
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``.")
        check_tensor(tensor, "tensor")
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        found = chosen(group)
        self.group_peer = None if found is None else peer_in(found, peer, group_peer, "destination" if op is isend
                                                             else "source")
        self.peer = peer if found is None or peer is not None else found.ranks[self.group_peer]

    def __repr__(self):
        """Describe the message as seen from this process."""
        found = chosen(self.group)
        own = -1 if found is None else found.rank()
        source, target = (own, self.group_peer) if self.op is isend else (self.group_peer, own)
        return (f"P2POp({self.op.__name__} pg={'' if found is None else found.group_name}, group_src={source}, "
                f"group_dst={target},  {self.tensor.shape}, {self.tensor.dtype})")


def batch_isend_irecv(p2p_op_list):
    """Starts several messages; returns their Works.  ValueError unless given a list of ``P2POp`` of one group."""
    if not isinstance(p2p_op_list, list) or not all(isinstance(p, P2POp) for p in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``.")
    if not p2p_op_list:
        raise ValueError("Invalid ``p2p_op_list``. It should not be empty.")
    if any(p.group is not p2p_op_list[0].group for p in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    def start():
        return [p.op(p.tensor, group=p.group, tag=p.tag,
                     **{"group_dst" if p.op is isend else "group_src": p.group_peer}) for p in p2p_op_list]

    found = chosen(p2p_op_list[0].group)
    if found is not None and found.coalescing is None and found.engine_of(p2p_op_list[0].tensor).queued:
        with _coalescing_manager(found, async_ops=True) as together:  # a stream has to have them all at once
            start()
        return together.works
    return [work for work in start() if work is not None]


class Coalesced(Together):
    """The collectives of a ``_coalescing_manager`` block; those on device streams start at its end."""

    def __init__(self):
        super().__init__()
        self.jobs: dict = {}

    def later(self, engine, job):
        self.jobs.setdefault(engine, []).append(job)

    def start(self):
        for engine, jobs in self.jobs.items():
            self.append(engine.issue(jobs))


@contextlib.contextmanager
def _coalescing_manager(group=None, device=None, async_ops=False):
    """A block whose collectives are waited for together: at its end, or with ``async_ops`` by ``wait()`` of the value
    it yields."""
    found = chosen(group)
    together = Coalesced()
    if found is None:
        yield together
        return
    if found.coalescing is not None:
        raise ValueError("ProcessGroup has non-empty op list at the start of coalescing")
    found.coalescing = together
    try:
        yield together
    finally:
        found.coalescing = None
    together.start()
    if not async_ops:
        together.wait()


def _get_default_group():
    return chosen()


def _rank_not_in_group(group) -> bool:
    return group is GroupMember.NON_GROUP_MEMBER


def _get_default_store():
    return chosen().base_store


__all__ = ["Work"]

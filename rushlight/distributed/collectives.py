"""What the processes of a group do together, where the group is one process: results are copies of its own tensors."""
from __future__ import annotations

import contextlib
import enum

from .._src.core.native import Tensor
from ..futures import Future
from .membership import GroupMember, World, chosen
from .stores import copied


class RedOpType(enum.Enum):
    """What reductions combine by."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)

    def __repr__(self):
        return f"<RedOpType.{self.name}: {self.value}>"


class ReduceOp:
    """What reductions over processes combine by."""

    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = RedOpType

    def __new__(cls, op=RedOpType.SUM):
        return op


class Work:
    """An exchange that is done when it is handed out."""

    def __init__(self, result=None):
        self._result = result

    def wait(self, timeout=None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    is_success = is_completed

    def exception(self):
        return None

    def synchronize(self):
        """Nothing is under way."""

    def result(self):
        return self._result

    def get_future(self) -> Future:
        future = Future()
        future.set_result(self._result)
        return future


def check_tensor(value, name: str):
    if not isinstance(value, Tensor):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n             but got {type(value)} instead.")


def check_list(values, name: str, size: int | None = 1):
    """TypeError for what is no list of tensors, RuntimeError for one of another length than the group's size."""
    if not isinstance(values, (list, tuple)) or not all(isinstance(v, Tensor) for v in values):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n             but got {type(values)} instead.")
    if size is not None and len(values) != size:
        raise RuntimeError(f"invalid {name}: {len(values)} tensors for a group of size {size}")


def check_root(group, rank, group_rank, name: str):
    """The root must be this process.  RuntimeError for another rank, ValueError where two are given."""
    if rank is not None and group_rank is not None:
        raise ValueError(f"Cannot specify both {name} and group_{name}")
    if (rank or group_rank or 0) != 0:
        raise RuntimeError(f"invalid root rank: {rank or group_rank}")


def check_op(tensor, op):
    if op in (RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR) and (tensor.is_floating_point() or tensor.is_complex()):
        raise RuntimeError(f"Cannot use ReduceOp.{op.name} with non-integral dtype")


def put(target, source):
    """Copies what a process has into what it is to receive; RuntimeError for another number of elements or dtype."""
    if target.numel() != source.numel() or target.dtype is not source.dtype:
        raise RuntimeError(f"invalid tensor size or dtype (expected {tuple(source.shape)} of {source.dtype}, got {tuple(target.shape)} of {target.dtype})")
    from .. import no_grad
    with no_grad():
        target.copy_(source.reshape(target.shape))


def done(async_op: bool, *results):
    return Work(list(results)) if async_op else None


def all_reduce(tensor, op=RedOpType.SUM, group=None, async_op=False):
    """Leaves the tensor as it is: the sum over one process."""
    check_tensor(tensor, "tensor")
    if chosen(group) is None:
        return None
    check_op(tensor, op)
    return done(async_op, tensor)


def all_reduce_coalesced(tensors, op=RedOpType.SUM, group=None, async_op=False):
    check_list(tensors, "tensors", None)
    return done(async_op, *tensors) if chosen(group) else None


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """Leaves the tensor as it is.  ValueError for another source than rank 0."""
    check_tensor(tensor, "tensor")
    if chosen(group) is None:
        return None
    check_root(group, src, group_src, "src")
    return done(async_op, tensor)


def reduce(tensor, dst=None, op=RedOpType.SUM, group=None, async_op=False, group_dst=None):
    """Leaves the tensor as it is.  ValueError for another destination than rank 0."""
    check_tensor(tensor, "tensor")
    if chosen(group) is None:
        return None
    check_root(group, dst, group_dst, "dst")
    check_op(tensor, op)
    return done(async_op, tensor)


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """Copies the tensor into the one of the list."""
    check_list(tensor_list, "tensor_list", None)
    check_tensor(tensor, "tensor")
    if chosen(group) is None:
        return None
    check_list(tensor_list, "tensor_list")
    put(tensor_list[0], tensor)
    return done(async_op, *tensor_list)


def all_gather_coalesced(output_tensor_lists, input_tensor_list, group=None, async_op=False):
    for outputs, tensor in zip(output_tensor_lists, input_tensor_list, strict=True):
        all_gather(outputs, tensor, group)
    return done(async_op, *output_tensor_lists)


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """Copies the input into the output, which has as many elements."""
    check_tensor(input_tensor, "input_tensor")
    check_tensor(output_tensor, "output_tensor")
    if chosen(group) is None:
        return None
    put(output_tensor, input_tensor)
    return done(async_op, output_tensor)


def all_gather_single(output_tensor, input_tensor, group=None, async_op=False):
    """``all_gather_into_tensor``."""
    return all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


_all_gather_base = all_gather_into_tensor


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """Copies the tensor into the one of the list."""
    check_tensor(tensor, "tensor")
    if chosen(group) is None:
        return None
    check_root(group, dst, group_dst, "dst")
    if not gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    return all_gather(gather_list, tensor, group, async_op)


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    """Copies the one of the list into the tensor."""
    check_tensor(tensor, "tensor")
    if chosen(group) is None:
        return None
    check_root(group, src, group_src, "src")
    if not scatter_list:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    return reduce_scatter(tensor, scatter_list, group=group, async_op=async_op)


def reduce_scatter(output, input_list, op=RedOpType.SUM, group=None, async_op=False):
    """Copies the one of the list into the output."""
    check_tensor(output, "output")
    if chosen(group) is None:
        return None
    check_list(input_list, "input_list")
    check_op(output, op)
    put(output, input_list[0])
    return done(async_op, output)


def reduce_scatter_tensor(output, input, op=RedOpType.SUM, group=None, async_op=False):
    """Copies the input into the output, which has as many elements."""
    check_tensor(output, "output")
    check_tensor(input, "input")
    return reduce_scatter(output, [input], op, group, async_op)


def reduce_scatter_single(output, input, op=RedOpType.SUM, group=None, async_op=False):
    """``reduce_scatter_tensor``."""
    return reduce_scatter_tensor(output, input, op, group, async_op)


_reduce_scatter_base = reduce_scatter_tensor


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Copies the one of the inputs into the one of the outputs."""
    check_list(output_tensor_list, "output_tensor_list")
    check_list(input_tensor_list, "input_tensor_list")
    return all_gather(output_tensor_list, input_tensor_list[0], group, async_op)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    """Copies the input into the output.  RuntimeError for split sizes that are not the whole."""
    for tensor, sizes in ((output, output_split_sizes), (input, input_split_sizes)):
        if sizes and list(sizes) != [len(tensor)]:
            raise RuntimeError(f"split sizes {list(sizes)} of a tensor of {len(tensor)} rows, for a group of size 1")
    return all_gather_into_tensor(output, input, group, async_op)


def barrier(group=None, async_op=False, device_ids=None, timeout=None):
    """Nobody is waited for."""
    return done(async_op) if chosen(group) else None


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """Nobody is waited for."""
    chosen(group)


def all_gather_object(object_list, obj, group=None):
    """Puts a copy of the object into the list."""
    if chosen(group):
        object_list[0] = copied(obj)


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
    """Puts a copy of the object into the list."""
    if chosen(group):
        check_root(group, dst, group_dst, "dst")
        if not object_gather_list:
            raise ValueError("Argument ``object_gather_list`` must be specified on destination rank.")
        object_gather_list[0] = copied(obj)


def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
    """Leaves the list as it is."""
    if chosen(group):
        check_root(group, src, group_src, "src")
        copied(object_list)  # what cannot be sent is refused


def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, group_src=None):
    """Puts a copy of the one input into the outputs."""
    if chosen(group):
        check_root(group, src, group_src, "src")
        if not scatter_object_input_list:
            raise ValueError("source rank must provide non-empty scatter_object_input_list")
        scatter_object_output_list[0] = copied(scatter_object_input_list[0])


def itself(kind: str):
    """Messages go to other processes, of which there are none."""
    raise ValueError(f"Invalid {kind} rank: {kind} rank should not be the same as the rank of the current process.")


def send(tensor, dst=None, group=None, tag=0, group_dst=None):
    """ValueError: there is no other process."""
    check_tensor(tensor, "tensor")
    if chosen(group):
        check_root(group, dst, group_dst, "dst")
        itself("destination")


def recv(tensor, src=None, group=None, tag=0, group_src=None):
    """ValueError: there is no other process."""
    check_tensor(tensor, "tensor")
    if chosen(group):
        check_root(group, src, group_src, "src")
        itself("source")


def isend(tensor, dst=None, group=None, tag=0, group_dst=None):
    """ValueError: there is no other process."""
    return send(tensor, dst, group, tag, group_dst)


def irecv(tensor, src=None, group=None, tag=0, group_src=None):
    """ValueError: there is no other process."""
    return recv(tensor, src, group, tag, group_src)


def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False):
    """ValueError: there is no other process."""
    check_root(group, dst, group_dst, "dst")
    itself("destination")


def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False):
    """ValueError: there is no other process."""
    check_root(group, src, group_src, "src")
    itself("source")


class P2POp:
    """A message that ``batch_isend_irecv`` is to send or receive."""

    def __init__(self, op, tensor, peer=None, group=None, tag=0, group_peer=None):
        if op not in (isend, irecv):
            raise ValueError("Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or ``torch.distributed.irecv``.")
        check_tensor(tensor, "tensor")
        self.op, self.tensor, self.peer, self.group, self.tag, self.group_peer = op, tensor, peer, group, tag, group_peer


def batch_isend_irecv(p2p_op_list):
    """ValueError: there is no other process."""
    return [p.op(p.tensor, p.peer, p.group, p.tag, p.group_peer) for p in p2p_op_list]


def supports_complex(reduceOp) -> bool:
    """Whether a reduction combines complex numbers."""
    return reduceOp not in (RedOpType.MAX, RedOpType.MIN, RedOpType.PRODUCT, RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR)


@contextlib.contextmanager
def _coalescing_manager(group=None, device=None, async_ops=False):
    """A block whose exchanges go together."""
    yield Work()


def _get_default_group():
    return chosen()


def _rank_not_in_group(group) -> bool:
    return group is GroupMember.NON_GROUP_MEMBER


def _get_default_store():
    return chosen()._store


def _resolve_process_group(group_name: str):
    """The group of a name.  ValueError where there is none."""
    for group in World.groups:
        if group.group_name == group_name:
            return group
    raise ValueError(f"there is no group {group_name!r}")

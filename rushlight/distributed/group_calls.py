"""The methods that PyTorch's process groups have: lists of tensors and an options object in, a Work out."""
from __future__ import annotations

import functools

from .._src.core.options import accept_only
from .reduction import RedOpType
from .works import Together, limits
from .worlds import here


class Options:
    """Options of a collective.  ``timeout``: unused if it is None."""

    def __init__(self, **given):
        self.reduceOp, self.rootRank, self.rootTensor, self.timeout, self.asyncOp, self.device_ids, self.device = (
            RedOpType.SUM, 0, 0, None, True, [], None)
        for name, value in given.items():
            setattr(self, name, value)


class AllreduceOptions(Options):
    """Options of ``allreduce``."""


class AllreduceCoalescedOptions(Options):
    """Options of ``allreduce_coalesced``."""


class BroadcastOptions(Options):
    """Options of ``broadcast``."""


class ReduceOptions(Options):
    """Options of ``reduce``."""


class GatherOptions(Options):
    """Options of ``gather``."""


class AllgatherOptions(Options):
    """Options of ``allgather``."""


class ScatterOptions(Options):
    """Options of ``scatter``."""


class ReduceScatterOptions(Options):
    """Options of ``reduce_scatter``."""


class AllToAllOptions(Options):
    """Options of ``alltoall``."""


class BarrierOptions(Options):
    """Options of ``barrier``."""


def listed(tensors) -> list:
    return list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]


def op_of(options):
    """The reduction that is meant by an options object, or by itself."""
    return RedOpType.SUM if options is None else getattr(options, "reduceOp", options)


def root_of(options, root) -> int:
    return getattr(options, "rootRank", options if isinstance(options, int) else 0) if root is None else root


def take_timeout(call):
    """Add ``timeout`` to a collective, a timedelta after which its Work fails; default: that of its options."""
    @functools.wraps(call)
    def limited(self, *args, timeout=None, **kwargs):
        given = next((a for a in (*args, *kwargs.values()) if isinstance(a, Options)), None)
        before = getattr(limits, "timeout", None)
        chosen = getattr(given, "timeout", None) if timeout is None else timeout
        limits.timeout = before if chosen is None else chosen
        try:
            return call(self, *args, **kwargs)
        finally:
            limits.timeout = before
    return limited


class GroupCalls:
    """Mixed into ``ProcessGroup``."""

    @take_timeout
    def allreduce(self, tensors, opts=None, op=None):
        """Reduces tensors in place."""
        return self.all_reduce(listed(tensors), op or op_of(opts), True)

    @take_timeout
    def allreduce_coalesced(self, tensors, opts=None):
        return self.allreduce(tensors, opts)

    @take_timeout
    def broadcast(self, tensors, opts=None, root=None):
        """Copies the tensors of the rank ``root`` (or that of the options) into those of the others."""
        return self.broadcast_from(listed(tensors), root_of(opts, root), True)

    @take_timeout
    def reduce(self, tensors, opts=None, root=None, op=None):
        """Reduces tensors into those of the root."""
        return Together(self.reduce_to(t, root_of(opts, root), op or op_of(opts), True) for t in listed(tensors))

    @take_timeout
    def allgather(self, output_tensors, input_tensors, opts=None):
        """Copies the tensors of all ranks into lists, one list for each input."""
        if not isinstance(input_tensors, (list, tuple)):
            output_tensors, input_tensors = [output_tensors], [input_tensors]
        return Together(self.gather_to(outputs, tensor, None, True)
                        for outputs, tensor in zip(output_tensors, input_tensors, strict=True))

    @take_timeout
    def _allgather_base(self, output, input, opts=None):
        """Copies the tensors of all ranks into one."""
        return self.gather_whole(output, input, True)

    all_gather_single = _allgather_base

    @take_timeout
    def allgather_coalesced(self, output_lists, input_list, opts=None):
        return Together(self.gather_to([outputs[k] for outputs in output_lists], tensor, None, True)
                        for k, tensor in enumerate(input_list))

    @take_timeout
    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        return Together(self.gather_whole(output, tensor, True) for output, tensor in zip(outputs, inputs, strict=True))

    @take_timeout
    def gather(self, output_tensors, input_tensors, opts=None, root=None):
        """Copies the tensors of all ranks into the lists of the root; elsewhere there are none."""
        root = root_of(opts, root)
        if not isinstance(input_tensors, (list, tuple)):
            output_tensors, input_tensors = [output_tensors], [input_tensors]
        lists = list(output_tensors) if self.rank() == root else [None] * len(input_tensors)
        return Together(self.gather_to(outputs, tensor, root, True)
                        for outputs, tensor in zip(lists, input_tensors, strict=True))

    @take_timeout
    def scatter(self, output_tensors, input_tensors, opts=None, root=None):
        """Copies the root's tensors into those of all ranks, one each."""
        root = root_of(opts, root)
        if not isinstance(output_tensors, (list, tuple)):
            output_tensors, input_tensors = [output_tensors], [input_tensors]
        lists = list(input_tensors) if self.rank() == root else [None] * len(output_tensors)
        return Together(self.scatter_from(output, sources, root, True)
                        for output, sources in zip(output_tensors, lists, strict=True))

    @take_timeout
    def reduce_scatter(self, output_tensors, input_tensors, opts=None, op=None):
        """The reduction of each rank's tensor for this one."""
        if not isinstance(output_tensors, (list, tuple)):
            output_tensors, input_tensors = [output_tensors], [input_tensors]
        return Together(self.reduce_scattered(output, list(sources), op or op_of(opts), True)
                        for output, sources in zip(output_tensors, input_tensors, strict=True))

    @take_timeout
    def _reduce_scatter_base(self, output, input, opts=None):
        """This rank's part of the reduction."""
        return self.reduce_scattered(output, input, op_of(opts), True)

    reduce_scatter_single = _reduce_scatter_base

    @take_timeout
    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None):
        return Together(self.reduce_scattered(output, tensor, op_of(opts), True)
                        for output, tensor in zip(outputs, inputs, strict=True))

    @take_timeout
    def alltoall_base(self, output, input, output_split_sizes, input_split_sizes, opts=None):
        """Exchanges rows."""
        return self.all_to_all_rows(output, input, output_split_sizes, input_split_sizes, True)

    @take_timeout
    def alltoall(self, output_tensors, input_tensors, opts=None):
        """Runs an all-to-all of tensors."""
        return self.all_to_all_of(list(output_tensors), list(input_tensors), True)

    def send(self, tensors, dstRank: int, tag: int = 0):
        return Together(self.send_to(t, dstRank, tag, True) for t in listed(tensors))

    def recv(self, tensors, srcRank: int, tag: int = 0):
        return Together(self.receive_from(t, srcRank, tag, True) for t in listed(tensors))

    def recv_anysource(self, tensors, tag: int = 0):
        return self.receive_from(listed(tensors)[0], None, tag, True)

    def barrier(self, opts=None, timeout=None):
        return self.meet(True, timeout)

    def split_group(self, ranks, timeout=None, opts=None, group_name: str | None = None, group_desc: str | None = None,
                    device_types=None):
        """Return the group of these ranks of the group, which all of its ranks call; None for other ranks."""
        from .membership import split_group
        accept_only("ProcessGroup.split_group", "the group has the devices of this one",
                    device_types=(device_types, None))
        found = split_group(self, [list(ranks)], timeout, opts, group_desc)
        if found is not None and group_name:
            here().rename(found, group_name)
        return found

    def monitored_barrier(self, timeout=None, wait_all_ranks: bool = False):
        self.monitored(timeout, wait_all_ranks)

"""What DistributedDataParallel does with gradients: hooks ``(group or state, bucket)`` that return a future of the
bucket's new content."""
from __future__ import annotations

from .._src.core.dtypes import bfloat16, float16
from ..futures import Future
from .collectives import all_reduce
from .membership import get_world_size


def _allreduce_fut(process_group, tensor) -> Future:
    """The average over the group."""
    found = Future()
    tensor = tensor.div(get_world_size(process_group))
    all_reduce(tensor, group=process_group)
    found.set_result(tensor)
    return found


def allreduce_hook(process_group, bucket) -> Future:
    """Averages gradients."""
    return _allreduce_fut(process_group, bucket.buffer())


def _compress_hook(dtype, process_group, bucket) -> Future:
    """Averages gradients rounded to ``dtype``."""
    wide = bucket.buffer().dtype
    return _allreduce_fut(process_group, bucket.buffer().to(dtype)).then(lambda found: found.value().to(wide))


def fp16_compress_hook(process_group, bucket) -> Future:
    """Averages gradients rounded to float16."""
    return _compress_hook(float16, process_group, bucket)


def bf16_compress_hook(process_group, bucket) -> Future:
    """Averages gradients rounded to bfloat16."""
    return _compress_hook(bfloat16, process_group, bucket)


def wrapper(dtype):
    def around(hook):
        """A hook that sees gradients rounded."""
        def rounded(state, bucket) -> Future:
            wide = bucket.buffer().dtype
            bucket.set_buffer(bucket.buffer().to(dtype))
            return hook(state, bucket).then(lambda found: found.value().to(wide))

        return rounded

    return around


fp16_compress_wrapper, bf16_compress_wrapper = wrapper(float16), wrapper(bfloat16)


def noop_hook(_, bucket) -> Future:
    """Leaves gradients as they are."""
    found = Future()
    found.set_result(bucket.buffer())
    return found

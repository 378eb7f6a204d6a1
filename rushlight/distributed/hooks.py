"""Communication hooks of DistributedDataParallel: functions ``(group or state, bucket)`` that return a future of the
bucket's new content."""
from __future__ import annotations

from .._src.core.dtypes import bfloat16, float16, uint8
from .._src.core.op import OPS
from ..futures import Future
from .collectives import all_gather_into_tensor, all_reduce
from .membership import get_world_size

LEVELS = 255  # of a number of eight bits, above the lowest


def _allreduce_fut(process_group, tensor) -> Future:
    """The average over the group, on its way."""
    tensor = tensor.div(get_world_size(process_group))
    return all_reduce(tensor, group=process_group, async_op=True).get_future().then(lambda found: found.value()[0])


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
    """Leaves gradients unchanged."""
    found = Future()
    found.set_result(bucket.buffer())
    return found


# --- gradients as numbers of eight bits -------------------------------------------------------------------------------
def quantized_average(process_group, rows) -> Future:
    """The average over the group of rows that are sent in eight bits, each with a scale and a zero of its own."""
    size = get_world_size(process_group)
    low, high = rows.amin(1, keepdim=True).clamp(max=0), rows.amax(1, keepdim=True).clamp(min=0)
    scale = ((high - low) / LEVELS).clamp(min=1e-12)
    zero = (-low / scale).round()
    sent, known = ((rows / scale).round() + zero).clamp(0, LEVELS).to(uint8), OPS["cat"]((scale, zero), 1)
    scales, levels = (OPS["empty"]((size * len(x), *x.shape[1:]), dtype=x.dtype, device=x.device)
                      for x in (known, sent))
    all_gather_into_tensor(scales, known, group=process_group)
    work = all_gather_into_tensor(levels, sent, group=process_group, async_op=True)

    def averaged(_):
        scale, zero = scales.view(size, len(known), 2, 1).unbind(2)
        return ((levels.view(size, *sent.shape).to(rows.dtype) - zero) * scale).sum(0) / size

    return work.get_future().then(averaged)


def quantization_pertensor_hook(process_group, bucket) -> Future:
    """Averages gradients quantized to 8 bits, with one scale and one zero point for a bucket."""
    return quantized_average(process_group, bucket.buffer().view(1, -1)).then(lambda found: found.value().view(-1))


def quantization_perchannel_hook(process_group, bucket, bucket_size: int = 512) -> Future:
    """Averages gradients quantized to 8 bits, with a scale and a zero point for each ``bucket_size`` elements."""
    given = bucket.buffer()
    rows = OPS["cat"]((given, given.new_zeros(-given.numel() % bucket_size)), 0).view(-1, bucket_size)
    return quantized_average(process_group, rows).then(lambda found: found.value().view(-1)[:given.numel()])

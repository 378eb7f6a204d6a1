"""What ``PYTORCH_CUDA_ALLOC_CONF`` asks of the allocator, and why it does not do so."""

from __future__ import annotations

REASONS = {
    "expandable_segments": "segments do not grow: blocks have classes of size, so that any later one of its class fits "
                           "a free block, and what is wholly free goes back to the driver before memory runs out",
    "max_split_size_mb": "blocks are not split", "backend": "blocks come from the driver's own memory",
    "roundup_power2_divisions": "there are eight classes of blocks for each doubling of their size",
    "garbage_collection_threshold": "what is wholly free goes back to the driver before memory runs out",
    "pinned_use_cuda_host_register": "pinned memory is the driver's own",
    "release_lock_on_cudamalloc": "the allocator's lock is held while the driver is asked",
}
AS_IT_IS = "expandable_segments:False", "backend:native"


def chosen(text: str) -> list:
    """Why settings, ``name:value`` with commas between, are not followed.

    >>> chosen("expandable_segments:False")
    []
    """
    found = []
    for one in filter(None, text.replace(" ", "").split(",")):
        name = one.partition(":")[0]
        if one not in AS_IT_IS:
            found.append(f"{one}: {REASONS[name]}" if name in REASONS
                         else f"Unrecognized key '{name}' in CUDA allocator config.")
    return found

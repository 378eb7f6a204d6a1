"""Allocator settings of ``PYTORCH_CUDA_ALLOC_CONF`` (or ``PYTORCH_ALLOC_CONF``)."""

from __future__ import annotations

import re

from ...core.native.queues import CLASSES, class_of, size_of

MEGABYTE = 1 << 20
ENDLESS = 1 << 62
LEAST = 512  # bytes for each division below which sizes are not rounded
NEAR = 8  # a cached block serves a request of at least NEAR / (NEAR + 1) of its size
SPARE = 20 * MEGABYTE  # bytes by which a block of at least ``max_split_size`` may exceed the request
REFUSED = {  # unsupported settings, and why
    "backend": "blocks come from this allocator, whose segments are the driver's own",
    "pinned_use_cuda_host_register": "pinned memory is the driver's own",
    "pinned_num_register_threads": "pinned memory is the driver's own",
    "pinned_use_background_threads": "pinned memory is processed when more is requested",
    "pinned_reserve_segment_size_mb": "each block of pinned memory is the driver's own",
    "release_lock_on_cudamalloc": "the allocator's lock is held while the driver is asked",
    "max_non_split_rounding_mb": "a kept block is taken for one that is at most an eighth smaller",
    "large_segment_size_mb": "segments have 4 and 32 MB, those that grow grow by 4 and 16",
    "graph_capture_record_stream_reuse": "a block that other streams use goes back after a recording",
    "throw_on_cudamalloc_oom": "what is kept is always given back before memory is refused",
}


class Choices:
    """Allocator settings of all devices of the process.

    ``max_split_size``: bytes from which a cached block does not serve smaller requests; ``process_fraction``: of a
    device's memory, for devices initialized later; ``divisions``: (sizes in bytes below which they apply, divisions
    per power of two)."""

    def __init__(self):
        self.expandable_segments, self.max_split_size, self.garbage_collection_threshold = False, ENDLESS, 0.0
        self.process_fraction, self.divisions = 1.0, ()

    def follow(self, text: str, strict=False) -> list:
        """Apply settings, ``name:value`` separated by commas; others stay.  Return why some are unsupported;
        ``strict``: raise RuntimeError instead.  ValueError for invalid values.  An error leaves all settings unchanged.

        >>> choices.follow("backend:native, expandable_segments:False")
        []
        """
        known, refused = {}, []
        for name, _, value in (one.partition(":") for one in split(text)):
            if name in READERS:
                known |= READERS[name](value)
            elif (name, value) != ("backend", "native"):
                refused.append(f"{name}:{value}: {REFUSED[name]}" if name in REFUSED
                               else f"Unrecognized key '{name}' in CUDA allocator config.")
        if strict and refused:
            raise RuntimeError("; ".join(refused))
        for name, value in known.items():
            setattr(self, name, value)
        return refused

    def shown(self) -> dict:
        """Return the settings as a memory snapshot lists them."""
        split = self.max_split_size // MEGABYTE if self.max_split_size != ENDLESS else -1
        return {"expandable_segments": self.expandable_segments, "max_split_size": split,
                "garbage_collection_threshold": self.garbage_collection_threshold,
                "roundup_power2_divisions": {most: parts for most, parts in self.divisions}}

    def rounded(self, nbytes: int) -> int:
        """Return the bytes to allocate for a request of ``nbytes`` (``roundup_power2_divisions``)."""
        parts = next((parts for most, parts in self.divisions if nbytes < most), 0)
        if parts < 2 or nbytes <= LEAST * parts:
            return nbytes
        step = (1 << nbytes.bit_length() - 1) // parts
        return -(-nbytes // step) * step

    def largest_for(self, size: int) -> int:
        """Return the bytes of the largest cached block that serves a request of ``size`` bytes."""
        most = size + size // NEAR
        return min(most, self.max_split_size - 1) if size < self.max_split_size else min(most, size + SPARE)

    def classes(self) -> list:
        """By class of blocks: the class that is taken instead."""
        return [0, *(min(class_of(self.rounded(size_of(index))), CLASSES - 1) for index in range(1, CLASSES))]


def split(text: str) -> list:
    """The settings of a text: commas within brackets do not part them."""
    return [one for one in re.split(r",(?![^\[]*\])", re.sub(r"\s", "", text)) if one]


def named(text: str) -> list:
    """The names of the settings of a text."""
    return [one.partition(":")[0] for one in split(text)]


def truth(value: str) -> bool:
    if value not in ("True", "False"):
        raise ValueError(f"Expected 'True' or 'False' for expandable_segments but got '{value}'")
    return value == "True"


def split_size(value: str) -> dict:
    size = whole("max_split_size_mb", value)
    if size < 20:
        raise ValueError("CachingAllocator option max_split_size_mb too small, must be >= 20")
    return {"max_split_size": size * MEGABYTE}


def whole(name: str, value: str) -> int:
    if not value.isdecimal():
        raise ValueError(f"Expected an integer for {name} but got '{value}'")
    return int(value)


def part(name: str, text: str, value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if not 0 < found < 1 and not (name == "per_process_memory_fraction" and found == 1):
        raise ValueError(f"{text} is invalid, set it in (0.0, 1.0)")
    return found


def divided(value: str) -> dict:
    """One number of divisions for all sizes, or ``[256:1,512:2,>:4]`` by megabytes up to which they hold."""
    rows = []
    for one in value.strip("[]").split(","):
        size, _, parts = one.rpartition(":")
        parts = whole("roundup_power2_divisions", parts)
        if parts & parts - 1:
            raise ValueError("For roundups, the divisions has to be power of 2 ")
        if parts > 8:
            raise ValueError(f"roundup_power2_divisions:{parts}: blocks have eight sizes for each doubling")
        most = ENDLESS if size in ("", ">") else whole("roundup_power2_divisions", size) * MEGABYTE
        rows.append((most, parts))
    return {"divisions": tuple(rows)}


READERS = {
    "expandable_segments": lambda value: {"expandable_segments": truth(value)},
    "max_split_size_mb": split_size,
    "garbage_collection_threshold": lambda value: {
        "garbage_collection_threshold": part("garbage_collection_threshold", "garbage_collect_threshold", value)},
    "per_process_memory_fraction": lambda value: {
        "process_fraction": part("per_process_memory_fraction", "per_process_memory_fraction", value)},
    "roundup_power2_divisions": divided,
}
choices = Choices()

"""Reports of a GPU's memory use, as text and as tables."""

from __future__ import annotations

import collections
import gc
import os

from ...core.native import Tensor
from ...core.native import queues as native
from .choices import ENDLESS, choices
from .history import frames

MOST = 5  # tensors that an error names
SMALL = 1 << 22  # bytes of the largest segment that holds small blocks
PACKAGE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "..")) + os.sep


def within(memory, address: int) -> bool:
    return any(one.address <= address < one.address + one.size for one in memory.segments.values())


def holders(memory) -> str:
    """The largest tensors, by what Python knows; with a history, the lines of the program that made them."""
    held = {}
    for one in gc.get_objects():
        # its class may be said to be another by what only warns, or does more
        if issubclass(type(one), Tensor) and one._rush_storage is not None and within(memory,
                                                                                      one._rush_storage.address):
            held.setdefault(one._rush_storage.address, (one._rush_storage.nbytes, tuple(one.shape), one.dtype))
    rows = sorted((row + (address,) for address, row in held.items()), key=lambda row: -row[0])
    named = ", ".join(f"{nbytes} bytes of shape {list(shape)} ({dtype}){made_at(memory, address)}"
                      for nbytes, shape, dtype, address in rows[:MOST])
    return f"The largest of {len(rows)} tensors that Python knows: {named}." if rows else ""


def made_at(memory, address: int) -> str:
    """The line of the program that has asked for a block, where that is known."""
    stack = memory.history.live.get(address, ((), 0))[0] if memory.history is not None else ()
    own = next((one for one in frames(stack) if not one["filename"].startswith(PACKAGE)), None)
    return f", made at {own['filename']}:{own['line']}" if own else ""


def block_row(history, address: int, size: int, state: str) -> dict:
    """A block as the viewer of memory reads it."""
    stack, requested = (), None
    if history is not None and state != "inactive":
        stack, requested = history.live.get(address, ((), None))
    return {"address": address, "size": size, "requested_size": size if requested is None else requested,
            "state": state, "frames": frames(stack)}


def blocks_within(history, address: int, size: int, known: list) -> list:
    """Return the blocks of a range: the ``known`` ones, (address, bytes, state) in order, and the gaps between them."""
    found, at = [], address
    for start, nbytes, state in known:
        if at < start:
            found.append(block_row(history, at, start - at, "inactive"))
        found.append(block_row(history, start, nbytes, state))
        at = start + nbytes
    if at < address + size:
        found.append(block_row(history, at, address + size - at, "inactive"))
    return found


def snapshot(memory, device: int, pools: dict) -> list:
    """Return segments with their blocks as ``torch.cuda.memory_snapshot`` does; ``pools``: names by queue.  Each mapped
    part of an expandable range is listed as a segment."""
    free = {address for queue in memory.queues() for address, _ in memory.free_blocks(queue)}
    lent = {one.address for one in (*memory.lent, *memory.fallen)}
    known = sorted((address, size, one.queue) for one in memory.segments.values()
                   for address, size in one.blocks.items())
    spans = [(one.address, one.size, one.queue, one.size <= SMALL, False) for one in memory.segments.values()
             if one.source is not memory.ranges]
    if memory.ranges is not None:
        spans += [(*run, queue, small, True) for (queue, small), held in memory.ranges.held.items()
                  for one in held for run in one.runs()]
    found = []
    for start, size, queue, small, grows in sorted(spans, key=lambda span: span[0]):
        inside = [(address, nbytes, "inactive" if address in free else
                   "active_pending_free" if address in lent else "active_allocated")
                  for address, nbytes, of in known if start <= address < start + size]
        blocks = blocks_within(memory.history, start, size, inside)
        used, active = (sum(b["size"] for b in blocks if b["state"] in states)
                        for states in (("active_allocated",), ("active_allocated", "active_pending_free")))
        stack = memory.history.segments.get(start, ()) if memory.history is not None else ()
        found.append({"device": device, "address": start, "total_size": size, "allocated_size": used,
                      "active_size": active,
                      "requested_size": sum(b["requested_size"] for b in blocks if b["state"] == "active_allocated"),
                      "stream": queue.stream, "segment_type": "small" if small else "large",
                      "segment_pool_id": pools.get(queue, (0, 0)), "is_expandable": grows, "frames": frames(stack),
                      "blocks": blocks})
    return found


def by_pool(memory) -> dict:
    """Return the current memory use: all counters of "small_pool" (segments that hold small blocks) and "large_pool",
    and for "all" the free bytes in segments that are in use ("inactive_split")."""
    free = {address for queue in memory.queues() for address, _ in memory.free_blocks(queue)}
    found = {kind: collections.Counter() for kind in ("all", "small_pool", "large_pool")}
    for one in memory.segments.values():
        kind = "small_pool" if one.size <= SMALL else "large_pool"
        used = [size for address, size in one.blocks.items() if address not in free]
        whole = 0 if one.source is memory.ranges else one.size
        found[kind].update({"segment": bool(whole), "reserved_bytes": whole, "allocation": len(used),
                            "active": len(used), "allocated_bytes": sum(used), "active_bytes": sum(used)})
        if used:
            holes = {"inactive_split": len(one.blocks) - len(used) + (one.used < one.size),
                     "inactive_split_bytes": one.size - sum(used)}
            found[kind].update(holes)
            found["all"].update(holes)
    for (_, small), held in (memory.ranges.held if memory.ranges is not None else {}).items():
        nbytes = sum(size for one in held for _, size in one.runs())
        found["small_pool" if small else "large_pool"].update({"segment": len(held), "reserved_bytes": nbytes})
    holes = ("inactive_split", "inactive_split_bytes")
    names = ("segment", "reserved_bytes", "allocation", "active", "allocated_bytes", "active_bytes", *holes)
    return {kind: {name: row[name] for name in (holes if kind == "all" else names)} for kind, row in found.items()}


def statistics(memory) -> dict:
    """Return the available counters of ``torch.cuda.memory_stats``."""
    count = memory.count
    live = count(native.TAKEN) - count(native.GIVEN)
    rows = {"allocation": (live, count(native.MOST_BLOCKS), count(native.TAKEN), count(native.GIVEN)),
            "allocated_bytes": (count(native.ALLOCATED), count(native.MOST_ALLOCATED), count(native.BYTES_TAKEN),
                                count(native.BYTES_GIVEN)),
            "segment": (count(native.SEGMENTS), memory.most_segments, count(native.SEGMENTS_MADE),
                        count(native.SEGMENTS_MADE) - count(native.SEGMENTS)),
            "reserved_bytes": (count(native.RESERVED), count(native.MOST_RESERVED), count(native.BYTES_RESERVED),
                               count(native.BYTES_RESERVED) - count(native.RESERVED))}
    rows["active"], rows["active_bytes"] = rows["allocation"], rows["allocated_bytes"]
    pools = by_pool(memory)
    found = {f"{name}.{kind}.current": value for kind, row in pools.items() for name, value in row.items()}
    found |= {f"{name}.all.{word}": value for name, row in rows.items()
             for word, value in zip(("current", "peak", "allocated", "freed"), row)}
    return dict(sorted(found.items())) | {"num_alloc_retries": memory.retries, "num_ooms": memory.refused,
                                          "num_sync_all_streams": memory.retries,
                                          "max_split_size": -1 if choices.max_split_size == ENDLESS else
                                          choices.max_split_size,
                                          "num_device_alloc": count(native.SEGMENTS_MADE),
                                          "num_device_free": count(native.SEGMENTS_MADE) - count(native.SEGMENTS)}


def summary(found: dict, device: int, abbreviated=False) -> str:
    """Return the counters as a table, with a row for each pool unless ``abbreviated``."""
    lines = [f"memory of GPU {device}: {found['num_ooms']} errors, {found['num_alloc_retries']} retries", "",
             f"{'':<20}{'current':>16}{'peak':>16}{'allocated':>20}{'freed':>20}"]
    for name in ("allocated_bytes", "reserved_bytes", "allocation", "segment"):
        row = [found[f"{name}.all.{word}"] for word in ("current", "peak", "allocated", "freed")]
        lines.append(f"{name:<20}{row[0]:>16}{row[1]:>16}{row[2]:>20}{row[3]:>20}")
        if not abbreviated:
            lines += [f"{'  ' + pool:<20}{found[f'{name}.{pool}.current']:>16}"
                      for pool in ("large_pool", "small_pool")]
    return "\n".join(lines)

"""What holds a GPU's memory, as text and as tables."""

from __future__ import annotations

import gc

from ...core.native import Tensor
from ...core.native import queues as native

MOST = 5  # tensors that an error names


def within(memory, address: int) -> bool:
    return any(one.address <= address < one.address + one.size for one in memory.segments.values())


def holders(memory) -> str:
    """The largest tensors, by what Python knows."""
    held = {}
    for one in gc.get_objects():
        if isinstance(one, Tensor) and one._storage is not None and not one.device.provider.on_host:
            held.setdefault(one._storage.address, (one._storage.nbytes, tuple(one.shape), one.dtype))
    rows = sorted((row for address, row in held.items() if within(memory, address)), key=lambda row: -row[0])
    named = ", ".join(f"{nbytes} bytes of shape {list(shape)} ({dtype})" for nbytes, shape, dtype in rows[:MOST])
    return f"The largest of {len(rows)} tensors that Python knows: {named}." if rows else ""


def snapshot(memory, device: int, streams: dict) -> list:
    """Segments with their blocks, as ``torch.cuda.memory_snapshot`` gives them; ``streams``: by queue."""
    free = {address for queue in memory.queues() for address, _ in memory.free_blocks(queue)}
    lent = {one.address for one in memory.lent}
    found = []
    for one in sorted(memory.segments.values(), key=lambda one: one.address):
        blocks, at = [], one.address
        for address, size in sorted(one.blocks.items()):
            state = "inactive" if address in free else "active_pending_free" if address in lent else "active_allocated"
            blocks.append({"address": address, "size": size, "requested_size": size, "state": state, "frames": []})
            at = address + size
        if at < one.address + one.size:
            blocks.append({"address": at, "size": one.address + one.size - at, "requested_size": 0,
                           "state": "inactive", "frames": []})
        used = sum(b["size"] for b in blocks if b["state"] == "active_allocated")
        found.append({"device": device, "address": one.address, "total_size": one.size, "allocated_size": used,
                      "active_size": used, "requested_size": used, "stream": one.queue.stream,
                      "segment_type": "small" if one.size <= 1 << 22 else "large",
                      "segment_pool_id": streams.get(one.queue, (0, 0)), "is_expandable": False, "frames": [],
                      "blocks": blocks})
    return found


def statistics(memory) -> dict:
    """The figures of ``torch.cuda.memory_stats`` that there are here."""
    count = memory.count
    live = count(native.TAKEN) - count(native.GIVEN)
    rows = {"allocation": (live, count(native.MOST_BLOCKS), count(native.TAKEN), count(native.GIVEN)),
            "allocated_bytes": (count(native.ALLOCATED), count(native.MOST_ALLOCATED), count(native.BYTES_TAKEN),
                                count(native.BYTES_GIVEN)),
            "segment": (count(native.SEGMENTS), count(native.SEGMENTS_MADE), count(native.SEGMENTS_MADE),
                        count(native.SEGMENTS_MADE) - count(native.SEGMENTS)),
            "reserved_bytes": (count(native.RESERVED), count(native.MOST_RESERVED), count(native.BYTES_RESERVED),
                               count(native.BYTES_RESERVED) - count(native.RESERVED))}
    rows["active"], rows["active_bytes"] = rows["allocation"], rows["allocated_bytes"]
    found = {f"{name}.all.{word}": value for name, row in rows.items()
             for word, value in zip(("current", "peak", "allocated", "freed"), row)}
    return dict(sorted(found.items())) | {"num_alloc_retries": memory.retries, "num_ooms": memory.refused,
                                          "num_device_alloc": count(native.SEGMENTS_MADE),
                                          "num_device_free": count(native.SEGMENTS_MADE) - count(native.SEGMENTS)}


def summary(found: dict, device: int) -> str:
    """The figures as a table."""
    lines = [f"memory of GPU {device}: {found['num_ooms']} errors, {found['num_alloc_retries']} retries", "",
             f"{'':<20}{'current':>16}{'peak':>16}{'allocated':>20}{'freed':>20}"]
    for name in ("allocated_bytes", "reserved_bytes", "allocation", "segment"):
        row = [found[f"{name}.all.{word}"] for word in ("current", "peak", "allocated", "freed")]
        lines.append(f"{name:<20}{row[0]:>16}{row[1]:>16}{row[2]:>20}{row[3]:>20}")
    return "\n".join(lines)

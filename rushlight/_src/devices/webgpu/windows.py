"""Launches over buffers that are larger than a shader can bind: one interval of units after another, if each unit reads
and writes only at its own index."""

from __future__ import annotations

import numpy as np

from ...compiler.kernel import Kernel, walk
from ...compiler.launch import CONSTANT
from ...core.expr import Expr
from ..shared.memory import GRAIN


def moving(kernel: Kernel, shape: str) -> tuple:
    """For each buffer whether unit u of a kernel uses its element u; else it uses the first one only.  Empty where it
    may use others, or where units count otherwise."""
    axes = [*kernel.outer] + [axis for axis in (kernel.lane,) if axis is not None]
    stage = kernel.stages[0]
    if shape != "thread" or len(kernel.stages) != 1 or stage.loops or stage.reductions or len(
            axes) != 1 or kernel.atomic:
        return ()
    axis, places = axes[0], {}
    uses = [(load.arg, load.args) for e in stage.exprs() for load in walk(e, "load")]
    for buffer, at in [*uses, *((store.buffer, (store.at,)) for store in stage.stores)]:
        places.setdefault(buffer, set()).add("own" if at[0] is axis else "first" if is_first(at[0]) else "other")
        if len(at) > 1:
            return ()
    if any(found not in ({"own"}, {"first"}) for found in places.values()) or any(
            counts(store.value, axis) for store in stage.stores):
        return ()
    return tuple(places[buffer] == {"own"} for buffer in kernel.buffers())


def is_first(at) -> bool:
    """Whether a position is 0."""
    number = at.arg if isinstance(at, Expr) and at.op == "const" else at
    return isinstance(number, int) and number == 0


def counts(e, axis) -> bool:
    """Whether a value depends on the number of its unit otherwise than by what is read there."""
    if not isinstance(e, Expr) or axis not in e.free:
        return False
    return e is axis or e.op != "load" and any(counts(part, axis) for part in e.args)


def submit(board, program, launch, module, at: int, length: int, values):
    """Gives the queue a launch in parts.  RuntimeError where its kernel needs buffers as a whole."""
    from .board import INSIDE, dispatch
    addresses = [number if value == CONSTANT else values[value] + number
                 for (value, number), _ in zip(launch.slots, module.itemsizes)]
    if not module.moves:
        size = max(board.at(address)[0].size for address in addresses)
        raise RuntimeError(f"a kernel of WebGPU needs a whole buffer of {size} bytes, but this device binds at most "
                           f"{board.window}: compute with parts of the tensor that are tensors of their own")
    most = (board.window - GRAIN) // max(module.itemsizes) & -GRAIN
    words = program.host[at // 4:at // 4 + length].copy()
    for unit in range(0, launch.extent, most):
        words[0], entries = min(most, launch.extent - unit), []
        for k, (address, itemsize, moves) in enumerate(zip(addresses, module.itemsizes, module.moves)):
            begin = (address & INSIDE) + (unit * itemsize if moves else 0)
            first, buffer = begin & -GRAIN, board.at(address)[0]
            words[1 + k] = (begin - first) // itemsize
            reach = begin - first + itemsize * (int(words[0]) if moves else 1)
            entries.append((buffer, first, min(reach + 3 & -4, buffer.size - first)))
        held = board.device.create_buffer_with_data(data=words, usage=board.usage.STORAGE)
        entries = [(held, 0, held.size), *entries, *[(board.flag, 0, board.flag.size)] * module.flag]
        group = board.device.create_bind_group(layout=board.layout(module.bindings)[0], entries=[
            {"binding": k, "resource": {"buffer": buffer, "offset": first, "size": size}}
            for k, (buffer, first, size) in enumerate(entries)])
        encoder = board.device.create_command_encoder()
        steps = encoder.begin_compute_pass()
        dispatch(board, steps, launch.kernel, group, module.groups(int(words[0])))
        steps.end()
        board.queue.submit([encoder.finish()])

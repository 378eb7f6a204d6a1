"""One device of wgpu: its memory, its pipelines, and programs as one submission each."""

from __future__ import annotations

import ctypes
import os
import threading

import numpy as np

from ...compiler.launch import CONSTANT, decode
from ...core.errors import OutOfMemoryError
from ...core.forking import guarded
from .step import Modules

PLACES = 40  # bits of an address that count bytes within a buffer
GRAIN = 256  # bytes of memory are given in steps of these, and bindings begin at multiples
ACROSS = 65535  # workgroups of one dimension


class Board:
    """A device.  An address is the number of a buffer, shifted, and the bytes within it."""

    def __init__(self, adapter):
        import wgpu

        names = {"shader-int64": "i64", "shader-f64": "f64"}
        wanted = [name for name in names if name in adapter.features]
        self.features = frozenset(names[name] for name in wanted)
        limits = (
            "max-storage-buffers-per-shader-stage",
            "max-storage-buffer-binding-size",
            "max-buffer-size",
            "max-compute-workgroup-storage-size",
        )
        self.limits = {name: adapter.limits[name] for name in limits}
        self.name = adapter.info["device"]
        self.device = adapter.request_device_sync(required_features=wanted, required_limits=self.limits)
        self.queue, self.usage = self.device.queue, wgpu.BufferUsage
        self.lock, self.buffers, self.free, self.next = guarded("devices", threading.RLock()), {}, {}, 1
        self.pipelines, self.groups, self.programs = {}, {}, {}
        self.allocated = self.most = self.reserved = 0
        self.flag = self.buffer(16)
        if self.fuses():
            self.features |= {"fma"}

    def fuses(self) -> bool:
        """Whether the device's multiply-add rounds once.

        It is asked: (1 + 2^-12)^2 - 1 - 2^-11 is 2^-24 then, else 0.
        """
        module = self.device.create_shader_module(
            code="""@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(1) fn main() { x[1] = fma(x[0], x[0], -x[2]); }"""
        )
        pipeline = self.device.create_compute_pipeline(
            layout="auto", compute={"module": module, "entry_point": "main"}
        )
        self.queue.write_buffer(self.flag, 0, np.array([1 + 2.0**-12, 0, 1 + 2.0**-11, 0], np.float32))
        group = self.device.create_bind_group(
            layout=pipeline.get_bind_group_layout(0),
            entries=[{"binding": 0, "resource": {"buffer": self.flag, "offset": 0, "size": 16}}],
        )
        encoder = self.device.create_command_encoder()
        steps = encoder.begin_compute_pass()
        steps.set_pipeline(pipeline)
        steps.set_bind_group(0, group)
        steps.dispatch_workgroups(1)
        steps.end()
        self.queue.submit([encoder.finish()])
        return bool(np.frombuffer(self.queue.read_buffer(self.flag), np.float32)[1] == 2.0**-24)

    # --- memory --------------------------------------------------
    def buffer(self, nbytes: int):
        return self.device.create_buffer(
            size=nbytes, usage=self.usage.STORAGE | self.usage.COPY_SRC | self.usage.COPY_DST
        )

    def take(self, nbytes: int) -> int:
        """The address of a block."""
        size = max(nbytes + GRAIN - 1 & -GRAIN, GRAIN)
        with self.lock:
            self.allocated += size
            self.most = max(self.most, self.allocated)
            kept = self.free.get(size)
            if kept:
                return kept.pop()
            if size > self.limits["max-buffer-size"]:
                self.allocated -= size
                raise OutOfMemoryError(
                    f"a WebGPU buffer has at most {self.limits['max-buffer-size']} bytes, not {nbytes}",
                    "smaller tensors",
                    "split what is computed",
                )
            number, self.next = self.next, self.next + 1
            self.buffers[number] = self.buffer(size)
            self.reserved += size
            return number << PLACES

    def give(self, address: int, nbytes: int):
        """Takes a block back; the queue keeps work in order, so that it may be taken again at once."""
        size = max(nbytes + GRAIN - 1 & -GRAIN, GRAIN)
        with self.lock:
            self.allocated -= size
            self.free.setdefault(size, []).append(address)

    def trim(self):
        """Gives blocks that nobody has back to the system."""
        with self.lock:
            for size, kept in self.free.items():
                for address in kept:
                    self.buffers.pop(address >> PLACES).destroy()
                    self.reserved -= size
            self.free.clear()
            self.groups.clear()

    def at(self, address: int) -> tuple:
        """(the buffer, the bytes within it) of an address."""
        return self.buffers[address >> PLACES], address & (1 << PLACES) - 1

    def upload(self, target: int, source: int, nbytes: int):
        if not nbytes:
            return
        buffer, offset = self.at(target)
        first, last = offset & -4, offset + nbytes + 3 & -4
        if (first, last) == (offset, offset + nbytes):
            self.queue.write_buffer(buffer, offset, (ctypes.c_char * nbytes).from_address(source))
            return
        with self.lock:  # copies go by whole words: what lies beside stays as it is
            held = np.frombuffer(self.queue.read_buffer(buffer, first, last - first), np.uint8).copy()
            ctypes.memmove(held.ctypes.data + offset - first, source, nbytes)
            self.queue.write_buffer(buffer, first, held)

    def download(self, target: int, source: int, nbytes: int):
        if not nbytes:
            return
        buffer, offset = self.at(source)
        first, last = offset & -4, offset + nbytes + 3 & -4
        held = np.frombuffer(self.queue.read_buffer(buffer, first, last - first), np.uint8)
        ctypes.memmove(target, held.ctypes.data + offset - first, nbytes)

    def copy(self, target: int, source: int, nbytes: int) -> bool:
        """Copies within the device; False where WebGPU does not: within one buffer, or parts of words."""
        (to, at), (of, start) = self.at(target), self.at(source)
        if to is of or (at | start | nbytes) & 3:
            return False
        encoder = self.device.create_command_encoder()
        encoder.copy_buffer_to_buffer(of, start, to, at, nbytes)
        self.queue.submit([encoder.finish()])
        return True

    # --- programs --------------------------------------------------
    def pipeline(self, number: int):
        found = self.pipelines.get(number)
        if found is None:
            module = Modules.made[number]
            shader = self.device.create_shader_module(label=module.name, code=module.text)
            found = self.pipelines[number] = self.device.create_compute_pipeline(
                layout="auto", compute={"module": shader, "entry_point": "main"}
            )
        return found

    def run(self, code: int, values: int):
        """Runs a program in one submission; what its flag says is there when this returns."""
        with self.lock:
            program = self.program(code)
            given = (
                np.ctypeslib.as_array((ctypes.c_int64 * program.count).from_address(values)).tolist()
                if program.count
                else []
            )
            flag = program.run(self, given)
            if flag:
                ctypes.c_int64.from_address(given[program.flag]).value = flag

    def program(self, code: int) -> "Program":
        """The program at an address, taken apart once."""
        found = self.programs.get(code)
        if found is not None and ctypes.string_at(code, len(found.words)) == found.words:
            return found
        if len(self.programs) >= 4096:
            self.programs.clear()
        found = self.programs[code] = Program(self, code)
        return found


class Program:
    """A program taken apart: its launches, and memory for their words."""

    def __init__(self, board: Board, code: int):
        head = (ctypes.c_int64 * 1).from_address(code)[0]
        at = 1
        for _ in range(head):
            at += 4 + 2 * (ctypes.c_int64 * 1).from_address(code + 8 * (at + 3))[0]
        words = (ctypes.c_int64 * at).from_address(code)
        self.words, self.launches = bytes(words), []
        self.flag, self.count, size = None, 0, 0
        for launch in decode(list(words)):
            module = Modules.made[launch.kernel]
            if launch.extent <= 0:
                continue
            if module.flag:
                self.flag = launch.slots[-1][0]
            self.count = max(self.count, 1 + max((value for value, _ in launch.slots), default=-1))
            length = 1 + len(launch.slots) + len(module.floats) - module.flag  # scalars are two words
            self.launches.append((launch, module, size, length))
            size += 4 * length + GRAIN - 1 & -GRAIN
        self.host = np.zeros(max(size, 4) // 4, np.uint32)
        self.sent = None
        self.memory = board.buffer(max(size, GRAIN))

    def run(self, board: Board, values) -> int:
        """Encodes and submits all launches; returns what the error flag says."""
        encoder = board.device.create_command_encoder()
        steps = encoder.begin_compute_pass()
        for launch, module, at, length in self.launches:
            bound = self.fill(board, launch, module, at // 4, values)
            steps.set_pipeline(board.pipeline(launch.kernel))
            steps.set_bind_group(0, self.group(board, launch.kernel, at, length, bound, module))
            groups = (
                launch.extent
                if module.threads == 1
                else 1
                if not module.threads
                else -(-launch.extent // module.threads)
            )
            steps.dispatch_workgroups(min(groups, ACROSS), -(-groups // ACROSS))
        steps.end()
        now = self.host.tobytes()
        if now != self.sent:
            board.queue.write_buffer(self.memory, 0, self.host)
            self.sent = now
        if self.flag is not None:
            board.queue.write_buffer(board.flag, 0, bytes(16))
        board.queue.submit([encoder.finish()])
        return 0 if self.flag is None else int(np.frombuffer(board.queue.read_buffer(board.flag, 0, 4), np.uint32)[0])

    def fill(self, board, launch, module, at, values) -> list:
        """Writes the words of a launch; returns (number of the buffer, first byte, bytes) of what it binds."""
        host, bound, most = self.host, [], board.limits["max-storage-buffer-binding-size"]
        host[at] = launch.extent
        at += 1
        buffers, scalars = len(module.itemsizes), len(module.floats)
        for (value, number), itemsize in zip(launch.slots, module.itemsizes):
            address = number if value == CONSTANT else values[value] + number
            buffer, offset = board.at(address)
            first = 0 if buffer.size <= most else offset & -GRAIN
            bound.append((address >> PLACES, first, min(buffer.size - first, most)))
            host[at] = (offset - first) // itemsize
            at += 1
        for (value, number), is_float in zip(launch.slots[buffers : buffers + scalars], module.floats):
            bits = number if value == CONSTANT else values[value] + number
            if is_float and not module.wide:
                bits = int(np.float32(np.int64(bits).view(np.float64)).view(np.uint32))
            host[at], host[at + 1] = bits & 0xFFFFFFFF, bits >> 32 & 0xFFFFFFFF
            at += 2
        for value, number in launch.slots[buffers + scalars : len(launch.slots) - module.flag]:
            number = number if value == CONSTANT else values[value] + number
            if not -1 << 31 <= number < 1 << 31:
                raise OverflowError(f"a kernel of WebGPU counts in 32 bits: {number} is too much")
            host[at] = number & 0xFFFFFFFF
            at += 1
        return bound

    def group(self, board, kernel, at, length, bound, module):
        """The bind group of a launch, made once for the same buffers."""
        key = id(self), kernel, at, tuple(bound)
        found = board.groups.get(key)
        if found is None:
            if len(board.groups) > 1 << 14:
                board.groups.clear()
            entries = [{"binding": 0, "resource": {"buffer": self.memory, "offset": at, "size": 4 * length}}]
            entries += [
                {"binding": k + 1, "resource": {"buffer": board.buffers[number], "offset": first, "size": size}}
                for k, (number, first, size) in enumerate(bound)
            ]
            if module.flag:
                entries.append(
                    {"binding": len(bound) + 1, "resource": {"buffer": board.flag, "offset": 0, "size": 16}}
                )
            found = board.device.create_bind_group(
                layout=board.pipeline(kernel).get_bind_group_layout(0), entries=entries
            )
            board.groups[key] = found, self
            return found
        return found[0]


def adapters() -> list:
    """The adapters of this machine, by Vulkan, Metal or Direct3D; RuntimeError without wgpu."""
    try:
        import wgpu
    except ImportError:
        raise RuntimeError("device type 'webgpu' needs the package wgpu: pip install rushlight[webgpu]") from None
    os.environ.setdefault("XDG_RUNTIME_DIR", "/tmp")
    return [a for a in wgpu.gpu.enumerate_adapters_sync() if a.info["backend_type"] != "OpenGL"]

"""One device of wgpu: its memory, its pipelines, and programs as one submission each."""

from __future__ import annotations

import array
import ctypes
import functools
import os

import numpy as np

from ...compiler.launch import CONSTANT, decode
from ...core.errors import AcceleratorError, OutOfMemoryError
from ..shared.host import HostStep
from ..shared.code import taken_apart
from ..shared.memory import GRAIN, Blocks
from . import windows
from .probes import PROBES
from .step import modules

PLACES = 40  # bits of an address that count bytes within a buffer
INSIDE = (1 << PLACES) - 1
ACROSS = 65535  # workgroups of one dimension
MOST = (1 << 31) - 1  # bytes of a block: kernels count its elements in 32 bits
COMPUTE = 4  # the bit of the stage that computes
LOST = "device is lost"  # in what wgpu says then
BOUND, BUFFER = "max-storage-buffer-binding-size", "max-buffer-size"
BINDINGS = "max-storage-buffers-per-shader-stage"
SHARED = "max-compute-workgroup-storage-size"
# what adapters may have, by WebGPU's names, and the words that kernels know it by
FEATURES = {"shader-int64": "i64", "shader-f64": "f64", "shader-f16": "f16", "subgroup": "subgroups",
            "subgroups": "subgroups"}


def living(method):
    """Decorator for methods of a device.  AcceleratorError once the device is lost."""
    @functools.wraps(method)
    def asked(self, *given, **more):
        if self.lost:
            raise AcceleratorError(self.lost)
        try:
            return method(self, *given, **more)
        except self.refusal as reason:
            if LOST not in str(reason).lower():
                raise
            self.lost = (f"the device of WebGPU '{self.name}' is lost, and with it all tensors on it: "
                         "rushlight.devices.recover(device) makes it anew")
            raise AcceleratorError(self.lost) from reason
    return asked


class Board(Blocks):
    """A device.  An address is the number of a buffer, shifted, and the bytes within it.

    ``limits``: lower ones than the adapter's, by WebGPU's names; ``first``: the number of its first buffer."""

    def __init__(self, adapter, limits=None, first=1):
        import wgpu

        self.lost, self.refusal = "", wgpu.GPUError  # the reason why the device is lost

        wanted = [name for name in FEATURES if name in adapter.features]
        self.features = frozenset(FEATURES[name] for name in wanted) | {"fma", "loops"}
        self.limits = {name: adapter.limits[name] for name in (BINDINGS, BOUND, BUFFER, SHARED)} | (limits or {})
        self.window = self.limits[BOUND] & -GRAIN  # bytes of a buffer that a launch binds at once
        self.largest = min(self.limits[BUFFER], MOST) & -GRAIN
        self.name = adapter.info["device"]
        self.device = adapter.request_device_sync(required_features=wanted, required_limits=self.limits)
        self.queue, self.usage = self.device.queue, wgpu.BufferUsage
        super().__init__()
        self.buffers, self.next, self.pipelines, self.groups, self.programs, self.layouts = {}, first, {}, {}, {}, {}
        self.wide: set = set()  # the numbers of buffers that are larger than a window
        self.flag = self.buffer(16)
        self.features -= {name for name, holds in PROBES.items() if name in self.features and not holds(self)}

    # --- memory --------------------------------------------------
    @living
    def buffer(self, nbytes: int):
        return self.device.create_buffer(
            size=nbytes, usage=self.usage.STORAGE | self.usage.COPY_SRC | self.usage.COPY_DST
        )

    def take(self, nbytes: int) -> int:
        """The address of a block.  OutOfMemoryError for more than a buffer may have, or than there is."""
        if self.rounded(nbytes) > self.largest:
            raise OutOfMemoryError(
                f"a block of WebGPU has at most {self.largest} bytes on this device, not {nbytes}",
                "smaller tensors",
                "split what is computed",
            )
        return super().take(nbytes)

    def give(self, address: int, nbytes: int):
        if address >> PLACES in self.buffers:  # else it was a lost device's
            super().give(address, nbytes)

    def enter(self, size: int) -> int:
        """The address of a buffer of its own."""
        try:
            made = self.buffer(size)
        except self.refusal:  # there may be enough among the blocks that are kept
            self.trim()
            try:
                made = self.buffer(size)
            except self.refusal as reason:
                raise OutOfMemoryError(
                    f"WebGPU has no {size} bytes left: {reason}",
                    "at most what the device has left",
                    "delete tensors that are no longer needed",
                ) from None
        number, self.next = self.next, self.next + 1
        self.buffers[number] = made
        if size > self.window:
            self.wide.add(number)
        return number << PLACES

    def leave(self, address: int):
        self.wide.discard(address >> PLACES)
        self.buffers.pop(address >> PLACES).destroy()

    def trim(self):
        super().trim()
        self.groups.clear()

    @living
    def wait(self):
        """Wait until the queue has done all submitted work."""
        self.queue.read_buffer(self.flag, 0, 4)  # what is read then comes after all of it

    def at(self, address: int) -> tuple:
        """(the buffer, the bytes within it) of an address.  AcceleratorError for memory of a device that was lost."""
        found = self.buffers.get(address >> PLACES)
        if found is None:
            raise AcceleratorError("a tensor's memory was on a device of WebGPU that has been lost since")
        return found, address & INSIDE

    @living
    def upload(self, target: int, source: int, nbytes: int, non_blocking=False):
        """Copies to the device; the queue has its own copy when this returns, whatever ``non_blocking``."""
        if not nbytes:
            return
        buffer, offset = self.at(target)
        first, last = offset & -4, offset + nbytes + 3 & -4
        if (first, last) == (offset, offset + nbytes):
            self.queue.write_buffer(buffer, offset, (ctypes.c_char * nbytes).from_address(source))
            return
        with self.lock:  # copies have a granularity of 4 bytes: keep the adjacent ones
            held = np.frombuffer(self.queue.read_buffer(buffer, first, last - first), np.uint8).copy()
            ctypes.memmove(held.ctypes.data + offset - first, source, nbytes)
            self.queue.write_buffer(buffer, first, held)

    @living
    def download(self, target: int, source: int, nbytes: int, non_blocking=False):
        """Copies from the device; they are there when this returns, whatever ``non_blocking``."""
        if not nbytes:
            return
        buffer, offset = self.at(source)
        first, last = offset & -4, offset + nbytes + 3 & -4
        held = np.frombuffer(self.queue.read_buffer(buffer, first, last - first), np.uint8)
        ctypes.memmove(target, held.ctypes.data + offset - first, nbytes)

    @living
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
            module = modules.made[number]
            shader = self.device.create_shader_module(label=module.name, code=module.text)
            found = self.pipelines[number] = self.device.create_compute_pipeline(
                layout=self.layout(module.bindings)[1], compute={"module": shader, "entry_point": "main"}
            )
        return found

    def layout(self, count: int) -> tuple:
        """Return the layouts (of a bind group, of a pipeline) for the arguments of a launch and ``count`` buffers,
        whether a shader reads them or not."""
        found = self.layouts.get(count)
        if found is None:
            kinds = "read-only-storage", *("storage",) * count
            bound = self.device.create_bind_group_layout(entries=[
                {"binding": k, "visibility": COMPUTE, "buffer": {"type": kind}} for k, kind in enumerate(kinds)])
            found = self.layouts[count] = bound, self.device.create_pipeline_layout(bind_group_layouts=[bound])
        return found

    @living
    def run(self, code: int, values: int):
        """Runs a program in one submission; what its flag says is there when this returns."""
        with self.lock:
            program = self.program(code)
            given = (
                np.ctypeslib.as_array((ctypes.c_int64 * program.count).from_address(values)).tolist()
                if program.count
                else []
            )
            program.run(self, given)

    def program(self, code: int) -> "DecodedProgram":
        return taken_apart(self.programs, code, lambda words: DecodedProgram(self, words))


class DecodedProgram:
    """A decoded program: its launches, with memory for their arguments, and the host steps between them."""

    def __init__(self, board: Board, words: bytes):
        self.words = words
        self.parts, self.flag, self.count, size = [], None, 0, 0
        for launch in decode(array.array("q", self.words)):
            self.count = max(self.count, 1 + max((value for value, _ in launch.slots), default=-1))
            if launch.kernel < 0:
                self.parts.append((HostStep.known[launch.kernel], launch))
                continue
            module = modules.made[launch.kernel]
            if launch.extent <= 0:
                continue
            if module.flag:
                self.flag = launch.slots[-1][0]
            length = 1 + len(launch.slots) + len(module.floats) - module.flag  # scalars are two words
            if not self.parts or type(self.parts[-1]) is not list:
                self.parts.append([])
            self.parts[-1].append((launch, module, size, length))
            size += 4 * length + GRAIN - 1 & -GRAIN
        self.host = np.zeros(max(size, 4) // 4, np.uint32)
        self.sent = None
        self.memory = board.buffer(max(size, GRAIN))

    def run(self, board: Board, values):
        """Submits the launches, those between two steps of the host at once; what its flag says is there when this
        returns."""
        for part in self.parts:
            if type(part) is list:
                for launch, module, at, _ in part:
                    self.fill(board, launch, module, at // 4, values)
        now = self.host.tobytes()
        if now != self.sent:
            board.queue.write_buffer(self.memory, 0, self.host)
            self.sent = now
        if self.flag is not None:
            board.queue.write_buffer(board.flag, 0, bytes(16))
        for part in self.parts:
            if type(part) is list:
                self.submit(board, part, values)
            else:
                step, launch = part
                step.run(board, [n if value == CONSTANT else values[value] + n for value, n in launch.slots])
        if self.flag is not None:
            flag = int(np.frombuffer(board.queue.read_buffer(board.flag, 0, 4), np.uint32)[0])
            if flag:
                ctypes.c_int64.from_address(values[self.flag]).value = flag

    def submit(self, board: Board, launches, values):
        """Gives the queue some launches; those whose buffers are too large to be bound whole by windows."""
        together: list = []
        for one in launches:
            if board.wide and not board.wide.isdisjoint(self.bound(board, *one[:2], values)):
                self.submitted(board, together, values)
                together = []
                windows.submit(board, self, *one, values)
            else:
                together.append(one)
        self.submitted(board, together, values)

    def submitted(self, board: Board, launches, values):
        """Gives the queue launches in one submission."""
        if not launches:
            return
        encoder = board.device.create_command_encoder()
        steps = encoder.begin_compute_pass()
        for launch, module, at, length in launches:
            dispatch(board, steps, launch.kernel, self.group(board, launch, module, at, length, values),
                     module.groups(launch.extent))
        steps.end()
        board.queue.submit([encoder.finish()])

    def bound(self, board, launch, module, values) -> tuple:
        """The numbers of the buffers that a launch binds."""
        return tuple(
            (number if value == CONSTANT else values[value] + number) >> PLACES
            for (value, number), _ in zip(launch.slots, module.itemsizes)
        )

    def fill(self, board, launch, module, at, values):
        """Write the arguments of a launch."""
        host = self.host
        host[at] = launch.extent
        at += 1
        buffers, scalars = len(module.itemsizes), len(module.floats)
        for (value, number), itemsize in zip(launch.slots, module.itemsizes):
            address = number if value == CONSTANT else values[value] + number
            host[at] = (address & INSIDE) // itemsize
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

    def group(self, board, launch, module, at, length, values):
        """The bind group of a launch, made once for the same buffers."""
        bound = self.bound(board, launch, module, values)
        key = id(self), at, bound
        found = board.groups.get(key)
        if found is None:
            if len(board.groups) > 1 << 14:
                board.groups.clear()
            entries = [{"binding": 0, "resource": {"buffer": self.memory, "offset": at, "size": 4 * length}}]
            whole = [board.at(number << PLACES)[0] for number in bound] + [board.flag] * module.flag
            entries += [
                {"binding": k + 1, "resource": {"buffer": buffer, "offset": 0, "size": buffer.size}}
                for k, buffer in enumerate(whole)
            ]
            found = board.device.create_bind_group(layout=board.layout(module.bindings)[0], entries=entries)
            board.groups[key] = found, self
            return found
        return found[0]


def dispatch(board: Board, steps, kernel: int, group, groups: int):
    """Dispatch a launch of ``groups`` workgroups in a compute pass."""
    steps.set_pipeline(board.pipeline(kernel))
    steps.set_bind_group(0, group)
    steps.dispatch_workgroups(min(groups, ACROSS), -(-groups // ACROSS))


def adapters() -> list:
    """The adapters of this machine, by Vulkan, Metal or Direct3D; RuntimeError without wgpu."""
    try:
        import wgpu
    except ImportError:
        raise RuntimeError("device type 'webgpu' needs the package wgpu: pip install rushlight[webgpu]") from None
    os.environ.setdefault("XDG_RUNTIME_DIR", "/tmp")
    return [a for a in wgpu.gpu.enumerate_adapters_sync() if a.info["backend_type"] != "OpenGL"]

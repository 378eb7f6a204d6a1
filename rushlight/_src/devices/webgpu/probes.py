"""Tests of a device before kernels rely on it: how it rounds, and whether threads of a subgroup exchange values."""

from __future__ import annotations

import numpy as np

FUSED = """@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1) fn main() { y[0] = fma(x[0], x[0], -x[1]); }"""

HALVES = """enable f16;
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f16>;
fn rounded(x: f32) -> f16 { return f16(x); }
@compute @workgroup_size(1) fn main() {
  for (var k = 0; k < 12; k++) { y[k] = rounded(x[k]); }
  for (var k = 0; k < 12; k++) { y[k] = rounded(f32(y[k])); }
}"""
# ties, the least that overflows and what is below, denormals, infinity, a negative zero
ROUNDED = (1 + 2.0**-11, 1 + 3 * 2.0**-11, 65519.0, 65520.0, 2.0**-25, 1.5 * 2.0**-24, float("-inf"), -0.0, 70000.0,
           0.7 * 2.0**-14, 2.0**-24, 1 / 3)

TURNS = """@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(1) fn main() { for (var k = 0u; k < x[0]; k++) { y[0] = y[0] + x[1]; } }"""

SHUFFLED = """@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(128) fn main(@builtin(local_invocation_index) lid: u32, @builtin(subgroup_size) size: u32,
    @builtin(subgroup_invocation_id) lane: u32, @builtin(subgroup_id) sub: u32, @builtin(num_subgroups) subs: u32) {
  var v = x[lid];
  for (var step = size >> 1u; step > 0u; step = step >> 1u) { v = v + subgroupShuffleXor(v, step); }
  if (lane == 0u) { y[sub] = v; }
  if (lid == 0u) { y[128] = size; y[129] = subs; }
}"""


def answer(board, code: str, given, count: int, dtype) -> np.ndarray:
    """Run a shader on elements at binding 0; return the ``count`` elements that it writes to binding 1."""
    given, made = np.ascontiguousarray(given), np.zeros(count + 3 & -4, dtype)
    buffers = [board.buffer(max(array.nbytes, 16)) for array in (given, made)]
    board.queue.write_buffer(buffers[0], 0, given)
    module = board.device.create_shader_module(code=code)
    pipeline = board.device.create_compute_pipeline(layout="auto", compute={"module": module, "entry_point": "main"})
    group = board.device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=[
        {"binding": k, "resource": {"buffer": buffer, "offset": 0, "size": buffer.size}}
        for k, buffer in enumerate(buffers)])
    encoder = board.device.create_command_encoder()
    steps = encoder.begin_compute_pass()
    steps.set_pipeline(pipeline)
    steps.set_bind_group(0, group)
    steps.dispatch_workgroups(1)
    steps.end()
    board.queue.submit([encoder.finish()])
    found = np.frombuffer(board.queue.read_buffer(buffers[1]), dtype)[:count].copy()
    for buffer in buffers:
        buffer.destroy()
    return found


def fuses(board) -> bool:
    """Whether the device's multiply-add rounds once: (1 + 2^-12)^2 - 1 - 2^-11 is 2^-24 then, else 0."""
    return bool(answer(board, FUSED, np.array([1 + 2.0**-12, 1 + 2.0**-11], np.float32), 1, np.float32)[0] == 2.0**-24)


def rounds_halves(board) -> bool:
    """Whether float16 is stored as IEEE 754 rounds it, denormals too."""
    given = np.array(ROUNDED, np.float32)
    with np.errstate(over="ignore"):
        wanted = given.astype(np.float16)
    return answer(board, HALVES, given, len(given), np.float16).tobytes() == wanted.tobytes()


def shuffles(board) -> bool:
    """Whether threads of a subgroup exchange numbers, and subgroups are parts of a workgroup of one size."""
    given = np.arange(128, dtype=np.uint32) ** 2
    found = answer(board, SHUFFLED, given, 130, np.uint32)
    size, count = map(int, found[128:])
    return size * count == 128 and not size & size - 1 and found[:count].sum() == given.sum() and size > 1


def ends_loops(board) -> bool:
    """Whether loops run until they end; software Vulkan leaves a shader's loops after 65,535 turns of all together."""
    given = np.array([70_000, 1], np.uint32)
    return bool(answer(board, TURNS, given, 1, np.uint32)[0] == given[0])


PROBES = {"fma": fuses, "loops": ends_loops, "f16": rounds_halves, "subgroups": shuffles}

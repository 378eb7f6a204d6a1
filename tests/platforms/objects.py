"""Object files for this process's system, of the hot path and of the thread pool, put into memory by the loader: every
relocation is read, every outside name goes through the loader's jumps, and what is exported lies in code."""
import os
import struct

import llvmlite.binding as llvm

os.environ["RUSHLIGHT_NATIVE"] = "0"  # so that its plain form is there to compile
from rushlight._src.core import native  # noqa: E402
from rushlight._src.core.llvm import loader  # noqa: E402
from rushlight._src.core.native.compiler import build  # noqa: E402
from rushlight._src.core.native.compiler.declarations import NativeProgram  # noqa: E402
from rushlight._src.core.platform import here  # noqa: E402
from rushlight._src.devices.cpu.llvm import jit, pool  # noqa: E402
from rushlight._src.devices.cpu.llvm.features import level, targeting  # noqa: E402

FEATURES = level({"windows": "x86_64-pc-windows-msvc", "macos": "arm64-apple-darwin"}[here.name])


def hot_path():
    """(object file, its exported names) of the compiled part of the package."""
    program = NativeProgram([getattr(native, name) for name in (
        "blocks", "queues", "allocator", "objects", "keys", "arguments", "calls", "sharing", "running", "remote",
        "history", "views", "search", "join", "scopes", "engine")])
    module = llvm.parse_assembly(build.emit(program), llvm.create_context())
    machine = build.new_machine(FEATURES.cpu, FEATURES.text, 0, "small", FEATURES.triple, jit=False)
    module.triple, module.data_layout = FEATURES.triple, str(machine.target_data)
    return machine.emit_object(module), build.exports(program)


def threads():
    with targeting(FEATURES):
        return jit.compile_object(pool._text()), pool._EXPORTS


def check(image, exports):
    layout = loader.layout_of(image, {})
    outside, addresses = list(layout.outside), {}
    for n, name in enumerate(outside):
        addresses[name] = layout.imports[name] = 0x100000 + 16 * n
    found = layout.place(exports)
    code = [p for p in layout.file.pieces if p is not None and not p.writable]
    data = [p for p in layout.file.pieces if p is not None and p.writable]
    for name, address in found.items():
        place = address - layout.base
        assert any(p.place <= place < p.place + max(p.size, 1) for p in (*code, *data)), name
    for name, address in addresses.items():
        held, = struct.unpack_from("<Q", layout.out, layout.slots_at + 8 * layout.outside[name])
        assert held == address, name
    assert all(layout.jumps_at >= p.place + p.size for p in code) and all(p.place >= layout.code for p in data)
    frames = getattr(layout.file, "frames", None)
    if frames is not None:  # rows of (begin, end, how) lie in code, one after the other
        rows = list(struct.iter_unpack("<III", layout.out[frames.place:frames.place + frames.size]))
        assert all(begin < end <= layout.code and how < layout.code for begin, end, how in rows)
    return type(layout.file).__module__.rpartition(".")[2], len(layout.file.rows), len(outside)


form, relocations, outside = check(*hot_path())
assert relocations > 5000 and outside > 40, (relocations, outside)
print("hot path", form)
form, relocations, outside = check(*threads())
assert relocations > 20 and outside > 2, (relocations, outside)
print("pool", form)

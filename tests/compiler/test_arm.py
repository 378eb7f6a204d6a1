"""Code for AArch64, written and compiled on any machine: the loops of kernels as text (``--update`` rewrites the golden
files), and what the inner loops of templates consist of."""
import collections
import re
from types import SimpleNamespace

import pytest

from rushlight._src.core.llvm.bindings import bindings
from rushlight._src.devices.cpu.llvm import features, generate
from rushlight._src.devices.cpu.llvm.builder import Module
from rushlight._src.devices.cpu.llvm.emit import emit
from rushlight._src.devices.cpu.llvm.features import level, targeting
from rushlight._src.devices.cpu.llvm.types import i64, ptr
from rushlight._src.devices.cpu.templates import tile
from rushlight._src.devices.cpu.templates.contraction import numbers
from rushlight._src.devices.cpu.templates.registers import register_tile, register_tiles

from .programs import Program
from .test_lower import column_sum, embedding, layer_norm, softmax, transpose

NEON, NEWER, SVE = "aarch64-linux-gnu", "aarch64-v8.6", "aarch64-sve256"
MULTIPLY = {(NEON, "float32"): "fmla", (SVE, "float32"): "fmla"}
BLOCKS = {(target, *dtypes): name for target in (NEWER, SVE) for dtypes, name in (
    (("bfloat16", ""), "bfmmla"), (("int8", ""), "smmla"), (("uint8", ""), "ummla"), (("uint8", "int8"), "usmmla"),
    (("int8", "uint8"), "usmmla"))}


def loops(text):
    """The innermost loops of a module that compute with vectors: blocks that jump to themselves."""
    found = [block.partition(":\n") for block in re.split(r"\n(?=[\w.]+:\n)", text)]
    return "\n".join(f"{label}:\n{body}" for label, _, body in found if f"label %{label}," in body and " x " in body)


@pytest.mark.parametrize("build", [softmax, layer_norm, column_sum, transpose, embedding], ids=lambda f: f.__name__)
def test_loops_of_kernels_for_sve_are_written_as_before(build, golden):
    with targeting(level(SVE)):
        p = Program()
        program = p.compile(*build(p))
        texts = [emit(step.kernel, len(step.parameters), "kernel") for step in program.steps]
    assert "vscale_range(2,2)" in texts[0]
    golden(f"arm/{build.__name__}.txt", "\n\n".join(map(loops, texts)))


def inner_loop(text, features):
    """How often each instruction stands in the last loop of an assembly, and whether it uses the stack."""
    with generate.tools() as (context, machines):
        machine = generate.machine_of(1, machines, features)
        with bindings().parse_assembly(text, context) as module:
            module.triple, module.data_layout = features.triple, str(machine.target_data)
            lines = machine.emit_assembly(module).split("\n")
    starts = {line.split(":")[0]: k for k, line in enumerate(lines) if re.match(r"\.LBB\w+:", line)}
    start, end = max((starts[goal], k) for k, line in enumerate(lines) for goal in re.findall(r"\.LBB\w+$", line)
                     if "\tb" in line and starts[goal] < k)
    body = [line.split() for line in lines[start + 1:end] if line.startswith("\t") and not line.startswith("\t.")]
    return collections.Counter(words[0] for words in body), any("[sp" in word for words in body for word in words)


def tile_loop(target, kind, rows, vectors, row):
    """The instructions of a tile's loop, and whether it uses the stack; ``row``: bytes from a row of A to the next."""
    module = Module()
    f = module.function("product", [("a", ptr), ("b", ptr), ("c", ptr), ("count", i64)])
    a, b, c, count = f.parameters
    found = tile.sums(f, kind, rows, vectors, a, row, rows * tile.CHUNK * kind.word.bytes, b, count)
    for k, total in enumerate(found):
        f.store(total, f.offset(c, k * total.type.bytes))
    f.ret()
    return inner_loop(module.text(), level(target))


@pytest.mark.parametrize("target,dtype", MULTIPLY)
def test_a_tile_of_a_product_is_multiplied_by_one_instruction_each_and_stays_in_registers(target, dtype):
    with targeting(level(target)):
        kind = numbers(dtype)
        rows, vectors = register_tile(512, 512, kind)
        counts, spilt = tile_loop(target, kind, rows, vectors, tile.CHUNK * kind.word.bytes)
    assert counts[MULTIPLY[target, dtype]] == rows * vectors * tile.CHUNK
    assert not spilt


@pytest.mark.parametrize("layout", ["quads", "panels"])
@pytest.mark.parametrize("target,dtype,other", BLOCKS)
def test_two_rows_by_two_columns_are_multiplied_by_one_instruction_and_stay_in_registers(target, dtype, other, layout):
    with targeting(level(target)):
        kind = numbers(dtype, other)
        row = kind.word.bytes * (tile.CHUNK if layout == "quads" else 1)
        for rows, vectors in (shape for shape, _ in register_tiles(False, True) if shape[0] > 1):
            counts, spilt = tile_loop(target, kind, rows, vectors, row)
            assert counts[BLOCKS[target, dtype, other]] == rows * vectors and not spilt, (rows, vectors)
        packed = {register_tile(rows, 512, kind, packed=True) for rows in range(5, 19)}
        assert not any(tile_loop(target, kind, *shape, row)[1] for shape in packed), packed


@pytest.mark.parametrize("target,dtype,other", [(NEWER, "bfloat16", ""), (SVE, "int8", "uint8")])
def test_tiles_of_blocks_are_written_as_before(target, dtype, other, golden):
    with targeting(level(target)):
        kind = numbers(dtype, other)
        module = Module()
        f = module.function("product", [("a", ptr), ("b", ptr), ("c", ptr), ("count", i64)])
        a, b, c, count = f.parameters
        word = kind.word.bytes
        for k, total in enumerate(tile.sums(f, kind, 3, 1, a, tile.CHUNK * word, 3 * tile.CHUNK * word, b, count)):
            f.store(total, f.offset(c, k * total.type.bytes))
        f.ret()
    golden(f"arm/blocks_{dtype}.txt", module.text())


def test_processors_without_such_instructions_have_dots():
    with targeting(level(NEON)):
        assert numbers("bfloat16").blocks is None and numbers("int8").blocks is None
    with targeting(level("x86-64-v4")):
        assert numbers("int8").blocks is None
    with targeting(level(NEWER)):
        assert numbers("bfloat16").dot.intrinsic.endswith("v8bf16") and numbers("int8", "uint8").blocks.swapped


def test_instructions_that_the_system_hides_are_not_used_whatever_the_name_of_the_processor(monkeypatch):
    found = {"neon": True, "fp-armv8": True, "dotprod": True, "bf16": True, "i8mm": False, "sve": False}
    monkeypatch.setattr(features.processor.platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(features.processor, "host", lambda: ("neoverse-v1", found))
    monkeypatch.setattr(features.processor, "settings", SimpleNamespace(cpu="native"))
    monkeypatch.setattr(features.processor, "instruction_sets", features.processor.instruction_sets.__wrapped__)
    made = features.host.__wrapped__()
    assert {"-sve", "-sve2", "-i8mm", "+dotprod"} <= set(made.text.split(",")) and made.width == 128
    assert made.vnni and made.bf16 and not made.mixed

"""Quantized attention, embedding bags and pooling on each kind of CPU give the bits of the NumPy reference
implementation, with AVX2, AVX-512, VNNI, AMX tiles, NEON and its dot-product instructions."""
import numpy as np
import pytest

import rushlight as torch
from rushlight._src.compiler.reference import evaluate
from rushlight._src.devices.cpu.llvm.features import host, level
from rushlight._src.graph.graph import Graph, splice
from rushlight._src.packages import archive
from rushlight._src.packages.model import Model
from rushlight._src.transforms.trace import Trace

from ..packages.test_emulated import compiled, emulator, ran
from ..packages.test_targets import has

pytestmark = pytest.mark.processor

F = torch.nn.functional
X86 = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-vnni", "x86-64-amx")
ARM = {"aarch64-linux-gnu": (), "aarch64-v8.6": ("-cpu", "max,pauth=off,sve=off")}


def quantized(x, scale, zero_point=0):
    return torch._make_per_tensor_quantized_tensor(x, scale, zero_point)


class Attention(torch.nn.Module):
    """Both matmuls, requantized: the scores, and values weighted by them."""

    def forward(self, queries, keys, values):
        scores = torch.ops.quantized.matmul(quantized(queries, 0.021, 117), quantized(keys, 0.033), 0.7, 90)
        mixed = torch.ops.quantized.matmul(quantized(scores.int_repr(), 1 / 256), quantized(values, 0.05), 0.31, 131)
        return scores.int_repr(), mixed.int_repr(), torch.ops.aten._int_mm(keys[0, 0], values[0, 0])


class Bags(torch.nn.Module):
    """Sums of rows of bytes, each with a scale and a zero point: powers of two, so that floats add up exactly."""

    def forward(self, table, places, scales, zeros):
        rows = (table.to(torch.float32) - zeros.unsqueeze(1)) * scales.unsqueeze(1)
        summed = F.embedding_bag(places, rows, mode="sum")
        return summed, torch.quantize_per_tensor(summed, 0.5, 100, torch.quint8).int_repr()


class Pooled(torch.nn.Module):
    def forward(self, images):
        x = quantized(images, 0.1, 13)
        pooled = F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1), F.adaptive_avg_pool2d(x, 1)
        return tuple(one.int_repr() for one in pooled)


def numbers(*shapes):
    """Bytes of random bits, uint8 and int8 in turn."""
    rng = np.random.default_rng(len(shapes))
    return [torch.tensor(rng.integers(0, 256, shape).astype(np.uint8).view(np.int8 if k else np.uint8))
            for k, shape in enumerate(shapes)]


def bags():
    rng = np.random.default_rng(5)
    return (numbers((20, 24))[0], torch.tensor(rng.integers(0, 20, (7, 5))),
            torch.tensor(2.0 ** rng.integers(-3, 3, 20).astype(np.float32)),
            torch.tensor(rng.integers(0, 256, 20).astype(np.float32)))


CASES = {"attention": (Attention, lambda: numbers((2, 3, 37, 64), (2, 3, 64, 37), (2, 3, 37, 64))),
         "bags": (Bags, bags),
         "pooling": (Pooled, lambda: numbers((2, 21, 17, 18)))}


def case(which):
    """(what is exported, its inputs, the results by NumPy)."""
    made, inputs = CASES[which][0](), tuple(CASES[which][1]())
    trace = Trace()
    given = [trace.input(x._rush_meta) for x in inputs]
    with trace:
        results = made(*given)
    graph = splice(Graph(trace.inputs, trace.nodes, [r.node for r in results]))
    return torch.export.export(made, inputs), inputs, evaluate(graph, [x.numpy() for x in inputs])


def equal(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b)


@pytest.mark.skipif(not host().is_x86, reason="made on x86-64 only")
@pytest.mark.parametrize("name", X86)
@pytest.mark.parametrize("which", CASES)
def test_levels_of_x86(which, name, tmp_path):
    if not has(name):
        pytest.skip(f"this processor is none of {name}")
    program, inputs, wanted = case(which)
    archive.write(tmp_path / "model.pt2", {"model": Model(program, "model", (level(name),))})
    loaded = torch._inductor.aoti_load_package(tmp_path / "model.pt2")
    assert loaded.level == name
    equal([x.numpy() for x in loaded(*inputs)], wanted)


@pytest.mark.parametrize("name", ARM)
@pytest.mark.parametrize("which", CASES)
def test_levels_of_arm(which, name, tmp_path):
    command = [emulator("aarch64"), *ARM[name], "-L", "/usr/aarch64-linux-gnu"]
    program, inputs, wanted = case(which)
    archive.write(tmp_path / "model.pt2", {"model": Model(program, "model", (level(name),))})
    metas = archive.Package(tmp_path / "model.pt2").manifests["model"]["outputs"]
    compiled(tmp_path, tmp_path / "model.pt2", "aarch64-linux-gnu-gcc")
    equal(ran(command, tmp_path, tmp_path / "model.pt2", inputs, metas)[1], wanted)


def test_this_processor():
    for which in CASES:
        _, inputs, wanted = case(which)
        equal([x.numpy() for x in CASES[which][0]()(*inputs)], wanted)

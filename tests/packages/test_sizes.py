"""Packages with dynamic sizes: equal to the eager model at every size within the bounds, refused outside."""
import itertools
import math
import random
import shutil
import subprocess
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from rushlight._src.core.expr import eq, le, logical_not, maximum, size
from rushlight._src.core.llvm.loaded import callable_at
from rushlight._src.core.nodes import evaluate
from rushlight._src.devices.cpu.llvm import jit
from rushlight._src.devices.cpu.llvm.builder import Module
from rushlight._src.devices.cpu.llvm.types import i64
from rushlight._src.packages.model import Model
from rushlight._src.packages.sizes import Numbers, shared_slots
from rushlight._src.packages.variants import Planning, Points, Region

from .test_packages import Attention, images

nn, Dim = torch.nn, torch.export.Dim


class Doubled(nn.Module):
    def forward(self, x, y):
        return torch.cat([x, y.unflatten(0, (-1, 2)).sum(1)], 1), y.sum()


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.table = nn.Embedding(50, 8)

    def forward(self, words):
        self.calls.add_(1)
        return self.table(words).cumsum(1).mean(-1) + self.calls, words.flatten()


class Counting(nn.Module):
    """Sizes as numbers, of either kind, beside tensors."""

    def forward(self, x):
        b, s = x.shape
        return x * b, x / (3 * s - b), x.sum(0) * (1 / b), x * (s * 2.0) + 0.5 * b, (x * b).softmax(-1)


class Rooting(nn.Module):
    """Powers of sizes, and sizes as floats."""

    def forward(self, x):
        b, s = x.shape
        return x * s ** 0.5, x / math.sqrt(b * s), x * (b * 2) ** -0.5, x + b ** 2, x * 2.0 ** s, x - float(b) / s


B, S = Dim("b", min=1, max=20), Dim("s", min=1, max=40)
CASES = {
    "linear": (lambda: nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4), nn.Softmax(-1)),
               lambda b, s: (torch.randn(b, 16),), ({0: B},)),
    "attention": (lambda: nn.Sequential(Attention(), Attention()), lambda b, s: (torch.randn(b, s, 32),),
                  ({0: B, 1: S},)),
    "images": (images, lambda b, s: (torch.randn(b, 3, 33, 33),), ({0: Dim("b", min=1, max=100)},)),
    "lstm": (lambda: nn.LSTM(8, 16, batch_first=True), lambda b, s: (torch.randn(b, 7, 8),), ({0: B},)),
    "derived": (Doubled, lambda b, s: (torch.randn(b, 5), torch.randn(2 * b, 3)), ({0: B}, {0: 2 * B})),
    "counting": (Counting, lambda b, s: (torch.randn(b, s),), ({0: B, 1: S},)),
    "rooting": (Rooting, lambda b, s: (torch.randn(b, s),), ({0: B, 1: S},)),
    "unbounded": (lambda: nn.Linear(9, 5), lambda b, s: (torch.randn(b, 9),), ({0: Dim("b", min=2)},)),
}


def packaged(name, path, example=(3, 6)):
    torch.manual_seed(0)
    build, inputs, dims = CASES[name]
    model = build().eval()
    program = torch.export.export(model, inputs(*example), dynamic_shapes=dims)
    torch._inductor.aoti_compile_and_package(program, package_path=str(path))
    return model, torch._inductor.aoti_load_package(path)


def same(given, wanted):
    for a, b in zip(torch.utils._pytree.tree_leaves(given), torch.utils._pytree.tree_leaves(wanted), strict=True):
        assert a.shape == b.shape and a.dtype is b.dtype
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_every_size_computes_what_the_model_computes(name, tmp_path):
    model, loaded = packaged(name, tmp_path / "model.pt2")
    rng, (_, inputs, dims) = random.Random(0), CASES[name]
    high = {k: d.max or 500 for d in (dims[0][0], S) for k in [d.__name__]}
    low = dims[0][0].min
    sizes = [(b, s) for b in (low, 2, high["b"]) for s in (1, 2, 40)] + [
        (rng.randint(low, high["b"]), rng.randint(1, 40)) for _ in range(12)]
    for b, s in sizes:
        given = inputs(b, s)
        same(loaded(*given), model(*given))


def test_sizes_outside_are_refused(tmp_path):
    _, loaded = packaged("derived", tmp_path / "model.pt2")
    for shapes, words in [(((21, 5), (42, 3)), "b is 21"), (((4, 5), (9, 3)), "sizes of an input"),
                          (((4, 6), (8, 3)), "shape"), (((4,), (8, 3)), "shape"), (((0, 5), (0, 3)), "b is 0")]:
        with pytest.raises(ValueError, match=words):
            loaded(*(torch.randn(*shape) for shape in shapes))
    same(loaded(torch.ones(2, 5), torch.ones(4, 3)), Doubled()(torch.ones(2, 5), torch.ones(4, 3)))


def test_state_and_sizes_go_together(tmp_path):
    program = torch.export.export(Counted(), (torch.ones(2, 3, dtype=torch.int64),), dynamic_shapes=({0: B, 1: S},))
    torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    loaded, model = torch._inductor.aoti_load_package(tmp_path / "model.pt2"), Counted()
    model.table.weight = nn.Parameter(program.state_dict["table.weight"].clone())
    for b, s in ((2, 3), (5, 1), (1, 7), (20, 40)):
        words = torch.randint(0, 50, (b, s))
        same(loaded(words), model(words))


def test_threads_run_different_sizes(tmp_path):
    model, loaded = packaged("attention", tmp_path / "model.pt2")
    given = [torch.randn(1 + k, 3 + 4 * k, 32) for k in range(8)]
    wanted, wrong = [model(x).detach().numpy() for x in given], []

    def work(k):
        for n in range(20):
            which = (k + n) % 8
            if not np.allclose(loaded(given[which]).numpy(), wanted[which], atol=1e-5):
                wrong.append(which)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_arithmetic_of_sizes_is_that_of_python():
    """Machine code for Exprs, with numbers of either sign, against their own evaluation."""
    a, b = size("a", -50, 50), size("b", 1, 9)
    exprs = [a * 3 + 2, -((-a) // b), a % b, (a - 7) // 3, (a * b - 5) % 4, -a // 2 * b, (a + b) // b * 5 - a % 3]
    module = Module()
    f = module.function("numbers", [("a", i64), ("b", i64), ("k", i64)], i64)
    numbers = Numbers(f, {a: f.parameters[0], b: f.parameters[1]})
    total = numbers.value(0)
    for k, e in enumerate(exprs):
        total = f.select(f.compare("==", f.parameters[2], k), numbers.value(e), total)
    f.ret(total)
    import ctypes
    run = callable_at(jit.build(module.text(), module.text, ["numbers"])["numbers"],
                      ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3))
    for x, y, (k, e) in itertools.product(range(-50, 51, 7), range(1, 10), enumerate(exprs)):
        assert run(x, y, k) == evaluate(e, {a: x, b: y}), (e, x, y)


def test_slots_of_an_arena_are_not_alive_together():
    class Item:
        def __init__(self, *values):
            self.values = [(v, 0) for v in values]

        def places(self):
            return self.values

    from rushlight._src.compiler.places import Temporary
    rng = random.Random(1)
    temporaries = [Temporary(rng.randint(1, 1000)) for _ in range(12)]
    items = [Item(*rng.sample(temporaries, 3)) for _ in range(20)]
    slots, homes = shared_slots(items, {})
    spans = {t: [k for k, item in enumerate(items) if (t, 0) in item.values] for t in temporaries}
    for members in slots:
        taken = [(m, m) if type(m) is int else (min(spans[m]), max(spans[m])) for m in members]
        assert all(a[1] < b[0] or b[1] < a[0] for a, b in itertools.combinations(taken, 2))
    assert set(homes) == {*range(20), *(t for t in temporaries if spans[t])}


def test_regions_are_covered_by_their_parts():
    a, b = size("a", 2, 300), size("b", 2, 20)
    parts = Region({a: (2, 300), b: (5, 20)}).parts([a, b])
    for x, y in itertools.product(range(2, 301, 13), range(5, 21)):
        assert sum(all(low <= n <= high for n, (low, high) in zip((x, y), part.bounds.values())) for part in parts) == 1


def test_estimates_decide_nothing_that_has_to_hold():
    """Floats with a fraction are taken from the example without a condition; integral ones never."""
    a = size("a", 2, 100)
    with Planning({a: 10}) as facts:
        assert a / 4 == 2.5 and 1000 / a == 100.0 and not facts.guards
        assert 1j / a == 0.1j and facts.guards == [(eq(a, 10), True)]
    with Planning({a: 10}) as facts:
        assert a < 10.5 and a > 9.5 and a < float("inf") and not a < 10.0
    for n in range(2, 100):
        alike = n < 10.5 and n > 9.5 and not n < 10.0
        assert all(evaluate(c, {a: n}) == outcome for c, outcome in facts.guards) == alike


def test_points_are_covered_as_they_are_evaluated_one_by_one():
    a, b = size("a", 2, 60), size("b", 2, 60)
    conditions = [le(a * b, 700), logical_not(eq((a - 3) // 4 % 3, 1)), le(-((-b) // 7), maximum(a, 5) - 1)]
    every = [{a: x, b: y} for x in range(2, 60, 3) for y in range(2, 60)]
    points = Points(every)
    points.cover(conditions)
    left = [p for p in every if not all(evaluate(c, p) for c in conditions)]
    assert points.count == len(left) and points.next() == left[0]
    assert [dict(zip(points.columns, map(int, row))) for row in zip(*points.columns.values())] == left


@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc is not installed")
def test_c_programs_run_many_sizes(tmp_path):
    model, loaded = packaged("attention", tmp_path / "model.pt2")
    with zipfile.ZipFile(tmp_path / "model.pt2") as file:
        for name in ("include/rushlight.h", "data/aotinductor/model/model.so"):
            (tmp_path / Path(name).name).write_bytes(file.read(f"package/{name}"))
    subprocess.run(["gcc", "-O1", "-g", "-fsanitize=address,undefined", "-Wall", "-Werror", "-I", tmp_path,
                    Path(__file__).with_name("sizes.c"), "-o", tmp_path / "sizes", "-ldl"], check=True)
    done = subprocess.run([tmp_path / "sizes", tmp_path / "model.so"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = iter(done.stdout.splitlines())
    assert next(lines) == "b 1 20, s 1 40"
    for b, s in ((1, 1), (2, 40), (20, 3), (7, 17), (7, 17)):
        total = model(torch.ones(b, s, 32)).double().sum().item()
        shape, found = next(lines).split(": ")
        assert shape == f"{b} {s} 32" and abs(float(found) - total) < 1e-3 * max(1, abs(total))
    assert next(lines).startswith("the sizes of an input")


class Placed(nn.Module):
    """A table of places, of which as many rows are added as the input has."""

    def __init__(self):
        super().__init__()
        self.register_buffer("places", torch.randn(16, 8))

    def forward(self, x):
        return (x + self.places[:x.shape[1]]).softmax(-1)


def test_a_slice_that_may_be_whole_decides_nothing(tmp_path):
    model, dims = Placed(), {0: Dim("b", min=2, max=5), 1: Dim("s", min=2, max=16)}
    exported = torch.export.export(model, (torch.randn(3, 6, 8),), dynamic_shapes=(dims,))
    assert len(Model(exported, "model").builds[0].programs) == 1
    torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "model.pt2"))
    loaded = torch._inductor.aoti_load_package(tmp_path / "model.pt2")
    for length in (2, 7, 16):
        x = torch.randn(4, length, 8)
        np.testing.assert_allclose(loaded(x).numpy(), model(x).numpy(), rtol=1e-5, atol=1e-6)


def test_middles_come_first_and_points_are_those_of_the_region():
    s, t = size("s", 2, 90), size("t", 2, 700)
    for bounds in ({}, {s: (2, 9)}, {s: (3, 90), t: (2, 700)}):
        region = Region(bounds)
        points = Points.of(region)
        assert points.next() == region.middle() and points.count == 1 + len(region.points())

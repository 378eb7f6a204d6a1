"""Models as shared objects: equal to the eager model, run from C without Python, refused when damaged."""
import io
import random
import shutil
import subprocess
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch
from rushlight._src.core.settings import settings
from rushlight._src.devices.cpu.llvm import jit
from rushlight._src.devices.cpu.llvm.builder import Module
from rushlight._src.devices.cpu.llvm.types import i64
from rushlight._src.devices.cpu.llvm.values import constant
from rushlight._src.packages.archive import BadPackage, Package
from rushlight._src.packages.builds import add_kernels
from rushlight._src.packages.loaded import Loaded
from rushlight._src.packages.model import Model, NotPackable
from rushlight._src.packages.objects import SharedObject

pytestmark = pytest.mark.processor

F, nn = torch.nn.functional, torch.nn
ROOT = Path(__file__).resolve().parents[2]


class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.norm, self.all, self.out, self.heads = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(
            width, width), heads

    def forward(self, x):
        q, k, v = self.all(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.seen.add_(1)
        return x * self.seen


class Several(nn.Module):
    def forward(self, x, table):
        order = x.argsort(-1)
        return order, {"rows": table[order[:, 0]], "same": x, "view": x.t()}


def images():
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(),
                         nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(8, 10))


MODELS = {
    "linear": lambda: (nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4), nn.Softmax(-1)),
                       (torch.randn(5, 16),)),
    "attention": lambda: (nn.Sequential(Attention(), Attention()), (torch.randn(2, 24, 32),)),
    "images": lambda: (images(), (torch.randn(2, 3, 33, 33),)),
    "lstm": lambda: (nn.LSTM(8, 16, 2, batch_first=True), (torch.randn(3, 7, 8),)),
    "embedding": lambda: (nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 3)), (torch.randint(0, 20, (4, 6)),)),
    "several": lambda: (Several(), (torch.randn(6, 5), torch.randn(5, 3))),
    "bfloat16": lambda: (nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).bfloat16(),
                         (torch.randn(33, 64).bfloat16(),)),
}


def packaged(name, path):
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    model.eval()
    torch._inductor.aoti_compile_and_package(torch.export.export(model, inputs), package_path=str(path))
    return model, inputs


def flat(value):
    return [v.detach().float().numpy() for v in torch.utils._pytree.tree_leaves(value)]


@pytest.mark.parametrize("name", MODELS)
def test_packages_compute_what_the_model_computes(name, tmp_path):
    model, inputs = packaged(name, tmp_path / "model.pt2")
    loaded = torch._inductor.aoti_load_package(tmp_path / "model.pt2")
    for _ in range(2):
        for a, b in zip(flat(loaded(*inputs)), flat(model(*inputs)), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-2 if name == "bfloat16" else 1e-5, atol=2e-2 if name == "bfloat16"
                                       else 1e-6)
        inputs = tuple(x.roll(1, 0) for x in inputs)


def test_state_is_kept_and_constants_are_replaced(tmp_path):
    torch._inductor.aoti_compile_and_package(torch.export.export(Counter(), (torch.ones(2),)),
                                             package_path=str(tmp_path / "a.pt2"))
    counter = torch._inductor.aoti_load_package(tmp_path / "a.pt2")
    assert [counter(torch.ones(2))[0].item() for _ in range(3)] == [1, 2, 3]
    model, inputs = packaged("linear", tmp_path / "b.pt2")
    loaded = torch._inductor.aoti_load_package(tmp_path / "b.pt2")
    other = MODELS["linear"]()[0].eval()
    with pytest.raises(ValueError, match="missing"):
        loaded.load_constants({"0.weight": other[0].weight})
    loaded.load_constants(dict(other.named_parameters()))
    np.testing.assert_allclose(loaded(*inputs).numpy(), other(*inputs).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_threads_share_a_model(tmp_path):
    model, inputs = packaged("attention", tmp_path / "model.pt2")
    loaded, wrong = torch._inductor.aoti_load_package(tmp_path / "model.pt2"), []
    given = [torch.randn(2, 24, 32) for _ in range(8)]
    wanted = [model(x).detach().numpy() for x in given]

    def work(k):
        for _ in range(30):
            if not np.allclose(loaded(given[k]).numpy(), wanted[k], atol=1e-5):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_what_does_not_fit_is_refused(tmp_path):
    _, inputs = packaged("linear", tmp_path / "model.pt2")
    loaded = torch._inductor.aoti_load_package(tmp_path / "model.pt2")
    for wrong, error in [((), TypeError), ((torch.randn(4, 16),), ValueError), ((inputs[0].double(),), ValueError)]:
        with pytest.raises(error):
            loaded(*wrong)
    moved = torch.randn(16, 5).t()  # other strides are copied
    np.testing.assert_allclose(loaded(moved).numpy(), loaded(moved.contiguous()).numpy())
    packaged("embedding", tmp_path / "e.pt2")
    embedding = torch._inductor.aoti_load_package(tmp_path / "e.pt2")
    with pytest.raises(IndexError):
        embedding(torch.full((4, 6), 20))


@pytest.mark.parametrize("body, reason",
                         [(lambda x: F.dropout(x), "random"), (lambda x: torch.linalg.eigvals(x).abs(), "NumPy")])
def test_what_needs_python_is_refused(body, reason):
    class Body(nn.Module):
        def forward(self, x):
            return body(x)

    with pytest.raises(NotPackable, match=reason):
        Model(torch.export.export(Body(), (torch.randn(4, 4),)), "model")


def test_damaged_packages_are_refused(tmp_path):
    packaged("linear", tmp_path / "model.pt2")
    whole, rng, refused = (tmp_path / "model.pt2").read_bytes(), random.Random(0), 0
    for _ in range(2000):
        data = bytearray(whole)
        kind = rng.randrange(3)
        if kind == 0:
            del data[rng.randrange(len(data)):]
        else:
            for _ in range(rng.choice((1, 8))):
                data[rng.randrange(len(data) if kind == 1 else 2000)] = rng.randrange(256)
        try:
            package = Package(io.BytesIO(bytes(data)))
            for name in package.manifests:
                package.image(name)
            with zipfile.ZipFile(io.BytesIO(whole)) as a:  # what is read is then as it was written
                assert all(package.image(n) == a.read(f"package/data/aotinductor/{n}/{n}.so")
                           for n in package.manifests)
        except BadPackage:
            refused += 1
    assert refused > 1000
    with pytest.raises(BadPackage):
        Loaded(Package(io.BytesIO(b"nothing")))
    for place in (8, 10):  # the flag of encryption and the method of compression, in the directory of the zip
        data = bytearray(whole)
        at = data.index(b"PK\1\2")
        data[at + place] |= 1 if place == 8 else 8
        with pytest.raises(BadPackage):
            Package(io.BytesIO(bytes(data)))


def heavy(path, target=None):
    """A packaged model whose weights lie beside it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(600, 500), nn.ReLU(), nn.Linear(500, 7)).eval()
    x = torch.randn(3, 600)
    torch._inductor.aoti_compile_and_package(torch.export.export(model, (x,)), package_path=str(path), target=target)
    return model, x


def test_large_weights_are_mapped_from_the_package(tmp_path):
    model, x = heavy(tmp_path / "model.pt2")
    whole, wanted = (tmp_path / "model.pt2").read_bytes(), model(x).detach().numpy()
    with zipfile.ZipFile(io.BytesIO(whole)) as file:
        assert {len(file.read(n)) < 1 << 20 for n in file.namelist() if n.endswith(".so")} == {True}
        assert file.testzip() is None
    assert whole.index(b"RLWEIGHT") % 4096 == 0
    for source in (tmp_path / "model.pt2", io.BytesIO(whole)):
        loaded = Loaded(Package(source), verify=True)
        np.testing.assert_allclose(loaded(x).numpy(), wanted, rtol=1e-5, atol=1e-6)
    other = {k: v * 2 for k, v in model.state_dict().items()}
    loaded.load_constants(other)
    assert not np.allclose(loaded(x).numpy(), wanted)


def test_damaged_weights_are_refused(tmp_path):
    heavy(tmp_path / "model.pt2")
    whole, rng = (tmp_path / "model.pt2").read_bytes(), random.Random(0)
    start = whole.index(b"RLWEIGHT")
    for k in range(40):
        data = bytearray(whole)
        at = start + (rng.randrange(64) if k % 2 else rng.randrange(64, 1 << 20))
        data[at] ^= 1 << rng.randrange(8)
        (tmp_path / "bad.pt2").write_bytes(data)
        for source in (tmp_path / "bad.pt2", io.BytesIO(bytes(data))):
            with pytest.raises(BadPackage):
                Loaded(Package(source), verify=True)
        with pytest.raises(BadPackage):  # without being asked to, since they are few
            Loaded(Package(tmp_path / "bad.pt2"))
    (tmp_path / "bad.pt2").write_bytes(whole[:start + 70000])
    with pytest.raises(BadPackage):
        Loaded(Package(tmp_path / "bad.pt2"))


def test_manifests_are_those_of_their_objects(tmp_path):
    packaged("linear", tmp_path / "model.pt2")
    with zipfile.ZipFile(tmp_path / "model.pt2") as old, zipfile.ZipFile(tmp_path / "bad.pt2", "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("model.json"):
                data = data.replace(b'"arena": ', b'"arena": 1', 1)
            new.writestr(name, data)
    with pytest.raises(BadPackage, match="manifest"):
        Loaded(Package(tmp_path / "bad.pt2"))


@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc is not installed")
def test_c_programs_run_models_without_python(tmp_path):
    model, _ = packaged("images", tmp_path / "model.pt2")
    with zipfile.ZipFile(tmp_path / "model.pt2") as file:
        for name in ("include/rushlight.h", "data/aotinductor/model/model.so"):
            (tmp_path / Path(name).name).write_bytes(file.read(f"package/{name}"))
    subprocess.run(["gcc", "-O1", "-g", "-fsanitize=address,undefined", "-Wall", "-Werror", "-I", tmp_path,
                    ROOT / "examples" / "serve.c", "-o", tmp_path / "serve", "-ldl", "-lpthread"], check=True)
    pictures, wanted = [], []
    for k in range(20):
        x = torch.randn(2, 3, 33, 33)
        (tmp_path / f"{k}.raw").write_bytes(x.numpy().tobytes())
        pictures.append(tmp_path / f"{k}.raw")
        wanted.append(f"{tmp_path / f'{k}.raw'}: {model(x).flatten().argmax().item()}")
    done = subprocess.run([tmp_path / "serve", tmp_path / "model.so", tmp_path / "model.pt2", *pictures],
                          capture_output=True, text=True,
                          env={"ASAN_OPTIONS": "detect_leaks=1"})
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(wanted)
    needed = subprocess.run(["ldd", tmp_path / "model.so"], capture_output=True, text=True).stdout
    assert "python" not in needed and "libc.so.6" in needed
    done = subprocess.run([tmp_path / "serve", tmp_path / "model.so", tmp_path / "model.pt2", tmp_path / "model.pt2"],
                          capture_output=True,
                          text=True)
    assert done.returncode == 0 or "expected" in done.stderr


def packs(dtype):
    """A model whose weights its program packs."""
    layers = (nn.Conv2d(64, 256, 3, padding=1), nn.ReLU(), nn.Conv2d(256, 128, 3, padding=1), nn.Flatten(),
              nn.Linear(128 * 49, 16))
    return nn.Sequential(*layers).eval().to(dtype), torch.randn(1, 64, 7, 7).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_packages_carry_packed_weights(dtype, tmp_path):
    torch.manual_seed(0)
    model, x = packs(dtype)
    program, loaded = torch.export.export(model, (x,)), []
    for megabytes in (1024, 0):
        with settings.set(packed_mb=megabytes):
            torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / f"{megabytes}.pt2"))
        loaded.append(Loaded(Package(tmp_path / f"{megabytes}.pt2"), verify=True))
    sizes = [(tmp_path / f"{megabytes}.pt2").stat().st_size for megabytes in (1024, 0)]
    assert sizes[0] > sizes[1] + sum(p.nbytes for p in model.parameters()) // 3
    assert loaded[0].constants == loaded[1].constants
    for scale in (1.0, 3.0, -2.0):  # set again and again
        for one in loaded:
            if scale != 1.0:
                one.load_constants({name: p.detach() * scale for name, p in model.named_parameters()})
        assert torch.equal(loaded[0](x), loaded[1](x))
    assert torch.equal(Loaded(Package(tmp_path / "1024.pt2"))(x), Loaded(Package(tmp_path / "0.pt2"))(x))


@pytest.mark.parametrize("layer, shape, count", [
    (lambda: nn.Conv2d(64, 32, 3), (2, 64, 34, 34), 2 * 32 * 32 * 32 * 64 * 9),
    (lambda: nn.Linear(300, 7), (200, 300), 200 * 300 * 7),
    (lambda: nn.Conv2d(64, 64, 3, padding=1, groups=4), (1, 64, 32, 32), 64 * 32 * 32 * 16 * 9)])
def test_programs_know_how_many_multiplications_they_take(layer, shape, count):
    made = Model(torch.export.export(layer().eval(), (torch.randn(shape),)), "model")
    assert max(made.builds[0].programs[0].outline.work) == count


def test_kernels_that_are_in_memory_twice():
    """Another process may have compiled what this one compiles: then it is loaded from the cache as well."""
    def text():
        module = Module()
        f = module.function("answer", [], i64)
        f.ret(constant(i64, 42))
        return module.text()

    first = jit.build("the answer, twice", text, ["answer"])["answer"]
    digest, _ = jit.origin(first)
    jit.forget()
    second, made = jit.fetch(digest, "answer"), SharedObject()
    assert second != first
    add_kernels(made, {first: "kernel0", second: "kernel1"})
    assert made.defined["kernel0"] == made.defined["kernel1"]

"""Packaging a program again: what was planned and linked comes from the disk cache, and computes with the weights that
the program has now."""
import io

import numpy as np
import pytest

import rushlight as torch
from rushlight._src.core.settings import settings
from rushlight._src.packages import archive
from rushlight._src.packages.kept import Kept, model_of
from rushlight.export.files.programs import identity

nn = torch.nn


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path / "cache"))
    with settings.set(store=True):
        yield tmp_path / "cache"


def exported(model, inputs, dims=None):
    return torch.export.export(model.eval(), inputs, dynamic_shapes=dims)


def packaged(program):
    """(what was packaged, the bytes of the package)."""
    made, held = model_of(program, "model", identity(program)), io.BytesIO()
    archive.write(held, {"model": made})
    return made, held.getvalue()


def loaded(data):
    return torch._inductor.aoti_load_package(io.BytesIO(data))


def net(width):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, 5))


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.seen.add_(1)
        return x * self.seen


CASES = {"inside": (8, 3, None), "beside": (400, 3, None), "packed": (512, 256, None),
         "sizes": (400, 3, {0: torch.export.Dim("batch", min=1, max=70)})}


@pytest.mark.parametrize("name", CASES)
def test_a_program_packaged_again_is_the_same_package(name, caplog):
    caplog.set_level("DEBUG", logger="rushlight.cache")  # it says why a package was not kept, or not found
    width, rows, dims = CASES[name]
    model, x = net(width), torch.randn(rows, width)
    first, wanted = packaged(exported(model, (x,), dims and (dims,)))
    again, found = packaged(exported(model, (x,), dims and (dims,)))
    assert type(first) is not Kept and type(again) is Kept, caplog.text
    assert name == "packed" or not first.packed
    assert found == wanted
    np.testing.assert_allclose(loaded(found)(x).numpy(), model(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_weights_are_packed_where_that_pays_off():
    """Which of these sizes, depends on the CPU."""
    def models():
        for width, rows in ((512, 256), (768, 512), (512, 1000)):
            yield nn.Sequential(nn.Linear(width, 2 * width), nn.Tanh()), torch.randn(rows, width)
    assert any(packaged(exported(model, (x,), None))[0].packed for model, x in models())


@pytest.mark.parametrize("name", ["beside", "packed", "sizes"])
def test_weights_that_changed_are_those_of_the_package(name, caplog):
    caplog.set_level("DEBUG", logger="rushlight.cache")
    width, rows, dims = CASES[name]
    model, x = net(width), torch.randn(rows, width)
    packaged(exported(model, (x,), dims and (dims,)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.1)
    made, data = packaged(exported(model, (x,), dims and (dims,)))
    assert type(made) is Kept, caplog.text
    own = torch._inductor.aoti_load_package(io.BytesIO(data))
    np.testing.assert_allclose(own(x).numpy(), model(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_constants_that_lie_in_the_shared_object_are_compared():
    model, x = net(8), torch.randn(3, 8)
    packaged(exported(model, (x,)))
    with torch.no_grad():
        model[0].bias.add_(1)
    made, data = packaged(exported(model, (x,)))
    assert type(made) is not Kept
    np.testing.assert_allclose(loaded(data)(x).numpy(), model(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_constants_that_are_written_begin_as_they_are():
    for _ in range(2):
        made, data = packaged(exported(Counter(), (torch.ones(2),)))
        one = loaded(data)
        assert [one(torch.ones(2))[0].item() for _ in range(3)] == [1, 2, 3]
    assert type(made) is Kept


class Tied(nn.Module):
    def __init__(self, tied):
        super().__init__()
        self.a, self.b = nn.Linear(600, 600, bias=False), nn.Linear(600, 600, bias=False)
        if tied:
            self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x))


def test_weights_that_are_shared_are_another_package():
    x = torch.randn(2, 600)
    for tied in (True, False):
        model = Tied(tied)
        _, data = packaged(exported(model, (x,)))
        np.testing.assert_allclose(loaded(data)(x).numpy(), model(x).detach().numpy(), rtol=1e-3, atol=1e-4)


class Times(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x):
        return x * self.by


def test_sizes_bounds_and_numbers_are_part_of_the_name():
    x, batch = torch.randn(3, 8), torch.export.Dim("batch", min=1, max=70)
    packaged(exported(net(8), (x,), ({0: batch},)))
    for other in ({0: torch.export.Dim("batch", min=1, max=71)}, {0: torch.export.Dim("rows", min=1, max=70)}, None):
        assert type(packaged(exported(net(8), (x,), other and (other,)))[0]) is not Kept
    for by in (2.0, 3.0):
        assert loaded(packaged(exported(Times(by), (x,)))[1])(x).equal(x * by)


def test_operators_of_others_are_planned_each_time():
    with torch.library._scoped_library("kept_tests", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CPU")
        library.impl("twice", torch.empty_like, "Meta")

        class Twice(nn.Module):
            def forward(self, x):
                return torch.ops.kept_tests.twice(x)

        program = exported(Twice(), (torch.ones(2),))
        assert any("kept_tests" in str(node.target) for node in program.graph.nodes)
        assert identity(program) is None


def test_a_damaged_entry_is_made_again(folder):
    model, x = net(8), torch.randn(3, 8)
    packaged(exported(model, (x,)))
    for path in folder.glob("package/*/*"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    made, data = packaged(exported(model, (x,)))
    assert type(made) is not Kept
    np.testing.assert_allclose(loaded(data)(x).numpy(), model(x).detach().numpy(), rtol=1e-4, atol=1e-5)

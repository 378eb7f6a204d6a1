"""What ``jit.trace`` was given is saved as programs, which need no class of their author's; frozen modules."""
import copy
import io
import pickle
import subprocess
import sys
import zipfile

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402
from rushlight.jit.foreign import LoadedModule  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def network(library):
    class Network(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = library.nn.Conv2d(3, 8, 3, padding=1), library.nn.BatchNorm2d(8)
            self.head = library.nn.Linear(8, 4)
            self.register_buffer("shift", library.arange(4.0), persistent=False)

        def forward(self, x):
            x = library.relu(self.norm(self.conv(x)))
            return {"scores": self.head(x.mean((2, 3))) + self.shift, "sizes": x.flatten(1)}

    return Network()


def pair():
    """(ours, PyTorch's) with the same state, in eval mode."""
    torch.manual_seed(0)
    theirs, ours = network(torch).eval(), network(rl).eval()
    with torch.no_grad():
        theirs.norm.running_mean.normal_()
        theirs.norm.running_var.uniform_(0.5, 2)
    ours.load_state_dict({k: rl.from_numpy(v.numpy().copy()) for k, v in theirs.state_dict().items()})
    return ours, theirs


def through(module):
    file = io.BytesIO()
    rl.jit.save(module, file)
    return rl.jit.load(io.BytesIO(file.getvalue()))


def compare(found, wanted):
    rl.testing.assert_close(found["scores"], rl.from_numpy(wanted["scores"].detach().numpy()), rtol=1e-4, atol=1e-4)
    assert found["sizes"].shape == tuple(wanted["sizes"].shape)


@pytest.mark.parametrize("rows", [1, 2])
def test_a_traced_module_is_loaded_without_its_class(rows):
    ours, theirs = pair()
    loaded = through(rl.jit.trace(ours, rl.randn(rows, 3, 8, 8), strict=False))
    assert isinstance(loaded, rl.jit.ScriptModule) and not isinstance(loaded, LoadedModule)
    assert loaded.original_name == "Network" and not loaded.training
    assert list(loaded.state_dict()) == list(ours.state_dict())
    assert [n for n, _ in loaded.named_parameters()] == [n for n, _ in ours.named_parameters()]
    assert "shift" in dict(loaded.named_buffers())
    for count in (1, 2, 5):
        x = torch.randn(count, 3, 8, 8)
        compare(loaded(rl.from_numpy(x.numpy())), theirs(x))
    with pytest.raises(RuntimeError, match="Guard failed"):
        loaded(rl.zeros(2, 3, 8, 8, dtype=rl.float64))


def test_another_process_loads_it(tmp_path):
    ours, theirs = pair()
    rl.jit.trace(ours, rl.randn(2, 3, 8, 8), strict=False).save(tmp_path / "net.pt")
    text = ("import sys, rushlight as rl; m = rl.jit.load(sys.argv[1]); "
            "print(*m(rl.ones(3, 3, 8, 8))['scores'].flatten().tolist())")
    told = subprocess.run([sys.executable, "-c", text, str(tmp_path / "net.pt")], capture_output=True, text=True,
                          check=True).stdout
    wanted = theirs(torch.ones(3, 3, 8, 8))["scores"].flatten()
    assert torch.allclose(torch.tensor([float(n) for n in told.split()]), wanted, atol=1e-4)


def test_its_state_is_that_of_its_programs():
    ours, _ = pair()
    loaded, x = through(rl.jit.trace(ours, rl.randn(1, 3, 8, 8), strict=False)), rl.randn(4, 3, 8, 8)
    before, other = loaded(x)["scores"], copy.deepcopy(loaded)
    loaded.load_state_dict({k: v * 0 for k, v in loaded.state_dict().items()})
    for count in (1, 4):
        assert loaded(x[:count])["scores"].equal(rl.arange(4.0).expand(count, 4))
        assert not other(x[:count])["scores"].equal(rl.arange(4.0).expand(count, 4))
    loaded.shift = rl.zeros(4)
    assert not loaded(x)["scores"].any()
    rl.testing.assert_close(other(x)["scores"], before)
    again = pickle.loads(pickle.dumps(loaded))
    assert not through(again)(x)["scores"].any() and not again(x)["scores"].any()


def test_files_name_extra_files_and_are_no_pickles(tmp_path):
    file = io.BytesIO()
    rl.jit.save(rl.jit.trace(pair()[0], rl.randn(1, 3, 8, 8), strict=False), file, _extra_files={"labels.txt": "cat"})
    extra = {"labels.txt": "", "other": ""}
    rl.jit.load(io.BytesIO(file.getvalue()), _extra_files=extra)
    assert extra == {"labels.txt": b"cat", "other": b""}
    assert not [n for n in zipfile.ZipFile(file).namelist() if n.endswith(".pkl")]


def test_damaged_files_are_refused():
    file = io.BytesIO()
    rl.jit.save(rl.jit.trace(pair()[0], rl.randn(2, 3, 8, 8), strict=False), file)
    whole = zipfile.ZipFile(file)
    for name, content in (("jit.json", b"{"), ("jit.json", b'{"programs": 2}'), ("programs/0.pt2", b"PK")):
        held = io.BytesIO()
        with zipfile.ZipFile(held, "w") as bad:
            for one in whole.namelist():
                bad.writestr(one, content if one.endswith(name) else whole.read(one))
        with pytest.raises(RuntimeError, match="cannot read"):
            rl.jit.load(io.BytesIO(held.getvalue()))


def test_functions_keep_the_branches_of_their_examples():
    scale = rl.tensor([1.0, 2.0])
    traced = rl.jit.trace(lambda x, y: (x * scale if x.shape[1] == 2 else x) + y, (rl.ones(3, 2), rl.ones(3, 2)))
    loaded = through(traced)
    assert loaded(rl.ones(7, 2), rl.zeros(7, 2)).equal(scale.expand(7, 2))
    assert any("mul" in node.kind() for node in traced.graph.nodes())


def test_what_fits_no_graph_is_saved_by_its_code(tmp_path):
    def uneven(x):
        return x * 2 if x.sum() > 0 else x

    rl.jit.trace(uneven, rl.ones(2)).save(tmp_path / "f.pt")
    loaded = rl.jit.load(tmp_path / "f.pt")
    assert loaded(rl.ones(2)).tolist() == [2.0, 2.0] and loaded(-rl.ones(2)).tolist() == [-1.0, -1.0]


def test_autocast_of_a_trace_stays():
    ours, _ = pair()
    x = rl.randn(2, 3, 8, 8)
    with rl.no_grad(), rl.autocast("cpu", dtype=rl.bfloat16):
        traced = rl.jit.trace(ours.head, rl.randn(2, 8))
    for one in (traced, through(traced), rl.jit.freeze(traced), copy.deepcopy(traced)):
        assert one(x[:, 0, 0]).dtype == rl.bfloat16
    assert ours.head(x[:, 0, 0]).dtype == rl.float32


@pytest.mark.parametrize("how", ["traced", "scripted", "loaded", "of PyTorch"])
def test_frozen_modules_have_no_state(how):
    ours, theirs = pair()
    x = torch.randn(4, 3, 8, 8)
    wanted = theirs(x)
    if how == "of PyTorch":
        file = io.BytesIO()
        torch.jit.save(torch.jit.trace(theirs, torch.randn(1, 3, 8, 8), strict=False), file)
        made = rl.jit.load(io.BytesIO(file.getvalue()))
    else:
        made = rl.jit.script(ours) if how == "scripted" else rl.jit.trace(ours, rl.randn(1, 3, 8, 8), strict=False)
        made = through(made) if how == "loaded" else made
    frozen = rl.jit.freeze(made, preserved_attrs=["head"])
    with rl.no_grad():
        for parameter in made.parameters():
            parameter.zero_()
        for one in (frozen, rl.jit.optimize_for_inference(frozen), copy.deepcopy(frozen)):
            compare(one(rl.from_numpy(x.numpy())), wanted)
    assert not list(frozen.parameters()) and not frozen.state_dict() and not frozen.training
    assert frozen.head.weight.any()
    with pytest.raises(AttributeError):
        frozen.conv


def test_what_is_frozen_is_one_program():
    ours, _ = pair()
    frozen, x = rl.jit.freeze(rl.jit.trace(ours, rl.randn(2, 3, 8, 8), strict=False)), rl.randn(2, 3, 8, 8)
    frozen(x)
    with rl.profiler.profile() as profile:
        frozen(x)
    names = [event.name for event in profile.events()]
    assert not [name for name in names if "batch_norm" in name], names


def test_what_cannot_be_frozen():
    ours, _ = pair()
    with pytest.raises(RuntimeError, match="eval mode"):
        rl.jit.freeze(rl.jit.script(ours.train()))
    with pytest.raises(RuntimeError, match="ScriptModule"):
        rl.jit.freeze(ours.eval())
    with pytest.raises(AttributeError):
        rl.jit.freeze(rl.jit.script(ours), preserved_attrs=["absent"])


def test_whether_onednn_fuses_is_kept():
    assert not rl.jit.onednn_fusion_enabled()
    try:
        rl.jit.enable_onednn_fusion(True)
        assert rl.jit.onednn_fusion_enabled()
    finally:
        rl.jit.enable_onednn_fusion(False)

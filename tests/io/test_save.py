"""Checkpoints: both ways between Rushlight and torch, and what happens to bad files."""
import collections
import pickle

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def sample(t):
    base = t.arange(12, dtype=t.float32).reshape(3, 4)
    return {"weights": base, "view": base[:, 1:3], "half": base.to(t.bfloat16), "flags": base > 4,
            "nested": [1, 2.5, "text", None, (t.ones(2, dtype=t.int64),)],
            "dtype": t.float16, "size": t.Size([2, 3]), "parameter": t.nn.Parameter(t.ones(2)),
            "state": t.nn.Linear(2, 3).state_dict()}


def compare(ours, theirs):
    for name in ("weights", "view", "flags", "parameter"):
        assert ours[name].tolist() == theirs[name].tolist()
    assert ours["half"].float().tolist() == theirs["half"].float().tolist()
    assert ours["nested"][:4] == theirs["nested"][:4] and ours["nested"][4][0].tolist() == [1, 1]
    assert str(ours["dtype"]) == str(theirs["dtype"]) and tuple(ours["size"]) == (2, 3)
    assert isinstance(ours["parameter"], rl.nn.Parameter) and ours["parameter"].requires_grad
    assert list(ours["state"]) == ["weight", "bias"] and isinstance(ours["state"], collections.OrderedDict)


@pytest.mark.parametrize("weights_only", [True, False])
def test_torch_writes_we_read(tmp_path, weights_only):
    theirs = sample(torch)
    torch.save(theirs, tmp_path / "a.pt")
    compare(rl.load(tmp_path / "a.pt", weights_only=weights_only), theirs)


@pytest.mark.parametrize("weights_only", [True, False])
def test_we_write_torch_reads(tmp_path, weights_only):
    ours = sample(rl)
    rl.save(ours, tmp_path / "a.pt")
    compare(ours, torch.load(tmp_path / "a.pt", weights_only=weights_only))


def test_views_share_memory_again(tmp_path):
    rl.save(sample(rl), tmp_path / "a.pt")
    back = rl.load(tmp_path / "a.pt")
    back["weights"][0, 1] = 99
    assert back["view"][0, 0].item() == 99


def test_code_is_refused_by_default(tmp_path):
    class Evil:
        def __reduce__(self):
            return print, ("code ran",)
    torch.save({"x": Evil()}, tmp_path / "a.pt")
    with pytest.raises(pickle.UnpicklingError, match="Weights only"):
        rl.load(tmp_path / "a.pt")


@pytest.mark.parametrize("keep", [0, 10, 200, -40])
def test_damaged_files(tmp_path, keep):
    rl.save(sample(rl), tmp_path / "a.pt")
    data = (tmp_path / "a.pt").read_bytes()
    (tmp_path / "b.pt").write_bytes(data[:keep])
    with pytest.raises(RuntimeError if keep else EOFError):
        rl.load(tmp_path / "b.pt")


def test_a_failed_save_leaves_the_old_file(tmp_path):
    rl.save({"x": rl.ones(2)}, tmp_path / "a.pt")
    with pytest.raises(Exception):
        rl.save({"x": rl.zeros(2), "f": lambda: 0}, tmp_path / "a.pt")
    assert rl.load(tmp_path / "a.pt")["x"].tolist() == [1, 1]
    assert [p.name for p in tmp_path.iterdir()] == ["a.pt"]
    with pytest.raises(FileNotFoundError):
        rl.load(tmp_path / "none.pt")

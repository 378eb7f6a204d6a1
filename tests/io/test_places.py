"""``load`` with every kind of ``map_location``, pickle modules and mmap, beside torch: files of each read by each."""
import importlib
import pickle

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
WAYS = {
    "nothing": lambda t: None, "a name": lambda t: "meta", "a device": lambda t: t.device("cpu"),
    "a dict": lambda t: {"cpu": "meta"}, "a dict of others": lambda t: {"cuda:0": "meta"},
    "a function": lambda t: lambda storage, location: storage,
    "a function that leaves it": lambda t: lambda storage, location: None, "a number": lambda t: 3,
    "no such device": lambda t: "cuda",
    "no such name": lambda t: "nonsense",
    "another storage": lambda t: lambda storage, location: t.full((storage.nbytes() // 4,), 7.0).untyped_storage(),
}


def outcome(t, path, **options):
    try:
        found = t.load(path, **options)
    except (RuntimeError, TypeError, ValueError) as error:
        return next(kind for kind in (TypeError, ValueError, RuntimeError) if isinstance(error, kind))
    return [(k, type(v).__name__, str(v.device), v.requires_grad, v.tolist() if v.device.type != "meta"
             else list(v.shape)) for k, v in found.items()]


def saved(t, path, **options):
    x = t.arange(4.0)
    t.save({"a": x, "part": x[1:3], "p": t.nn.Parameter(t.ones(2, 2))}, path, **options)
    return path


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("options", [{}, {"weights_only": False}, {"mmap": True}], ids=str)
def test_places(way, options, tmp_path):
    for writer in (torch, rl):
        path = saved(writer, tmp_path / writer.__name__)
        theirs, ours = (outcome(t, path, map_location=WAYS[way](t), **options) for t in (torch, rl))
        assert theirs == ours
    if not options.get("mmap"):
        path = saved(rl, tmp_path / "old", _use_new_zipfile_serialization=False)
        theirs, ours = (outcome(t, path, map_location=WAYS[way](t), **options) for t in (torch, rl))
        assert theirs == ours


def test_functions_see_each_storage_once(tmp_path):
    seen = {t: [] for t in (torch, rl)}
    for t in seen:
        t.load(saved(t, tmp_path / t.__name__),
               map_location=lambda storage, location, t=t: seen[t].append((type(storage).__name__, location,
                                                                           storage.nbytes())))
    assert seen[rl] == seen[torch] and len(seen[rl]) == 2


@pytest.mark.parametrize("kind", ["file", "old", "neither"])
def test_mmap_wants_the_path_of_an_archive(kind, tmp_path):
    path = saved(rl, tmp_path / "x", _use_new_zipfile_serialization=kind != "old")
    for t in (torch, rl):
        with pytest.raises(ValueError if kind == "file" else RuntimeError):
            if kind == "neither":
                (tmp_path / "y").write_bytes(b"nothing")
            t.load(open(path, "rb") if kind == "file" else tmp_path / "y" if kind == "neither" else path, mmap=True)


class Marked:
    """A pickle module that counts what it makes."""

    __name__, made = "marked", []
    UnpicklingError, load, dump = pickle.UnpicklingError, staticmethod(pickle.load), staticmethod(pickle.dump)

    class Pickler(pickle._Pickler):
        def __init__(self, *args, **kwargs):
            Marked.made.append("Pickler")
            super().__init__(*args, **kwargs)

    class Unpickler(pickle._Unpickler):
        def __init__(self, *args, **kwargs):
            Marked.made.append("Unpickler")
            super().__init__(*args, **kwargs)


@pytest.mark.parametrize("options", [{"weights_only": False}, {"weights_only": True}, {},
                                     {"weights_only": False, "nonsense": 1}], ids=str)
def test_pickle_modules(options, tmp_path):
    seen = []
    for t in (torch, rl):
        Marked.made.clear()
        path = saved(t, tmp_path / t.__name__, pickle_module=Marked)
        seen.append((outcome(t, path, pickle_module=Marked, **options), list(Marked.made)))
    assert seen[0] == seen[1]


def test_picklers_that_are_not_pythons(tmp_path):
    class Compiled:
        Pickler = object
    with pytest.raises(NotImplementedError, match="pickle_module"):
        rl.save({}, tmp_path / "x", pickle_module=Compiled)
    rl.save({}, tmp_path / "x", pickle_module=importlib.import_module("pickle"), pickle_protocol=4)
    assert torch.load(tmp_path / "x", weights_only=False) == {}


def test_picklers_derived_from_the_compiled_one(tmp_path):
    cloudpickle = pytest.importorskip("cloudpickle")
    scale = 3.0

    class Local:
        def __init__(self, t):
            self.weight = t

    for t in (torch, rl):
        weight = t.arange(6.0).reshape(2, 3)
        whole = {"f": lambda x: x * scale, "object": Local(weight), "row": weight[1], "plain": [weight, t.float64]}
        t.save(whole, tmp_path / "x", pickle_module=cloudpickle)
        found = t.load(tmp_path / "x", weights_only=False)
        assert found["f"](2.0) == 6.0 and found["plain"][1] is t.float64
        assert found["object"].weight.tolist() == weight.tolist()
        found["row"].fill_(7.0)  # all see one storage still
        assert found["object"].weight[1].tolist() == found["plain"][0][1].tolist() == [7.0] * 3
        t.save({"a": weight}, tmp_path / "x", pickle_module=type("Module", (), {"Pickler": pickle.Pickler}))
        assert t.load(tmp_path / "x")["a"].tolist() == weight.tolist()

"""What ``weights_only=True`` makes of files that somebody wrote by hand: nothing that PyTorch refuses; and files from
before zip archives."""
import collections
import io
import pickle
import random
import struct
import zipfile

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def archive(text, storages=None, **extra):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        out.writestr("archive/data.pkl", text)
        for key, value in {"0": b"\0\0\x80\x3f" * 4, **(storages or {})}.items():
            out.writestr(f"archive/data/{key}", value)
        for key, value in {"version": b"3\n", "byteorder": b"little", **extra}.items():
            if value is not None:
                out.writestr(f"archive/{key}", value)
    file.seek(0)
    return file


def outcome(t, text):
    try:
        return type(t.load(archive(text), weights_only=True)).__name__
    except Exception as error:
        return error


STORAGE = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x04tQ"
TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n(" + STORAGE + b"K\0(K\x04t(K\x01t\x89ccollections\nOrderedDict\n)RtR"
VALUES = {"list": b"]", "dict": b"}", "ordered": b"ccollections\nOrderedDict\n)R",
          "counter": b"ccollections\nCounter\n)R", "set": b"c__builtin__\nset\n(]tR", "tensor": TENSOR,
          "bytearray": b"c__builtin__\nbytearray\n)R", "complex": b"c__builtin__\ncomplex\nK\x01K\x02\x86R",
          "size": b"ctorch\nSize\n(K\x01K\x02ttR", "text": b"X\x01\0\0\0a", "int": b"K\x05",
          "none": b"N", "tuple": b"K\x01\x85", "dtype": b"ctorch\nfloat32\n", "class": b"ccollections\nOrderedDict\n",
          "parameter": b"ctorch._utils\n_rebuild_parameter\n" + TENSOR + b"\x89ccollections\nOrderedDict\n)R\x87R"}
ACTS = {"set an item": b"K\x00K\x05s", "set items": b"(K\x00K\x05u", "append": b"K\x07a", "extend": b"(K\x07e",
        "build": b"}X\x01\0\0\0xK\x01sb", "build a tuple": b"N}X\x01\0\0\0xK\x01s\x86b",
        "call": b")R", "call with one": b"K\x01\x85R", "new": b")\x81", "nothing": b""}


@pytest.mark.parametrize("value", VALUES)
def test_what_pytorch_refuses_is_refused(value):
    """Each value is made, and then written to, called, and built upon."""
    for name, act in ACTS.items():
        text = b"\x80\x02" + VALUES[value] + act + b"."
        ours, theirs = outcome(rl, text), outcome(torch, text)
        if isinstance(theirs, Exception):
            assert isinstance(ours, (pickle.UnpicklingError, RuntimeError)), (name, ours, theirs)
        elif name == "nothing" or value in ("list", "dict", "ordered", "set") and name != "build a tuple":
            assert ours == theirs, (name, ours, theirs)


@pytest.mark.parametrize("text", [b"cos\nsystem\nX\x02\0\0\0ls\x85R.", b"cbuiltins\neval\nX\x01\0\0\x001\x85R.",
                                  b"cbuiltins\ngetattr\n.", b"(X\x02\0\0\0lsios\nsystem\n.",
                                  b"(cos\nsystem\nX\x02\0\0\0lso.", b"\x82\x01.",
                                  b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R.",
                                  b"\x80\x04\x8c\x0bcollections\x8c\x14OrderedDict.__init__\x93.",
                                  b"ctorch\nload\nX\x01\0\0\0a\x85R.", b"cnumpy\nload\n.",
                                  b"ctorch.serialization\nload\n.", b"X\x01\0\0\0aQ.",
                                  b"(X\x06\0\0\0modulectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x04tQ.",
                                  b"]" * 5000 + b"a" * 4999 + b"R.", b"\x8b" + struct.pack("<i", 1 << 30) + b"1.",
                                  b"\x8d" + b"\xff" * 7 + b"\x7fabc.", b"Nr\xff\xff\xff\x7f."])
def test_hostile_pickles_make_nothing(text):
    assert isinstance(outcome(rl, b"" + text),
                      (pickle.UnpicklingError, RuntimeError, type(None), str)) and not isinstance(outcome(rl, text),
                                                                                                  (int, SystemExit))
    if text not in (b"Nr\xff\xff\xff\x7f.",):
        assert isinstance(outcome(rl, text), Exception)


def test_random_pickles_are_refused_or_plain():
    chance, pieces = random.Random(1), [*VALUES.values(), *ACTS.values(), b"(", b"t", b"\x85", b"2", b"0", b"q\x01",
                                        b"h\x01"]
    for _ in range(600):
        text = b"\x80\x02" + b"".join(chance.choices(pieces, k=chance.randrange(1, 9))) + b"."
        ours, theirs = outcome(rl, text), outcome(torch, text)
        assert not isinstance(ours, Exception) or isinstance(ours, (pickle.UnpicklingError, RuntimeError)), (text, ours)
        if isinstance(theirs, pickle.UnpicklingError) and not isinstance(ours, Exception):
            raise AssertionError((text, ours, theirs))


@pytest.mark.parametrize("use", [b"K\x01s", b"u", b"c__builtin__\nset\n", b"ccollections\nOrderedDict\n"],
                         ids=["item", "items", "set", "ordered"])
def test_deep_keys_are_refused(use):
    """Hashing them would exhaust the stack."""
    deep = b")" + b"\x85" * 100_000
    text = {b"K\x01s": b"}" + deep + use,
            b"u": b"}(" + deep + b"K\x01u"}.get(use) or use + b"]" + (deep if b"set" in use
                                                                      else deep + b"K\x01\x86") + b"a\x85R"
    for old in (False, True):
        file = io.BytesIO()
        torch.save(1, file, _use_new_zipfile_serialization=False)
        start = file.getvalue()[:-len(pickle.dumps(1, 2) + pickle.dumps([], 2))]
        with pytest.raises((pickle.UnpicklingError, RuntimeError)):
            rl.load(io.BytesIO(start + b"\x80\x02" + text + b"." + pickle.dumps([], 2)) if old
                    else archive(b"\x80\x02" + text + b"."))
    big = {(k, (k, str(k))): k for k in range(300)}
    file = io.BytesIO()
    rl.save({"x": big, "y": [[[[(1, 2)]]]] * 3}, file)
    file.seek(0)
    assert rl.load(file)["x"] == big


def test_sets_and_other_plain_values_load():
    values = {"set": {1, 2}, "bytes": bytearray(b"ab"), "z": 1 + 2j, "n": collections.Counter("aab"), "l": [1, (2,)]}
    for t, other in ((rl, torch), (torch, rl)):
        file = io.BytesIO()
        t.save(values, file)
        file.seek(0)
        assert other.load(file, weights_only=True) == values


class Own:
    def __init__(self, x):
        self.x = x


def test_what_the_user_allows_is_made_and_blocked_modules_never_are():
    file = io.BytesIO()
    rl.save(Own(3), file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError,
                       match=r"GLOBAL tests\.io\.test_weights_only\.Own was not an allowed global"):
        rl.load(file)
    file.seek(0)
    assert rl.serialization.get_unsafe_globals_in_checkpoint(file) == ["tests.io.test_weights_only.Own"]
    with rl.serialization.safe_globals([Own]):
        file.seek(0)
        assert rl.load(file).x == 3
    import os
    with rl.serialization.safe_globals([os.getcwd, (os.getcwd, "os.getcwd")]), pytest.raises(pickle.UnpicklingError,
                                                                                             match="blocked"):
        rl.load(archive(b"cos\ngetcwd\n)R."))


@pytest.mark.parametrize("variable, argument, loads",
                         [("TORCH_FORCE_WEIGHTS_ONLY_LOAD", False, False),
                          ("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", None, True),
                          ("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", True, False)])
def test_the_environment_may_decide(variable, argument, loads, monkeypatch):
    monkeypatch.setenv(variable, "1")
    file = io.BytesIO()
    rl.save(Own(3), file)
    file.seek(0)
    if loads:
        assert rl.load(file, weights_only=argument).x == 3
    else:
        with pytest.raises(pickle.UnpicklingError):
            rl.load(file, weights_only=argument)


@pytest.mark.parametrize("kind, code, values", [("Float", ">f", [1.5, -2.0]), ("Long", ">q", [3, -4]),
                                                ("ComplexFloat", ">ff", [1 + 2j]), ("Half", ">e", [0.5]),
                                                ("Bool", ">?", [True])])
def test_other_orders_of_bytes_are_turned(kind, code, values):
    data = b"".join(struct.pack(code, *((v.real, v.imag) if isinstance(v, complex) else (v,))) for v in values)
    text = b"\x80\x02" + TENSOR.replace(b"FloatStorage",
                                        kind.encode() + b"Storage").replace(b"K\x04", bytes([75, len(values)])) + b"."
    for order in (b"big", None):
        rl.serialization.set_default_load_endianness(None if order else rl.serialization.LoadEndianness.BIG)
        try:
            assert rl.load(archive(text, {"0": data}, byteorder=order)).tolist() == values
        finally:
            rl.serialization.set_default_load_endianness(None)
    with pytest.raises(ValueError, match="endianness"):
        rl.load(archive(text, {"0": data}, byteorder=b"middle"))


@pytest.mark.parametrize("old", [True, False])
def test_file_objects_that_know_little_are_enough(old):
    class Little:
        def __init__(self, file):
            self.read, self.readline, self.seek, self.tell = file.read, file.readline, file.seek, file.tell
    file = io.BytesIO()
    torch.save({"x": torch.arange(3)}, file, _use_new_zipfile_serialization=not old)
    file.seek(0)
    assert rl.load(Little(file))["x"].tolist() == [0, 1, 2]


def test_storages_of_more_than_31_bits_are_written_whole():
    import types
    data = (4 << 30) + 1
    view = rl.serialization.storage_bytes(types.SimpleNamespace(address=1 << 40, nbytes=data))  # nothing is read here
    assert view.nbytes == data == len(view)


# --- before zip archives ----------------------------------------------------------------------------------------------
def sample(t):
    base = t.arange(12, dtype=t.float32).reshape(3, 4)
    return {"base": base, "view": base[:, 1:3], "half": base.to(t.bfloat16), "long": t.arange(3),
            "z": t.ones(2, dtype=t.complex64), "state": t.nn.Linear(2, 3).state_dict(),
            "parameter": t.nn.Parameter(t.ones(2)), "sparse": t.eye(3).to_sparse(), "text": "x", "empty": t.ones(0)}


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("writer, reader", [(torch, rl), (rl, torch), (rl, rl)])
def test_old_files_are_read_and_written(writer, reader, weights_only):
    value, file = sample(writer), io.BytesIO(b"")
    writer.save(value, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    again = reader.load(file, weights_only=weights_only)
    for name in ("base", "view", "long", "z", "empty"):
        assert again[name].tolist() == value[name].tolist()
    assert again["sparse"].to_dense().tolist() == value["sparse"].to_dense().tolist() and again[
        "half"].float().tolist() == value["half"].float().tolist()
    assert list(again["state"]) == ["weight", "bias"] and again["parameter"].requires_grad and again["text"] == "x"
    again["base"][0, 1] = 99
    assert again["view"][0, 0].item() == 99
    assert file.read() == b""


def test_damaged_old_files_are_errors():
    file, chance = io.BytesIO(), random.Random(0)
    torch.save(sample(torch), file, _use_new_zipfile_serialization=False)
    whole = file.getvalue()
    for trial in range(300):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(20, len(data))] = chance.randrange(256)
        data = data[:chance.randrange(20, len(data))] if trial % 2 else data
        try:
            rl.load(io.BytesIO(bytes(data)))
        except (RuntimeError, pickle.UnpicklingError, EOFError, MemoryError):
            pass
    old = io.BytesIO()
    torch.save(Own(3), old, _use_new_zipfile_serialization=False)
    with pytest.raises(pickle.UnpicklingError, match="Own"):
        rl.load(io.BytesIO(old.getvalue()))
    assert rl.load(io.BytesIO(old.getvalue()), weights_only=False).x == 3


@pytest.mark.parametrize("writer, reader", [(torch, rl), (rl, torch), (rl, rl)])
def test_tensors_without_memory_are_saved_as_such(writer, reader):
    file = io.BytesIO()
    writer.save({"x": writer.empty(1 << 40, 2, device="meta").t(), "p": writer.nn.Linear(3, 4, device="meta").weight},
                file)
    file.seek(0)
    again = reader.load(file)
    assert again["x"].shape == (2, 1 << 40) and again["x"].stride() == (1, 2) and again[
        "x"].device.type == "meta" and again["p"].requires_grad


class Activated(rl.nn.Module):
    """A module that keeps an operator as its activation."""

    def __init__(self, activation):
        super().__init__()
        self.activation = activation


def test_operators_that_the_user_allowed(tmp_path):
    relu, gelu, file = rl.nn.functional.relu, rl.nn.functional.gelu, tmp_path / "m.pt"
    rl.save(Activated(relu), file)
    before = rl.serialization.get_safe_globals()
    with rl.serialization.safe_globals([Activated, relu, set]):
        assert rl.load(file).activation is relu
        assert len(rl.serialization.get_safe_globals()) == len(before) + 3
    assert rl.serialization.get_safe_globals() == before
    for allowed in ([Activated], [Activated, gelu]):
        with rl.serialization.safe_globals(allowed), pytest.raises(pickle.UnpicklingError, match="relu|named"):
            rl.load(file)

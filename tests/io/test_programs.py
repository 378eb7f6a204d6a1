"""Files of programs run code when they are read: only what this user wrote here, or what the caller trusts, is."""
import io
import pickle
import zipfile

import pytest

import rushlight as torch
from rushlight._src import programs


class Ran(Exception):
    pass


def run():
    raise Ran


class Evil:
    def __reduce__(self):
        return run, ()


def model():
    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())


def elsewhere(data, monkeypatch, tmp_path):
    """The same file on a machine with a secret of its own."""
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path / "other"))
    return io.BytesIO(data)


WRITE = {"jit": lambda f: torch.jit.save(torch.jit.script(model()), f)}
READ = {"jit": torch.jit.load}
each = pytest.mark.parametrize("name", WRITE)


@each
def test_own_files_are_read_and_others_only_when_trusted(name, tmp_path, monkeypatch):
    file = io.BytesIO()
    WRITE[name](file)
    WRITE[name](tmp_path / "m.pt2")
    READ[name](tmp_path / "m.pt2")
    assert READ[name](io.BytesIO(file.getvalue())) is not None
    with pytest.raises((RuntimeError, pickle.UnpicklingError), match="trusted=True"):
        READ[name](elsewhere(file.getvalue(), monkeypatch, tmp_path))
    assert READ[name](io.BytesIO(file.getvalue()), trusted=True) is not None


@each
@pytest.mark.parametrize("how", ["unsigned", "signed by nobody", "changed after it was signed", "second pickle"])
def test_nothing_of_a_hostile_file_runs(name, how, tmp_path):
    hostile, file = io.BytesIO(), io.BytesIO()
    torch.save(Evil(), hostile)
    pickled = zipfile.ZipFile(hostile).read("archive/data.pkl")
    WRITE[name](file)
    own = zipfile.ZipFile(file)
    warned = pytest.warns(UserWarning, match="Duplicate") if how == "second pickle" else torch.no_grad()
    with zipfile.ZipFile(tmp_path / "bad", "w") as bad, warned:
        for entry in own.namelist():
            content = own.read(entry)
            if how == "second pickle" or not entry.endswith(("data.pkl", "signature")):
                bad.writestr(entry, content)
        if how == "second pickle":
            bad.writestr("archive/data.pkl", pickled)
        else:
            bad.writestr("archive/data.pkl", pickled)
            if how != "unsigned":
                bad.writestr("archive/signature", bytes(32) if how == "signed by nobody"
                             else own.read("archive/signature"))
    with pytest.raises((RuntimeError, pickle.UnpicklingError), match="trusted=True"):
        READ[name](tmp_path / "bad")


def test_without_a_cache_the_process_trusts_itself(monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CACHE", "0")
    file = io.BytesIO()
    WRITE["jit"](file)
    assert READ["jit"](io.BytesIO(file.getvalue())) is not None
    programs.cache._passing.cache_clear()
    with pytest.raises((RuntimeError, pickle.UnpicklingError), match="trusted=True"):
        READ["jit"](io.BytesIO(file.getvalue()))

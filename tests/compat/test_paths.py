"""Every public path and name of PyTorch can be imported here, and takes the parameters that it takes there."""
import difflib
import functools
import importlib.util
import inspect
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import rushlight
from rushlight._src.compat import absent, table
from tests.compat.table import ROOT, pytorch

ABSENT = {}  # path.name -> why it cannot be here: at most 60, of devices that this machine lacks
WORKING = 0.68  # of public names, those that do what they say: the rest refuse to be used


@pytest.fixture(scope="module")
def known():
    return pytorch()["modules"]


def ours(path):
    return importlib.import_module(table.OURS + path.removeprefix(table.THEIRS))


def found(path, name):
    """Our object of this name; AttributeError where there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return functools.reduce(getattr, name.split("."), ours(path))


def test_no_path_is_missing(known):
    missing = []
    for path in known:
        try:
            ours(path)
        except ImportError as error:
            missing.append(f"{path}: {error}")
    assert len(known) > 800 and not missing


def test_no_name_is_missing(known):
    missing = set()
    for path, module in known.items():
        for name, entry in module["names"].items():
            try:
                entry["kind"] == "module" or found(path, name)
            except AttributeError:
                missing.add(f"{path}.{name}")
    assert missing == set(ABSENT) and len(ABSENT) <= 60


def test_what_the_table_lists_can_be_had():
    """Also of private modules, each name once, and from where it is said to live."""
    for file in Path(table.FOLDER).glob("*.txt"):
        for path in table.room(file.stem):
            for name in table.entries(path):
                found(path, name)


def test_lines_by_hand_say_where_ours_lies():
    """What a line takes from a path that PyTorch lacks is ours: written with its own name, or it goes when the table is
    written again."""
    root = Path(importlib.util.find_spec("torch").origin).parents[1]
    for file in Path(table.FOLDER).glob("*.txt"):
        for path in table.room(file.stem):
            for name, (kind, rest) in table.entries(path).items():
                home = rest.partition(":")[0] if kind == "from" else ""
                if home.startswith(f"{table.THEIRS}."):
                    place = root.joinpath(*home.split("."))
                    there = place.is_dir() or any(place.parent.glob(place.name + ".*")) or home in sys.modules
                    assert there, f"{path}.{name} is taken from {home}"


def test_importing_reads_no_table():
    text = ("import rushlight, rushlight.nn.functional as F; from rushlight._src.compat import table; F.relu, "
            "rushlight.optim.Adam; print(table.room.cache_info().currsize)")
    assert subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True,
                          check=True).stdout.strip() == "0"


def test_signatures_of_names_that_refuse(known):
    """Parameters are those of PyTorch, where it tells them."""
    seen = 0
    for path, module in known.items():
        for name, (kind, _) in table.entries(path).items():
            entry = module["names"].get(name, {})
            if kind in ("def", "class") and entry.get("signature") is not None and not inspect.ismodule(
                    found(path, name)):
                seen += 1
                assert inspect.signature(found(path, name)) == absent.signature_of(
                    f"({entry['signature']})"), f"{path}.{name}"
    assert seen > 1000


def reason_key(path):
    """The longest beginning of a path that has a reason in ``absent.REASONS``."""
    path = path.partition(".")[2]
    while path not in absent.REASONS:
        path = path.rpartition(".")[0]
    return path


def test_reasons_are_those_of_names_that_refuse():
    """What has been built meanwhile leaves no reason behind."""
    refusing = {f"{path}.{name}" for file in Path(table.FOLDER).glob("*.txt") for path in table.room(file.stem)
                for name, (kind, _) in table.entries(path).items() if kind in ("def", "class", "object")}
    assert set(absent.REASONS) - {reason_key(path) for path in refusing} == set()


def test_one_object_has_many_paths():
    from rushlight import ao, optim, quantization
    assert quantization.MinMaxObserver is ao.quantization.MinMaxObserver is ao.quantization.observer.MinMaxObserver
    assert optim.adam.Adam is rushlight.optim.Adam and rushlight.optim.adam.__all__[0] == "Adam"
    import rushlight.nn.modules.padding as padding
    assert padding.ZeroPad2d is rushlight.nn.ZeroPad2d and rushlight.nn.modules.padding is padding


def test_names_that_refuse_are_classes_and_functions():
    """They can be subclassed, asked by ``isinstance``, stand in annotations and travel by name; what uses them is
    refused with a number."""
    from rushlight.ao.nn.quantizable import LSTM
    from rushlight.ao.quantization import QConfig, prepare_jit

    class Mine(LSTM):
        def __init__(self, other: QConfig, more=1):
            super().__init__()

    assert issubclass(Mine, LSTM) and not isinstance(3, LSTM)
    assert list(inspect.signature(Mine.__init__).parameters) == ["self", "other", "more"]
    for use in (lambda: LSTM(2, 2), lambda: Mine(None), lambda: prepare_jit(rushlight.nn.Linear(2, 2), {})):
        with pytest.raises(NotImplementedError, match="error 1003"):
            use()
    assert issubclass(rushlight.nn.parallel.distributed.DistributedDataParallel, object)


def test_names_travel_by_their_path():
    text = """if True:
        import pickle, rushlight.compat
        rushlight.compat.install()
        import torch.ao.quantization.observer as m
        from torch.optim.adam import Adam
        print(pickle.loads(pickle.dumps(m.MinMaxObserver)) is m.MinMaxObserver, pickle.loads(b"ctorch.optim.adam\\nAdam\\n.") is Adam)"""
    assert subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True,
                          check=True).stdout.split() == ["True", "True"]


def test_most_names_work(known):
    """How many public names do what they say: it does not fall."""
    refuse = sum(kind in ("def", "class", "object") for path in known for kind, _ in table.entries(path).values())
    total = sum(len(module["names"]) for module in known.values())
    assert total > 7000 and 1 - refuse / total > WORKING, 1 - refuse / total


@pytest.mark.long
def test_the_table_is_what_is_written(tmp_path):
    """Who defines a name, or adds a line by hand, writes the table again."""
    subprocess.run([sys.executable, "-m", "tests.compat.table", str(tmp_path)], cwd=ROOT, check=True)
    names = Path(table.FOLDER)
    assert {p.name for p in tmp_path.glob("*.txt")} == {p.name for p in names.glob("*.txt")}
    differing = {p.name: list(difflib.unified_diff(p.read_text().splitlines(),
                                                   (tmp_path / p.name).read_text().splitlines(), lineterm="", n=0))
                 for p in names.glob("*.txt")}
    assert not any(differing.values()), {name: lines for name, lines in differing.items() if lines}

"""Settings of PyTorch's compiler: all can be read, those that nothing heeds say so once when they change."""
import importlib
import pathlib
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest

import rushlight
from rushlight._src.core.configuration import Configuration, Warned, owner_of
from rushlight._src.core.settings import settings

torch = pytest.importorskip("torch")


def modules_of_settings() -> list:
    """The paths, below ``torch``, of the modules of settings that the installed PyTorch has, but those of its tests."""
    root = pathlib.Path(torch.__file__).parent
    paths = [path.relative_to(root).with_suffix("") for path in root.rglob("*config*.py")
             if path.stem != "_config_module" and "install_config_module(sys.modules[__name__])" in path.read_text()]
    return sorted(".".join(path.parts) for path in paths if path.parts[0] != "testing")


ROOMS = modules_of_settings()


def configs(room):
    path = room if room in ROOMS else f"{room}.config"
    return [importlib.import_module(f"{library.__name__}.{path}") for library in (torch, rushlight)]


def test_modules_of_settings_are_found():
    assert {"_dynamo.config", "_export.config", "_inductor.config_comms", "compiler.config", "distributed.config",
            "fx.experimental._config", "utils.serialization.config"} <= {*ROOMS}


def changed(value):
    """Another value for a setting, None where it is not a number."""
    return not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("room", ROOMS)
def test_every_setting_is_patched_for_a_block_and_restored(room):
    theirs, ours = configs(room)
    assert isinstance(ours, Configuration)
    patched = 0
    for path in theirs._config:
        if "TYPE_CHECKING" in path:
            continue
        owner, name = owner_of(ours, path)
        before = getattr(owner, name)
        value = changed(before)
        if value is None:
            continue
        blocks = [ours.patch(path, value), ours.patch({path: value}), ours.patch(**{path: value}),
                  mock.patch.object(owner, name, value)]
        seen = ours.patch({path: value})(lambda: getattr(owner, name))  # noqa: B023 - called in this round
        for block in blocks:
            with block:
                assert getattr(owner, name) == value, path
            assert getattr(owner, name) == before, path
        assert seen() == value and getattr(owner, name) == before, path
        with pytest.raises(ZeroDivisionError), ours.patch({path: value}):
            1 / 0
        assert getattr(owner, name) == before, path
        patched += 1
    assert patched


@pytest.mark.parametrize("room", ROOMS)
def test_what_patch_does_not_take_is_refused_as_by_pytorch(room):
    theirs, ours = configs(room)
    name = next(n for n in theirs._config if "TYPE_CHECKING" not in n)
    for arguments, more in (((name,), {}), ((3,), {}), (({}, 1), {}), ((name, 1), {name: 2}), (({},), {name: 2})):
        said = []
        for config in (theirs, ours):
            with pytest.raises(AssertionError) as raised:
                config.patch(*arguments, **more)
            said.append(str(raised.value))
        assert said[0] == said[1]
    unknown = "no_such_setting"
    for arguments, more in (((unknown, 1), {}), (({unknown: 1},), {}), ((), {unknown: 1})):
        for config in (theirs, ours):
            with pytest.raises(AttributeError), config.patch(*arguments, **more):
                pass


def test_a_block_that_cannot_begin_changes_nothing():
    config = configs("_inductor")[1]
    before = config.fx_graph_cache
    with pytest.raises(AttributeError), config.patch({"fx_graph_cache": not before, "no_such_setting": 1}):
        pass
    with pytest.raises(ValueError), config.patch({"fx_graph_cache": not before, "bucket_all_reduces_fx": "no such"}):
        pass
    assert config.fx_graph_cache == before


@pytest.fixture
def told(monkeypatch):
    monkeypatch.setattr(Warned, "names", set())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("room", ROOMS)
def test_every_setting_can_be_read(room):
    theirs, ours = configs(room)
    for name in theirs._config:
        if "TYPE_CHECKING" not in name:
            owner = ours
            for part in name.split("."):
                owner = getattr(owner, part)


def test_what_nothing_heeds_says_so_once(told):
    config = configs("_inductor")[1]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        config.triton.cudagraphs = config.triton.cudagraphs  # as it was
        assert not seen
        with config.patch({"triton.cudagraphs": True}), config.patch("triton.cudagraphs", True):
            assert config.triton.cudagraphs is True
    assert [str(w.message).split(" = ")[0]
            for w in seen] == ["torch._inductor.config.triton.cudagraphs"] and "no effect" in str(seen[0].message)
    assert config.triton.cudagraphs is False and seen[0].filename == __file__


def test_what_has_a_meaning_takes_effect(told):
    _, dynamo = configs("_dynamo")
    _, compiler = configs("compiler")
    _, inductor = configs("_inductor")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with compiler.patch(recompile_limit=3):
            assert dynamo.recompile_limit == 3 == settings.recompile_limit
        before = settings.cache
        with inductor.patch(force_disable_caches=True):
            assert settings.cache == "0" and compiler.force_disable_caches
        assert settings.cache == before
        with inductor.patch(disable_progress=True):
            assert settings.progress == 0
    with pytest.raises(AttributeError, match="did you mean 'freezing'"):
        inductor.freezin = True


def test_settings_can_be_patched_as_attributes():
    config = rushlight._dynamo.config
    with mock.patch("rushlight._dynamo.config.suppress_errors", True):
        assert config.suppress_errors is True
    assert config.suppress_errors is False


@pytest.mark.parametrize("library", ["rushlight", "torch"])
def test_a_setting_that_does_not_exist_is_refused_where_the_block_begins(library):
    config = importlib.import_module(f"{library}._dynamo.config")
    changed = config.patch(no_such_setting=True)
    with pytest.raises(AttributeError), changed:
        pass


def test_options_of_one_thread_are_not_those_of_another():
    """Two threads whose blocks overlap: neither sees what the other has set, and nothing of either stays."""
    inside, left = threading.Barrier(2), threading.Barrier(2)

    def see(value):
        with settings.set(bucket_all_reduces=value):
            inside.wait(60)
            seen = settings.bucket_all_reduces
            left.wait(60)
        return seen

    before = settings.bucket_all_reduces
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(see, ["all", "none"])) == ["all", "none"]
    assert settings.bucket_all_reduces == before
    with pytest.raises(AttributeError, match="there is no setting"), settings.set(no_such=1):
        pass

"""Settings of PyTorch's compiler: all can be read, those that nothing heeds say so once when they change."""
import importlib
import warnings

import pytest

import rushlight
from rushlight._src.core.configuration import Warned
from rushlight._src.core.settings import settings

torch = pytest.importorskip("torch")

ROOMS = ["_dynamo", "_inductor", "_functorch", "compiler"]


def configs(room):
    return [__import__(f"{library.__name__}.{room}.config", fromlist=["config"]) for library in (torch, rushlight)]


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
    from unittest import mock

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

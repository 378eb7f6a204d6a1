"""Machine code that tests keep: one compilation for each text, level and CPU; none for a text that is refused."""
from types import SimpleNamespace

import pytest

from .. import machine_code


@pytest.fixture
def compilations():
    return []


@pytest.fixture
def generate(compilations, tmp_path):
    """A code generator that keeps its results; ``compilations`` holds the texts that it was asked for."""
    def generate(text, level, context, machines, features):
        if text == "malformed":
            raise RuntimeError("expected top-level entity")
        compilations.append(text)
        return f"{text} {level} {features.fingerprint}".encode()

    def run(text, level=1, cpu="a"):
        kept = machine_code.keep(tmp_path / "kept", generate)  # as another process would
        return kept(text, level, None, {}, SimpleNamespace(fingerprint=cpu))
    return run


def test_a_text_is_compiled_once(generate, compilations):
    assert generate("text") == generate("text") == b"text 1 a" and compilations == ["text"]


def test_level_and_processor_count(generate, compilations):
    assert len({generate("text", level, cpu) for level in (1, 2) for cpu in "ab"}) == len(compilations) == 4


def test_an_error_is_raised_each_time(generate):
    for _ in range(2):
        with pytest.raises(RuntimeError, match="expected top-level"):
            generate("malformed")

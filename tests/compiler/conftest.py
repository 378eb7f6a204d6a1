"""``--update`` rewrites the golden files with what the compiler prints now."""

import pytest


def pytest_addoption(parser):
    parser.addoption("--update", action="store_true", help="rewrite golden files")


@pytest.fixture
def golden(request):
    """A function that compares text with a golden file below ``tests/golden``."""
    from pathlib import Path

    folder = Path(__file__).parents[1] / "golden"

    def check(name, text):
        path = folder / name
        if request.config.getoption("--update", default=False):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        assert path.read_text() == text + "\n"

    return check

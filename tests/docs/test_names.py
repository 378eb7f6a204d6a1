"""Links of the documentation lead somewhere, and the names that it uses are in the code."""
import keyword
import pathlib
import re
import subprocess

import pytest

from rushlight._src.core.op import OPS

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").rglob("*.md")
                                       if page.parent.name != "api")]  # written by docs/reference.py
SPAN = re.compile(r"`([^`\n]+)`")


@pytest.fixture(scope="module")
def files():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not in a checkout")
    return listed.stdout.split()


@pytest.fixture(scope="module")
def words(files):
    """Every word of the code, and of the names of its files."""
    code = [name for name in files if name.endswith(".py") and (ROOT / name).exists()]
    return {word for name in code for text in (name, (ROOT / name).read_text()) for word in re.findall(r"\w+", text)}


@pytest.fixture(params=PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def page(request):
    return request.param


def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert link.startswith("http") or (page.parent / link).exists(), link


def test_names_exist(page, words):
    """A name is in the code, or in an example of the page."""
    text = page.read_text()
    shown = set(re.findall(r"\w+", "\n".join(re.findall(r"^ {4}.*", text, flags=re.MULTILINE))))
    for span in SPAN.findall(text):
        if re.fullmatch(r"[\w.]+(\(.*\))?", span):
            missing = [word for word in re.findall(r"[A-Za-z_]\w+", span.partition("(")[0])
                       if word not in words | shown and not keyword.iskeyword(word)]
            assert not missing, span


def test_rooms_of_the_design_exist():
    """The table of packages names directories that exist."""
    table = (ROOT / "docs" / "design.md").read_text().partition("## Packages")[2].partition("\n## ")[0]
    rooms = re.findall(r"^ +(\w[\w/]*)/(?= )", table, flags=re.MULTILINE)
    assert len(rooms) > 15
    assert [room for room in rooms if not any((ROOT / "rushlight" / parent / room).is_dir()
                                              for parent in ("", "_src", "_src/core", "_src/compiler"))] == []


def test_the_first_page_counts_right():
    kinds = [operator.kind.name for operator in OPS.values() if operator.kind is not None]
    count, number = re.search(r"about (\d+) primitives of (\w+) kinds", (ROOT / "README.md").read_text()).groups()
    assert abs(int(count) - len(kinds)) < 10
    assert number == ["eight", "nine", "ten", "eleven", "twelve"][len(set(kinds)) - 8]

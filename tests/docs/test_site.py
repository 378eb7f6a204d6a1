"""The documentation is a site that Sphinx builds without a warning."""
import pathlib
import shutil
import subprocess
import sys

import pytest

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The directory of the built pages; sources are copied, so that nothing is written beside them."""
    for name in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(name)
    root = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS, root / "docs", ignore=shutil.ignore_patterns("api", "_build"))
    done = subprocess.run([sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", root / "docs", root / "html"],
                          cwd=DOCS.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return root / "html"


@pytest.mark.long
def test_the_reference_has_an_entry_with_its_example(site):
    page = (site / "api" / "linalg.html").read_text(encoding="utf-8")
    assert "torch.linalg.svd" in page and "pycon" in page


@pytest.mark.long
def test_each_page_is_in_the_table_of_contents(site):
    contents = (site / "index.html").read_text(encoding="utf-8")
    pages = [page.relative_to(DOCS).with_suffix(".html").as_posix() for page in DOCS.rglob("*.md")
             if page.parent.name not in ("api", "errors") and page.name != "index.md"]
    assert [page for page in pages if page not in contents] == []


@pytest.mark.long
def test_the_search_index_knows_names(site):
    assert "scaled_dot_product_attention" in (site / "searchindex.js").read_text(encoding="utf-8")

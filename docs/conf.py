"""Sphinx's configuration: ``python -m sphinx -W -b html docs build/docs`` with the extra ``rushlight[docs]``."""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # for reference.py

project = "Rushlight"
copyright = "the Rushlight developers"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["errors", "_build"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_missing"]  # links to files of the repository that are no pages
html_theme = "furo"
html_title = "Rushlight"
html_copy_source = False
pygments_style = "friendly"


def setup(app):
    import reference
    app.connect("builder-inited", lambda app: reference.write_pages(pathlib.Path(app.srcdir) / "api"))

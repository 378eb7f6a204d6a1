"""The pages for users run: each in a directory and a process of its own, as a user would run them.

Python blocks of a page are one program, in order; a block whose first line is a comment with a file's name is that
file; commands that run the package are executed.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted((*(DOCS / name for name in ("install.md", "quickstart.md", "from_pytorch.md")),
                *DOCS.glob("tutorials/*.md"), *DOCS.glob("howto/*.md")))
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# (\w+\.(?:py|toml))\n")
SHOWN = ("train.py", "serve.c")  # files that stand for the reader's own


def run(command, directory):
    environment = {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


def commands(block):
    """The commands of a block that run a module of the package or its launcher."""
    for line in re.findall(r"^\$ (.*)", block, flags=re.MULTILINE):
        words = shlex.split(line, comments=True)
        if words[:2] == ["python", "-m"] and words[2].startswith("rushlight"):
            yield [sys.executable, *words[1:]]
        elif words[0] == "rushlight-run":
            yield [sys.executable, "-m", "rushlight.distributed.run", *words[1:]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).with_suffix("").as_posix())
def test_page_runs(page, tmp_path):
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    program = []
    for kind, text in blocks:
        if kind == "python":
            name = NAMED.match(text)
            if name is None:
                program.append(text)
            else:
                (tmp_path / name[1]).write_text(text, encoding="utf-8")
    if program:
        (tmp_path / "page.py").write_text("\n".join(program), encoding="utf-8")
        run([sys.executable, "-m", "rushlight", "page.py"], tmp_path)
    for kind, text in blocks:
        for command in commands(text) if kind == "console" else ():
            if not any(word in SHOWN and not (tmp_path / word).exists() for word in command):
                run(command, tmp_path)

"""Paths, dotted names, functions in files and variables that the pages name can be found where the pages say."""
from __future__ import annotations

import ast
import fnmatch
import functools
import importlib
import itertools
import pathlib
import re
import subprocess
import sys

import pytest

from rushlight import nn
from rushlight._src.core.log import LOGS
from rushlight._src.core.native.objects import Tensor
from rushlight._src.core.op import OPS
from rushlight._src.core.settings import settings

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = {path.relative_to(ROOT).as_posix(): path
         for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
         if path.parent.name != "api"}  # written by docs/reference.py
SPAN = re.compile(r"`([^`]+)`")
ENDINGS = "py", "md", "txt", "json", "toml", "c", "cpp", "h", "hpp", "mjs", "sh", "yml", "html", "npz"
PATH = re.compile(r"(?<![\w./~<{])(?:\.?\w[\w.-]*/)*(?:\.?\w[\w.*-]*|\{[\w,]+\}\.\w+)/?(?![\w/<])")
DOTTED = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(\(.*\))?")
IN_FILE = re.compile(r"`(?P<name>[A-Za-z_][\w.]*)(?:\([^`]*\))?`,? in `(?P<file>[\w./]+\.py)`|"
                     r"`(?P<before>[\w./]+\.py): (?P<later>\w+)`")
HOMES = "", "rushlight/", "rushlight/_src/", "docs/"
# what is no file of the repository, nor a name in it -> what it is; the last test holds each to be needed
ELSEWHERE = {
    "script.py": "a user's script", "torch.x.y": "any path of PyTorch",
    **dict.fromkeys(("fx_graph_readable.py", "ir_post_fusion.txt", "output_code.py"),
                    "in folders that are written to look at a compilation"),
    **dict.fromkeys(("include/rushlight.mjs", "include/rushlight_gpu.h", "model.dll", "model.dylib", "kernel0.cubin"),
                    "in packages that are written"),
    "ucrtbase.dll": "of Windows",
    "pmadd.wd": "an intrinsic of LLVM", "monai.data.set_track_meta": "of MONAI"}
PLACES = ("rushlight", "rushlight._src", "rushlight._src.core.native", "rushlight.nn", "rushlight.nn.functional",
          "rushlight.ops", "rushlight.distributed", "rushlight.distributed.tensor")


@functools.cache
def files() -> list:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not in a checkout")
    return [name for name in listed.stdout.split() if (ROOT / name).exists()]


@functools.cache
def places() -> list:
    """All files, and the directories that they are in, with a slash behind."""
    parents = {f"{parent.as_posix()}/" for name in files() for parent in pathlib.PurePosixPath(name).parents}
    return [*files(), *sorted(parents)]


@functools.cache
def places_by_end() -> dict:
    """Path -> the files and directories that are it, or end with it after a slash."""
    found = {}
    for place in places():
        parts = place.rstrip("/").split("/")
        for count in range(1, len(parts) + 1):
            found.setdefault("/".join(parts[-count:]), []).append(place)
    return found


@functools.cache
def found_path(path: str) -> list:
    """The files or directories that a path names: from one of the homes, else those that end with it."""
    if "*" in path:
        return matched_paths(path)
    name, ends = path.rstrip("/"), ("/",) if path.endswith("/") else ("", "/")
    for home, end in itertools.product(HOMES, ends):
        if home + name + end in places_by_end().get(name, ()):
            return [home + name + end]
    return [place for place in places_by_end().get(name, ()) if place.endswith(ends)]


def matched_paths(path: str) -> list:
    """As ``found_path``, by comparison with each file and directory."""
    for home, end in itertools.product(HOMES, ("", "/")):
        exact = fnmatch.filter(places(), home + path + end)
        if exact:
            return exact
    return [place for place in places() if fnmatch.fnmatchcase(f"/{place}", f"*/{path}")
            or fnmatch.fnmatchcase(f"/{place}", f"*/{path}/")]


def is_found(path: str, named: set) -> bool:
    """True if a path names one file or directory, or one that is in a directory that the page names, too."""
    found = found_path(path)
    return len(found) == 1 or any(place.rstrip("/").removesuffix(path) in named or pathlib.PurePosixPath(
        place).parent.as_posix() + "/" in named for place in found)


def directories(spans: list) -> set:
    """The directories that a page names, by themselves or before files in them."""
    named = set()
    for path in itertools.chain(*map(paths_in, spans)):
        found = found_path(path)
        if len(found) == 1 and "/" in path:
            named.add(found[0] if found[0].endswith("/") else f"{found[0].rpartition('/')[0]}/")
    return named


def paths_in(span: str) -> list:
    """What looks like a path in a span of code: it has a slash between words, or the ending of a file."""
    found = []
    for match in PATH.finditer(span):
        text = match.group()
        last = text.rpartition("/")[2]
        is_file = last.rpartition(".")[2] in ENDINGS and "." in last.lstrip(".")
        if is_file or "/" in text and not span[match.end():].startswith("(") and "." not in last.lstrip("."):
            inner = re.search(r"\{([\w,]+)\}", text)
            found += [text.replace(inner.group(), one) for one in inner[1].split(",")] if inner else [text]
    return found


class File:
    """What one file defines, found in one walk over its tree, which is not kept: those of all files are large.

    ``names``: of functions, classes, variables, attributes and keys, at any depth; ``strings``: all of its constants
    that are strings; ``classes``: (name, names in its body, names of its bases) of each class.
    """

    def __init__(self, file: str):
        self.names, self.strings, self.classes = set(), set(), []
        for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                self.classes.append((node.name, members_in(node), names_of_bases(node)))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self.names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.names.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                self.names.add(node.attr)
            elif isinstance(node, ast.arg):
                self.names.add(node.arg)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                self.strings.add(node.value)
        self.names.update(filter(str.isidentifier, self.strings))


parsed = functools.cache(File)


def members_in(cls: ast.ClassDef) -> set:
    """The names in the body of a class, and the attributes that its methods set."""
    stored = {one.attr for one in ast.walk(cls) if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)}
    for one in cls.body:
        stored.update(getattr(one, "name", ()) and [one.name])
        targets = [one.target] if isinstance(one, ast.AnnAssign) else getattr(one, "targets", ())
        stored.update(name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
    return stored


def names_of_bases(cls: ast.ClassDef) -> list:
    return re.findall(r"\w+", " ".join(map(ast.unparse, cls.bases)))


@functools.cache
def members() -> dict:
    """Class -> the names in its body and in those of its bases, of all classes of the package with this name."""
    own, bases = {}, {}
    for file in files():
        if file.endswith(".py") and file.startswith(("rushlight/", "tests/", "benchmarks/")):
            for name, stored, above in parsed(file).classes:
                own.setdefault(name, set()).update(stored)
                bases.setdefault(name, set()).update(above)
    for _ in range(6):  # no class of the package has more bases above each other
        for name, above in bases.items():
            own[name].update(*(own.get(base, ()) for base in above))
    return own


@functools.cache
def resolves(name: str) -> bool:
    """True if a dotted path leads to a module, or to an attribute of one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        try:
            functools.reduce(getattr, parts[count:], found)
        except AttributeError:
            return False
        return True
    return False


def names_something(name: str, page: str) -> bool:
    """True if a dotted name can be found: at PyTorch's or the package's paths, as an operator or a logger, in a class
    or a file, as a member of tensors and modules, or in an example of the page."""
    first, _, rest = name.partition(".")
    last, owner = name.split(".")[-1], name.split(".")[-2]
    plain = re.sub(r"^(batched|forward)\.|\.backward$", "", name)  # operators that are derived from others
    if plain in OPS or first == "P" and f"prims.{rest}" in OPS or re.search(rf"^ +def {last}\(", page, re.MULTILINE):
        return True
    if first in ("torch", "rl", "rushlight"):
        return resolves(f"rushlight.{rest}") or name in strings() or name.partition(".")[2] in LOGS
    if first in ("tests", "benchmarks") or first in sys.stdlib_module_names and resolves(first):
        return resolves(name)
    if first in sys.stdlib_module_names:  # of another operating system
        return True
    if any(resolves(f"{place}.{name}") for place in PLACES) or resolves(f"rushlight.nn.functional.{rest}"):
        return True
    if last in members().get(owner, ()):
        return True
    if any(last in parsed(file).names for file in files() if file.endswith(f"/{owner}.py")):
        return True
    shown = set(re.findall(r"\w+", "\n".join(re.findall(r"^ {4}.*", page, flags=re.MULTILINE))))
    return {first, last} <= shown or hasattr(Tensor, last) or hasattr(nn.Module, last)


@functools.cache
def strings() -> frozenset:
    """The strings of the code of the package, its tests and its benchmarks, but for this file."""
    return frozenset().union(*(parsed(file).strings for file in files()
                               if file.endswith(".py") and ROOT / file != pathlib.Path(__file__)))


def prose(page: pathlib.Path) -> str:
    """The text of a page without its blocks of code, on one line."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return " ".join(text.split())


@pytest.fixture(params=PAGES)
def page(request):
    return PAGES[request.param]


@functools.cache
def missing_paths(text: str) -> list:
    spans = SPAN.findall(text)
    named = directories(spans)
    return [path for path in itertools.chain(*map(paths_in, spans)) if not is_found(path, named)]


@functools.cache
def missing_names(text: str, page: str) -> list:
    names = [match[1] for match in map(DOTTED.fullmatch, SPAN.findall(text)) if match and not paths_in(match.group())]
    return [name for name in names if not names_something(name, page)]


def test_paths_are_those_of_files(page):
    assert [path for path in missing_paths(prose(page)) if path not in ELSEWHERE] == []


def test_dotted_names_lead_somewhere(page):
    missing = missing_names(prose(page), page.read_text(encoding="utf-8"))
    assert [name for name in missing if name not in ELSEWHERE] == []


def test_names_are_in_the_files_that_are_said_to_have_them(page):
    """``name`` in ``file.py``, and ``file.py: name``."""
    text = prose(page)
    named = directories(SPAN.findall(text))
    missing = []
    for match in IN_FILE.finditer(text):
        name, file = match["name"] or match["later"], match["file"] or match["before"]
        candidates = [one for one in found_path(file) if is_found(one, named)]
        if not any(set(name.split(".")) <= parsed(one).names for one in candidates):
            missing.append((name, file))
    assert missing == []


def test_variables_are_read(page):
    known = {setting.variable for setting in vars(type(settings)).values() if hasattr(setting, "variable")}
    text = page.read_text(encoding="utf-8")
    assert {name for name in re.findall(r"RUSHLIGHT_[A-Z_]+", text)} <= known | strings()
    logs = {name for told in re.findall(r"RUSHLIGHT_LOGS=([\w,]+)", text) for name in told.split(",")}
    assert logs <= {*LOGS, "all"}


def test_what_is_elsewhere_is_named():
    """No entry stands for what no page names, or for what is there."""
    missing = set()
    for page in PAGES.values():
        text = prose(page)
        missing.update(missing_paths(text), missing_names(text, page.read_text(encoding="utf-8")))
    assert ELSEWHERE.keys() == missing


def test_such_faults_are_seen():
    text = "`core/nowhere.py` `rushlight.nowhere` `Plan.nowhere` `Plan.op` `core/op.py` `F.relu`"
    assert missing_paths(text) == ["core/nowhere.py"] and missing_paths("`tests/nowhere`") == ["tests/nowhere"]
    assert missing_names(text, "") == ["rushlight.nowhere", "Plan.nowhere"]
    assert IN_FILE.search("`f` in `core/op.py`")["file"] == "core/op.py"
    names = parsed("rushlight/_src/core/op.py").names
    assert "op" in names and "nowhere" not in names

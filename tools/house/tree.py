"""The package before a move, the tables, and texts with edits."""
from __future__ import annotations

import ast
import functools
import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE, FACADE, WIDTH, REMOVED = "rushlight", "_torch", 120, "(removed)"
# files that speak of the past, or of nothing here
UNREAD = re.compile(r"CHANGELOG\.md|tools/house/.*|benchmarks/results/.*|.*/names/_src\.txt"
                    r"|.*\.(bin|png|svg|json|ipynb|jpg|gz|npz|pt|pth)")


def git(root, *words) -> str:
    return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True).stdout


@functools.cache
def table(name: str) -> list[str]:
    return [line for line in (HERE / "tables" / name).read_text(encoding="utf-8").splitlines()
            if line.strip() and not line.startswith("#")]


@functools.cache
def rows(rooms: frozenset = frozenset()) -> dict[str, str]:
    """{old: new} of moves.txt, relative to the project, for these rooms."""
    found, room = {}, None
    for line in (HERE / "moves.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("room "):
            room = line.split()[1]
        elif " -> " in line and (not rooms or room in rooms):
            old, new = line.split(" -> ")
            found[f"{PACKAGE}/{old}"] = new if new == REMOVED else f"{PACKAGE}/{new}"
    return found


def dotted(path: str) -> str:
    """The name by which a file is imported; that of a file in the facade does not say so."""
    parts = path.removesuffix(".py").split("/")
    if parts[1:2] == [FACADE] and len(parts) > 2:
        del parts[1]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class Tree:
    """The package before a move, and the move.  ``files``: {old path: new path} of all files, ``modules``: {old dotted
    name: new one, None if it goes}, ``packages``: the old names that are folders."""

    def __init__(self, root, rooms=None):
        self.root = pathlib.Path(root)
        self.tracked = git(root, "ls-files").splitlines()
        inside = [f for f in self.tracked if f.startswith(f"{PACKAGE}/")]
        wanted = rows(frozenset(rooms or ()))
        self.moves = {old: new for old, new in wanted.items() if old in set(inside) and new != REMOVED}
        self.files = {f: self.moves.get(f, f) for f in inside}
        # a package is removed with its last module
        self.removed = []
        for f in inside:
            if f.endswith("/__init__.py") and f not in self.moves and f in rows() and rows()[f] == REMOVED:
                folder = f.rpartition("/")[0]
                if not any(new.startswith(f"{folder}/") for old, new in self.files.items() if old != f):
                    self.removed.append(f)
        for f in self.removed:
            del self.files[f]
        self.modules = {dotted(f): dotted(new) for f, new in self.files.items() if f.endswith(".py")}
        self.paths = {dotted(f): f for f in self.files if f.endswith(".py")}
        self.packages = {dotted(f"{f.rpartition('/')[0]}/__init__.py") for f in self.files}
        self.packages |= {p.rpartition(".")[0] for p in self.packages if "." in p}
        self.folders = {}
        for f in self.files:
            folder = f.rpartition("/")[0]
            while folder:
                self.folders.setdefault(folder, []).append(f)
                folder = folder.rpartition("/")[0]
        self.by_name = {}
        for f in self.files:
            self.by_name.setdefault(f.rpartition("/")[2], []).append(f)
        self.complaints, self.log = [], []
        # a file that has none of these words names nothing that moves
        words = {new_or_old.split("/")[-2 if new_or_old.endswith("/__init__.py") else -1].partition(".")[0]
                 for new_or_old in self.moves}
        words = "|".join(sorted(map(re.escape, words))) or "(?!)"
        self.hint = re.compile(rf"(?<![A-Za-z0-9])(?:{words})(?![A-Za-z0-9])")
        # strings that are the name of a module that moves, without the package's own
        heads = sorted({re.escape(m.partition(".")[2]) for m, new in self.modules.items() if new != m and "." in m
                        and m.count(".") > 1 and not m.startswith(f"{PACKAGE}._src.")})
        self.spoken = re.compile(f"[\"'](?:{'|'.join(heads) or '(?!)'})[\"']")

    def known(self, name: str) -> bool:
        return name in self.modules or name in self.packages

    @functools.lru_cache(maxsize=None)
    def bound(self, package: str) -> frozenset:
        """Names that a package's own file defines, other than its modules."""
        path = self.paths.get(package)
        if path is None or not path.endswith("__init__.py"):
            return frozenset()
        found = set()
        for node in ast.parse((self.root / path).read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.Assign):
                found |= {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
            elif isinstance(node, ast.ImportFrom) and not (node.level == 1 and node.module is None):
                base = absolute(node, package, True)
                found |= {a.asname or a.name for a in node.names if not self.known(f"{base}.{a.name}")}
        return frozenset(found)

    def is_module(self, base: str, name: str) -> bool:
        """True if ``from base import name`` means a module."""
        return self.known(f"{base}.{name}") and (base not in self.packages or name not in self.bound(base))

    @functools.lru_cache(maxsize=None)
    def new(self, name: str) -> str | None:
        """The new dotted name of a module or package; None for a package whose parts go to several."""
        if name in self.modules:
            return self.modules[name]
        inside = {old: new for old, new in self.modules.items() if old.startswith(f"{name}.")}
        tails = {new.removesuffix(old[len(name):]) if new.endswith(old[len(name):]) else None
                 for old, new in inside.items()}
        return tails.pop() if len(tails) == 1 else None

    @functools.lru_cache(maxsize=None)
    def moved_as_one(self, name: str) -> str | None:
        """The new name of a module; or of a package, if all that is in it keeps its place there."""
        if name not in self.packages:
            return self.modules.get(name)
        tails = set()
        for old, new in self.modules.items():
            if old == name or old.startswith(f"{name}."):
                tail = old[len(name):]
                tails.add(new[:len(new) - len(tail)] if new.endswith(tail) else None)
        own = self.modules.get(name)
        if own and all(new == own or new.startswith(f"{own}.") for old, new in self.modules.items()
                       if old == name or old.startswith(f"{name}.")):
            return own
        return tails.pop() if len(tails) == 1 else None

    @functools.lru_cache(maxsize=None)
    def new_folder(self, folder: str) -> str | None:
        """Likewise for a folder of files."""
        tails = set()
        for old in self.folders.get(folder, ()):
            tail, new = old[len(folder):], self.files[old]
            tails.add(new[:len(new) - len(tail)] if new.endswith(tail) else None)
        return tails.pop() if len(tails) == 1 else None


def absolute(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    """The dotted name after ``from``, in a module of that name."""
    if not node.level:
        return node.module or ""
    parts = module.split(".") if is_package else module.split(".")[:-1]
    parts = parts[:len(parts) - node.level + 1]
    return ".".join([*parts, *filter(None, [node.module])])


def relative(target: str, module: str, is_package: bool) -> str:
    """The shortest relative spelling of a dotted name, in a module of that name."""
    here = module.split(".") if is_package else module.split(".")[:-1]
    there = target.split(".")
    common = 0
    while common < min(len(here), len(there)) and here[common] == there[common]:
        common += 1
    return "." * (len(here) - common + 1) + ".".join(there[common:])


def rendered(base: str, names: list[tuple], indent: int) -> str:
    """An import statement in the project's style, wrapped below its bracket."""
    words = [name if asname is None else f"{name} as {asname}" for name, asname in names]
    line = f"from {base} import {', '.join(words)}"
    if indent + len(line) <= WIDTH:
        return line
    head = f"from {base} import ("
    lines, current = [], head
    for k, word in enumerate(words):
        word += ")" if k == len(words) - 1 else ","
        joined = current + ("" if current.endswith("(") or not current.strip() else " ") + word
        if indent + len(joined) > WIDTH and current.strip() and current != head:
            lines.append(current)
            joined = " " * len(head) + word
        current = joined
    lines.append(current)
    return f"\n{' ' * indent}".join(lines)


class Source:
    """A text with edits by position."""

    def __init__(self, text: str):
        self.text, self.edits = text, []
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def at(self, line: int, column: int) -> int:
        """Offset of a position with a column in characters."""
        return self.starts[line - 1] + column

    def at_bytes(self, line: int, column: int) -> int:
        start = self.starts[line - 1]
        text = self.text[start:self.starts[line]] if line < len(self.starts) else ""
        return start + (column if text.isascii() else len(text.encode()[:column].decode()))

    def span(self, node) -> tuple[int, int]:
        return self.at_bytes(node.lineno, node.col_offset), self.at_bytes(node.end_lineno, node.end_col_offset)

    def replace(self, begin: int, end: int, new: str):
        if self.text[begin:end] != new and not any(b < end and begin < e for b, e, _ in self.edits):
            self.edits.append((begin, end, new))

    def result(self, aligned=False) -> str:
        """The text with its edits; ``aligned``: columns after runs of spaces stay where they are, if there is room."""
        out, last = [], 0
        for begin, end, new in sorted(self.edits):
            if begin < last:  # within spaces that an edit before it has used
                continue
            out += self.text[last:begin], new
            last = end
            gap = re.compile(r"(\S{0,3}?)( {2,})(?=\S)").match(self.text, end) if aligned else None
            if gap:
                room = max(1 if self.text[gap.end()] == "│" else 2, len(gap[2]) + end - begin - len(new))
                out += gap[1], " " * room
                last = gap.end()
        return "".join([*out, self.text[last:]])


class File:
    """The edits of one file.  ``path``, ``new_path``: relative to the project."""

    def edit(self, begin: int, end: int, new):
        """An edit of prose, or a complaint about it."""
        if isinstance(new, Unclear) and any(b <= begin < e for b, e, _ in self.source.edits):
            return
        if isinstance(new, Unclear):
            line = self.source.text.count("\n", 0, begin) + 1
            self.tree.complaints.append(f"{self.path}:{line}: {new}")
        else:
            self.source.replace(begin, end, new)


class Unclear(str):
    """Why a name in a text cannot be decided."""


def words(kind: str) -> list[str]:
    """Words of the lines of prefixes.txt that begin with this one."""
    return [word for line in table("prefixes.txt") if line.startswith(f"{kind} ") for word in line.split()[1:]]


@functools.lru_cache(maxsize=None)
def read_text(path) -> str:
    return path.read_text(encoding="utf-8")

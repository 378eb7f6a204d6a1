"""Move files by moves.txt, and everything that names them.

    python3.13 tools/house/move.py ROOT [--room NAME ...] [--dry]

For each file of the chosen rooms (default: all): `git mv`; then, in every tracked text file of ROOT: imports, attribute
chains (`rushlight._src.core.op.OPS`), dotted names and paths in strings, comments and documents, prefixes in lists of
modules (tables/prefixes.txt), and literal replacements (tables/sites.txt).  Prints what it could not decide.

The tree is read once before anything moves; rows whose file is gone already are skipped, so rooms can follow each other
in any order, and the script can run on any later main.
"""
from __future__ import annotations

import argparse
import ast
import gc
import re
import shutil
import sys

from prose import TextFile
from python_file import PythonFile
from tree import FACADE, HERE, PACKAGE, UNREAD, WIDTH, Tree, git, rows, table
from wrap import wrap


def sites(tree: Tree, done: dict[str, str]):
    """Literal replacements: blocks of tables/sites.txt, each once its file has its new path."""
    final = rows()
    block: list[str] = []

    def apply():
        if not block:
            return
        path = block[0][3:].strip()
        condition = path.split(" when ")[1].strip() if " when " in path else path.split(" when ")[0].strip()
        path = path.split(" when ")[0].strip()
        gone = [line[2:] for line in block[1:] if line.startswith("~ ")]
        old = "\n".join(line[2:] for line in block[1:] if line.startswith("- "))
        new = "\n".join(line[2:] for line in block[1:] if line.startswith("+ "))
        if condition not in tree.moves:
            return
        now = next((p for p in (tree.files.get(path, path), final.get(path, path))
                    if p in done or (tree.root / p).is_file()), None)
        if now is None:
            return tree.complaints.append(f"sites.txt: {path} is not there")
        if now not in done:  # nothing else changes in it
            done[now] = (tree.root / now).read_text(encoding="utf-8")
        if gone:
            kept = [line for line in done[now].split("\n") if not any(re.match(pattern, line) for pattern in gone)]
            done[now] = "\n".join(kept)
        if old not in done[now]:
            tree.complaints.append(f"sites.txt: {path} has no {old!r}")
        done[now] = done[now].replace(old, new)

    for line in (HERE / "tables" / "sites.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("@@ "):
            apply()
            block = [line]
        elif block and line[:2] in ("- ", "+ ", "~ ", "-", "+"):
            block.append(line if len(line) > 1 else f"{line} ")
    apply()


def packages(tree: Tree):
    """(path, text) of __init__.py for new folders."""
    about = dict(line.split(": ", 1) for line in table("packages.txt"))
    existing = set(tree.files.values())
    needed = set()
    for new in tree.moves.values():
        folder = new.rpartition("/")[0]
        while folder.count("/") >= 1:
            top = folder.split("/")[1]
            if new.endswith(".py") and (top in ("_src", "_compat") or top == FACADE and folder.count("/") == 1 or
                                        top not in ("_torch", "_torchvision")):
                needed.add(folder)
            folder = folder.rpartition("/")[0]
    for folder in sorted(needed):
        path = f"{folder}/__init__.py"
        if path not in existing:
            text = about.get(folder.partition("/")[2])
            if text is None:
                tree.complaints.append(f"packages.txt does not describe {folder}")
            yield path, f'"""{text or ""}"""\n'


def move(root, rooms=None, dry=False) -> Tree:
    tree = Tree(root, rooms)
    done: dict[str, str] = {}
    were_long = set()
    for path in tree.tracked:
        if UNREAD.fullmatch(path) or path in tree.removed:
            continue
        file = tree.root / path
        if file.is_symlink() or not file.is_file():
            continue
        try:
            text = file.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            continue
        were_long |= {line for line in text.split("\n") if len(line) > WIDTH}
        if path not in tree.moves and not tree.hint.search(text) and not any(
                path in (one, rows().get(one)) for line in table("prefixes.txt") for one in line.split()[:1]):
            continue
        kind = PythonFile if path.endswith(".py") else TextFile
        try:
            done[tree.files.get(path, path)] = kind(tree, path, text).run()
        except SyntaxError as error:
            tree.complaints.append(f"{path}: {error}")
    sites(tree, done)
    # files that were saved before name the old modules: the table of former paths has these, too
    former = next((path for path in done if path.endswith("/names/core.txt")), None)
    if former and f"{PACKAGE}/_src/core/meta.py" not in tree.files.values():
        done[former.replace("core.txt", "_src.txt")] = done[former].replace("torch.core", "torch._src.core")
    for path, text in done.items():
        wrapped = wrap(text, path, were_long)
        if path.endswith(".py"):
            try:
                if wrapped != text:
                    ast.parse(wrapped)
            except SyntaxError as error:
                tree.complaints.append(f"{path}: wrapped, it is no program: {error}")
                wrapped = text
        done[path] = wrapped
    made = dict(packages(tree))
    long = [f"{path}:{k}: {len(line)} columns" for path, text in done.items() if path.endswith((".py", ".md"))
            for k, line in enumerate(text.split("\n"), 1) if len(line) > WIDTH and line not in were_long]
    if not dry:
        for path in tree.removed:
            (tree.root / path).unlink()
        # by way of names that nothing has: a file may take the place of another one that moves
        for k, old in enumerate(tree.moves):
            (tree.root / old).rename(tree.root / PACKAGE / f".moving-{k}")
        for k, new in enumerate(tree.moves.values()):
            (tree.root / new).parent.mkdir(parents=True, exist_ok=True)
            (tree.root / PACKAGE / f".moving-{k}").rename(tree.root / new)
        for old in tree.moves:  # folders that are empty now
            folder = (tree.root / old).parent
            while folder.is_dir() and folder != tree.root and not any(p.name != "__pycache__" for p in folder.iterdir()):
                shutil.rmtree(folder)
                folder = folder.parent
        for path, text in [*done.items(), *made.items()]:
            file = tree.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.exists() or file.read_bytes() != text.encode():
                file.write_bytes(text.encode())
        git(root, "add", "-u")
        git(root, "add", "--", PACKAGE)
    tree.complaints += long
    return tree


def main():
    gc.disable()  # syntax trees of the whole project are alive at once
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root")
    parser.add_argument("--room", action="append", default=[])
    parser.add_argument("--dry", action="store_true")
    options = parser.parse_args()
    tree = move(options.root, set(options.room), options.dry)
    print(f"{len(tree.moves)} files move, {len(tree.removed)} go")
    for line in tree.log:
        print("by name:", line)
    for line in sorted(set(tree.complaints)):
        print("LOOK:", line)


if __name__ == "__main__":
    sys.exit(main())

"""Write moves.txt: ``old -> new``, a line for each file of rushlight/ that moves, from tables/folders.txt (where) and
tables/names.txt (under which name).

    python tools/house/combine.py ROOT [PYTORCH]

Fails if a file is undecided, two files meet, a folder gets more than 25 files, or a path of PyTorch (a module of the
installed package PYTORCH) would be lost.
"""
from __future__ import annotations

import collections
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = "rushlight"
MOST = 25
CROWDED = ("_compat/names", "distributions")  # LAYOUT's exceptions
REMOVED = "(removed)"


def tracked(root) -> list[str]:
    """Files of the package, relative to it."""
    done = subprocess.run(["git", "-C", str(root), "ls-files", PACKAGE], capture_output=True, text=True, check=True)
    return [line.partition("/")[2] for line in done.stdout.splitlines()]


def lines_of(name: str):
    for line in (HERE / "tables" / name).read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            yield line


def base(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder or ".", name


def targets(files: list[str]) -> tuple[dict, dict, list]:
    """({file: new folder}, {file: room}, complaints)."""
    exact, whole, deep, complaints = {}, {}, {}, []
    room = folder = None
    known = set(files)
    for line in lines_of("folders.txt"):
        if line.startswith("room "):
            room = line.split()[1]
        elif line.startswith("> "):
            folder = line[2:]
        else:
            olds, _, names = line.partition(": ")
            for old in olds.split():
                for name in names.split():
                    if name == "*":
                        whole[old] = folder, room
                    elif name == "**":
                        deep[old] = folder, room
                    else:
                        file = name if "." in name else f"{name}.py"
                        path = file if old == "." else f"{old}/{file}"
                        if path not in known:
                            complaints.append(f"folders.txt names {path}, which is not there")
                        exact[path] = folder, room
    named = {base(path)[0] for path in exact} | set(whole)
    to, rooms = {}, {}
    for path in files:
        old, _ = base(path)
        above = next((d for d in deep if path.startswith(f"{d}/")), None)
        if path in exact:
            to[path], rooms[path] = exact[path]
        elif old in whole:
            to[path], rooms[path] = whole[old]
        elif above:
            folder, rooms[path] = deep[above]
            # "_torch/*" keeps the folder's own name, another target takes what is below the folder
            top = folder.removesuffix("/*")
            inside = old if top == "_torch" else old[len(above) + 1:]
            to[path] = f"{top}/{inside}".rstrip("/")
        elif old in named or path.startswith("_src/"):
            complaints.append(f"folders.txt does not say where {path} goes")
        else:
            to[path], rooms[path] = old, "face"
    return to, rooms, complaints


def public(path: str, pytorch: pathlib.Path) -> bool:
    """True if PyTorch has a module at this path."""
    stem = pytorch / path.removesuffix(".py").removesuffix("/__init__")
    return stem.with_suffix(".py").exists() or stem.is_dir() or bool(list(stem.parent.glob(f"{stem.name}.*.so")))


def combine(root, pytorch=None) -> tuple[dict, dict, list]:
    """({old: new}, {old: room}, complaints), relative to the package."""
    files = tracked(root)
    to, rooms, complaints = targets(files)
    names = dict(line.split() for line in lines_of("names.txt"))
    complaints += [f"names.txt names {path}, which is not there" for path in names if path not in to]
    moves = {}
    for path, folder in to.items():
        name = names.get(path, base(path)[1])
        if path == "utils/benchmark.py":
            name = "__init__.py"
        moves[path] = REMOVED if folder == REMOVED else name if folder == "." else f"{folder}/{name}"
    former = "_src/compat/names/_src.txt"  # which move.py writes
    moves[former], rooms[former] = "_compat/names/_src.txt", "compat"
    count = collections.Counter(moves.values())
    complaints += [f"two files become {new}" for new, n in count.items() if n > 1 and new != REMOVED]
    folders = collections.Counter(base(new)[0] for new in moves.values() if new != REMOVED)
    for folder, n in folders.items():
        # a package without __init__.py gets one
        n += folder.split("/")[0] in ("_src", "_compat") and f"{folder}/__init__.py" not in count
        if n > MOST and folder not in CROWDED:
            complaints.append(f"{folder} gets {n} files")
    # a module may not take the place of an object of its package
    for old, new in moves.items():
        folder, name = base(new)
        if name not in (base(old)[1], "__init__.py") and not new.startswith("_src/") and new.endswith(".py"):
            init = next((o for o, n in moves.items() if n == f"{folder}/__init__.py"), "-")
            package = pathlib.Path(root) / PACKAGE / init
            if package.exists() and re.search(rf"(?<![\w.]){name[:-3]}\b", package.read_text(encoding="utf-8")):
                complaints.append(f"{new} would stand before an object of its package")
    if pytorch is not None:
        for old, new in moves.items():
            if not old.startswith("_src/") and old.endswith(".py") and public(old, pytorch):
                dotted = old.removesuffix(".py").removesuffix("/__init__")
                if new.removesuffix(".py").removesuffix("/__init__").removeprefix("_torch/") != dotted:
                    complaints.append(f"{old} is a path of PyTorch and would become {new}")
    return moves, rooms, complaints


def main(root, pytorch=None):
    moves, rooms, complaints = combine(pathlib.Path(root), pytorch and pathlib.Path(pytorch))
    if complaints:
        sys.exit("\n".join(complaints))
    lines, room = ["# old -> new, relative to rushlight/; written by combine.py"], None
    order = list(dict.fromkeys(line.split()[1] for line in lines_of("folders.txt") if line.startswith("room ")))
    for old in sorted(moves, key=lambda old: (order.index(rooms[old]), moves[old], old)):
        if moves[old] != old:
            if rooms[old] != room:
                room = rooms[old]
                lines.append(f"room {room}")
            lines.append(f"{old} -> {moves[old]}")
    (HERE / "moves.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{sum(' -> ' in line for line in lines)} files move")


if __name__ == "__main__":
    main(*sys.argv[1:])

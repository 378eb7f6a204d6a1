"""Check a tree after moves.

    python tools/house/check.py names ROOT > FILE     names of every module at a public path, as JSON
    python tools/house/check.py compare OLD NEW       two such files: modules and names that are gone
    python tools/house/check.py imports ROOT          import every module of the package; list what fails
    python tools/house/check.py policy ROOT > FILE    what capture does with each function of the package, as JSON
    python tools/house/check.py differ OLD NEW        two such files: modules that are treated in another way
    python tools/house/check.py texts ROOT            names and paths in any text that lead nowhere

ROOT's package is imported, so run it with the interpreter that has numpy and llvmlite.
"""
from __future__ import annotations

import importlib
import json
import pathlib
import re
import subprocess
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from tree import PACKAGE, UNREAD, dotted, rows, table  # noqa: E402

HIDDEN = tuple(f"{PACKAGE}.{name}" for name in ("_src", "_compat", "_torchvision"))
UNLOADED = re.compile(r"__main__|windows|sitecustomize|\bvendor\b")  # runs something, or needs another system


def modules(root) -> list[str]:
    files = subprocess.run(["git", "-C", str(root), "ls-files", PACKAGE], capture_output=True, text=True).stdout.split()
    return sorted({dotted(f) for f in files if f.endswith(".py") and not UNLOADED.search(f)})


def loaded(root):
    """(name, module or the error) of every module of a tree's package."""
    sys.path.insert(0, str(root))
    package = importlib.import_module(PACKAGE)
    assert pathlib.Path(package.__file__).is_relative_to(pathlib.Path(root).resolve()), package.__file__
    for name in modules(root):
        try:
            yield name, importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - reported
            yield name, error


def imports(root) -> int:
    failed = [f"{name}: {type(found).__name__}: {found}" for name, found in loaded(root)
              if isinstance(found, Exception)]
    print("\n".join(failed) or "every module is imported")
    return len(failed)


def names(root):
    found = {}
    for name, module in loaded(root):
        if not name.startswith(HIDDEN):
            found[name] = None if isinstance(module, Exception) else sorted(
                n for n, value in vars(module).items()
                if not (n.startswith("__") or isinstance(value, types.ModuleType)))
    json.dump(found, sys.stdout, indent=0)


def compare(old, new) -> int:
    old, new = (json.loads(pathlib.Path(f).read_text()) for f in (old, new))
    lost = [f"module {m}" for m in old if m not in new]
    lost += [f"{m}.{n}" for m in old if new.get(m) is not None for n in old[m] or () if n not in new[m]]
    print("\n".join(lost) or "nothing is gone")
    return len(lost)


def differ(old, new) -> int:
    """Modules of which lists of capture say something else now; those of ``harmless`` may be run where they were not."""
    harmless = tuple(dotted(f"{path}x.py").removesuffix(".x") for line in table("prefixes.txt")
                     if line.startswith("harmless ") for path in line.split()[1:])
    old, new = (json.loads(pathlib.Path(f).read_text()) for f in (old, new))
    wrong = [f"{m}: {old[m]} -> {new[m]}" for m in old if m in new and set(old[m]) ^ set(new[m])
             and not (m.startswith(harmless) and set(old[m]) ^ set(new[m]) == {"RUN"})]
    print("\n".join(wrong) or "lists of capture answer as before")
    return len(wrong)


def policy(root):
    """What the lists of capture say of each module with functions, by its name before the moves."""
    sys.path.insert(0, str(root))
    importlib.import_module(PACKAGE)
    for home in (f"{PACKAGE}._src.capture.calls", f"{PACKAGE}._src.capture.python.calls"):
        try:
            calls = importlib.import_module(home)
            break
        except ModuleNotFoundError:
            pass
    before = {dotted(new): dotted(old) for old, new in rows().items() if new.endswith(".py")}
    answers = {}
    for name in modules(root):
        lists = [key for key in ("CALLING", "ROOMS", "SETTINGS", "RUN", "INLINED")
                 if name.startswith(getattr(calls, key))]
        lists += [f"FORBIDDEN {calls.FORBIDDEN[name]}"] if name in calls.FORBIDDEN else []
        lists += ["RECORDED"] if name in calls.RECORDED else []
        if "INLINED" in lists and "RUN" in lists:
            lists.remove("RUN")
        answers[before.get(name, name)] = lists
    json.dump(answers, sys.stdout, indent=0)


def texts(root) -> int:
    root = pathlib.Path(root)
    tracked = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True).stdout.split("\n")
    known = {dotted(f) for f in tracked if f.startswith(f"{PACKAGE}/") and f.endswith(".py")}
    known |= {".".join(m.split(".")[:k]) for m in known for k in range(1, m.count(".") + 1)}
    paths = {f for f in tracked if f}
    paths |= {str(p) for f in paths for p in pathlib.PurePosixPath(f).parents}
    old = set(rows())
    old_names = {dotted(f) for f in old if f.endswith(".py")}
    found = []
    for file in tracked:
        if not file or UNREAD.fullmatch(file) or not (root / file).is_file():
            continue
        try:
            text = (root / file).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for match in re.finditer(rf"(?:(?:{PACKAGE}|torch|rl)\.)?_src(?:\.\w+)+", line):
                name = f"{PACKAGE}._src{match[0].partition('_src')[2]}"
                parts = name.split(".")
                while len(parts) > 2 and ".".join(parts) not in known:
                    parts.pop()
                rest = name[len(".".join(parts)):]
                if len(parts) < 3 or name in old_names and name not in known or rest and not attribute(
                        root, paths, ".".join(parts), rest[1:].partition(".")[0]):
                    found.append(f"{file}:{number}: {match[0]}")
            for match in re.finditer(rf"(?:{PACKAGE}/)?_src(?:/[\w.]+)+", line):
                path = f"{PACKAGE}/_src{match[0].partition('_src')[2]}".rstrip("./")
                if path not in paths:
                    found.append(f"{file}:{number}: {match[0]}")
            for match in re.finditer(r"(?<![\w/.])(?:core|graph|aot|packages|compat|ops|eager|capture|compiler|devices|"
                                     r"autograd|transforms|library)/[\w/]+\.(?:py|txt)", line):
                if not any(f"{base}{match[0]}" in paths for base in (
                        "", f"{PACKAGE}/", f"{PACKAGE}/_src/", "tests/", f"{file.rpartition('/')[0]}/")):
                    found.append(f"{file}:{number}: {match[0]}")
    print("\n".join(found) or "every name leads somewhere")
    return len(found)


def attribute(root, paths, module: str, name: str) -> bool:
    """True if a module's file mentions a name."""
    for path in (f"{module.replace('.', '/')}.py", f"{module.replace('.', '/')}/__init__.py"):
        if path in paths:
            return re.search(rf"\b{name}\b", (root / path).read_text(encoding="utf-8")) is not None
    return False


if __name__ == "__main__":
    sys.exit(min(1, {"names": names, "compare": compare, "imports": imports, "policy": policy, "differ": differ,
                     "texts": texts}[sys.argv[1]](*sys.argv[2:]) or 0))

"""Write the table of PyTorch's names that no module of Rushlight has: ``python -m tests.compat.table [FOLDER]``, by
default where it is read.

Lines ``from rushlight...`` are written by hand, and stay.
"""
from __future__ import annotations

import collections
import importlib
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from rushlight._src.compat import table
from rushlight._src.core.later import Beyond

from ..startup.machine_code import digest_of, find_or_make

ALIKE = {"torch._refs": "torch", "torch._refs.nn.functional": "torch.nn.functional",
         "torch._refs.linalg": "torch.linalg", "torch._refs.special": "torch.special", "torch._refs.fft": "torch.fft"}
ROOT = Path(__file__).parents[2]


def pytorch(*arguments) -> dict:
    """What PyTorch exports where the environment changes none of its settings: it has others where CI is set.

    The answer follows from the installed distributions and is kept beside machine code: it takes an import of every
    module of PyTorch."""
    if not (directory := os.environ.get("MACHINE_CODE")):
        return json.loads(list_names(arguments))
    installed = sorted(f"{each.name} {each.version}" for each in metadata.distributions())
    program = Path(__file__).with_name("pytorch.py").read_text(encoding="utf-8")
    name = digest_of(sys.version, program, *arguments, *installed)
    return json.loads(find_or_make(directory, name, lambda: list_names(arguments)))


def list_names(arguments) -> bytes:
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("CI", "GITHUB", "TORCH", "PYTORCH"))}
    done = subprocess.run([sys.executable, "-m", "tests.compat.pytorch", *arguments], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=True, env=environment)
    return done.stdout


def ours(path: str):
    """The module of ours at a path of PyTorch, None where there is none."""
    try:
        return importlib.import_module(table.OURS + path.removeprefix(table.THEIRS))
    except ModuleNotFoundError:
        return None


def has(module, name: str) -> bool:
    try:
        getattr(module, name)
    except AttributeError:
        return False
    return True


def target(path, name, entry, same, homes, there) -> str | None:
    """The place from which a name is taken, None where it is defined here."""
    if entry["kind"] == "setting":
        return entry["alias"]
    places = [p for p in same.get(str(entry.get("same")), ()) if p != f"{path}.{name}"]
    for place in sorted(places, key=lambda p: (p.rpartition(".")[0] != entry.get("home"), "._" in p, p.count("."), p)):
        if place in there:
            return place
    alike = f"{ALIKE.get(path)}.{name}"
    if alike in there:
        return alike
    home = homes.get(str(entry.get("same")))
    return home if home != f"{path}.{name}" else None


def line(name: str, entry: dict) -> str:
    kind = entry["kind"]
    text = f"({entry['signature']})" if entry.get("signature") is not None else ""
    if kind == "enum":
        return f"enum {name}({entry['base']}): " + ", ".join(f"{n}={v}" for n, v in entry["members"].items())
    if kind == "error":
        return f"error {name}({entry['base']})"
    if kind in ("value", "setting"):
        return f"value {name} = {entry['text']}"
    members = f": {', '.join(entry['members'])}" if entry.get("members") else ""
    return {"class": f"class {name}{text}{members}", "function": f"def {name}{text}"}.get(kind, f"{kind} {name}")


def listed(path: str, modules: dict) -> list[str] | None:
    """What import * takes from a module of PyTorch, but modules that are no files; None where it has no list."""
    module = modules[path]
    if module["listed"] is not None:
        return [name for name in module["listed"] if module["names"].get(name, {}).get("kind") != "module"
                or modules.keys() & {f"{path}.{name}", module["names"][name]["name"]}]


def homes_of(modules, same) -> dict:
    """Object -> where it is defined, or where its stand-in is to be."""
    found = {}
    for number, places in same.items():
        entry = modules[places[0].rpartition(".")[0]]["names"][places[0].rpartition(".")[2]]
        defined = [p for p in places if p.rpartition(".")[0] == entry["home"]]
        found[number] = min(defined or places, key=lambda p: ("._" in p, len(p), p))
    return found


def kept() -> dict:
    """The lines written by hand: path -> name -> line."""
    found = collections.defaultdict(dict)
    for file in Path(table.FOLDER).glob("*.txt"):
        for path in table.room(file.stem):
            for name, (kind, rest) in table.entries(path).items():
                if kind == "from" and rest.startswith((f"{table.OURS}.", f"{table.OURS}:")):
                    found[path][name] = rest
    return found


def main(folder=table.FOLDER):
    known = pytorch("--private")
    by_hand = kept()
    sys.meta_path.remove(table.Finder)
    Beyond.ask, Beyond.below = staticmethod(lambda package, name: getattr(object(), name)), staticmethod(
        lambda package: False)
    modules, same = known["modules"], known["same"]
    rooms = {path: ours(path) for path in modules}
    there = {f"{path}.{name}" for path, room in rooms.items() if room is not None
             for name, entry in modules[path]["names"].items()
             if (name in vars(type(room)) if entry["kind"] == "setting" else has(room, name))}
    homes = homes_of(modules, same)
    written = collections.defaultdict(list)
    for path, module in modules.items():
        lines, taken = [], collections.defaultdict(list)
        for name, entry in {**module["names"], **{n: {} for n in by_hand[path] if n not in module["names"]}}.items():
            own = by_hand[path].get(name)
            if own is None and (f"{path}.{name}" in there or entry["kind"] == "module"):
                continue
            place = own or target(path, name, entry, same, homes, there)
            if place is None:
                lines.append(line(name, entry))
                continue
            home, _, original = place.replace(":", ".").rpartition(".")
            taken[home].append(original if original == name else f"{original} as {name}")
        lines = [f"from {home}: {', '.join(names)}" for home, names in taken.items()] + lines
        if listed(path, modules) is not None and "__all__" not in vars(rooms[path] or object):
            lines.append(f"all {', '.join(listed(path, modules))}".rstrip())
        if any(entry["kind"] == "setting" for entry in module["names"].values()) and (lines or rooms[path] is None):
            lines.insert(0, "settings")
        if lines or rooms[path] is None:
            written[path.split(".")[1] if "." in path else "torch"] += [path, *(f" {text}" for text in lines)]
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    for file in folder.glob("*.txt"):
        file.unlink()
    own = {path for path in by_hand if path not in modules}  # paths of ours that PyTorch does not have
    for path in sorted(own | {p.rpartition(".")[0] for p in own} - modules.keys()):
        homes = collections.defaultdict(list)
        for name, place in by_hand[path].items():
            home, _, original = place.rpartition(":")
            homes[home].append(original if original == name else f"{original} as {name}")
        written[path.split(".")[1]] += [path, *(f" from {home}: {', '.join(names)}" for home, names in homes.items())]
    for path in known["standing"]:  # modules that are not described: they have what their package has by their name
        package, _, name = path.rpartition(".")
        if path not in modules and ours(path) is None:
            taken = [f" from {package}: {name}"] if name in modules[package]["names"] else []
            written[path.split(".")[1]] += [path, *taken]
    for room, lines in written.items():
        (folder / f"{room}.txt").write_text("\n".join(lines) + "\n")
    standing = Path(table.STANDING) if folder == Path(table.FOLDER) else folder / "standing"
    standing.write_text("".join(f"{path}\n" for path in known["standing"]))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Names and paths in plain text: strings, comments, pages, tables."""
from __future__ import annotations

import re

from tree import PACKAGE, File, Source, Tree, Unclear, read_text, rendered, table

NAME = re.compile(rf"(?<![\w/.\-])((?:{PACKAGE}|torch|_src)(?:\.[A-Za-z_]\w*)+)(?![\w(]*/)"
                  r"|(?<=})\.(_src(?:\.[A-Za-z_]\w*)+)(?![\w(]*/)")
PATH = re.compile(r"(?<![\w/.\-])((?:\.{1,2}/)*[\w\-]+(?:/[\w.\-]+)+/?|[\w\-]+/(?![\w/{]))")
FILE = re.compile(r"(?<![\w/.\-{}])(\w+\.(?:py|txt|h|hpp|mjs))\b(?![\w/])")
BRACES = re.compile(r"(?<![\w/.\-{}])((?:[\w\-]+/)*\{[\w,]+\}\.(?:py|txt))\b")
SPAN = re.compile(r"`(\w+\.\w+)(?=[`(])")
FROM = re.compile(rf"from ({PACKAGE}(?:\.\w+)*) import (\w+(?: as \w+)?(?:, \w+(?: as \w+)?)*)")


def texts(tree: Tree, owner, text: str):
    """Edits of plain text: dotted names, paths, and names of files."""
    for match in FROM.finditer(text):
        base, names = match[1], match[2].split(", ")
        if base not in tree.packages:
            continue
        groups: dict[str, list] = {}
        for word in names:
            name, _, local = word.partition(" as ")
            if not tree.is_module(base, name) or tree.new(f"{base}.{name}") is None:
                groups.setdefault(tree.modules.get(base, base), []).append((name, local or None))
                continue
            new_base, _, new_name = tree.new(f"{base}.{name}").rpartition(".")
            groups.setdefault(new_base, []).append((new_name, local or (name if new_name != name else None)))
        new = "; ".join(rendered(b, n, -10 ** 6) for b, n in groups.items())
        if new != match[0]:
            yield match.start(), match.end(), new
    kinds = [(NAME, renamed), (PATH, repathed), (FILE, refiled), (BRACES, braced)]
    if owner.path.endswith(".md"):
        kinds.append((SPAN, spanned))
    for pattern, answer in kinds:
        for match in pattern.finditer(text):
            group = match.lastindex
            new = answer(tree, match[group], owner)
            if isinstance(new, Unclear) and text.startswith(" import ", match.end()):
                continue
            if new is not None:
                yield match.start(group), match.end(group), new


def renamed(tree: Tree, name: str, owner) -> str | None:
    """What a dotted name in text becomes; None if it stays."""
    root, _, rest = name.partition(".")
    lead = ""
    if root in (PACKAGE, "torch"):
        lead, full = root, f"{PACKAGE}.{rest}"
    elif root == "_src":
        full = f"{PACKAGE}.{name}"
    else:
        return None
    parts = full.split(".")
    count = len(parts)
    while count > 1 and not tree.known(".".join(parts[:count])):
        count -= 1
    known, tail = ".".join(parts[:count]), parts[count:]
    if known == PACKAGE:
        return None
    new = tree.moved_as_one(known)
    if new is None and (not tail or tail[0] in tree.bound(known) or known not in tree.packages):
        new = tree.modules.get(known)  # what the package's own file defines
        if not tail:
            new = None
    if new is None:
        init = tree.modules.get(known)
        if init == known and known.count(".") < 3 and tail:
            return None
        if init == known and "_src" not in known or known == f"{PACKAGE}._src":
            return None
        if init is None or init == known:
            several = any(not tree.modules[m].startswith(f"{known}.") for m in tree.modules if m.startswith(f"{known}."))
            return Unclear(f"{name} names a package whose modules go to several places") if several else None
        if owner.path.endswith(".py") and not tail:
            return Unclear(f"{name} names a package whose modules go to several places")
        new = init
    if new == known:
        return None
    new = ".".join([new, *tail])
    return lead + new[len(PACKAGE):] if lead else new.removeprefix(f"{PACKAGE}.")


def repathed(tree: Tree, path: str, owner) -> str | None:
    """What a path in text becomes; None if it stays."""
    slash = "/" if path.endswith("/") else ""
    plain = path.rstrip("/")
    here = owner.path.rpartition("/")[0]
    new_here = owner.new_path.rpartition("/")[0]
    if plain.startswith("../") or plain.startswith("./"):
        parts = here.split("/") if here else []
        rest = plain
        while rest.startswith(("../", "./")):
            if rest.startswith("../"):
                parts, rest = parts[:-1], rest[3:]
            else:
                rest = rest[2:]
        full = "/".join([*parts, rest])
        new = tree.files.get(full) or (tree.new_folder(full) if full in tree.folders else None)
        if new is None or new == full and here == new_here:
            return None
        up = new_here.split("/") if new_here else []
        down = new.split("/")
        while up and down and up[0] == down[0]:
            up, down = up[1:], down[1:]
        return "../" * len(up) + "/".join(down) + slash
    bases = [("", ""), (f"{PACKAGE}/", f"{PACKAGE}/"), (f"{PACKAGE}/_src/", f"{PACKAGE}/_src/")]
    folder = here
    while folder.startswith(f"{PACKAGE}/") and folder != PACKAGE:
        bases.append((f"{folder}/", f"{folder}/"))
        folder = folder.rpartition("/")[0]
    for old_base, new_base in bases:
        full = old_base + plain
        if full in tree.files and "." in plain.rpartition("/")[2]:
            new = tree.files[full]
        elif full + ".py" in tree.files and old_base != "" and not slash and "/" in plain:
            new = tree.files[full + ".py"].removesuffix(".py")
        elif slash and full in tree.folders or "/" in plain and full in tree.folders:
            new = tree.new_folder(full)
            if new is None and all(tree.files[f].startswith(f"{full}/") for f in tree.folders[full]):
                return None
            if new is None and f"{full}/__init__.py" in tree.files:
                new = tree.files[f"{full}/__init__.py"].rpartition("/")[0]
            if new is None:
                return Unclear(f"{path} is a folder whose files go to several places")
        else:
            continue
        if new == full:
            return None
        for base in (new_base, f"{new_here}/" if old_base == f"{here}/" else new_base, f"{PACKAGE}/_src/",
                     f"{PACKAGE}/", ""):
            if base and old_base == "" and base != "":
                continue
            if new.startswith(base):
                return new[len(base):] + slash
    return None if slash else suffixed(tree, plain, owner)


GENERIC = "script.py", "program.py", "setup.py", "conftest.py"  # files of users


def refiled(tree: Tree, name: str, owner) -> str | None:
    """What the bare name of a file in text becomes; None if it stays."""
    here = owner.path.rpartition("/")[0]
    full = f"{here}/{name}" if here else name
    candidates = tree.by_name.get(name, ())
    if not owner.path.startswith((f"{PACKAGE}/", "docs/", "README", "CONTRIBUTING")) or name in GENERIC:
        return None
    candidates = about(owner, candidates)
    if full in tree.files:
        new = tree.files[full]
    elif len(candidates) == 1 and name not in ("setup.py", "__init__.py", "__main__.py", "conftest.py"):
        new = tree.files[candidates[0]]
        full = candidates[0]
    else:
        if any(tree.files[c].rpartition("/")[2] != name for c in candidates) and name != "__init__.py":
            return Unclear(f"{name} may be any of {len(candidates)} files")
        return None
    short = new.rpartition("/")[2]
    if owner.path.startswith("docs/") and new != full and sum(f.endswith(f"/{short}") for f in tree.files.values()) > 1:
        short = "/".join(new.split("/")[-2:])
    return short if short != name else None


def about(owner, candidates) -> list:
    """Those of several files that a page speaks of."""
    subjects = next((line.split()[1:] for line in table("documents.txt") if line.split()[0] == owner.path), ())
    for subject in subjects if len(candidates) > 1 else ():
        mine = sorted((c for c in candidates if c.startswith(f"{subject}/")), key=lambda c: c.count("/"))
        if mine:
            return mine[:1]
    return list(candidates)


def suffixed(tree: Tree, path: str, owner) -> str | None:
    """What the end of a path becomes ("templates/tile.py"), in pages and in the package."""
    candidates = [f for f in tree.by_name.get(path.rpartition("/")[2], ()) if f.endswith(f"/{path}")]
    candidates = about(owner, candidates)
    if len(candidates) != 1 or not owner.path.startswith((f"{PACKAGE}/", "docs/", "README", "CONTRIBUTING")):
        return Unclear(f"{path} may be any of {len(candidates)} files") if len(candidates) > 1 else None
    new = tree.files[candidates[0]]
    if new == candidates[0]:
        return None
    head = f"/{path.partition('/')[0]}/"
    return new[new.index(head) + 1:] if head in new else new.removeprefix(f"{PACKAGE}/").removeprefix("_src/")


def braced(tree: Tree, path: str, owner) -> str | None:
    """What ``folder/{one,two}.py`` becomes."""
    folder, names, ending = re.fullmatch(r"([\w/]*/)?\{([\w,]+)\}(\.\w+)", path).groups()
    paths = []
    for name in names.split(","):
        one = f"{folder or ''}{name}{ending}"
        new = (repathed if folder else refiled)(tree, one, owner)
        paths.append(one if new is None or isinstance(new, Unclear) else new)
    if paths == [f"{folder or ''}{name}{ending}" for name in names.split(",")]:
        return None
    folders = {p.rpartition("/")[0] for p in paths}
    if len(folders) > 1:
        return Unclear(f"{path} becomes {', '.join(paths)}")
    inside = ",".join(p.rpartition("/")[2].removesuffix(ending) for p in paths)
    return f"{folders.pop()}/{{{inside}}}{ending}".removeprefix("/")


def spanned(tree: Tree, span: str, owner) -> str | None:
    """``module.name`` in a page, by the last part of a module's path."""
    module, _, name = span.partition(".")
    candidates = about(owner, tree.by_name.get(f"{module}.py", ()))
    candidates = [c for c in candidates if re.search(rf"^(?:(?:async )?def|class) {name}\b|^{name}\b.*=",
                                                     read_text(tree.root / c), re.M)]
    if len(candidates) != 1:
        return None
    new = tree.files[candidates[0]].rpartition("/")[2].removesuffix(".py")
    return f"{new}.{name}" if new != module else None


class TextFile(File):
    def __init__(self, tree: Tree, path: str, text: str):
        self.tree, self.path, self.source = tree, path, Source(text)
        self.new_path = tree.files.get(path, path)

    def run(self) -> str:
        for begin, end, new in texts(self.tree, self, self.source.text):
            self.edit(begin, end, new)
        if self.path.endswith("/measured.txt"):  # rows begin with the file of a planner
            for match in re.finditer(r"\| (\w+)\.", self.source.text):
                planner = f"{self.path.rpartition('/')[0]}/{match[1]}.py"
                new = self.tree.files.get(planner, planner).rpartition("/")[2].removesuffix(".py")
                self.source.replace(*match.span(1), new)
        return self.source.result(aligned=self.path.endswith(".md"))

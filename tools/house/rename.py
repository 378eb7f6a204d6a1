"""Rename functions and classes by symbols.txt, by scope.

    python3.13 tools/house/rename.py ROOT [--only FOLDER ...] [--judge PYTHON] [--dry]

A line of symbols.txt, "MODULE.NAME NEW", names a definition at the top level of a module, by the module's path before
the moves or after.  Renamed are: the definition and what its file says of it; imports of the name, in all files of the
project, and their uses; attributes of the module under any local name; names in ``__all__``, in tables
(``from MODULE: NAME``), in ``entered("module", "name")``, and in dotted strings ("rushlight._src.x.name").

A file that has the new name already imports it ``as`` the old one; a definition whose own file has it is refused.
Modules at paths of PyTorch keep names that PyTorch has there (asked of the interpreter ``--judge``).  Methods and
fields are no work for this script.
"""
from __future__ import annotations

import argparse
import ast
import builtins
import collections
import functools
import gc
import json
import pathlib
import re
import subprocess
import sys

from python_file import statements
from tree import HERE, PACKAGE, UNREAD, Source, absolute, dotted, git, rendered, rows
from wrap import wrap

HIDDEN = tuple(f"{PACKAGE}.{name}." for name in ("_src", "_compat", "_torchvision"))


# a module that is imported by its name
BY_NAME = r"(?:_?room|import_submodule|(?:importlib\.)?import_module)\(\s*\"([\w.]+)\"\)"


class Scope:
    """A scope of a program: ``bound`` names, ``uses``: name -> nodes that name it here, ``imports``: (node, alias)."""

    def __init__(self, kind, parent=None):
        self.kind, self.parent = kind, parent
        self.bound, self.elsewhere, self.inner = set(), set(), []
        self.uses = collections.defaultdict(list)
        self.imports, self.all = [], None
        if parent is not None:
            parent.inner.append(self)

    def home(self, name):
        """The scope that a name belongs to, read here."""
        scope = self
        while scope is not None:
            if name in scope.elsewhere:
                top = scope
                while top.parent is not None:
                    top = top.parent
                return top
            if name in scope.bound and (scope.kind != "class" or scope is self):
                return scope
            scope = scope.parent
        return None

    def every(self) -> list:
        """This scope and all within it."""
        if self.all is None:
            self.all = [self, *(one for scope in self.inner for one in scope.every())]
        return self.all


class Reader(ast.NodeVisitor):
    """Builds the scopes of a module."""

    def __init__(self, tree):
        self.scope = self.top = Scope("module")
        for node in tree.body:
            self.visit(node)

    def bind(self, name, node=None):
        self.scope.bound.add(name)
        if node is not None:
            self.scope.uses[name].append(node)

    def within(self, kind, body):
        self.scope = Scope(kind, self.scope)
        body()
        self.scope = self.scope.parent

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load):
            self.scope.uses[node.id].append(node)
        else:
            self.bind(node.id, node)

    def visit_NamedExpr(self, node):
        scope = self.scope
        while scope.kind == "comprehension":
            scope = scope.parent
        scope.bound.add(node.target.id)
        self.scope.uses[node.target.id].append(node.target)
        self.visit(node.value)

    def function(self, node):
        if hasattr(node, "name"):
            self.bind(node.name, node)
            for one in node.decorator_list:
                self.visit(one)
            if node.returns is not None:
                self.visit(node.returns)
        a = node.args
        every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, [a.vararg, a.kwarg])]
        for one in [*a.defaults, *filter(None, a.kw_defaults), *(x.annotation for x in every if x.annotation)]:
            self.visit(one)

        def body():
            self.scope.bound |= {one.arg for one in every}
            for one in node.body if isinstance(node.body, list) else [node.body]:
                self.visit(one)
        self.within("function", body)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = function

    def visit_ClassDef(self, node):
        self.bind(node.name, node)
        for one in [*node.decorator_list, *node.bases, *(k.value for k in node.keywords)]:
            self.visit(one)
        self.within("class", lambda: [self.visit(one) for one in node.body])

    def comprehension(self, node):
        self.visit(node.generators[0].iter)

        def body():
            for k, one in enumerate(node.generators):
                self.visit(one.target)
                if k:
                    self.visit(one.iter)
                for test in one.ifs:
                    self.visit(test)
            for part in ("key", "value", "elt"):
                if getattr(node, part, None) is not None:
                    self.visit(getattr(node, part))
        self.within("comprehension", body)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = comprehension

    def visit_Global(self, node):
        self.scope.elsewhere |= set(node.names)
        for name in node.names:
            self.scope.uses[name].append(node)

    def visit_Nonlocal(self, node):
        pass

    def visit_ExceptHandler(self, node):
        if node.name:
            self.bind(node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node):
        if node.name:
            self.bind(node.name)
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs

    def visit_Import(self, node):
        for alias in node.names:
            self.bind(alias.asname or alias.name.partition(".")[0])
            self.scope.imports.append((node, alias))

    def visit_ImportFrom(self, node):
        for alias in node.names:
            self.bind(alias.asname or alias.name)
            self.scope.imports.append((node, alias))


class Module:
    """A file of the project, with what it imports at any depth."""

    def __init__(self, root, path):
        self.path, self.text = path, (root / path).read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        inside = path.startswith(f"{PACKAGE}/")
        self.name = dotted(path) if inside else path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        self.is_package = path.endswith("__init__.py")
        # (module, name, local name, at the top) of each import from the package
        self.taken, self.modules = [], {}
        top = set(map(id, self.tree.body))
        for node in statements(self.tree):
            if isinstance(node, ast.ImportFrom):
                base = absolute(node, self.name, self.is_package)
                if base == PACKAGE or base.startswith(f"{PACKAGE}."):
                    self.taken += [(base, a.name, a.asname or a.name, id(node) in top) for a in node.names]
            elif isinstance(node, ast.Import):
                for a in node.names:
                    if a.name.partition(".")[0] == PACKAGE:
                        self.modules[a.asname or PACKAGE] = a.name if a.asname else PACKAGE
        for match in re.finditer(rf"(\w+)(?:, \w+)* = {BY_NAME}(?![.\w])", self.text):  # name = room("library.conventions")
            self.modules[match[1]] = f"{PACKAGE}.{match[2].removeprefix(f'{PACKAGE}.')}"

    @functools.cached_property
    def scopes(self) -> Scope:
        return Reader(self.tree).top

    @functools.cached_property
    def importing(self) -> dict:
        """Name -> the scopes that import it under this name, each with the statement."""
        found = collections.defaultdict(list)
        for scope in self.scopes.every():
            for node, alias in scope.imports:
                if isinstance(node, ast.ImportFrom) and alias.asname is None:
                    found[alias.name].append((scope, node))
        return found

    def defines(self, name) -> bool:
        for node in statements(ast.Module([n for n in self.tree.body if not isinstance(
                n, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef))], [])):
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                for target in getattr(node, "targets", [getattr(node, "target", None)]):
                    if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(target)):
                        return True
            if getattr(node, "name", None) == name:
                return True
        return any(getattr(n, "name", None) == name for n in self.tree.body)


def wanted():
    """(module before the moves, name, new name) of symbols.txt and participles.txt."""
    for line in (HERE / "symbols.txt").read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            old, new = line.split()
            base, _, name = old.rpartition(".")
            yield base if base.startswith(f"{PACKAGE}.") else f"{PACKAGE}._src.{base}", name, new
    for line in (HERE / "participles.txt").read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            path, name, new = line.split()
            yield dotted(f"{PACKAGE}/{path}"), name, new


def identifiers(tree) -> set:
    """All names that a program uses."""
    found = set()
    for node in ast.walk(tree):
        for part in ("id", "attr", "arg", "name", "asname"):
            value = getattr(node, part, None)
            if isinstance(value, str):
                found.add(value)
    return found


class Speech:
    """Names of functions and classes in pages, docstrings and comments: between backticks alone."""

    SPAN = re.compile(r"(?<!`)(`{1,2})([A-Za-z_][\w.]*)((?:\([^`\n]*\))?)\1(?!`)")
    PLACE = re.compile(r",? in `+([\w./]+\.py)`|")  # after a span
    BEFORE = re.compile(r"`([\w./]+\.py): (\w+)`")

    def __init__(self, done, words):
        self.of_path = {(path, name): new for path, name, new in done}
        self.of_file = collections.defaultdict(set)  # (file's own name, name) -> new names
        several = collections.defaultdict(set)
        for path, name, new in done:
            self.of_file[path.rpartition("/")[2].removesuffix(".py"), name].add(new)
            several[name].add(new)
        former = {now: old.rpartition("/")[2].removesuffix(".py") for old, now in rows().items()}
        for (path, name), new in self.of_path.items():  # by the file's name before the moves, too
            if path in former:
                self.of_file[former[path], name].add(new)
        self.gone = {name: next(iter(new)) for name, new in several.items() if len(new) == 1 and name not in words}

    def in_file(self, stem: str, name: str):
        found = self.of_file.get((stem, name), ())
        return next(iter(found)) if len(found) == 1 else None

    def renamed(self, path: str, text: str) -> str:
        def span(match):
            base, _, name = match[2].rpartition(".")
            place = self.PLACE.match(text, match.end())
            new = None
            if place and place[1]:
                new = self.in_file(place[1].rpartition("/")[2].removesuffix(".py"), name)
            elif base:
                new = self.in_file(base.rpartition(".")[2], name) or (self.gone.get(name) if "rushlight" in base else None)
            else:
                own = path.endswith(".py") and not re.search(rf"\.{name}\b", text)  # no field is called so
                new = self.of_path.get((path, name)) if own else None
                new = new or self.gone.get(name)
            base = ".".join(self.gone.get(part, part) for part in base.split("."))  # a class
            new = name if new is None else new
            return f"{match[1]}{base}{'.' if base else ''}{new}{match[3]}{match[1]}"

        def before(match):
            new = self.in_file(match[1].rpartition("/")[2].removesuffix(".py"), match[2])
            return match[0] if new is None else f"`{match[1]}: {new}`"

        return self.BEFORE.sub(before, self.SPAN.sub(span, text))


class Project:
    def __init__(self, root, judge=None):
        self.root, self.judge, self.complaints = pathlib.Path(root), judge, []
        self.tracked = [f for f in git(root, "ls-files").splitlines() if not UNREAD.fullmatch(f)]
        self.files = {}
        for path in self.tracked:
            if path.endswith(".py") and (self.root / path).is_file():
                self.files[path] = Module(self.root, path)
        self.named = {m.name: m for m in self.files.values() if m.path.startswith(f"{PACKAGE}/")}
        self.now = {}  # names of modules before the moves -> today's
        for old, new in rows().items():
            if old.endswith(".py"):
                name, moved = dotted(old), dotted(new)
                self.now[name] = name if old in self.files and new not in self.files else moved

    def symbols(self, only=()):
        for full, name, new in wanted():
            old = f"{full}.{name}"
            home = next((m for m in (self.now.get(full), full) if m in self.named and self.named[m].defines(name)), None)
            if home is None:
                if not any(m in self.named and self.named[m].defines(new) for m in (self.now.get(full), full)):
                    self.complaints.append(f"{old}: no such definition")
                continue
            path = self.named[home].path
            if not only or any(path.startswith((f"{PACKAGE}/{o}/", f"{PACKAGE}/{o}.py", f"{PACKAGE}/_src/{o}/",
                                                f"{PACKAGE}/_src/{o}.py")) for o in only):
                yield home, name, new

    def public(self, pairs) -> set:
        """Those of (module, name) that PyTorch has."""
        if not pairs or self.judge is None:
            return set()
        program = ("import sys, json, importlib, warnings; warnings.simplefilter('ignore'); found = []\n"
                   "for m, n in json.load(sys.stdin):\n"
                   "    try:\n        if hasattr(importlib.import_module('torch' + m[9:]), n): found.append([m, n])\n"
                   "    except Exception: pass\n"
                   "print('\\n' + json.dumps(found))")
        done = subprocess.run([self.judge, "-c", program], input=json.dumps(sorted(pairs)), capture_output=True, text=True,
                              cwd="/")
        return {tuple(row) for row in json.loads(done.stdout.strip().splitlines()[-1])}

    def clash(self, module: Module, scope: Scope, old: str, new: str) -> bool:
        """True if the new name means something in a scope from which the old one is seen."""
        if hasattr(builtins, new):
            return True
        if not re.search(rf"\b{new}\b", module.text):
            return False
        for inner in scope.every():
            if new in inner.bound and (inner is scope or any(
                    old in s.uses and s.home(old) is scope for s in inner.every())):
                return True
            if new in inner.uses and inner.home(new) in (None, scope) and new not in inner.bound:
                return True
        return False

    def run(self, only, dry):
        wanted = list(self.symbols(only))
        at_risk = {(m.name, n) for m in self.files.values() if m.path.startswith(f"{PACKAGE}/")
                   and not m.name.startswith(HIDDEN) for b, n, local, top in m.taken if top and local == n
                   and any(n == name for _, name, _ in wanted)}
        at_risk |= {(home, name) for home, name, _ in wanted if not home.startswith(HIDDEN)}
        fixed = self.public(at_risk)
        new_of = {}  # (module, name) -> new name
        for home, name, new in wanted:
            module = self.named[home]
            if (home, name) in fixed:
                self.complaints.append(f"{home}.{name}: PyTorch has it there")
            elif self.clash(module, module.scopes, name, new):
                self.complaints.append(f"{home}.{name}: its file has {new} already")
            else:
                new_of[home, name] = new
        # modules that import a name have it, too; clashes keep the old name there
        users = collections.defaultdict(list)
        for m in self.files.values():
            for base, name, local, top in m.taken:
                users[base, name].append((m, local, top))
                if name == "*":
                    users[base, "*"].append((m, "*", top))
        aliased = set()  # (path, old local name): stays under it
        queue = list(new_of)
        while queue:
            base, name = queue.pop()
            new = new_of[base, name]
            for m, local, top in users[base, name]:
                if local != name:
                    continue
                scopes = [scope for scope, _ in m.importing[name]]
                several = {new_of.get((absolute(n, m.name, m.is_package), name)) for _, n in m.importing[name]}
                if (m.name, name) in fixed or len(several) > 1 or any(self.clash(m, s, name, new) for s in scopes):
                    aliased.add((m.path, name))
                elif top and (m.name, name) not in new_of:
                    new_of[m.name, name] = new
                    queue.append((m.name, name))
            for m, _, top in users[base, "*"]:
                if (m.name, name) not in new_of and not self.clash(m, m.scopes, name, new):
                    new_of[m.name, name] = new
                    queue.append((m.name, name))
        self.of_base = collections.defaultdict(dict)
        for (base, name), new in new_of.items():
            self.of_base[base][name] = new
        self.above = {".".join(b.split(".")[:k]) for b in self.of_base for k in range(1, b.count(".") + 1)}
        changed, words = {}, set()
        for path, m in self.files.items():
            text, tree = self.rewrite(m, new_of, aliased), m.tree
            if text != m.text:
                wrapped = wrap(text, path, {line for line in m.text.split("\n")})
                try:
                    tree = ast.parse(wrapped)
                except SyntaxError:
                    tree, wrapped = ast.parse(text), text
                changed[path] = wrapped
            words |= identifiers(tree)
        done = [(self.named[home].path, name, new) for home, name, new in wanted if (home, name) in new_of]
        speech = Speech(done, words)
        for path in self.tracked:
            if path.endswith((".py", ".md")):
                old = (self.root / path).read_text(encoding="utf-8")
                text = changed.get(path, old)
                new = speech.renamed(path, text)
                if new != text:
                    changed[path] = wrap(new, path, set(old.split("\n")))
                    if path.endswith(".py"):
                        ast.parse(changed[path])
        listed = "tests/layers/unread_parameters.txt"  # "FILE FUNCTION: parameters", below the package
        if listed in self.tracked:
            def line(match):
                first, dot, rest = match[2].partition(".")
                return f"{match[1]} {speech.of_path.get((f'{PACKAGE}/{match[1]}', first), first)}{dot}{rest}:"
            old = (self.root / listed).read_text(encoding="utf-8")
            new = re.sub(r"^(\S+\.py) ([\w.]+):", line, old, flags=re.M)
            if new != old:
                changed[listed] = new
        for path in self.tracked:
            if path.endswith(".txt") and path.startswith(f"{PACKAGE}/"):
                text = (self.root / path).read_text(encoding="utf-8")
                new = self.tables(text, new_of)
                if new != text:
                    changed[path] = new
        if not dry:
            for path, text in changed.items():
                (self.root / path).write_text(text, encoding="utf-8")
        return len({(b, n) for b, n, _ in wanted if (b, n) in new_of}), len(changed)

    def tables(self, text: str, new_of: dict) -> str:
        """``from MODULE: name, name as other`` in tables of names: the other name stays."""
        def line(match):
            base = PACKAGE + match[2].removeprefix("torch").removeprefix(PACKAGE)
            words = []
            for word in match[3].split(", "):
                name, _, other = word.partition(" as ")
                new = new_of.get((base, name))
                words.append(word if new is None else f"{new} as {other or name}")
            return f"{match[1]}{match[2]}: {', '.join(words)}"
        return re.sub(rf"^( from )((?:{PACKAGE}|torch)[\w.]*): (.+)$", line, text, flags=re.M)

    def rewrite(self, m: Module, new_of: dict, aliased: set) -> str:
        source = Source(m.text)
        local = {}  # local name -> new, at the top; and modules under local names
        modules = dict(m.modules)
        for base, name, name_here, top in m.taken:
            if f"{base}.{name}" in self.named:
                modules[name_here] = f"{base}.{name}"
        involved = any((b, n) in new_of or n == "*" and b in self.of_base for b, n, _, _ in m.taken) or m.name in self.of_base
        if involved:
            for scope in m.scopes.every():
                mine = {}
                for node, alias in scope.imports:
                    if not isinstance(node, ast.ImportFrom):
                        continue
                    base = absolute(node, m.name, m.is_package)
                    new = new_of.get((base, alias.name))
                    if new is not None and alias.asname is None and (m.path, alias.name) not in aliased:
                        mine[alias.name] = new
                if scope is m.scopes:
                    mine |= {n: new for n, new in self.of_base.get(m.name, {}).items()
                             if (n in scope.bound or any(name == "*" for _, name, _, _ in m.taken))}
                    local = mine
                for name, new in mine.items():
                    self.rename_in(source, m, scope, name, new)
            done = set()
            for scope in m.scopes.every():
                for node, _ in scope.imports:
                    if isinstance(node, ast.ImportFrom) and id(node) not in done:
                        done.add(id(node))
                        self.rename_import(source, m, node, new_of, aliased)
            for node in m.tree.body:
                if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                    for one in ast.walk(node.value):
                        if isinstance(one, ast.Constant) and one.value in local:
                            self.put(source, one, f'"{local[one.value]}"')
        for name_here, full in modules.items():
            if full in self.of_base or full in self.above:
                self.attributes(source, m, name_here, full, new_of)
        for match in re.finditer(rf"{PACKAGE}(?:\.\w+)+\.(\w+)", m.text):
            base, _, name = match[0].rpartition(".")
            if (base, name) in new_of:
                source.replace(match.start(1), match.end(1), new_of[base, name])
        for match in re.finditer(rf"{BY_NAME}\.(\w+)", m.text):
            new = new_of.get((f"{PACKAGE}.{match[1].removeprefix(f'{PACKAGE}.')}", match[2]))
            if new:
                source.replace(match.start(2), match.end(2), new)
        for match in re.finditer(r"\b(?:entered|lazy_function)\(\s*\"([\w.]+)\",\s*\"(\w+)\"", m.text):
            new = new_of.get((f"{PACKAGE}.{match[1]}", match[2]))
            if new:
                source.replace(match.start(2), match.end(2), new)
        return source.result()

    def rename_in(self, source, m, scope, name, new):
        """All uses of a name that belongs to a scope."""
        for inner in scope.every():
            for node in inner.uses.get(name, ()):
                if inner.home(name) is not scope and not (scope is m.scopes and inner.home(name) is None):
                    continue
                if isinstance(node, ast.Name):
                    self.put(source, node, new)
                elif isinstance(node, ast.Global):
                    begin, end = source.span(node)
                    source.replace(begin, end, re.sub(rf"\b{name}\b", new, source.text[begin:end]))
                else:
                    begin = source.span(node)[0]
                    match = re.compile(rf"(?:async\s+)?(?:def|class)\s+({name})\b").match(source.text, begin)
                    if match:
                        source.replace(match.start(1), match.end(1), new)

    def put(self, source, node, text):
        begin, end = source.span(node)
        source.replace(begin, end, text)

    def rename_import(self, source, m, node, new_of, aliased):
        base = absolute(node, m.name, m.is_package)
        names, changed = [], False
        for alias in node.names:
            new = new_of.get((base, alias.name))
            if new is None:
                names.append((alias.name, alias.asname))
                continue
            changed = True
            other = alias.asname or (alias.name if (m.path, alias.name) in aliased else None)
            names.append((new, None if other == new else other))
        if not changed:
            return
        begin, end = source.span(node)
        line = source.text.rfind("\n", 0, begin) + 1
        indent = begin - line if not source.text[line:begin].strip() else 0
        notes = re.findall(r"#.*", source.text[begin:end])
        text = rendered("." * node.level + (node.module or ""), names, indent)
        if notes:
            first, newline, rest = text.partition("\n")
            text = f"{first}  {notes[0]}{newline}{rest}"
        source.replace(begin, end, text)

    def attributes(self, source, m, local, full, new_of):
        """``alias.name``, and the string in ``setattr(alias, "name")``."""
        for match in re.finditer(rf"(?<![\w.]){local}((?:\.\w+)+)", m.text):
            parts, base, at = match[1][1:].split("."), full, match.start() + len(local)
            for part in parts:
                at += 1
                new = new_of.get((base, part))
                if new is not None:
                    before = m.text[m.text.rfind("\n", 0, match.start()) + 1:match.start()]
                    if not re.match(r"\s*(from|import)\s", before):
                        source.replace(at, at + len(part), new)
                    break
                base, at = f"{base}.{part}", at + len(part)
                if base not in self.named:
                    break
        for match in re.finditer(rf"attr\(\s*({local}(?:\.\w+)*),\s*[\"'](\w+)[\"']", m.text):
            base = full + match[1][len(local):]
            if (base, match[2]) in new_of:
                source.replace(match.start(2), match.end(2), new_of[base, match[2]])


def main():
    gc.disable()  # syntax trees of the whole project are alive at once
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--judge")
    parser.add_argument("--dry", action="store_true")
    options = parser.parse_args()
    project = Project(options.root, options.judge)
    symbols, files = project.run(options.only, options.dry)
    print(f"{symbols} symbols are renamed in {files} files")
    for line in sorted(set(project.complaints)):
        print("LOOK:", line)


if __name__ == "__main__":
    sys.exit(main())

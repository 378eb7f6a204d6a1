"""What a Python file says of modules: imports, attribute chains, lists of prefixes, lazy homes, paths by depth."""
from __future__ import annotations

import ast
import bisect
import functools
import io
import pathlib
import re
import tokenize
import types

from prose import texts
from tree import (FACADE, PACKAGE, WIDTH, File, Source, Tree, absolute, dotted, read_text, relative, rendered, rows, table,
                  words)


class PythonFile(File):

    def __init__(self, tree: Tree, path: str, text: str):
        self.tree, self.path, self.source = tree, path, Source(text)
        self.new_path = tree.files.get(path, path)
        self.module, self.is_package = dotted(path), path.endswith("__init__.py")
        self.new_module = dotted(self.new_path)
        self.names: dict[str, str] = {}  # local name -> the old module that it is bound to
        self.parsed = ast.parse(text)

    def complain(self, node, what):
        self.tree.complaints.append(f"{self.path}:{node.lineno}: {what}")

    def run(self) -> str:
        for node in statements(self.parsed):
            if isinstance(node, ast.ImportFrom):
                self.import_from(node)
            elif isinstance(node, ast.Import):
                self.plain_import(node)
        self.chains()
        self.lists()
        self.lookups()
        self.depths()
        self.tokens()
        return self.source.result()

    @functools.cached_property
    def prose(self) -> list[tuple]:
        """(begin, end, content of a plain string or None) of strings and comments, in order."""
        found = []
        for token in tokenize.generate_tokens(io.StringIO(self.source.text).readline):
            if token.type in (tokenize.STRING, tokenize.FSTRING_MIDDLE, tokenize.COMMENT):
                whole = None
                if token.type == tokenize.STRING and token.string[:1] in "\"'":
                    whole = token.string.strip("\"'")
                found.append((self.source.at(*token.start), self.source.at(*token.end), whole))
        return found

    def in_prose(self, place: int) -> bool:
        k = bisect.bisect_right(self.prose, place, key=lambda row: row[0]) - 1
        return k >= 0 and place < self.prose[k][1]

    # imports
    def targets(self, base: str, alias: ast.alias, node) -> tuple | None:
        """(new base, new name, its local name or None) of one imported name."""
        name, tree = alias.name, self.tree
        if name != "*" and tree.is_module(base, name):
            full = f"{base}.{name}"
            self.names[alias.asname or name] = full
            new = tree.new(full)
            if new is None and full in tree.packages:  # nothing is in the package's file, or it goes
                self.complain(node, f"imports the package {full}, whose modules go to several places")
                return base, name, alias.asname
            new_base, _, new_name = new.rpartition(".")
            return new_base, new_name, alias.asname or (name if new_name != name else None)
        if base not in tree.modules:
            if tree.known(base):
                self.complain(node, f"imports {name} of {base}, which has no file")
            return None
        return tree.modules[base], name, alias.asname

    def import_from(self, node: ast.ImportFrom):
        base = absolute(node, self.module, self.is_package)
        if not (base == PACKAGE or base.startswith(f"{PACKAGE}.")):
            return
        groups: dict[str, list] = {}
        for alias in node.names:
            found = self.targets(base, alias, node)
            if found is None:
                return
            groups.setdefault(found[0], []).append((found[1], found[2]))
        facade = self.new_path.startswith(f"{PACKAGE}/{FACADE}/")
        spelled = {new: new if not node.level or facade else relative(new, self.new_module, self.is_package)
                   for new in groups}
        before = "." * node.level + (node.module or "")
        if list(spelled.values()) == [before] and [(a.name, a.asname) for a in node.names] == list(groups.values())[0]:
            return
        begin, end = self.source.span(node)
        old = self.source.text[begin:end]
        notes = re.findall(r"#.*", old)
        line = self.source.text.rfind("\n", 0, begin) + 1
        alone = not self.source.text[line:begin].strip()
        indent = begin - line if alone else 0
        statements = [rendered(spelled[new], names, indent if alone else 0) for new, names in groups.items()]
        if notes:  # a comment within the brackets, as a directive to linters, stands on the first line
            first, newline, rest = statements[0].partition("\n")
            statements[0] = f"{first}  {notes[0]}{newline}{rest}"
        self.source.replace(begin, end, (f"\n{' ' * indent}" if alone else "; ").join(statements))

    def plain_import(self, node: ast.Import):
        for alias in node.names:
            name = alias.name
            if not (name == PACKAGE or name.startswith(f"{PACKAGE}.")):
                if name in ("torch", "torch._src") or name.startswith("torch."):
                    self.names.setdefault(alias.asname or "torch", PACKAGE)
                continue
            self.names[alias.asname or PACKAGE] = name if alias.asname else PACKAGE
            new = self.tree.new(name)
            if not self.tree.known(name):
                continue  # the table of names has it
            if new is None:
                self.complain(node, f"imports {name}, which has no single new name")
            elif new != name:
                begin, end = self.source.span(alias)
                self.source.replace(begin, end, new + (f" as {alias.asname}" if alias.asname else ""))

    # attribute chains through modules
    def chains(self):
        """``core.op.OPS`` where ``core`` is a package: what it leads to may lie elsewhere."""
        text = self.source.text
        for local, start in self.names.items():
            if start not in self.tree.packages:
                continue
            for match in re.finditer(rf"(?<![\w.]){local}((?:\.\w+)+)", text):
                if self.tree.known(f"{start}.{match[1][1:].partition('.')[0]}") and not self.in_prose(match.start()):
                    self.chain(local, start, match)

    def chain(self, local: str, start: str, match):
        parts, full, count, tree = match[1][1:].split("."), start, 0, self.tree
        line = self.source.text.count("\n", 0, match.start()) + 1
        where = types.SimpleNamespace(lineno=line)
        before = self.source.text[self.source.text.rfind("\n", 0, match.start()) + 1:match.start()]
        if re.match(r"\s*(from|import)\s", before):
            return
        while count < len(parts) and tree.is_module(full, parts[count]):
            full = f"{full}.{parts[count]}"
            count += 1
        if not count:
            return
        new, owner = tree.new(full), tree.new(start)
        if new is None:
            return self.complain(where, f"names the package {full} by attributes, which goes to several places")
        if start != PACKAGE and (owner is None or not new.startswith(f"{owner}.")):
            here = ".".join(parts[:count])
            return self.complain(where, f"{local}.{here} is now {new}, which {local} does not lead to")
        rest = new[len(owner if start != PACKAGE else PACKAGE):]
        end = match.start() + len(local) + sum(len(p) + 1 for p in parts[:count])
        return self.source.replace(match.start() + len(local), end, rest)

    # lists of prefixes of modules
    def lists(self):
        for line in table("prefixes.txt"):
            path, *names = line.split()
            if self.path not in (path, rows().get(path)):
                continue
            for node in ast.walk(self.parsed):
                if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) in names:
                    self.prefixes(node)

    def prefixes(self, node: ast.Assign):
        constants = [n for n in ast.walk(node.value) if isinstance(n, ast.Constant) and isinstance(n.value, str)
                     and n.value.strip(".")]
        old, new = list(self.tree.modules), self.tree.modules
        spelled = {}
        for constant in constants:
            full = constant.value.lstrip(".")
            full = full if full.startswith(f"{PACKAGE}.") else f"{PACKAGE}.{full}"
            spelled[id(constant)] = full
        covered = {m for m in old if m.startswith(tuple(spelled.values()))}
        harmless = {m for m in old if self.tree.paths[m].startswith(tuple(words("harmless")))}
        for line in table("prefixes.txt"):
            if line.startswith(f"after {node.targets[0].id} "):
                harmless |= {m for name in line.split()[2:] for m in self.listed(name)}
        spoilt = {new[m] for m in old if m not in covered and m not in harmless and self.speaks(m)}
        images = {new[m] for m in covered}
        kept, result, changed = set(), [], False
        for constant in constants:
            full = spelled[id(constant)]
            mine = {new[m] for m in old if m.startswith(full)}
            if all(m.startswith(full) for m in mine) and not any(m.startswith(full) for m in spoilt):
                kept.add(full)
                result.append(full)
            else:
                result.append(None)
        for k, constant in enumerate(constants):
            if result[k] is None:
                mine = {new[m] for m in old if m.startswith(spelled[id(constant)])}
                cover = [m for m in self.cover(mine, images, spoilt) if not m.startswith(tuple(kept))]
                kept |= set(cover)
                result[k], changed = sorted(cover), True
        if not changed:
            return
        flat = [m.removeprefix(f"{PACKAGE}.") for row in result for m in ([row] if isinstance(row, str) else row)]
        inner = next(n for n in ast.walk(node.value) if isinstance(n, (ast.Tuple, ast.List)) and constants[-1] in n.elts
                     or isinstance(n, ast.Tuple) and any(c in ast.walk(n) for c in constants))
        if not all(c in inner.elts for c in constants):  # formatted strings
            for constant, row in zip(constants, result):
                if isinstance(row, list):
                    if len(row) > 1:
                        self.complain(node, f"{spelled[id(constant)]} in a formatted string becomes {row}")
                    begin, end = self.source.span(constant)
                    self.source.replace(begin, end, f".{row[0].removeprefix(f'{PACKAGE}.')}")
            return
        begin, end = self.source.span(inner)
        lead = self.source.text[self.source.text.rfind("\n", 0, begin) + 1:begin]
        indent = len(lead) + 1
        lines, line = [], ""
        for k, word in enumerate(flat):
            word = f'"{word}"' + ("," if k < len(flat) - 1 else "")
            if line and indent + len(line) + 1 + len(word) > WIDTH - 3:
                lines.append(line)
                line = word
            else:
                line = f"{line} {word}".strip()
        text = f"\n{' ' * indent}".join([*lines, line])
        self.source.replace(begin, end, f"({text})")

    def listed(self, name: str) -> set:
        """Modules under the prefixes of another list of this file."""
        for node in self.parsed.body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == name:
                heads = [n.value for n in ast.walk(node.value) if isinstance(n, ast.Constant)
                         and isinstance(n.value, str) and n.value.strip(".")]
                heads = tuple(f"{PACKAGE}.{head.lstrip('.')}" for head in heads)
                return {m for m in self.tree.modules if m.startswith(heads)}
        return set()

    def speaks(self, module: str) -> bool:
        """True if a module has functions, so that it matters whether a list names it."""
        return not module.endswith("__init__") and "def " in read_text(self.tree.root / self.tree.paths[module])

    def cover(self, mine: set, images: set, spoilt: set) -> set:
        """The fewest prefixes under which all of ``mine`` are, and none of ``spoilt``."""
        found = set()
        for module in mine:
            parts = module.split(".")
            for k in range(2, len(parts) + 1):
                prefix = ".".join(parts[:k])
                if prefix == f"{PACKAGE}._src" and k < len(parts):
                    continue
                if not any(m.startswith(prefix) for m in spoilt):  # as the lists are read
                    found.add(prefix)
                    break
            else:
                found.add(module)
        return found

    # names that are relative to this module: keys of later(__name__, {...}) and import_module(".x", __name__)
    def lookups(self):
        if not re.search(r"\b_?(later|entered|room|lazy_getattr|lazy_function|import_submodule)\(", self.source.text):
            return
        tables = {t.id: n.value for n in self.parsed.body if isinstance(n, ast.Assign) for t in n.targets
                  if isinstance(t, ast.Name) and isinstance(n.value, ast.Dict)}
        for node in ast.walk(self.parsed):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in ("later", "_later", "lazy_getattr", "_lazy_getattr") and len(node.args) > 1:
                homes = node.args[1]
                homes = tables.get(homes.id) if isinstance(homes, ast.Name) else homes
                for key in getattr(homes, "keys", ()):
                    if isinstance(key, ast.Constant):
                        self.relative_name(key)
            elif name in ("entered", "room", "lazy_function", "import_submodule", "_room") and node.args \
                    and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
                self.rooted_name(node.args[0])

    def relative_name(self, key: ast.Constant):
        """``import_module(f".{key}", module)``: relative to the module as if it were a package."""
        value = key.value
        here = self.module.split(".")
        level = len(value) - len(value.lstrip("."))
        full = ".".join([*here[:len(here) - level], value.lstrip(".")])
        new = self.tree.new(full)
        if new is None:
            return self.complain(key, f"the lazy home {value!r} is no module")
        if new == full and self.new_module == self.module:
            return None
        spelled = relative(new, self.new_module, True)[1:]
        begin, end = self.source.span(key)
        self.source.replace(begin, end, f'"{spelled}"')
        return None

    def rooted_name(self, constant: ast.Constant):
        full = f"{PACKAGE}.{constant.value}"
        new = self.tree.new(full)
        if new is not None and new != full:
            begin, end = self.source.span(constant)
            self.source.replace(begin, end, f'"{new.removeprefix(f"{PACKAGE}.")}"')

    # parents[N] of this file
    def depths(self):
        if self.path == self.new_path or "__file__" not in self.source.text:
            return
        for node in ast.walk(self.parsed):
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) \
                    and node.value.attr == "parents" and "__file__" in ast.unparse(node.value) \
                    and isinstance(node.slice, ast.Constant):
                above = pathlib.PurePosixPath(self.path).parents[node.slice.value]
                ups = list(pathlib.PurePosixPath(self.new_path).parents)
                if above in ups:
                    begin, end = self.source.span(node.slice)
                    self.source.replace(begin, end, str(ups.index(above)))
                else:
                    self.complain(node, f"{ast.unparse(node)} was {above}, which is not above {self.new_path}")

    # strings and comments
    def tokens(self):
        edits = list(texts(self.tree, self, self.source.text))
        if not edits and not self.tree.spoken.search(self.source.text):
            return
        for begin, end, new in edits:
            if self.in_prose(begin):
                self.edit(begin, end, new)
        for begin, _, whole in self.prose:
            if whole is not None and self.tree.spoken.fullmatch(f'"{whole}"'):
                new = self.tree.moved_as_one(f"{PACKAGE}.{whole}")
                if new not in (None, f"{PACKAGE}.{whole}"):
                    short = new.removeprefix(f"{PACKAGE}.")
                    self.tree.log.append(f"{self.path}: {whole!r} -> {short!r}")
                    at = self.source.text.index(whole, begin)
                    self.source.replace(at, at + len(whole), short)


def statements(node: ast.AST):
    """The statements within one, without their expressions."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, block, ()) if not isinstance(node, ast.expr) else ():
            yield inner
            yield from statements(inner)

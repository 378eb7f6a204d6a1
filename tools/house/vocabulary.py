"""Rename settings, logs, traits, stages, fields and single words, by the tables of these names.

    python3.13 tools/house/vocabulary.py ROOT [--dry]

Run it before ``rename.py``, which changes the names of the functions by which this script finds traits.

- settings.txt: attributes and keywords of the object ``settings``, their definitions, and environment variables in any
  text.  The old variables stay readable for one release, with a warning.
- logs.txt: ``logger("name")``, ``getLogger("rushlight.name")``, ``set_logs("name")``, ``RUSHLIGHT_LOGS=name``.
- traits.txt: keywords of the functions that declare operators, keys of ``traits``, and the table of traits.
- stages.txt: names that ``Stage("name")`` gives to stages.
- pages.txt: literal replacements in pages.
- fields.txt: fields of classes, where the expression before the dot tells the class.
- values.txt: values of settings; the old ones are still read.
- words.txt: words that mean one thing wherever they stand.

Prints what looks like such a name and is not renamed (``LOOK:``).
"""
from __future__ import annotations

import argparse
import ast
import gc
import pathlib
import re
import sys

from tree import HERE, PACKAGE, UNREAD, Source, git, table
from wrap import wrap

DECLARING = {"op", "declare", "make", "primitive", "backward_operator", "derived", "operator_of"}
PLAIN = re.compile(r".*\.(py|md|txt|toml|yml|yaml|cfg|sh|ini|rst)|\.ci/.*|Dockerfile.*")


def pairs(name: str) -> dict:
    return {old: new for old, new in (line.split() for line in table(name))}


TRAITS, LOGS, WORDS = pairs("traits.txt"), pairs("logs.txt"), pairs("words.txt")
SETTINGS = {line.split()[0]: line.split()[1] for line in table("settings.txt")}
VARIABLES = {old: new for _, _, old, new in (line.split() for line in table("settings.txt")) if old != "-"}
VALUES = {(setting, old): new for setting, old, new in (line.split() for line in table("values.txt"))}
OF_VALUE = {line.split()[3]: line.split()[0] for line in table("settings.txt") if line.split()[3] != "-"}
FIELDS = [line.split() for line in table("fields.txt")]
STAGES = dict(line.split(" -> ") for line in table("stages.txt"))


class File:
    def __init__(self, path, text):
        self.path, self.source, self.looks = path, Source(text), []
        self.tree = ast.parse(text)
        self.objects = {a.asname or a.name for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom)
                        and re.search(r"(^|\.)(core|platform)\.settings$|^settings$", node.module or "")
                        for a in node.names if a.name in ("settings", "Settings")}
        if path.endswith(("core/settings.py", "platform/settings.py")):
            self.objects |= {"settings", "Settings", "self"}
        self.done = set()

    def string(self, node, new):
        """Replace the content of a plain string."""
        if id(node) in self.done:
            return
        self.done.add(id(node))
        begin, end = self.source.span(node)
        old = self.source.text[begin:end]
        self.source.replace(begin, end, old.replace(node.value, new))

    def keyword(self, node: ast.keyword, new):
        begin = self.source.span(node)[0]
        self.source.replace(begin, begin + len(node.arg), new)

    # --- settings
    def is_settings(self, node) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self.objects
        return isinstance(node, ast.Attribute) and node.attr == "settings" and \
            ast.unparse(node).endswith(("core.settings.settings", "platform.settings.settings"))

    def settings(self):
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute) and self.is_settings(node.value) and node.attr in SETTINGS \
                    and not (isinstance(node.value, ast.Name) and node.value.id == "self"):
                end = self.source.span(node)[1]
                self.source.replace(end - len(node.attr), end, SETTINGS[node.attr])
            elif isinstance(node, ast.Call):
                if isinstance(node.func, ast.Attribute) and node.func.attr == "set" and self.is_settings(node.func.value):
                    for word in node.keywords:
                        if word.arg in SETTINGS:
                            self.keyword(word, SETTINGS[word.arg])
                            self.value(word.value, word.arg)
                elif getattr(node.func, "id", "") == "Disabling" and node.args[0].value in SETTINGS:
                    self.string(node.args[0], SETTINGS[node.args[0].value])
                else:
                    self.after_settings(node.args)
                for word in node.keywords:  # of a captured graph: the settings that it is planned under
                    if word.arg == "settings" and getattr(node.func, "id", "") in DECLARING:
                        self.keys(word.value, SETTINGS)
            elif isinstance(node, ast.Tuple):
                self.after_settings(node.elts)
            elif isinstance(node, ast.ClassDef) and node.name == "Settings" and "self" in self.objects:
                for one in node.body:
                    if isinstance(one, ast.Assign) and one.targets[0].id in SETTINGS:
                        begin, end = self.source.span(one.targets[0])
                        self.source.replace(begin, end, SETTINGS[one.targets[0].id])
                        for word in ast.walk(one.value):
                            self.value(word, one.targets[0].id)

    def value(self, node, setting):
        if isinstance(node, ast.Constant) and (setting, node.value) in VALUES:
            self.string(node, VALUES[setting, node.value])

    def after_settings(self, values):
        for first, second in zip(values, values[1:]):
            if self.is_settings(first) and isinstance(second, ast.Constant) and second.value in SETTINGS:
                self.string(second, SETTINGS[second.value])

    def keys(self, node, names):
        for one in ast.walk(node):
            if isinstance(one, ast.Dict):
                for key in one.keys:
                    if isinstance(key, ast.Constant) and key.value in names:
                        self.string(key, names[key.value])

    # --- fields
    def fields(self):
        here = [row for row in FIELDS if re.fullmatch(row[4], self.path) and row[1] in self.source.text]
        for node in ast.walk(self.tree) if here else ():
            for owners, old, new, values, _, strings in here:
                if isinstance(node, ast.Attribute) and node.attr == old and re.fullmatch(values, ast.unparse(node.value)):
                    end = self.source.span(node)[1]
                    self.source.replace(end - len(old), end, new)
                elif isinstance(node, ast.ClassDef) and node.name in owners.split(","):
                    for one in node.body:
                        begin = self.source.span(one)[0]
                        if isinstance(one, ast.FunctionDef) and one.name == old:
                            at = self.source.text.index(f"def {old}", begin) + 4
                            self.source.replace(at, at + len(old), new)
                        elif isinstance(one, (ast.Assign, ast.AnnAssign)):
                            for target in getattr(one, "targets", [getattr(one, "target", None)]):
                                if isinstance(target, ast.Name) and target.id == old:
                                    self.source.replace(*self.source.span(target), new)
                elif isinstance(node, ast.Constant) and node.value == old and re.fullmatch(strings, self.path):
                    self.string(node, new)

    # --- traits
    @staticmethod
    def is_traits(node) -> bool:
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr":
            return isinstance(node.args[1], ast.Constant) and node.args[1].value == "traits"
        return getattr(node, "attr", getattr(node, "id", "")) in ("traits", "TRAITS")

    def trait(self, node):
        """A trait that an expression names: a string, a choice of strings, or a name that runs through a tuple."""
        if isinstance(node, ast.Constant) and node.value in TRAITS:
            self.string(node, TRAITS[node.value])
        elif isinstance(node, ast.IfExp):
            self.trait(node.body)
            self.trait(node.orelse)
        elif isinstance(node, ast.Name):
            self.names.add(node.id)

    def traits(self):
        self.names: set = set()
        constants = {t.id: n.value for n in self.tree.body if isinstance(n, ast.Assign) for t in n.targets
                     if isinstance(t, ast.Name)}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Subscript) and self.is_traits(node.value):
                self.trait(node.slice)
            elif isinstance(node, ast.Compare):
                for operator, right in zip(node.ops, node.comparators):
                    if isinstance(operator, (ast.In, ast.NotIn)) and self.is_traits(right):
                        self.trait(node.left)
            elif isinstance(node, ast.Call):
                function = node.func
                name = getattr(function, "id", getattr(function, "attr", ""))
                if name in ("get", "pop", "setdefault") and self.is_traits(getattr(function, "value", None)):
                    self.trait(node.args[0])
                elif name == "update" and self.is_traits(getattr(function, "value", None)):
                    for word in node.keywords:
                        if word.arg in TRAITS:
                            self.keyword(word, TRAITS[word.arg])
                    for one in node.args:
                        self.keys(one, TRAITS)
                elif name in DECLARING or name == "partial" and getattr(node.args[0], "id", "") in {*DECLARING, "declared"}:
                    for word in node.keywords:
                        if word.arg in TRAITS:
                            self.keyword(word, TRAITS[word.arg])
                        elif word.arg is None:
                            self.keys(word.value, TRAITS)
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and node.value is not None and any(
                    self.is_traits(t) for t in getattr(node, "targets", [getattr(node, "target", None)])):
                for one in [node.value, *ast.walk(node.value)]:
                    if isinstance(one, ast.Dict):
                        for key in one.keys:
                            if isinstance(key, ast.Constant) and key.value in TRAITS:
                                self.string(key, TRAITS[key.value])
        for node in ast.walk(self.tree):  # for k in ("a", "b"): ... traits.get(k)
            for loop in getattr(node, "generators", [node] if isinstance(node, ast.For) else ()):
                if isinstance(loop.target, ast.Name) and loop.target.id in self.names:
                    given = constants.get(loop.iter.id) if isinstance(loop.iter, ast.Name) else loop.iter
                    for one in getattr(given, "elts", ()):
                        self.trait(one)
                if isinstance(loop.iter, ast.Call) and isinstance(loop.iter.func, ast.Attribute) \
                        and loop.iter.func.attr == "items" and self.is_traits(loop.iter.func.value):
                    for test in getattr(loop, "ifs", ()):
                        for one in ast.walk(test):
                            if isinstance(one, ast.Constant):
                                self.trait(one)
        for number, line in enumerate(self.source.text.splitlines(), 1):
            for match in re.finditer(r"""["'](\w+)["']""", line) if "trait" in line else ():
                place = self.source.at(number, match.start())
                if match[1] in TRAITS and not any(b <= place < e for b, e, _ in self.source.edits):
                    self.looks.append(f"{self.path}:{number}: trait? {match[1]}")

    # --- logs and stages
    def logs(self):
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            first = node.args[0] if node.args and isinstance(node.args[0], ast.Constant) else None
            if name == "logger" and first is not None and first.value in LOGS:
                self.string(first, LOGS[first.value])
            elif name == "map" and node.args and getattr(node.args[0], "id", "") == "logger":
                for one in ast.walk(node.args[1]):
                    if isinstance(one, ast.Constant) and one.value in LOGS:
                        self.string(one, LOGS[one.value])
            elif name == "getLogger" and first is not None and isinstance(first.value, str) \
                    and first.value.removeprefix(f"{PACKAGE}.") in LOGS and "." in first.value:
                self.string(first, f"{PACKAGE}.{LOGS[first.value.removeprefix(f'{PACKAGE}.')]}")
            elif name == "set_logs" and "_logging" not in ast.unparse(node.func) and not self.path.startswith(
                    f"{PACKAGE}/_torch") and "_logging/" not in self.path:
                for one in node.args:
                    if isinstance(one, ast.Constant) and one.value in LOGS:
                        self.string(one, LOGS[one.value])
                for word in node.keywords:
                    if word.arg in LOGS and "torch" not in ast.unparse(node.func):
                        self.keyword(word, LOGS[word.arg])
            elif name in ("Stage", "whole") and first is not None and first.value in STAGES and "pipeline" in self.path:
                self.string(first, STAGES[first.value])
            elif name == "well_formed" and first is not None and first.value in STAGES:
                self.string(first, STAGES[first.value])
        if "class CompileDebugFolder" in self.source.text:  # files of logs
            for node in ast.walk(self.tree):
                if isinstance(node, ast.Dict):
                    self.keys(node, LOGS)
                elif isinstance(node, ast.Compare) and "texts" in ast.unparse(node.comparators[0]) \
                        and isinstance(node.left, ast.Constant) and node.left.value in LOGS:
                    self.string(node.left, LOGS[node.left.value])
                elif isinstance(node, ast.Call) and ast.unparse(node.func) == "dict.fromkeys":
                    for word in getattr(node.args[0], "elts", ()):
                        if isinstance(word, ast.Constant) and word.value in LOGS:
                            self.string(word, LOGS[word.value])
        named = {"COMPONENTS", "ARTIFACTS"} if "_logging/" in self.path else set()
        for node in self.tree.body:
            targets = [getattr(t, "id", "") for t in getattr(node, "targets", ())]
            if self.path.endswith("/log.py") and targets == ["LOGS"]:
                self.keys(node.value, LOGS)
            elif named & set(targets):
                for one in ast.walk(node.value):
                    if isinstance(one, ast.Tuple):
                        for word in one.elts:
                            if isinstance(word, ast.Constant) and word.value in LOGS:
                                self.string(word, LOGS[word.value])


def plain(path: str, text: str) -> str:
    """Environment variables, names of logs in their variable, and words, in any text."""
    text = re.sub(r"\bRUSHLIGHT_[A-Z_]+\b", lambda m: VARIABLES.get(m[0], m[0]), text)
    text = re.sub(r"""(RUSHLIGHT_LOGS(?:"?\s*[=:,]\s*"?|=))([\w,]+)""",
                  lambda m: m[1] + ",".join(LOGS.get(word, word) for word in m[2].split(",")), text)
    text = re.sub(r"""(RUSHLIGHT_[A-Z_]+)("?\s*[=:,]\s*"?)([\w-]+)""",
                  lambda m: m[1] + m[2] + VALUES.get((OF_VALUE.get(m[1]), m[3]), m[3]), text)
    for noun, names in (("setting", SETTINGS), ("trait", TRAITS), ("log", LOGS)):  # the setting `verify`
        text = re.sub(rf"(\b{noun}s? `{{1,2}})(\w+)(?=`)", lambda m: m[1] + names.get(m[2], m[2]), text)
    if path.startswith(("docs/", "tests/")):  # names of loggers in strings
        text = re.sub(rf"(?<=\b{PACKAGE}\.)({'|'.join(LOGS)})(?=[\"'|:])", lambda m: LOGS[m[1]], text)
    if path.startswith(("docs/", "tests/tools/", "tests/docs/")):  # as each line of a log begins
        text = re.sub(rf"(?<![\w\])])\[({'|'.join(LOGS)})\](?![(\[:])", lambda m: f"[{LOGS[m[1]]}]", text)
    return re.sub(rf"(?<![\w-])(?:{'|'.join(map(re.escape, WORDS))})(?![\w-])", lambda m: WORDS[m[0]], text)


def former(text: str) -> str:
    """settings.py, with the former names of variables, which warn."""
    rows = "\n".join(f'    "{new}": "{old}",' for old, new in VARIABLES.items())
    of = {line.split()[0]: line.split()[3] for line in table("settings.txt")}
    values = "\n".join(f'    ("{of[setting]}", "{old}"): "{new}",' for (setting, old), new in VALUES.items())
    text = text.replace("        text = os.environ[variable]\n", "        text = FORMER_VALUES.get((self.variable, os.environ["
                        "variable]), os.environ[variable])\n", 1)
    text = text.replace("\n\nclass Overrides(", f"""
# Variables under their former names, which are read for one more release, with a warning for each.
told: set = set()
FORMER = {{
{rows}
}}
FORMER_VALUES = {{
{values}
}}


class Overrides(""", 1)
    text = text.replace("import threading\n", "import threading\nimport warnings\n", 1)
    old = "        variable = next((name for name in self.names if os.environ.get(name)), None)\n        if variable is None:\n"
    assert old in text
    return text.replace(old, old.replace("        if variable is None:\n", """\
        former = FORMER.get(self.variable)
        if variable is None and former and os.environ.get(former):
            if former not in told:
                told.add(former)
                warnings.warn(f"the environment variable {former} is now {self.variable}; the former name will not be "
                              "read after the next release", FutureWarning, stacklevel=3)
            variable = former
        if variable is None:
"""), 1)


def pages(path: str, text: str, looks: list) -> str:
    """The replacements of pages.txt."""
    for block in "\n".join(table("pages.txt")).split("@@ ")[1:]:
        name, *lines = block.rstrip("\n").split("\n")
        old, new = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+")
        if name == path and new not in text:
            if old not in text:
                looks.append(f"pages.txt: {path} has no {old!r}")
            text = text.replace(old, new)
    return text


def main():
    gc.disable()  # syntax trees of the whole project are alive at once
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root")
    parser.add_argument("--dry", action="store_true")
    options = parser.parse_args()
    root, changed, looks = pathlib.Path(options.root), 0, []
    for path in git(root, "ls-files").splitlines():
        if UNREAD.fullmatch(path) or not PLAIN.fullmatch(path) or not (root / path).is_file():
            continue
        try:
            text = before = (root / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if path.endswith(".py"):
            file = File(path, text)
            file.settings()
            file.fields()
            file.traits()
            file.logs()
            looks += file.looks
            text = file.source.result()
        elif path.startswith("docs/"):
            text = re.sub(r"\bsettings\.(\w+)", lambda m: f"settings.{SETTINGS.get(m[1], m[1])}", text)
        if path.endswith("/traits.py"):
            text = re.sub(r'^    "(\w+)": \(', lambda m: f'    "{TRAITS.get(m[1], m[1])}": (', text, flags=re.M)
        if "FORMER" not in text:  # which lists former names
            text = plain(path, text)
        text = pages(path, text, looks)
        if path.endswith(("core/settings.py", "platform/settings.py")) and "FORMER" not in text:
            text = former(text)
            text = re.sub(r"settings\.(\w+)$", lambda m: f"settings.{SETTINGS.get(m[1], m[1])}", text, flags=re.M)
            text = re.sub(r"settings\.set\((\w+)=", lambda m: f"settings.set({SETTINGS.get(m[1], m[1])}=", text)
        if text != before:
            changed += 1
            text = wrap(text, path, set(before.split("\n")))
            if path.endswith(".py"):
                ast.parse(text)
            if not options.dry:
                (root / path).write_text(text, encoding="utf-8")
    test = root / "tests" / "core" / "test_former_variables.py"
    if not options.dry and not test.exists():
        test.write_text((HERE / "former_variables_test.txt").read_text(encoding="utf-8"), encoding="utf-8")
    print(f"settings, logs, traits, stages and words are renamed in {changed} files")
    for line in sorted(set(looks)):
        print("LOOK:", line)


if __name__ == "__main__":
    sys.exit(main())

"""Every call that can run what bytes say is reviewed: who may have written them, and why they are trusted."""
from __future__ import annotations

import ast
import pathlib
import re
from collections import Counter

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "rushlight"
MODULES = {"pickle", "_pickle", "marshal", "dill", "cloudpickle", "shelve", "joblib", "yaml"}
READ = {"load", "loads", "open"}

SOURCE = "source that this package generates from graphs and names it has checked, in this process"
RANKS = ("sent by a rank of the group, which runs the same program; ranks of other hosts prove that they know the "
         "secret of the group's store")
SIGNED = "read where the caller trusts it in words, or where it has the signature of this user's secret"
RESTRICTED = "a restricted unpickler: names that are not on its list are refused"
OWN = "of this process alone: it pickled the bytes itself"
PROGRAM = "a package is a program: its documentation says that it runs, and that who opens it has to trust it"
REVIEWED = {
    ("_src/capture/sharing.py", "exec"): (1, SOURCE),
    ("_src/capture/sharing.py", "eval"): (1, SOURCE),
    ("_src/capture/frames.py", "eval"): (1, SOURCE),
    ("_src/capture/frames.py", "exec"): (1, SOURCE),
    ("_src/capture/guards.py", "exec"): (1, SOURCE),
    ("_src/capture/protocols.py", "exec"): (1, SOURCE),
    ("_src/capture/tape.py", "exec"): (1, SOURCE),
    ("_src/compat/script.py", "exec"): (1, "the program that the user asks to run, as Python would run it"),
    ("_src/core/native/compiler/publish.py", "eval"): (2, "constants of the modules that it compiles"),
    ("_src/core/native/language.py", "exec"): (1, SOURCE),
    ("_src/core/runtime.py", "exec"): (1, SOURCE),
    ("_src/devices/triton/texts.py", "exec"): (1, SOURCE),
    ("_src/eager/filling.py", "exec"): (1, SOURCE),
    ("_src/eager/polymorphic.py", "eval"): (1, SOURCE),
    ("_src/old_files.py", "class Survey"): (1, RESTRICTED),
    ("_src/code_pickles.py", "import marshal"): (1, SIGNED),
    ("_src/code_pickles.py", "marshal.loads"): (1, SIGNED),
    ("_src/plain_pickles.py", "PlainUnpickler"): (1, RESTRICTED),
    ("_src/plain_pickles.py", "class PlainUnpickler"): (1, RESTRICTED),
    ("_src/programs.py", "Unpickler"): (1, SIGNED),
    ("_src/weights.py", "class WeightsUnpickler"): (1, RESTRICTED),
    ("distributed/checkpoint/metadata_file.py", "MetadataUnpickler"): (1, RESTRICTED),
    ("distributed/checkpoint/metadata_file.py", "class MetadataUnpickler"): (1, RESTRICTED),
    ("distributed/checkpoint/packing.py", "class Unpacker"): (
        1, "comes through a pipe from the process that started this one"),
    ("distributed/checkpoint/saver.py", "pickle.loads"): (1, OWN),
    ("distributed/collectives.py", "pickle.loads"): (6, RANKS),
    ("distributed/elastic/multiprocessing/api.py", "pickle.load"): (
        1, "written by the child process; a file that another user owns or may write to is refused"),
    ("distributed/insides.py", "pickle.loads"): (1, RANKS),
    ("distributed/optim/zero_redundancy_optimizer.py", "pickle.loads"): (1, RANKS),
    ("distributed/rpc/messages.py", "MessageUnpickler"): (1, RANKS),
    ("distributed/rpc/messages.py", "class MessageUnpickler"): (1, RANKS),
    ("distributed/rpc/messages.py", "pickle.loads"): (1, RANKS),
    ("distributed/rpc/workers.py", "pickle.loads"): (1, RANKS),
    ("distributed/stores.py", "pickle.loads"): (1, OWN),
    ("export/capturing.py", "eval"): (1, SOURCE),
    ("export/capturing.py", "exec"): (1, SOURCE),
    ("fx/graph_module.py", "exec"): (1, "source of a graph module of this process; files of them are " + SIGNED),
    ("jit/foreign.py", "class Objects"): (1, RESTRICTED),
    ("nn/parallel/distributed.py", "pickle.loads"): (1, RANKS),
    ("package/package_importer.py", "CodeUnpickler"): (1, PROGRAM),
    ("package/package_importer.py", "class CodeUnpickler"): (1, PROGRAM),
    ("package/package_importer.py", "exec"): (1, PROGRAM),
    ("serialization.py", "WeightsUnpickler"): (1, RESTRICTED),
    ("serialization.py", "class Unpickler"): (1, "torch.load with weights_only=False, which the caller has to say"),
}


def unpicklers(trees) -> set:
    """Names of classes that derive from an unpickler, whatever they are called."""
    bases = {node.name: [ast.unparse(base).rpartition(".")[2] for base in node.bases]
             for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.bases}
    found = {"Unpickler", "_Unpickler"}
    while more := {name for name, of in bases.items() if found.intersection(of)} - found:
        found |= more
    return found


def reading(tree: ast.AST, kinds: set):
    """What runs what bytes say in a module: calls, classes, and imports that would hide such calls."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else ""
            module, _, last = name.rpartition(".")
            if name in ("eval", "exec", "builtins.eval", "builtins.exec") or last.endswith("Unpickler") or (
                    module in MODULES and last in READ):
                yield name
            if any(given.arg == "allow_pickle" and getattr(given.value, "value", True) for given in node.keywords):
                yield f"{name} with allow_pickle"
        elif isinstance(node, ast.ClassDef) and node.name in kinds:
            yield f"class {node.name}"
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            yield from (f"from {node.module} import {each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (f"import {each.name}" for each in node.names
                        if each.name in MODULES and (each.asname or each.name != "pickle"))


def suspects(texts: dict) -> tuple:
    """({path: tree of a source that has a word that findings need}, the names of unpicklers); most sources have
    none of these words and need not be parsed."""
    words, kinds, trees = {"eval", "exec", "allow_pickle", *MODULES}, set(), {}
    while True:
        word = re.compile(rf"\b(?:{'|'.join(sorted(words | kinds))})\b|Unpickler")
        trees |= {path: ast.parse(text) for path, text in texts.items() if path not in trees and word.search(text)}
        if (found := unpicklers(trees.values())) == kinds:
            return trees, kinds
        kinds = found  # a class that derives from one of these names it


def test_calls_that_run_what_bytes_say_are_reviewed():
    trees, kinds = suspects({path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
                             for path in PACKAGE.rglob("*.py")})
    found = Counter((path, name) for path, tree in trees.items() for name in reading(tree, kinds))
    expected = Counter({place: count for place, (count, _) in REVIEWED.items()})
    assert not found - expected and not expected - found, (found - expected, expected - found)
    assert all(reason for _, reason in REVIEWED.values())


def test_such_calls_are_seen():
    tree = ast.parse("""
import marshal, dill as d, pickle as p
from pickle import loads
class Own(pickle.Unpickler): pass
class More(Own): pass
eval(a), exec(a), pickle.loads(a), marshal.loads(a), More(a).load(), shelve.open(a)
np.load(a, allow_pickle=True), np.load(a, allow_pickle=False), pickle.dumps(a), json.loads(a), m.eval()
""")
    assert sorted(reading(tree, unpicklers([tree]))) == sorted([
        "import marshal", "import dill", "import pickle", "from pickle import loads", "class Own", "class More", "eval",
        "exec", "pickle.loads", "marshal.loads", "shelve.open", "np.load with allow_pickle"])


def test_classes_are_followed_from_file_to_file():
    texts = {"a": "class First(Second): pass", "b": "class Second(Third): pass", "c": "class Third(Unpickler): pass",
             "d": "class Other(Thing): pass", "e": "class Unlike(Nothing): pass"}
    trees, kinds = suspects(texts)
    assert set(trees) == {"a", "b", "c"} and {"First", "Second", "Third"} <= kinds

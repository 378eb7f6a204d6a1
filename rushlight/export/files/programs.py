"""Exported programs as archives in PyTorch's format: ``models/model.json``, ``data/weights``, ``data/constants``,
``data/sample_inputs``."""
from __future__ import annotations

import io
import json
import os
import pickle
import re
import zipfile

from ..._src.archives import Archive, folder_of
from ..._src.core.errors import CorruptFileError
from ..._src.core.expr import Expr
from ..._src.core.files import replaced
from ..._src.core.native import Tensor
from ..._src.core.pytree import tree_flatten, tree_leaves, tree_unflatten
from ..._subclasses.fake_tensor import FakeTensor
from ... import serialization
from ..._src.weights import safe_globals
from ..._src.version import VERSION
from ...utils.pytree_text import treespec_dumps, treespec_loads
from ..conditions import OPERATORS, Size
from ..dims import Derived, Dim, Hint
from ..exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature, range_name
from ..graph_signature import ConstantArgument, InputKind, SymIntArgument
from ..ranges import Range
from ..shape_entries import registered_classes
from .fields import SerializeError, entries, field, of_kind, parsed
from .reading import GraphReader, argument_of, is_path, names_of_inputs, signature_of, text_name
from .sizes import is_data
from .tensors import Source, Tables, read_tables
from .writing import GraphWriter, argument_record, signature_record

SCHEMA, OPSET, OWN = (8, 20), {"aten": 10}, "rushlight"
MODEL, WEIGHTS, CONSTANTS = "models/model.json", "data/weights/", "data/constants/"
TABLES = {WEIGHTS: "model_weights_config.json", CONSTANTS: "model_constants_config.json"}
EXAMPLES, EXTRA = "data/sample_inputs/model.pt", "extra/"
PLAIN = (None, tuple, list, dict)  # containers that files of weights have
MOST = 2 ** 31  # elements of an example that a file says nothing of


# --- writing ----------------------------------------------------------------------------------------------------------
def save(program: ExportedProgram, f, extra_files=None, opset_version=None):
    """Writes a program to a path or file.  SerializeError for what is no tensor, number or operator, TypeError for an
    extra file that is no string."""
    for name, content in (extra_files or {}).items():
        if not isinstance(content, str):
            raise TypeError(f"extra_files: {name!r} has a {type(content).__name__}: give strings")
    if hasattr(f, "write"):
        return write(program, f, "archive", extra_files or {}, opset_version)
    with replaced(f) as file:
        write(program, file, folder_of(os.fspath(f)), extra_files or {}, opset_version)


def write(program, file, folder, extra_files, opset_version=None):
    """Write the archive of a program, with entries below ``folder``, to an open file or path."""
    record = record_of(program)
    record["opset_version"] = {**OPSET, **(opset_version or {})}
    with Archive(file, folder) as archive:
        archive.write("archive_format", "pt2")
        archive.write("archive_version", "0")
        archive.write(".data/version", "3\n")
        archive.write("byteorder", "little")
        tables, buffers = Tables(archive), program.graph_signature.non_persistent_buffers
        tables.add(WEIGHTS, "weight_", dict(program.state_dict), TABLES[WEIGHTS])
        named = {s.target for s in program.graph_signature.input_specs}
        tables.add(CONSTANTS, "tensor_", {k: v for k, v in program.constants.items() if k in named or k in buffers},
                   TABLES[CONSTANTS])
        archive.write(MODEL, json.dumps(record))
        archive.write(EXAMPLES, examples_text(program))
        for name, content in extra_files.items():
            archive.write(f"{EXTRA}{name}", content)


def examples_text(program) -> bytes:
    """Return the example inputs as a file of weights; only their leaves if they are in other containers than tuples,
    lists and dicts, and none if they are fake."""
    leaves = tree_leaves(program.example_inputs)
    text = io.BytesIO()
    held = None if any(isinstance(leaf, FakeTensor) for leaf in leaves) else tuple(
        program.example_inputs) if is_plain(program.in_spec) else leaves
    serialization.save(held, text)
    return text.getvalue()


def is_plain(spec) -> bool:
    return spec.type in PLAIN and all(map(is_plain, spec.children_specs))


def record_of(program) -> dict:
    """A program as JSON."""
    symbols: dict = {}
    writer = GraphWriter(program.graph_module, symbols, hints_of(program))
    specs = program.graph_signature.input_specs
    fixed = {s.arg.name: s.arg.value for s in specs if isinstance(s.arg, ConstantArgument)}
    bad = next((s.target for s in specs if s.target is not None and not is_path(s.target)), None)
    if bad is not None:
        raise SerializeError(f"{bad!r} cannot be the name of state in a file: rename the parameter or buffer")
    graph = writer.record(fixed)
    own = {"conditions": list(map(condition_record, program.conditions)), "dims": dims_record(program),
           "varying": varying_record(program), "argument_names": list(program.argument_names),
           "plain": is_plain(program.in_spec)}
    calls = [call_record(one, writer) for one in program.module_call_graph]
    return {"graph_module": {"graph": graph, "signature": signature_record(program.graph_signature, writer),
                             "module_call_graph": calls, "metadata": {OWN: json.dumps(own)},
                             "treespec_namedtuple_fields": {}},
            "opset_version": OPSET, "range_constraints": ranges_record(program, symbols, writer.invented),
            "schema_version": dict(zip(("major", "minor"), SCHEMA)), "verifiers": [program.dialect],
            "torch_version": version(), "guards_code": []}


def identity(program) -> str | None:
    """Text that decides what a program computes, but for its state; None where operators of others are in it, whose
    functions may change, or what no file has."""
    try:
        record = record_of(program)
    except SerializeError:
        return None
    for node in record["graph_module"]["graph"]["nodes"]:
        node["metadata"].pop("stack_trace", None)  # where its author wrote it
    text = json.dumps(record, sort_keys=True)
    spaces = set(re.findall(r'"target": "torch\.ops\.(\w+)\.', text))
    return text if spaces <= {"aten", "prims"} else None


def version() -> str:
    return f"rushlight {VERSION}"


def leaves_of(program) -> list:
    """(placeholder, what is expected of it, the leaf of the example) of each input of the user's."""
    pairs = zip(program.graph_signature.input_specs, program.graph.find_nodes(op="placeholder"))
    nodes = [node for spec, node in pairs if spec.kind is InputKind.USER_INPUT]
    return list(zip(nodes, program.expected, tree_leaves(program.example_inputs)))


def hints_of(program) -> dict:
    """The sizes that symbols had in the example."""
    found = {}
    for node, _, leaf in leaves_of(program):
        value = node.meta.get("val")
        if isinstance(value, Tensor) and isinstance(leaf, Tensor):
            found.update((e, n) for e, n in zip(value._rush_meta.shape, leaf.shape) if isinstance(e, Expr)
                         and e.op == "size" and type(n) is int)
        elif isinstance(value, Expr):
            found[value] = leaf
    return found


def size_of(node, dim):
    """The size of a dimension of an input, or the input itself if it is a number (``dim`` is None)."""
    value = node.meta.get("val")
    return value if dim is None else value._rush_meta.shape[dim] if isinstance(value, Tensor) else None


def ranges_record(program, symbols, invented) -> dict:
    """{name of a symbol: its bounds}; those ``invented`` have none."""
    made, known = dict.fromkeys(sorted(invented), {"min_val": None, "max_val": None}), program.range_constraints
    for symbol, name in symbols.items():
        if is_data(symbol):
            found = program.unbacked.get(symbol.arg[0])
            made[name] = {"min_val": found.lower if found else None, "max_val": found.upper if found else None}
    for k, (node, (_, _, varying), _) in enumerate(leaves_of(program)):
        for dim, free in varying.items():
            e = size_of(node, dim)
            if e in symbols:
                bounds = known[getattr(getattr(free, "root", free), "__name__", range_name(k, dim))]
                made[symbols[e]] = {"min_val": bounds.lower, "max_val": bounds.upper}
    return made


def condition_record(tree):
    if isinstance(tree, Size):
        return {"leaf": tree.leaf, "dim": tree.dim}
    return list(map(condition_record, tree)) if isinstance(tree, tuple) else tree


def varying_record(program) -> list:
    """Return [input, dimension, its ``Dim``] of each dynamic size."""
    return [[k, dim, hint_record(free) if isinstance(free, Hint) else [free.root.__name__, free.factor, free.offset]]
            for k, (_, _, varying) in enumerate(program.expected) for dim, free in varying.items()]


def hint_record(hint):
    return hint.text if hint.min is hint.max is None else {"hint": hint.text, "min": hint.min, "max": hint.max}


def dims_record(program) -> dict:
    return {free.root.__name__: [free.root.min, free.root.max] for _, _, varying in program.expected
            for free in varying.values() if not isinstance(free, Hint)}


def call_record(one, writer) -> dict:
    """Return the record of a module's call in the program."""
    known = one.signature
    if known is None:
        return {"fqn": one.fqn, "signature": None}
    return {"fqn": one.fqn, "signature": {
        "inputs": [argument_record(a, writer) for a in known.inputs],
        "outputs": [argument_record(a, writer) for a in known.outputs], "in_spec": treespec_dumps(known.in_spec),
        "out_spec": treespec_dumps(known.out_spec),
        "forward_arg_names": known.forward_arg_names}}


def has_size(value, dim) -> bool:
    """True if an input has a dimension, or if it is a number and ``dim`` is None."""
    if isinstance(value, Tensor):
        return dim is not None and 0 <= dim < len(value._rush_meta.shape)
    return dim is None and isinstance(value, Expr)


# --- reading ----------------------------------------------------------------------------------------------------------
DAMAGED = (LookupError, TypeError, ValueError, AttributeError, AssertionError, RecursionError, ArithmeticError,
           SyntaxError, NotImplementedError, RuntimeError)


def is_archive(f) -> bool:
    """Whether a file is an archive of a program in this format."""
    return model_in(f) is not None


def model_in(f):
    """Return (directory, name) of the one model in an archive; None for other files."""
    start = f.tell()
    try:
        with zipfile.ZipFile(f) as archive:
            found = [re.fullmatch(r"(.*?/)?models/([^/]+)\.json", name) for name in archive.namelist()]
    except (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError):
        return None
    finally:
        f.seek(start)
    found = [m for m in found if m is not None]
    return (found[0][1] or "", found[0][2]) if found else None


def load(f, extra_files=None, state=None) -> ExportedProgram:
    """Load the program of an archive, without running any of it; ``state`` replaces the file's own. SerializeError
    for a damaged file, and for one with other values than tensors, numbers or known operators."""
    prefix, name = model_in(f)
    with zipfile.ZipFile(f) as archive:
        source = Source(archive, prefix)
        try:
            program = read(source, name, state)
            if extra_files:
                extra_files.update({name: source.text(EXTRA + name).decode("utf-8") for name in source.within(EXTRA)})
            return program
        except (SerializeError, pickle.UnpicklingError, CorruptFileError):
            raise
        except DAMAGED as error:
            raise SerializeError(f"the file is damaged: {type(error).__name__}: {error}") from error


def read(source, name, state=None) -> ExportedProgram:
    if source.text("archive_format").strip() != b"pt2":
        raise SerializeError("the archive is not of PyTorch's format pt2")
    if "byteorder" in source and source.text("byteorder").strip() != b"little":
        raise SerializeError("the file has numbers whose greatest byte is first, which are not read")
    record = parsed(source.text(f"models/{name}.json"), name)
    major = field(field(record, "schema_version", dict), "major", int)
    if major != SCHEMA[0]:
        raise SerializeError(f"the file has the schema {major}, but {SCHEMA[0]} is what is read here")
    tensors = {}
    for folder in (WEIGHTS, CONSTANTS):
        entry = f"{folder}{name}_{folder.split('/')[1]}_config.json"
        tensors[folder] = read_tables(source, folder, parsed(source.text(entry), entry)) if entry in source else {}
    if state is not None:
        tensors[WEIGHTS] = state
    return Assembled(record, tensors, source, name).program()


class Assembled:
    """A program out of the parts of a file."""

    def __init__(self, record, tensors, source, name):
        self.record, self.tensors, self.source, self.name = record, tensors, source, name
        self.whole = field(record, "graph_module", dict)
        text = field(field(self.whole, "metadata", dict, {}), OWN, str, None)
        self.own = None if text is None else parsed(text.encode(), "metadata")

    def program(self) -> ExportedProgram:
        signature = field(self.whole, "signature", dict)
        reader = self.reader = GraphReader(field(self.whole, "graph", dict), {})
        names = names_of_inputs(signature)
        if len(names) != len(entries(reader.record, "inputs", dict)):
            raise SerializeError("the signature of the file has another number of inputs than its program")
        module = reader.module(names)
        self.signature = signature_of(reader, signature)
        self.check_state()
        calls = [self.call(one) for one in entries(self.whole, "module_call_graph", dict)]
        root = next((one.signature for one in calls if one.fqn == ""), None)
        if root is None:
            raise SerializeError("the file does not say how its program is called")
        expected, examples = self.inputs(root.in_spec)
        arguments = list(root.forward_arg_names or ())
        if self.own is not None:
            arguments = [text_name(one) for one in entries(self.own, "argument_names", str)]
        user = [s for s in self.signature.output_specs if s.kind.name in ("USER_OUTPUT", "LOSS_OUTPUT")]
        if root.out_spec.num_leaves != len(user):
            raise SerializeError("the results of the program are not what its signature says")
        made = ExportedProgram(module, self.signature, self.tensors[WEIGHTS], self.tensors[CONSTANTS], root.in_spec,
                               root.out_spec, expected, examples, arguments, self.conditions(expected))
        made.module_call_graph = calls
        made.unbacked = self.unbacked()
        made.dialect = next(iter(entries(self.record, "verifiers", str)), "TRAINING")
        return made

    def check_state(self):
        """SerializeError unless the file has the state that the signature names, as the graph takes it."""
        named = {**self.tensors[CONSTANTS], **self.tensors[WEIGHTS]}
        for spec, node in zip(self.signature.input_specs, self.reader.graph.find_nodes(op="placeholder")):
            if spec.kind is InputKind.USER_INPUT:
                continue
            found, wanted = named.get(spec.target), node.meta["val"]._rush_meta
            if found is None:
                raise SerializeError(f"the file lacks {spec.target!r}")
            if tuple(found.shape) != tuple(wanted.shape) or found.dtype is not wanted.dtype:
                raise SerializeError(f"{spec.target} is {found._rush_meta}, where the program takes {wanted}")

    def call(self, record) -> ModuleCallEntry:
        """Read the call of one module."""
        name, known = field(record, "fqn", str), field(record, "signature", dict, None)
        if known is None:
            return ModuleCallEntry(name)
        specs = [treespec_loads(field(known, key, str)) for key in ("in_spec", "out_spec")]
        inputs, outputs = ([argument_of(self.reader, one) for one in entries(known, key, dict)]
                           for key in ("inputs", "outputs"))
        names = field(known, "forward_arg_names", list, None)
        return ModuleCallEntry(name, ModuleCallSignature(inputs, outputs, *specs,
                                                         None if names is None else list(map(text_name, names))))

    # --- inputs -------------------------------------------------------------------------------------------------------
    def inputs(self, in_spec) -> tuple:
        """(what is expected of each input, the example inputs)"""
        pairs = list(zip(self.signature.input_specs, self.reader.graph.find_nodes(op="placeholder")))
        user = [(spec, node) for spec, node in pairs if spec.kind is InputKind.USER_INPUT]
        if in_spec.num_leaves != len(user) or len(in_spec.children_specs) != 2 or in_spec.type is not tuple:
            raise SerializeError("the inputs of the program are not what its signature says")
        args, kwargs = in_spec.children_specs
        if args.type is not tuple or kwargs.type is not dict:
            raise SerializeError("the inputs of the program are no arguments and keywords")
        for key in kwargs.context:
            text_name(key)
        leaves = self.examples(in_spec, user)
        free = self.varying([node for _, node in user])
        expected = []
        for k, ((spec, node), leaf) in enumerate(zip(user, leaves)):
            if isinstance(spec.arg, ConstantArgument):
                expected.append((None, spec.arg.value, {}))
            elif isinstance(leaf, Tensor):
                meta = node.meta["val"]._rush_meta
                if leaf.dtype is not meta.dtype or len(leaf.shape) != len(meta.shape):
                    raise SerializeError(
                        f"the example of {node.name} is {leaf._rush_meta}, where the program takes {meta}")
                expected.append((tuple(leaf.shape), leaf.dtype, free[k]))
            elif isinstance(spec.arg, SymIntArgument):
                if type(leaf) is not int:
                    raise SerializeError(f"the example of {node.name} is {type(leaf)}, where the program takes an int")
                expected.append((None, leaf, free[k]))
            else:
                raise SerializeError(f"the program takes the number {node.name}, which is no int: that is not read")
        return expected, tree_unflatten(leaves, in_spec)

    def examples(self, in_spec, user) -> list:
        """The leaves of the example inputs: those of the file, or zeros of the sizes that it gives."""
        entry = f"data/sample_inputs/{self.name}.pt"
        found = None
        if entry in self.source:
            with safe_globals(registered_classes(in_spec)):
                found = serialization.load(io.BytesIO(self.source.text(entry)), weights_only=True)
        if found is None:
            return [self.example(spec, node) for spec, node in user]
        leaves = found
        if self.own is None or field(self.own, "plain", bool):
            leaves, spec = tree_flatten(tuple(found))
            if spec != in_spec and spec.num_leaves != in_spec.num_leaves:
                raise SerializeError("the example inputs of the file are nested otherwise than its program's")
        if type(leaves) is not list or len(leaves) != len(user):
            raise SerializeError("the file has another number of example inputs than its program takes")
        return leaves

    def example(self, spec, node):
        """An input that the file gives no example of."""
        if isinstance(spec.arg, ConstantArgument):
            return spec.arg.value
        if isinstance(spec.arg, SymIntArgument):
            return self.reader.hints.get(node.meta.get("val"), 2)
        from ..._src.core.nodes import evaluate
        from ..._src.core.tensor import empty
        meta = node.meta["val"]._rush_meta
        hints = {symbol: self.reader.hints.get(symbol, 2) for e in meta.shape if isinstance(e, Expr)
                 for symbol in e.free}
        shape = [evaluate(e, hints) if isinstance(e, Expr) else e for e in meta.shape]
        count = 1
        for n in shape:
            count *= n
        if count > MOST:
            raise SerializeError(f"the program takes {count} elements, but the file has no example")
        return empty(tuple(shape), meta.dtype, device=meta.device).zero_()

    def varying(self, nodes) -> list:
        """{dimension: what it is said to be} of each input."""
        free = [{} for _ in nodes]
        if self.own is not None:
            return self.own_varying(nodes, free)
        ranges, dims = field(self.record, "range_constraints", dict), {}
        for k, node in enumerate(nodes):
            value = node.meta.get("val")
            for dim, e in enumerate(value._rush_meta.shape if isinstance(value, Tensor) else ()):
                if isinstance(e, Expr):
                    free[k][dim] = self.dim_of(e, ranges, dims)
            if isinstance(self.signature_of_input(node).arg, SymIntArgument):
                free[k][None] = self.hint_of(value, ranges)
        return free

    def signature_of_input(self, node):
        """The InputSpec of a placeholder."""
        return next(spec for spec in self.signature.input_specs if spec.arg.name == node.name)

    @staticmethod
    def hint_of(value, ranges):
        """Return the hint of an int that varies, within the bounds that PyTorch's file has; 0 is that of all ints."""
        if not isinstance(value, Expr):
            return Dim.DYNAMIC if value is None else Dim.DYNAMIC(min=value, max=value)
        bounds = field(ranges, next(iter(value.free)).arg[0], dict, {})
        low, high = (field(bounds, key, (int, type(None)), None) for key in ("min_val", "max_val"))
        return Dim.DYNAMIC(min=max(low or 0, 0) or None, max=high)

    @staticmethod
    def dim_of(e, ranges, dims):
        """Return the Dim of a size in PyTorch's file, or a multiple of one plus an int; a hint for others."""
        name = next(iter(e.free)).arg[0]
        if name not in dims:
            bounds = field(ranges, name, dict, {})
            low, high = field(bounds, "min_val", int, None), field(bounds, "max_val", int, None)
            dims[name] = Dim(name, min=max(low or 0, 0), max=high)
        if e.op == "size":
            return dims[name]
        if e.op == "sum" and len(e.args) == 1 and e.args[0].op == "size" and e.arg[0][0] > 0:
            return Derived(dims[name], e.arg[0][0], e.arg[1])
        return Dim.DYNAMIC

    def own_varying(self, nodes, free) -> list:
        dims = {}
        for name, bounds in field(self.own, "dims", dict).items():
            low, high = (of_kind(one, (int, type(None)), "a bound") for one in of_kind(bounds, list, "bounds"))
            dims[name] = Dim(text_name(name), min=low, max=high)
        for row in entries(self.own, "varying", list):
            k, dim, what = row
            value = nodes[of_kind(k, int, "an input")].meta.get("val")
            if k < 0 or not has_size(value, of_kind(dim, (int, type(None)), "a dimension")):
                raise SerializeError(f"the file says that the size {dim} of input {k} varies, which there is not")
            bounds = ()
            if type(what) is dict:
                bounds = [field(what, key, (int, type(None)), None) for key in ("min", "max")]
                what = field(what, "hint", str)
            if type(what) is str:
                if what not in ("AUTO", "DYNAMIC"):
                    raise SerializeError(f"the file has {what[:40]!r} for a dynamic size")
                free[k][dim] = getattr(Dim, what)(*bounds) if bounds else getattr(Dim, what)
                continue
            root, factor, offset = of_kind(what, list, "a size that varies")
            made = dims[of_kind(root, str, "a Dim")]
            plain = (of_kind(factor, int, "a factor"), of_kind(offset, int, "an offset")) == (1, 0)
            free[k][dim] = made if plain else Derived(made, factor, offset)
        return free

    def conditions(self, expected) -> tuple:
        """Return the guards of the program on sizes."""
        def condition(tree, depth=0):
            if depth > 50:
                raise SerializeError("the file has a condition that is nested too deeply")
            if type(tree) in (int, float):
                return tree
            if type(tree) is dict:
                leaf, dim = field(tree, "leaf", int), field(tree, "dim", (int, type(None)))
                shape, _, free = expected[leaf] if 0 <= leaf < len(expected) else ((), None, {})
                if dim is None and dim not in free or dim is not None and not 0 <= dim < len(shape or ()):
                    raise SerializeError("the file has a condition on a size that there is not")
                return Size(leaf, dim)
            if type(tree) is not list or len(tree) != 3 or tree[0] not in OPERATORS:
                raise SerializeError(f"the file has {tree!r} for a condition"[:100])
            if tree[0] == "**" and (type(tree[2]) not in (int, float) or not -4 <= tree[2] <= 4):
                raise SerializeError(f"the file has a size to the power of {tree[2]!r}"[:100])
            return tree[0], condition(tree[1], depth + 1), condition(tree[2], depth + 1)

        return () if self.own is None else tuple(condition(one) for one in entries(self.own, "conditions", list))

    def unbacked(self) -> dict:
        """Return {unbacked symbol: its bounds}."""
        found = {}
        for name, bounds in field(self.record, "range_constraints", dict).items():
            if name.startswith("u"):
                found[name] = Range(field(bounds, "min_val", int, None), field(bounds, "max_val", int, None))
        return found

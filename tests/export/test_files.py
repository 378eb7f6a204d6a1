"""Files of exported programs: what a program holds comes back, PyTorch reads ours and we read PyTorch's, and hostile
files are refused."""
import dataclasses
import io
import json
import pickle
import random
import zipfile

import numpy as np
import pytest

import rushlight as rl
from rushlight.export import Dim
from rushlight.export.files.fields import SerializeError
from rushlight.export.files import sizes

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")


def model(library):
    """A module of either library with state of all kinds, control flow, data-dependent numbers, and sizes as
    results."""
    class Whole(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = library.nn.Linear(3, 3)
            self.tied = self.linear.weight
            self.register_buffer("count", library.ones(3))
            self.register_buffer("hidden", library.ones(3), persistent=False)

        def forward(self, x, y, *, k=2):
            self.count.add_(1)
            z = self.linear(x) + self.count + self.hidden + library.tensor([1.0, 2, 3])
            z = library.cond(z.sum() > 0, lambda a: a + 1, lambda a: a - 1, (z,))
            n = y.sum().item()
            library._check(n >= 0)
            library._check(n < 9)
            return ({"a": z.reshape(x.shape[0] * 3), "b": library.zeros(n)}, x.shape[0], 5, z.to(library.float64),
                    [*library.split(x, 1, 1)])

    return Whole().eval()


def exported(library):
    library.manual_seed(0)
    made = model(library)
    args = library.ones(4, 3), library.tensor([1, 2])
    shapes = {"x": {0: library.export.Dim("batch", max=64)}, "y": None, "k": None}
    return made, library.export.export(made, args, {"k": 2}, dynamic_shapes=shapes)


def saved(program, save=None, **options) -> io.BytesIO:
    file = io.BytesIO()
    (save or rl.export.save)(program, file, **options)
    file.seek(0)
    return file


def numbers(result) -> list:
    return [x.detach().tolist() if hasattr(x, "detach") else x for x in rl.utils._pytree.tree_leaves(result)]


def values(library, program, count):
    x = library.arange(count * 3, dtype=library.float32).reshape(count, 3)
    return program.module()(x, library.tensor([1, 2]), k=2)


def test_all_of_a_program_comes_back():
    made, program = exported(rl)
    extra = {"a.txt": ""}
    back = rl.export.load(saved(program, extra_files={"a.txt": "text"}), extra_files=extra)
    assert extra == {"a.txt": "text"} and back.graph_module.code == program.graph_module.code
    assert back.graph_signature == program.graph_signature and back.range_constraints == program.range_constraints
    assert back.module_call_graph == program.module_call_graph and back.dialect == program.dialect
    assert back.in_spec == program.in_spec and back.out_spec == program.out_spec
    assert back.expected[0][0] == (4, 3) and back.argument_names == program.argument_names
    assert list(back.state_dict) == list(program.state_dict) and list(back.constants) == list(program.constants)
    assert numbers(back.example_inputs) == numbers(program.example_inputs)
    for one, other in zip(program.graph.nodes, back.graph.nodes, strict=True):
        assert (one.name, one.op) == (other.name, other.op)
        assert [one.meta.get(key) for key in ("stack_trace", "nn_module_stack", "source_fn_stack")] == [
            other.meta.get(key) for key in ("stack_trace", "nn_module_stack", "source_fn_stack")]
        kind = type(one.meta.get("val"))
        assert kind is type(other.meta.get("val")), one.name
    assert back.state_dict["tied"].data_ptr() == back.state_dict["linear.weight"].data_ptr()
    for count in (4, 7):
        assert numbers(values(rl, program, count)) == numbers(values(rl, back, count))
    for one in (program, back):
        with pytest.raises(RuntimeError, match="<= 64"):
            values(rl, one, 65)


def extra_files_of(writer, reader, asked):
    """What a dict of extra files has after a program was written with two, and read."""
    class Plus(writer.nn.Module):
        def forward(self, x):
            return x + 1

    file = saved(writer.export.export(Plus(), (writer.ones(2),)), writer.export.save,
                 extra_files={"a.txt": "text", "folder/b": "more", 1: ""})
    reader.export.load(file, extra_files=asked)
    return asked


@pytest.mark.parametrize("asked", [{}, {"a.txt": ""}, {"folder/b": None, "missing": "stays"}, None], ids=str)
def test_all_extra_files_come_back(asked):
    expected = extra_files_of(torch, torch, asked if asked is None else dict(asked))
    for writer, reader in ((rl, rl), (rl, torch), (torch, rl)):
        assert extra_files_of(writer, reader, asked if asked is None else dict(asked)) == expected


@pytest.mark.parametrize("content", [b"bytes", 3, None])
def test_extra_files_are_strings(content):
    program, file = exported(rl)[1], io.BytesIO()
    with pytest.raises(TypeError, match="'a' has a .*: give strings"):
        rl.export.save(program, file, extra_files={"a": content})
    assert not file.getvalue()


def test_bounds_of_numbers_that_data_decide():
    class Reading(rl.nn.Module):
        def forward(self, x):
            n = x.sum().item()
            rl._check(n >= 2)
            rl._check(2 * n < 9)
            return rl.zeros(n), x.nonzero()

    program = rl.export.export(Reading(), (rl.tensor([1, 2]),))
    for one in (program, rl.export.load(saved(program))):
        assert sorted(map(tuple, one.range_constraints.values())) == [(0, None), (2, 4)]
        with pytest.raises(RuntimeError):
            one.module()(rl.tensor([9, 9]))


def test_named_tuples_of_operators():
    class Parts(rl.nn.Module):
        def forward(self, x):
            return rl.linalg.slogdet(x)

    program = rl.export.export(Parts(), (rl.eye(2),))
    assert rl.export.load(saved(program)).module()(rl.eye(2)).sign.item() == 1


def test_results_that_are_sizes_vary():
    class Sizes(rl.nn.Module):
        def forward(self, x, y):
            return {"n": x.shape[0] * 2 + 1, "m": (x.shape[0], 7)}, x.numel(), y.sum().item(), x

    program = rl.export.export(Sizes(), (rl.ones(4, 3), rl.tensor([1, 2])),
                               dynamic_shapes={"x": {0: Dim("n")}, "y": None})
    for one in (program, rl.export.load(saved(program))):
        found = one.module()(rl.ones(6, 3), rl.tensor([1, 2]))
        assert found[0] == {"n": 13, "m": (6, 7)} and found[1:3] == (18, 3)
        assert [type(s.arg).__name__ for s in one.graph_signature.output_specs] == [
            "SymIntArgument", "SymIntArgument", "ConstantArgument", "SymIntArgument", "SymIntArgument",
            "TensorArgument"]


def test_both_libraries_read_each_others_files():
    for source, target in ((torch, rl), (rl, torch)):
        made, program = exported(source)
        back = target.export.load(saved(program, source.export.save))
        for count in (4, 7):
            wanted, found = values(source, program, count), values(target, back, count)
            for a, b in zip(numbers(wanted), numbers(found), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5)


@dataclasses.dataclass
class Pair:
    a: rl.Tensor
    b: rl.Tensor


rl.export.register_dataclass(Pair, serialized_type_name="tests.export.Pair")


DTYPES = "bfloat16", "float16", "int8", "bool", "complex64", "uint8"


class Laid(rl.nn.Module):
    """Weights of many dtypes and strides, two that share memory, and custom containers."""

    def __init__(self):
        super().__init__()
        whole = rl.arange(24.0)
        self.first, self.second = rl.nn.Parameter(whole[2:14].reshape(3, 4).t()), rl.nn.Parameter(whole[6:18])
        for name in DTYPES:
            self.register_buffer(f"of_{name}", rl.ones(2, 3).t().to(getattr(rl, name)))

    def forward(self, pair):
        return Pair(self.first.sum() + pair.a, self.second.sum() * pair.b), [
            getattr(self, f"of_{name}") for name in DTYPES]


def test_layouts_and_containers_come_back():
    program = rl.export.export(Laid(), (Pair(rl.ones(2), rl.ones(2)),))
    back = rl.export.load(saved(program))
    for name, value in program.state_dict.items():
        found = back.state_dict[name]
        assert (found.dtype, found.stride(), found.requires_grad, type(found)) == (
            value.dtype, value.stride(), value.requires_grad, type(value)) and rl.equal(found, value)
    first, second = back.state_dict["first"], back.state_dict["second"]
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    found = back.module()(Pair(rl.ones(2), rl.ones(2)))
    assert numbers(found) == numbers(program.module()(Pair(rl.ones(2), rl.ones(2)))) and type(found[0]) is Pair
    assert type(back.example_inputs[0][0]) is Pair


def test_what_no_file_has_is_refused():
    class Calling(rl.nn.Module):
        def forward(self, x):
            return x + 1

    program = rl.export.export(Calling(), (rl.ones(2),))
    node = next(iter(program.graph.find_nodes(op="call_function")))
    node.target = print
    with pytest.raises(SerializeError, match="print"):
        saved(program)
    with pytest.raises(TypeError, match="ExportedProgram"):
        rl.export.save(Calling(), io.BytesIO())


# --- hostile files ----------------------------------------------------------------------------------------------------
def changed(file, change, entry="models/model.json") -> io.BytesIO:
    """A file with one entry changed: JSON as ``change(record)`` leaves it."""
    made = io.BytesIO()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(made, "w") as target:
        for info in source.infolist():
            content = source.read(info)
            if info.filename.endswith(entry):
                record = json.loads(content)
                change(record)
                content = json.dumps(record).encode()
            target.writestr(info.filename, content)
    made.seek(0)
    return made


def graph_of(record):
    return record["graph_module"]["graph"]


def call(record, target):
    graph_of(record)["nodes"][0]["target"] = target


HOSTILE = {
    "eval": lambda r: call(r, "builtins.eval"), "os": lambda r: call(r, "os.system"),
    "file": lambda r: call(r, "torch.ops.aten.from_file.default"),
    "dunder": lambda r: call(r, "torch.ops.aten.__class__.default"),
    "method": lambda r: call(r, "torch.ops.aten.register_hook.default"),
    "library": lambda r: call(r, "torch.ops.nobody.knows.default"),
    "name": lambda r: graph_of(r)["inputs"][-1]["as_tensor"].update(name="x): import os; os.abort() #"),
    "keyword": lambda r: graph_of(r)["inputs"][-1]["as_tensor"].update(name="lambda"),
    "state": lambda r: r["graph_module"]["signature"]["input_specs"][0]["parameter"].update(
        parameter_name="forward"),
    "class": lambda r: r["graph_module"]["signature"]["input_specs"][0]["parameter"].update(
        parameter_name="__class__.weight"),
    "arguments": lambda r: r["graph_module"]["module_call_graph"][0]["signature"].update(
        forward_arg_names=["x=__import__('os').abort()"]),
    "factory": lambda r: r["graph_module"]["module_call_graph"][0]["signature"].update(
        out_spec=json.dumps([1, {"type": "collections.defaultdict", "children_spec": [], "context": json.dumps(
            {"default_factory_module": "os", "default_factory_name": "abort", "dict_context": []})}])),
    "power": lambda r: graph_of(r)["sym_int_values"].update(sym_size_int={"as_expr": {
        "expr_str": "Pow(Pow(Integer(9), Integer(9)), Integer(99999))"}}),
    "version": lambda r: r["schema_version"].update(major=9),
    "later": lambda r: graph_of(r)["nodes"].reverse()}


class Small(rl.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = rl.nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(x).relu().reshape(x.shape[0] * 2).sin()


def small():
    return saved(rl.export.export(Small(), (rl.ones(3, 2),), dynamic_shapes={"x": {0: Dim("n", max=99)}}))


@pytest.mark.parametrize("how", HOSTILE)
def test_hostile_programs_are_refused(how):
    with pytest.raises(SerializeError):
        rl.export.load(changed(small(), HOSTILE[how]))


def test_hostile_weights_are_refused():
    def grown(record):
        record["config"]["linear.weight"]["tensor_meta"]["strides"][0]["as_int"] = 1000

    def pickled(record):
        record["config"]["linear.weight"]["use_pickle"] = True

    for change in (grown, pickled):
        with pytest.raises(RuntimeError):
            rl.export.load(changed(small(), change, "model_weights_config.json"))

    class Evil:
        def __reduce__(self):
            return exec, ("raise SystemExit",)

    text, made = io.BytesIO(), io.BytesIO()
    torch.save(Evil(), text)
    file = small()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(made, "w") as target:
        for info in source.infolist():
            target.writestr(info.filename, text.getvalue() if info.filename.endswith("model.pt") else source.read(info))
    made.seek(0)
    with pytest.raises(pickle.UnpicklingError):
        rl.export.load(made)


def mutated(record, chance, others):
    """A JSON value with some parts replaced by others, dropped or doubled."""
    if chance.random() < 0.004:
        return chance.choice(others)
    if isinstance(record, dict):
        return {k if chance.random() > 0.002 else str(chance.choice(others)): mutated(v, chance, others)
                for k, v in record.items() if chance.random() > 0.002}
    if isinstance(record, list):
        return [mutated(v, chance, others) for v in record if chance.random() > 0.002]
    if type(record) is int and chance.random() < 0.02:
        return chance.choice([-1, 0, 7, 2 ** 31, 2 ** 63 - 1, 2 ** 200])
    return record


OTHERS = [None, True, -1, 2 ** 70, 0.5, "", "x", "as_tensor", "torch.ops.aten.add.Tensor", [], {}, [[]], {"as_int": 3},
          {"as_tensor": {"name": "x"}}, "Symbol('s0')", "os.system"]


def refused_or_right(data, run) -> bool:
    """Whether a file is refused; a program that is read runs, or says what is wrong with it."""
    try:
        program = rl.export.load(io.BytesIO(data))
    except (RuntimeError, pickle.UnpicklingError, OSError, EOFError, MemoryError):
        return True
    try:
        run(program)
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, AssertionError, MemoryError,
            NotImplementedError, KeyError, ZeroDivisionError):
        pass
    return False


@pytest.mark.parametrize("seed", range(4))
def test_mutated_files_are_refused_or_run(seed):
    chance, refused = random.Random(seed), 0
    entries = {}
    with zipfile.ZipFile(small()) as source:
        entries = {info.filename: source.read(info) for info in source.infolist()}
    for _ in range(15):
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as target:
            for name, content in entries.items():
                if name.endswith(".json"):
                    content = json.dumps(mutated(json.loads(content), chance, OTHERS)).encode()
                target.writestr(name, content)
        refused += refused_or_right(made.getvalue(), lambda program: program.module()(rl.ones(3, 2)))
    data = bytearray(small().getvalue())
    for _ in range(15):
        one = bytearray(data)
        for _ in range(chance.choice([1, 4, 50])):
            one[chance.randrange(len(one))] = chance.randrange(256)
        refused += refused_or_right(bytes(one[:chance.choice([len(one), len(one), chance.randrange(len(one))])]),
                                    lambda program: program.module()(rl.ones(3, 2)))
    assert refused >= 10


def test_sizes_as_text():
    symbols, names = {}, {}
    n, m = rl._src.core.expr.size("n0"), rl._src.core.expr.size("n1")
    for e in (n, 3 * n + 1, n * m - 2, n // 2, (n + 1) % 3, 7, rl._src.core.expr.maximum(n, m)):
        found = sizes.read(sizes.written(e, names), symbols)
        assert str(found) == str(e).replace("n0", "s0").replace("n1", "s1")
    for text in ("__import__('os')", "s0.real", "Pow(s0, s0)", "Mul()", "(" * 300, "Integer('x')", "9" * 5000, "s0[0]",
                 "Mul(" * 200 + "s0" + ")" * 200, "lambda: 0", "Symbol('a b')"):
        with pytest.raises(SerializeError):
            sizes.read(text, {})


def loaded(call, args, shapes=None):
    """A function of a library and tensors, exported by PyTorch: its program there, and here."""
    class Calling(torch.nn.Module):
        def forward(self, *values):
            return call(torch, *values)

    program = torch.export.export(Calling(), args, dynamic_shapes=shapes and (shapes,))
    return program, rl.export.load(saved(program, torch.export.save))


MASKED = {
    "all": lambda t, x: x[x > 0],
    "rows": lambda t, x: x[x[:, 0] > 0],
    "columns": lambda t, x: x[:, x[0] > 0],
    "overload": lambda t, x: t.ops.aten.index.Tensor(x, [None, x[0] > 0]),
}


@pytest.mark.parametrize("name", MASKED)
def test_masks_are_no_positions(name):
    call, x = MASKED[name], np.arange(12, dtype="float32").reshape(4, 3) - 2
    wanted = call(torch, torch.tensor(x)).tolist()
    program, mine = loaded(call, (torch.tensor(x),))
    found = call(rl, rl.tensor(x)), mine.module()(rl.tensor(x))
    assert [f.tolist() for f in found] == [wanted] * 2
    assert [list(f.shape) for f in found] == [list(program.module()(torch.tensor(x)).shape)] * 2


def test_bytes_are_masks():
    x, mask = np.arange(6, dtype="float32").reshape(3, 2), np.array([1, 0, 1], dtype="uint8")
    found = [t.ops.aten.index.Tensor(t.tensor(x), [t.tensor(mask)]).tolist() for t in (rl, torch)]
    assert found[0] == found[1]


@pytest.mark.parametrize("call", [
    lambda t, x: x.new_zeros(t.sym_max(x.shape[0], 3) + 1), lambda t, x: x.new_zeros(t.sym_min(x.shape[0], 4) * 2)])
def test_larger_and_smaller_sizes_vary_in_decompositions(call):
    _, mine = loaded(call, (torch.ones(5, 2),), ({0: torch.export.Dim("b", min=2, max=9)},))
    decomposed = mine.run_decompositions()
    for program in (mine, decomposed, rl.export.load(saved(decomposed))):
        for count in (2, 3, 4, 5, 8):
            assert program.module()(rl.ones(count, 2)).shape == call(torch, torch.ones(count, 2)).shape


def test_decompositions_refuse_what_sizes_decide():
    _, mine = loaded(lambda t, x: x.relu(), (torch.ones(5, 2),), ({0: torch.export.Dim("b", min=2, max=9)},))
    with pytest.raises(RuntimeError, match="not the same for all sizes"):
        mine.run_decompositions({rl.ops.aten.relu.default: lambda x: x * 2 if x.shape[0] > 4 else x})


class Named(rl.nn.Module):
    """State whose paths are alike once dots are replaced, and which are no identifiers."""

    def __init__(self):
        super().__init__()
        self.a_b, self.a = rl.nn.Parameter(rl.ones(3)), rl.nn.Module()
        self.a.b = rl.nn.Parameter(rl.full((3,), 2.0))
        self.rows = rl.nn.ParameterDict({"0a": rl.nn.Parameter(rl.ones(3))})
        self.register_buffer("__x", rl.full((3,), 5.0))

    def forward(self, x, p_a_b):
        return x * self.a_b + self.a.b * p_a_b + self.rows["0a"] + getattr(self, "__x")


def test_names_of_state_do_not_clash():
    x, y = rl.arange(3.), rl.full((3,), 7.)
    program = rl.export.export(Named(), (x, y))
    wanted = Named()(x, y).tolist()
    assert [p.module()(x, y).tolist() for p in (program, rl.export.load(saved(program)))] == [wanted] * 2
    assert torch.export.load(saved(program)).module()(*(torch.tensor(v.tolist()) for v in (x, y))).tolist() == wanted


def test_names_that_no_file_holds_are_refused_when_it_is_written():
    made = rl.nn.Linear(2, 2)
    made.register_buffer("graph", rl.ones(2))
    with pytest.raises(SerializeError, match="cannot be the name of state"):
        saved(rl.export.export(made, (rl.ones(2, 2),)))


def test_inputs_and_dims_of_any_name_vary():
    class Users(rl.nn.Module):
        def forward(self, users, x):
            return x * 2

    shapes = {0: Dim("units", min=2, max=9)}, {0: Dim("q", max=20)}
    program = rl.export.export(Users(), (rl.ones(4, 3), rl.ones(4, 3)), dynamic_shapes=shapes)
    back = rl.export.load(saved(program))
    assert list(program.range_constraints) == list(back.range_constraints) == ["units", "q"]
    assert torch.export.load(saved(program)).module()(torch.ones(9, 3), torch.ones(5, 3)).shape == (5, 3)


def test_products_of_sizes_are_bounded():
    many = "+".join(f"s{k}" for k in range(40))
    for text in (f"Pow({many},4)", f"Mul({','.join([many] * 6)})", f"({many})*({many})"):
        with pytest.raises(SerializeError, match="too many terms"):
            sizes.read(text, {})


def test_decompositions_keep_checks_of_numbers_that_data_decide():
    _, mine = loaded(lambda t, x: x.nonzero(), (torch.ones(3, 2),))
    made = mine.run_decompositions()
    assert "_assert_scalar" in str(made.graph)
    assert made.module()(rl.eye(3)[:, :2]).tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize("call", [lambda t, x: x[:4] * 2, lambda t, x: x[1:, :1], lambda t, x: x.new_zeros(
    1 if x.shape[0] > 3 else 2)])
def test_decompositions_keep_what_holds_for_all_sizes(call):
    _, mine = loaded(call, (torch.ones(6, 2),), ({0: torch.export.Dim("b", min=5, max=9)},))
    for count in (5, 9):
        x = np.ones((count, 2), dtype="float32")
        assert mine.run_decompositions().module()(rl.tensor(x)).tolist() == call(torch, torch.tensor(x)).tolist()

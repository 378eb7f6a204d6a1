"""Programs in PyTorch's core operators: without writes, with control flow, and numerically as they were."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402
from rushlight._src.core.op import OPS  # noqa: E402
from rushlight.export.graph_signature import OutputKind  # noqa: E402
from rushlight.library.tags import words  # noqa: E402
from rushlight.utils._pytree import tree_leaves  # noqa: E402
from tests.answers import keep_answer  # noqa: E402
from tests.export import test_database  # noqa: E402
from tests.export.test_database import CASES, module_of  # noqa: E402
from tests.ops import test_samples  # noqa: E402
from tests.ops.test_samples import arguments, flat, theirs  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
OTHERWISE = set(
    """cumulative_trapezoid fft.fft fft.fft2 fft.fftn fft.hfft fft.hfft2 fft.hfftn fft.ifft fft.ifft2 fft.ifftn
fft.ihfft fft.ihfft2 fft.ihfftn fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn linalg.cond
linalg.det linalg.inv linalg.matrix_norm linalg.matrix_power linalg.multi_dot linalg.norm linalg.pinv
linalg.slogdet linalg.solve linalg.svdvals linalg.tensorinv linalg.tensorsolve logit special.i0 special.log_ndtr
stft trapezoid""".split())  # written with other operators than PyTorch's, or with a primitive of ours


def called(program) -> list:
    return [str(n.target) for n in program.graph.nodes if n.op == "call_function" and "getitem" not in str(n.target)]


@pytest.mark.long
@pytest.mark.parametrize("name,index", CASES, ids=[f"{n}-{k}" for n, k in CASES])
def test_one_operator(name, index):
    sample = OPS[name].traits["samples"][index]
    values = arguments(name, sample)
    module, given = module_of(rl, OPS[name], values, sample.kwargs)
    program = rl.export.export(module, given).run_decompositions()
    if not OPS[name].traits.get("random"):
        for found, wanted in zip(flat([program.module()(*given)]), flat([module(*given)]), strict=True):
            np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-6)
            assert found.dtype is wanted.dtype and found.shape == wanted.shape
    if name in OTHERWISE:
        return
    expected = keep_answer(lambda: called_by_pytorch(name, values, sample.kwargs), name,
                           repr((sample.args, sample.kwargs)),
                           files=(__file__, test_database.__file__, test_samples.__file__))
    if isinstance(expected, str):
        pytest.skip(expected)
    assert sorted(called(program)) == expected


def called_by_pytorch(name, values, kwargs):
    """The operators of PyTorch's program, sorted; the reason if there is none."""
    judge, given = module_of(torch, theirs(name), values, kwargs)
    try:
        return sorted(called(torch.export.export(judge, given).run_decompositions()))
    except Exception as error:
        return f"PyTorch does not export it: {error}"


class Writing:
    """A module that writes into a buffer, an input, a view of a result, and running statistics."""

    def __new__(cls, library):
        class Module(library.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear, self.norm = library.nn.Linear(3, 4), library.nn.BatchNorm1d(4)
                self.register_buffer("count", library.zeros(3))

            def forward(self, x):
                self.count.add_(1)
                x.mul_(2)
                y = self.norm(self.linear(x + self.count))
                y[0] = 1
                y[:, 1].mul_(3)
                y.t()[2].add_(1)
                y.view(-1)[::2].neg_()
                return y.relu()

        return Module()


@pytest.mark.parametrize("varying", [False, True])
def test_writes_become_results(varying):
    module, other = Writing(rl), Writing(rl)
    other.load_state_dict(module.state_dict())
    shapes = ({0: rl.export.Dim("batch")},) if varying else None
    program = rl.export.export(module, (rl.randn(4, 3),), dynamic_shapes=shapes).run_decompositions()
    kinds = [(s.kind, s.target) for s in program.graph_signature.output_specs]
    assert kinds == [*((OutputKind.BUFFER_MUTATION, name) for name in (
        "count", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked")),
        (OutputKind.USER_INPUT_MUTATION, "x"), (OutputKind.USER_OUTPUT, None)]
    assert not any(n.target._schema.is_mutable for n in program.graph.find_nodes(op="call_function")
                   if hasattr(n.target, "_schema"))
    run = program.module()
    for count in (4, 7) if varying else (4, 4):
        first = rl.randn(count, 3)
        second = first.clone()
        rl.testing.assert_close(run(first), other(second))
        rl.testing.assert_close(first, second)
        for name, value in other.named_buffers():
            rl.testing.assert_close(dict(run.named_buffers())[name], value)


def test_the_signature_is_pytorchs():
    ours = rl.export.export(Writing(rl), (rl.ones(4, 3),)).run_decompositions().graph_signature
    judge = torch.export.export(Writing(torch), (torch.ones(4, 3),)).run_decompositions().graph_signature
    assert [(s.kind.name, s.target) for s in ours.output_specs] == [(s.kind.name, s.target) for s in judge.output_specs]
    assert ours.buffers_to_mutate.values() and set(ours.buffers_to_mutate.values()) == set(
        judge.buffers_to_mutate.values())


FLOWS = {
    "cond": lambda s, x: rl.cond(x.sum() > 0, lambda x: s.layer(x).sin(), lambda x: rl.cond(
        x.sum() > -100, lambda x: rl.nn.functional.softplus(x), lambda x: x - 1, (x,)), (x,)),
    "while_loop": lambda s, x: rl.while_loop(lambda i, x: i.sum() < 3, lambda i, x: (i + 1, s.layer(x)),
                                             (rl.zeros(()).long(), x)),
    "scan": lambda s, x: rl._higher_order_ops.scan(lambda c, x: (c + x, c * s.layer(x)), rl.zeros(3), x),
    "map_impl": lambda s, x: rl._higher_order_ops.map(lambda x, y: rl.nn.functional.silu(x) + y, x, rl.ones(3)),
    "associative_scan": lambda s, x: rl._higher_order_ops.associative_scan(lambda a, b: a * b, x, 0)}


@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize("name", FLOWS)
def test_control_flow_takes_submodules(name, varying):
    class Module(rl.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = rl.nn.Linear(3, 3)

        def forward(self, x):
            return FLOWS[name](self, x)

    module, x = Module(), rl.randn(4, 3)
    shapes = ({0: rl.export.Dim("rows")},) if varying else None
    program = rl.export.export(module, (x,), dynamic_shapes=shapes)
    simple = program.run_decompositions()
    for one in (program, simple):
        node, = (n for n in one.graph.nodes if str(n.target) == name)
        parts = [a for a in node.args if getattr(a, "op", None) == "get_attr"]
        assert parts and all(isinstance(getattr(one.graph_module, p.target), rl.fx.GraphModule) for p in parts)
        for given in (x, -x.abs(), *((rl.randn(6, 3),) if varying else ())):
            for found, wanted in zip(tree_leaves(one.module()(given)), tree_leaves(module(given)), strict=True):
                rl.testing.assert_close(found, wanted)
    inner = [n for m in simple.graph_module.modules() if isinstance(m, rl.fx.GraphModule) for n in m.graph.nodes
             if n.op == "call_function" and hasattr(n.target, "tags")]
    assert inner and not {"aten.linear.default", "aten.silu.default", "aten.softplus.default"} & set(
        map(str, (n.target for n in inner)))


def test_tables_say_what_is_kept_and_how_others_are_written():
    aten = rl.ops.aten
    module, x = rl.nn.Sequential(rl.nn.Linear(4, 4), rl.nn.SiLU()), rl.randn(2, 4)
    program = rl.export.export(module, (x,))
    table = rl.export.default_decompositions()
    del table[aten.linear.default]
    table[aten.silu.default] = lambda x: x / (1 + (-x).exp())
    made = program.run_decompositions(table)
    assert called(made) == [f"aten.{n}" for n in ("linear.default", "neg.default", "exp.default", "add.Tensor",
                                                  "div.Tensor")]
    rl.testing.assert_close(made.module()(x), module(x))
    assert called(program.run_decompositions({})) == ["aten.linear.default", "aten.silu.default"]


def test_operators_of_users_that_write_are_calls_that_do_not():
    @rl.library.custom_op("decomposed_tests::twice_into", mutates_args=("x",))
    def twice_into(x: rl.Tensor) -> None:
        x.mul_(2)

    class Module(rl.nn.Module):
        def forward(self, x):
            y = x + 1
            twice_into(y)
            return y.sin()

    program = rl.export.export(Module(), (rl.ones(3),)).run_decompositions()
    rl.testing.assert_close(program.module()(rl.ones(3)), rl.full((3,), 4.0).sin())


def test_tags_are_pytorchs():
    for name in ("add.Tensor", "convolution", "silu", "bernoulli", "nonzero"):
        stem, _, label = name.partition(".")
        ours, judge = (getattr(getattr(library.ops.aten, stem), label or "default") for library in (rl, torch))
        assert {t.name for t in ours.tags} == {str(t).rpartition(".")[2] for t in judge.tags}
    assert len(words()) > 1000


def double_in_place(x):
    x.mul_(2)


@pytest.fixture
def composite_library():
    with rl.library._scoped_library("decomposed_composites", "FRAGMENT") as library:
        library.define("doubled_sine(Tensor x, *, float by=2.0) -> Tensor")
        library.impl("doubled_sine", lambda x, *, by=2.0: x.sin() * by, "CompositeImplicitAutograd")
        library.define("plus_one(Tensor x) -> Tensor")
        library.impl("plus_one", lambda x: x + 1, "CompositeImplicitAutograd")
        library.define("into(Tensor(a!) x) -> ()")
        library.impl("into", double_in_place, "CompositeImplicitAutograd")
        yield rl.ops.decomposed_composites


class Composed(rl.nn.Module):
    def forward(self, x):
        own = rl.ops.decomposed_composites
        return own.plus_one(own.doubled_sine(x, by=3.0))


def test_operators_of_users_that_are_functions_of_others_are_opened_by_tables(composite_library):
    own, x = composite_library, rl.randn(3)
    program = rl.export.export(Composed(), (x,))
    kept, replaced = rl.export.default_decompositions(), rl.export.default_decompositions()
    assert own.plus_one.default in kept and own.into.default not in kept and kept.has_materialized
    del kept[own.doubled_sine.default]
    replaced[own.doubled_sine.default] = lambda x, by=2.0: x.cos() * by
    wanted = {"default": (None, ["sin", "mul", "add"]), "kept": (kept, ["doubled_sine", "add"]),
              "empty": ({}, ["doubled_sine", "plus_one"]), "replaced": (replaced, ["cos", "mul", "add"]),
              "plain dict": (dict(kept), ["doubled_sine", "add"]),
              "materialized": (kept.materialize(), ["doubled_sine", "add"])}
    for name, (table, targets) in wanted.items():
        made = program.run_decompositions(table)
        assert [n.target._opname for n in made.graph.find_nodes(op="call_function")] == targets, name
        value = (x.cos() if name == "replaced" else x.sin()) * 3 + 1
        rl.testing.assert_close(made.module()(x), value)


def test_operators_of_users_that_are_taken_out_of_a_table_stay_out(composite_library):
    own, table = composite_library, rl.export.default_decompositions()
    count = len(table)
    assert callable(table.pop(own.plus_one.default)) and table.pop(own.plus_one.default, "none") == "none"
    with pytest.raises(KeyError, match="decomposed_composites.plus_one.default"):
        table.pop(own.plus_one.default)
    assert own.plus_one.default not in table and len(table) == count - 1
    assert own.plus_one.default not in table.copy() and own.plus_one.default not in {**table}
    with rl.library._scoped_library("decomposed_composites_2", "FRAGMENT") as library:
        library.define("late(Tensor x) -> Tensor")
        library.impl("late", lambda x: x + 2, "CompositeImplicitAutograd")
        assert rl.ops.decomposed_composites_2.late.default in table and own.plus_one.default not in table
    table.update({own.plus_one.default: lambda x: x + 5})
    assert table[own.plus_one.default](1) == 6


def test_operators_of_users_that_write_and_are_functions_of_others_are_always_opened(composite_library):
    class Module(rl.nn.Module):
        def forward(self, x):
            y = x + 1
            composite_library.into(y)
            return y

    made = rl.export.export(Module(), (rl.ones(2),)).run_decompositions({})
    assert "into" not in [n.target._opname for n in made.graph.find_nodes(op="call_function")]
    assert made.module()(rl.ones(2)).tolist() == [4, 4]


HALF, AUTO = rl.export.Dim("half", min=1), rl.export.Dim.AUTO
DECIDED = {  # name: (function, sizes exported, entries of dynamic_shapes, further sizes)
    "chunk": (lambda x: x.chunk(2), [6], [AUTO], [[5], [8], [1], [9]]),
    "split": (lambda x: x.split(4), [6], [AUTO], [[5], [8], [9], [4]]),
    "unflatten": (lambda x: x.unflatten(0, (2, -1)), [6], [AUTO], [[8], [2], [7]]),
    "unflatten a multiple": (lambda x: x.unflatten(0, (2, -1)) * 2, [6], [2 * HALF], [[8], [4], [7]]),
    "unflatten a multiple and more": (lambda x: x[1:].unflatten(0, (2, -1)), [7], [2 * HALF + 1], [[9], [5], [8]]),
    "equal": (lambda x, y: (x + y).unflatten(0, (3, -1)), [6, 6], [AUTO, AUTO], [[9, 9], [6, 9], [8, 8]])}


@pytest.mark.parametrize("name", DECIDED)
def test_what_decompositions_assume_of_sizes_is_checked_when_they_run(name):
    function, sizes, entries, others = DECIDED[name]

    class Module(rl.nn.Module):
        def forward(self, *given):
            return function(*given)

    given = tuple(rl.randn(n, 2) for n in sizes)
    program = rl.export.export(Module(), given, dynamic_shapes=(tuple({0: entry} for entry in entries),))
    made = program.run_decompositions().module()
    accepted = 0
    for row in (sizes, *others):
        values = [rl.randn(n, 2) for n in row]
        try:
            found = made(*values)
        except AssertionError as error:
            assert "Guard failed" in str(error)
            continue
        accepted += 1
        for one, other in zip(tree_leaves(found), tree_leaves(function(*values)), strict=True):
            rl.testing.assert_close(one, other)
    assert accepted > 1


def test_slices_up_to_what_data_decide_are_decomposed():
    class Module(rl.nn.Module):
        def forward(self, x, y):
            k = x.sum().item()
            rl._check(k >= 0)
            rl._check(k <= y.shape[0])
            return y[:k].sum(), y.new_zeros(k)

    program = rl.export.export(Module(), (rl.tensor([1, 2]), rl.ones(6)), dynamic_shapes=(None, {0: AUTO}))
    made = program.run_decompositions().module()
    for count, rows in ((4, 5), (0, 3), (3, 3)):
        total, zeros = made(rl.tensor([count, 0]), rl.ones(rows))
        assert (float(total), zeros.shape) == (count, (count,))
    with pytest.raises(RuntimeError):
        made(rl.tensor([4, 0]), rl.ones(3))

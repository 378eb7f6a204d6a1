"""Passes over graphs, signatures and types of tensors, beside PyTorch."""
import importlib
import numbers
import typing

import pytest
import torch as judge

import rushlight as torch
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.fx.passes.dialect.common.cse_pass import CSEPass

BOTH = (judge, torch)


def of(t, path):
    return importlib.import_module(f"{t.__name__}.{path}")


def plain(pair):
    return pair and (list(map(repr, pair.args)), {k: repr(v) for k, v in pair.kwargs.items()})


def net(t):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = t.nn.Linear(2, 2), t.nn.Linear(2, 2), t.nn.Linear(2, 2)
            self.w, self.v = t.nn.Parameter(t.ones(2)), t.nn.Parameter(t.ones(2))
    return Net


def test_arguments_by_name():
    found = []
    for t in BOTH:
        s, F = of(t, "fx.operator_schemas"), t.nn.functional
        module = t.fx.symbolic_trace(t.nn.ModuleDict({"a": t.nn.Linear(2, 2)}).a)
        module.a = t.nn.Linear(2, 2)
        found.append([plain(p) for p in (
            s.normalize_function(F.relu, (1,)), s.normalize_function(F.relu, (1,), normalize_to_only_use_kwargs=True),
            s.normalize_function(t.relu, (t.ones(1),), normalize_to_only_use_kwargs=True),
            s.normalize_function(t.ops.aten.add.Tensor, (t.ones(1), t.ones(1)), normalize_to_only_use_kwargs=True),
            s.normalize_module(module, "a", (3,)), s.normalize_module(module, "a", (3,), None, True))])
        with pytest.raises(RuntimeError, match="did not have that target"):
            s.normalize_module(module, "nothing", (3,))
    assert found[0] == found[1]


@pytest.mark.parametrize("pair", [(int, int), (int, float), (bool, int), (int, bool), (list[int], list[int]),
                                  (typing.Optional[int], int), (typing.Union[int, str], str),
                                  (typing.List[int], typing.Tuple[int, int]), (typing.List[int], int),
                                  (numbers.Number, int), (float, int), (typing.Union[int, str], float)], ids=str)
def test_types_match(pair):
    theirs, ours = (of(t, "fx.operator_schemas").type_matches(*pair) for t in BOTH)
    assert theirs == ours


def test_types_of_tensors():
    found = []
    for t in BOTH:
        m = of(t, "fx.tensor_type")
        T, D = m.TensorType, m.Dyn  # noqa: N806
        kinds = [D, 3, T((1, D)), T((1, 2)), T((1, 3)), T((1,)), T[1, 2]]
        found.append(([repr(k) for k in kinds], [(m.is_consistent(a, b), m.is_more_precise(a, b), a == b)
                                                 for a in kinds for b in kinds],
                      [repr(of(t, "fx.operator_schemas").create_type_hint(x)) for x in ([int, int], (int, bool), [])]))
    assert found[0] == found[1]


def test_graphs_are_cut_by_tags():
    found = []
    for t in BOTH:
        class Net(net(t)):
            def forward(self, x, y):
                p, q = self.a(x), self.b(y)
                return t.cat([p, q, self.c(p + q) * self.w], 1)

        model = Net()
        whole = t.fx.symbolic_trace(model)
        tags = {"a": "red", "b": "blue", "add": "green", "c": "green", "mul": "green", "cat": "last"}
        for node in whole.graph.nodes:
            if node.op in ("call_module", "call_function"):
                node.tag = tags[node.name]
        cut, names = of(t, "fx.passes.split_utils").split_by_tags(whole, ["red", "blue", "green", "last"], True)
        x = t.ones(1, 2)
        assert t.equal(cut(x, x), model(x, x))
        found.append((sorted(n for n, _ in cut.named_children()), names, cut.code.strip(), cut.red.code.strip()))
    assert found[0] == found[1]


def test_constants_are_computed_once():
    found = []
    for t in BOTH:
        class Net(net(t)):
            def forward(self, x):
                return x + (self.w * 2 + 1) + self.v

        folded = of(t, "fx.experimental.const_fold").split_const_subgraphs(Net())
        x = t.arange(2.0)
        found.append((folded(x).tolist(), folded(x).tolist(), [n for n, _ in folded.named_parameters()],
                      sorted(n.op for n in folded.graph.nodes), folded.has_folding_been_run))

        class Plain(net(t)):
            def forward(self, x):
                return x + self.v

        assert of(t, "fx.experimental.const_fold").split_const_subgraphs(Plain())(x).tolist() == [1, 2]
    assert found[0] == found[1]


def test_equal_calls_are_made_once():
    found = []
    for t in BOTH:
        def f(x):
            return (x.cos() + x.cos()) * (x + 1).sum(0, True) - (x + 1).sum(0, False)

        made = of(t, "fx.experimental.proxy_tensor").make_fx(f)(t.ones(3))
        result = of(t, "fx.passes.dialect.common.cse_pass").CSEPass()(made)
        found.append((result.modified, sum(n.op == "call_function" for n in result.graph_module.graph.nodes),
                      result.graph_module(t.ones(3)).tolist()))
    assert found[0][:2] == found[1][:2] and found[0][2] == pytest.approx(found[1][2], rel=1e-4)


def test_random_numbers_stay_apart():
    made = of(torch, "fx.experimental.proxy_tensor").make_fx(lambda x: torch.rand_like(x) - torch.rand_like(x))(
        torch.ones(8))
    result = of(torch, "fx.passes.dialect.common.cse_pass").CSEPass()(made)
    assert result.graph_module(torch.ones(8)).abs().max() > 0


def test_attributes_of_layers():
    found = []
    for t in BOTH:
        m = of(t, "fx.passes.param_fetch")
        kept = m.extract_attrs_for_lowering(t.nn.MaxPool2d(2))
        found.append({k: v for k, v in kept.items() if k != "name"})
        made = t.fx.symbolic_trace(t.nn.Sequential(t.nn.Linear(2, 2)))
        m.lift_lowering_attrs_to_nodes(made)
        assert "weight" in next(n for n in made.graph.nodes if n.op == "call_module").attrs_for_lowering
    assert found[0] == found[1]


def test_formulas_of_products():
    found = []
    for t in BOTH:
        f = of(t, "utils.flop_counter")
        found.append((
            f.mm_flop((2, 3), (3, 4)), f.bmm_flop((5, 2, 3), (5, 3, 4)), f.addmm_flop((4,), (2, 3), (3, 4)),
            f.conv_flop_count([2, 3, 8, 8], [4, 3, 3, 3], [2, 4, 6, 6]),
            f.conv_flop_count([2, 3, 8, 8], [3, 4, 3, 3], [2, 4, 10, 10], True),
            f.sdpa_flop_count((2, 4, 8, 16), (2, 4, 9, 16), (2, 4, 9, 16)),
            f.sdpa_backward_flop_count((2, 4, 8, 16), (2, 4, 8, 16), (2, 4, 9, 16), (2, 4, 9, 16)),
            [f.get_suffix_str(n) for n in (1, 99, 12345, 123456, 10**9, 10**20)],
            f.convert_num_with_suffix(12345678, "M"), f.convert_to_percent_str(1, 3), f.convert_to_percent_str(1, 0),
            f.normalize_tuple(3)))
    assert found[0] == found[1]


def test_formulas_of_operators_of_programs():
    found = []
    for t in BOTH:
        name = f"tests_flops_{t.__name__}::double"

        @t.library.custom_op(name, mutates_args=())
        def double(x: t.Tensor) -> t.Tensor:
            return x * 2

        double.register_fake(lambda x: t.empty_like(x))
        f = of(t, "utils.flop_counter")
        packet = getattr(getattr(t.ops, name.partition("::")[0]), "double")
        f.register_flop_formula(packet)(lambda shape, *args, out_shape=None, **kwargs: 7 * shape[0] * out_shape[1])
        with f.FlopCounterMode(display=False) as counter:
            double(t.ones(2, 3))
        found.append(counter.get_total_flops())
        with pytest.raises(RuntimeError, match="duplicate"):
            f.register_flop_formula(packet)(lambda *a, **k: 1)
    assert found == [42, 42]


def test_pieces_of_checkpoints():
    found = []
    for t in BOTH:
        c = of(t, "utils.checkpoint")
        x = t.ones(2, requires_grad=True)
        y = c.CheckpointFunction.apply(lambda v: v.sin() * v, True, x)
        y.sum().backward()
        cut = c.detach_variable((x, 3))
        with pytest.raises(RuntimeError, match="Only tuple"):
            c.detach_variable([x])
        with pytest.warns(UserWarning, match="requires_grad=True"):
            c.check_backward_validity([t.ones(1)])
        found.append(([round(g, 4) for g in x.grad.tolist()], cut[0].requires_grad, cut[0].grad, cut[1],
                      c.DefaultDeviceType.get_device_type()))
    assert found[0] == found[1]


@pytest.mark.parametrize("lib", [torch, judge], ids=["ours", "judge"])
def test_checks_before_and_between_passes(lib):
    passes = importlib.import_module(f"{lib.__name__}.fx.passes.infra.pass_manager")
    base = importlib.import_module(f"{lib.__name__}.fx.passes.infra.pass_base")
    seen = []
    manager = passes.PassManager([lambda m: base.PassResult(m, True)], run_checks_after_each_pass=True)
    manager.add_checks(lambda module: seen.append(type(module).__name__))
    manager(lib.fx.symbolic_trace(lib.nn.Linear(2, 2)))
    assert seen == ["Linear"] * 2
    with pytest.raises(TypeError):
        manager.add_checks(lambda module, other: None)


@pytest.mark.parametrize("lib", [torch, judge], ids=["ours", "judge"])
def test_operators_that_write_are_refused_where_that_is_asked(lib, monkeypatch):
    def writes(x, y):
        return lib.add(lib.relu_(x), y)

    assert [n.op for n in lib.fx.symbolic_trace(writes).graph.nodes][2] == "call_function"
    monkeypatch.setattr(lib.fx.proxy.TracerBase, "check_mutable_operations", True)
    with pytest.raises(RuntimeError, match="Tried to trace mutable operation"):
        lib.fx.symbolic_trace(writes)
    lib.fx.symbolic_trace(lambda x: lib.relu(x).add_(1))  # methods are not looked at


def read_again(x):
    x = x.clone()
    first, view = x.sin(), x.view(-1)
    seen = view * 2
    x[0] = 5
    return first + x.sin() + seen + view * 2


def made_and_written(x):
    first, second = torch.zeros_like(x), torch.zeros_like(x)
    first.add_(x)
    return first * 2 + second


@pytest.mark.parametrize("function", [read_again, made_and_written])
def test_equal_calls_are_two_where_memory_is_written_to(function):
    x = torch.arange(4.0)
    module = make_fx(function)(x)
    merged = CSEPass()(module)
    assert torch.equal(merged.graph_module(x), function(x))
    assert not merged.modified

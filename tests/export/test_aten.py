"""The graphs of exported programs: overloads of torch.ops.aten, names of placeholders, what nodes know."""
import rushlight as torch
from rushlight import nn
from rushlight._subclasses.fake_tensor import FakeTensor
from rushlight.export import export

aten = torch.ops.aten


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.act = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()
        self.pool, self.out = nn.MaxPool2d(2), nn.Linear(16, 2)

    def forward(self, x):
        y = self.pool(self.act(self.norm(self.conv(x))))
        return nn.functional.softmax(self.out(y.flatten(1)), -1) + x[0, 0, 1:3, 0].sum()


def calls(graph):
    return [n for n in graph.nodes if n.op == "call_function"]


def test_nodes_are_overloads_with_pytorchs_arguments():
    program = export(Net().eval(), (torch.randn(1, 3, 4, 4),))
    nodes = calls(program.graph)
    assert [n.target for n in nodes] == [
        aten.conv2d.default, aten.batch_norm.default, aten.relu.default, aten.max_pool2d.default,
        aten.flatten.using_ints, aten.linear.default, aten.softmax.int, aten.select.int, aten.select.int,
        aten.slice.Tensor, aten.select.int, aten.sum.default, aten.add.Tensor]
    conv, norm, pool = nodes[0], nodes[1], nodes[3]
    assert conv.args[3:] == ([1, 1], [1, 1]) and pool.args[1:] == ([2, 2], [2, 2])
    assert [a.name for a in norm.args[1:5]] == ["p_norm_weight", "p_norm_bias", "b_norm_running_mean",
                                                "b_norm_running_var"] and norm.args[5:] == (False, 0.1, 1e-5, True)
    assert nodes[9].args[1:] == (0, 1, 3) and [n.name for n in nodes[7:9]] == ["select", "select_1"]


def test_nodes_know_their_values_and_modules():
    net, x = Net().eval(), torch.randn(1, 3, 4, 4)
    program = export(net, (x,))
    conv = calls(program.graph)[0]
    assert type(conv.meta["val"]) is FakeTensor and tuple(conv.meta["val"].shape) == (1, 4, 4, 4)
    assert list(conv.meta["nn_module_stack"].values())[-1][0] == "conv"
    assert conv.meta["source_fn_stack"] == [("conv", nn.Conv2d)] and "test_aten.py" in conv.meta["stack_trace"]
    assert torch.equal(program.module()(x), net(x))


def test_a_schema_is_pytorchs():
    schema = aten.add.Tensor._schema
    assert str(schema) == "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    assert [(a.name, a.kwarg_only, a.has_default_value()) for a in schema.arguments] == [
        ("self", False, False), ("other", False, False), ("alpha", True, True)]
    assert "dim_IntList" in aten.sum.overloads()


def test_an_overload_takes_pytorchs_arguments():
    x, weight = torch.randn(2, 3), torch.randn(4, 3)
    one = torch.ones(3)
    assert torch.equal(aten.batch_norm.default(x, one, one, one, one, False, 0.1, 1e-5, True),
                       nn.functional.batch_norm(x, one, one, one, one, False, 0.1, 1e-5))
    assert torch.equal(aten.embedding.default(weight, torch.tensor([1, 0])), weight[[1, 0]])
    assert torch.equal(aten.slice.Tensor(weight, 0, 1, 2 ** 63 - 1), weight[1:])
    assert torch.equal(aten.mse_loss.default(x, x + 1, 2), nn.functional.mse_loss(x, x + 1, reduction="sum"))


def test_a_prepared_graph_keeps_its_arguments_and_checks():
    import copy
    net, x = Net().eval(), torch.randn(1, 3, 4, 4)
    module = export(net, (x,)).module()
    again = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    assert torch.equal(again(x), net(x))


class InPlace(nn.Module):
    def forward(self, x):
        y = x + 1
        y.add_(2)
        nn.functional.relu(y, inplace=True)
        return y * 2, nn.functional.hardtanh_(y)


def test_writes_stay_in_the_graph_and_are_read_from_there_on():
    x = torch.tensor([-4.0, 2.0])
    module = export(InPlace(), (x,)).module()
    assert [n.name for n in calls(module.graph)] == ["add", "add_", "relu_", "mul", "hardtanh_"]
    assert [n.name for n in module.graph.output_node().args[0]] == ["mul", "hardtanh_"]
    for found, wanted in zip(module(x), InPlace()(x)):
        assert torch.equal(found, wanted)


def test_a_dropout_in_place_of_an_argument():
    class Drop(nn.Module):
        def forward(self, x):
            return nn.functional.dropout(x, 1.0, True, inplace=True)

    module, x = export(Drop(), (torch.ones(4),)).module(), torch.ones(4)
    assert [n.target for n in calls(module.graph)] == [aten.dropout_.default]
    assert module(x).sum() == 0 and x.sum() == 0


def test_fused_observers_take_shared_scales():
    scale, zero, low, high = torch.ones(1), torch.zeros(1, dtype=torch.int32), torch.tensor(0.0), torch.tensor(1.0)
    on, x = torch.ones(1, dtype=torch.int64), torch.rand(4, requires_grad=True)
    y = x
    for _ in range(2):  # the second call writes the scale that the first one rounded with
        y = torch.fused_moving_avg_obs_fake_quant(y, on, on, low, high, scale, zero, 0.1, 0, 255, 0)
    y.sum().backward()
    assert low.shape == () and torch.equal(x.grad, torch.ones(4))


def conv_norm(x, weight, bias, scale, shift, mean, var):
    return nn.functional.batch_norm(nn.functional.conv2d(x, weight, bias), mean, var, scale, shift, training=True)


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def test_patterns_that_were_exported_are_found_whatever_their_literals():
    from rushlight.fx.subgraph_rewriter import replace_pattern_with_filters
    net = Net()
    module = export(net, (torch.randn(1, 3, 4, 4),)).module()
    channels = [torch.ones(2) for _ in range(5)]
    args = (torch.ones(1, 1, 3, 3), torch.ones(2, 1, 1, 1), *channels)
    pattern = export(Function(conv_norm), args).module()
    instead = export(Function(lambda x, *rest: conv_norm(x, *rest) + 1), args).module()
    found, = replace_pattern_with_filters(module, pattern, instead, ignore_literals=True)
    conv = next(n for n in found.nodes_map.values() if getattr(n, "target", None) is aten.conv2d.default)
    assert conv.args[3:] == ([1, 1], [1, 1])  # an erased node keeps what is no node
    assert sum(n.target is aten.add.Tensor for n in calls(module.graph)) == 2
    assert [n.target for n in module.graph.nodes if n.op == "call_module"] == ["_guards_fn"]


def test_patterns_as_expressions():
    from rushlight._inductor.pattern_matcher import (Arg, CallFunction, KeywordArg, PatternMatcherPass,
                                                     register_graph_pattern)
    passes, seen = PatternMatcherPass(), []

    @register_graph_pattern(CallFunction(aten.add.Tensor, CallFunction(aten.mul.Tensor, Arg(), KeywordArg("k")), Arg()),
                            pass_dict=passes)
    def note(match, x, y, k):
        seen.append((x.name, y.name, k.name, [n.name for n in match.nodes]))

    program = export(Function(lambda a, b: (a * b + a, a * a * 2)), (torch.ones(2), torch.ones(2)))
    assert passes.apply(program.graph) == 1 and seen == [("args_0", "args_0", "args_1", ["mul", "add"])]


def test_numbers_are_drawn_by_whole_operators_again_and_again():
    program = export(Function(lambda p: (torch.randn(3), torch.rand(2), torch.bernoulli(p))), (torch.full((4,), 0.5),))
    assert [n.target for n in calls(program.graph)] == [aten.randn.default, aten.rand.default, aten.bernoulli.default]
    torch.manual_seed(1)
    first = program.module()(torch.full((4,), 0.5))
    assert not torch.equal(first[0], program.module()(torch.full((4,), 0.5))[0])


def test_sizes_that_data_decide():
    def made(n):
        size = n.item()
        torch._check(size >= 2)
        return torch.ones(size)

    program = export(Function(made), (torch.tensor(3),))
    assert aten.ones.default in [n.target for n in calls(program.graph)]
    assert program.module()(torch.tensor(5)).shape == (5,)

"""make_fx: the operators a function runs, in each mode; forward and backward as graphs."""
import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight._functorch.aot_autograd import aot_function, aot_module
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight._inductor.compile_fx import compile_fx

MODES = ["real", "fake", "symbolic"]
GOLDEN = """def forward(self, x_1):
    size = x_1.size(0)
    sin = torch.ops.aten.sin.default(x_1);  x_1 = None
    mul = size * 2;  size = None
    reshape = torch.ops.aten.reshape.default(sin, mul, -1);  sin = mul = None
    return reshape"""


def mixed(x, y):
    z = F.gelu(x @ x.t()) + y
    return {"a": z.reshape(-1, z.shape[0]), "b": torch.split(z, 1)[0], "c": F.dropout(z, 0.5), "d": 3}


@pytest.mark.parametrize("mode", MODES)
def test_the_same_results(mode):
    x, y = torch.randn(3, 4), torch.randn(3)
    module = make_fx(mixed, tracing_mode=mode)(x, y)
    module.graph.lint()
    torch.manual_seed(3)
    wanted = mixed(x, y)
    torch.manual_seed(3)
    found = module(x, y)
    assert found["d"] == 3 and all(torch.allclose(wanted[k], found[k]) for k in "abc")
    product = torch.ops.aten.mm.default if mode == "real" else torch.ops.aten.matmul.default
    val = module.graph.find_nodes(op="call_function", target=product)[0].meta["val"]
    assert mode == "symbolic" or tuple(val.shape) == (3, 3)


def test_sizes_are_symbols():
    module = make_fx(lambda x: x.sin().reshape(x.shape[0] * 2, -1), tracing_mode="symbolic")(torch.ones(3, 4))
    assert module.code.strip() == GOLDEN
    assert module(torch.ones(5, 6)).shape == (10, 3)


def test_gradients_are_written_down():
    def f(x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad((x.sin() * x).sum(), x)[0]

    x = torch.randn(3, 4)
    module = make_fx(f)(x)
    assert torch.allclose(module(x), x.sin() + x * x.cos())
    assert module.graph.find_nodes(op="call_function", target=torch.ops.aten.cos.default)


def test_decompositions():
    table = {torch.ops.aten.silu.default: lambda x: x * torch.sigmoid(x)}
    module = make_fx(lambda x: F.silu(x), decomposition_table=table)(torch.ones(3))
    assert [n.name for n in module.graph.nodes] == ["x_1", "sigmoid", "mul", "output"]


def test_refusals():
    with pytest.raises(AssertionError, match="tracing_mode"):
        make_fx(mixed, tracing_mode="nothing")
    with pytest.raises(RuntimeError, match="needs the data"):
        make_fx(lambda x: x if x.sum() > 0 else -x, tracing_mode="fake")(torch.ones(2))


def step(f, model, x):
    model.zero_grad()
    x.grad = None
    torch.manual_seed(1)
    loss = F.cross_entropy(f(x), torch.tensor([0, 1, 2, 0, 1]))
    loss.backward()
    return [loss.detach(), x.grad, *(p.grad for p in model.parameters())]


def training():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Dropout(0.5),
                               torch.nn.Linear(8, 3)), torch.randn(5, 4, requires_grad=True)


def close(a, b):
    return all(torch.allclose(x, y, atol=1e-6) for x, y in zip(a, b))


def test_forward_and_backward_as_graphs():
    model, x = training()
    wanted = step(model, model, x)
    graphs = []
    found = step(aot_module(model, lambda module, inputs: graphs.append(module) or module), model, x)
    assert close(found, wanted) and len(graphs) == 2
    assert len(graphs[1].graph.output_node().args[0]) == 5
    for graph in graphs:
        graph.graph.lint()


def test_aot_function_makes_programs_for_each_kind_of_input():
    counts = []
    f = aot_function(lambda x, n: (x * n).sum(), lambda module, inputs: counts.append(1) or module)
    x = torch.ones(2, requires_grad=True)
    assert f(x, 3).item() == 6 and f(x, 3).item() == 6 and len(counts) == 2
    assert f(torch.ones(3), 3).item() == 9 and len(counts) == 3 and f(x, 4).item() == 8 and len(counts) == 5
    x = torch.ones(2, 2)
    assert aot_function(lambda x: x.t(), lambda module, inputs: module)(x).data_ptr() == x.data_ptr()


def test_aot_function_writes_into_inputs():
    f = aot_function(lambda x: x.add_(1).sin(), lambda module, inputs: module)
    x = torch.zeros(2)
    assert torch.allclose(f(x), torch.ones(2).sin()) and x.tolist() == [1.0, 1.0]


def test_compile_fx_takes_modules_with_parameters():
    model = torch.nn.Linear(3, 2)
    traced = torch.fx.symbolic_trace(model)
    x = torch.randn(4, 3)
    run = compile_fx(traced, [x])
    run(x).sum().backward()
    assert torch.allclose(run(x), model(x)) and traced.weight.grad is not None
    with torch.no_grad():
        traced.weight.mul_(2)
    assert torch.allclose(run(x), model(x))


def test_aot_function_keeps_what_an_input_was_before_it_was_changed():
    def f(x, w):
        x.mul_(2)
        return (x * w).sum()

    x, w = torch.arange(1.0, 4.0), torch.ones(3, requires_grad=True)
    aot_function(f, lambda module, inputs: module)(x, w).backward()
    assert x.tolist() == [2, 4, 6] and w.grad.tolist() == [2, 4, 6]

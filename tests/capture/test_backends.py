"""Backends: by name, registered, as functions of graph modules; and the names around them."""
import collections

import pytest

import rushlight as torch
import rushlight._dynamo.config
from rushlight._dynamo.backends.common import aot_autograd
from rushlight._dynamo.testing import (AotEagerAndRecordGraphs, CompileCounter, CompileCounterWithBackend,
                                       EagerAndRecordGraphs, same)
from rushlight._src.core.settings import settings
from tests.fx.test_operators import close, step, training


def replacing(module, inputs):
    """Turns sin into cos, and compiles what comes out."""
    for node in module.graph.find_nodes(op="call_function", target=torch.sin):
        node.target = torch.cos
    module.recompile()
    return torch._inductor.compile_fx.compile_fx(module, inputs)


BACKENDS = ["eager", "aot_eager", "rushlight", "inductor", lambda module, inputs: module,
            lambda module, inputs: module.forward,
            CompileCounterWithBackend("inductor"), CompileCounterWithBackend("aot_eager"), EagerAndRecordGraphs(),
            AotEagerAndRecordGraphs(),
            aot_autograd(fw_compiler=lambda module, inputs: module), torch._inductor.compile_fx.compile_fx]


@pytest.mark.parametrize("backend", BACKENDS)
def test_training_under_every_backend(backend):
    model, x = training()
    wanted = step(model, model, x)
    assert close(step(torch.compile(model, backend=backend), model, x), wanted)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_vary_under_every_backend(backend):
    """A size that a call gives which no graph has is an input of the graph after it."""
    more = torch.compiler.disable(lambda n: n + 1)

    def f(x, w):
        n = more(x.size(1))
        y = (x * w).sin()
        return (y.new_zeros(y.size(0), n) + y.sum()) * 2

    run = torch.compile(f, backend=backend)
    for count in (3, 4, 5, 6):
        x, w = torch.ones(2, count), torch.ones(count, requires_grad=True)
        found = torch.autograd.grad(run(x, w).sum(), w)[0]
        assert close(found, torch.autograd.grad(f(x, w).sum(), w)[0])


def losses(backend):
    """Some steps of training, each step one compiled function."""
    model, x = training()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

    def whole():
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    run = torch.compile(whole, backend=backend) if backend else whole
    torch.manual_seed(4)
    return [run().item() for _ in range(3)]


@pytest.mark.parametrize("backend, check", [("aot_eager", ""), (lambda module, inputs: module, ""),
                                            (torch._inductor.compile_fx.compile_fx, ""), ("rushlight", "accuracy")])
def test_whole_steps_under_every_backend(backend, check):
    with settings.set(check=check):
        assert losses(backend) == pytest.approx(losses(None), rel=1e-5)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "rushlight", lambda module, inputs: module])
def test_writes_and_views_under_every_backend(backend):
    def f(x, y):
        x.add_(y)
        z = x.t()
        return z, x, (x * 2).sum()

    x, y = torch.ones(2, 3), torch.ones(3)
    z, same_x, total = torch.compile(f, backend=backend)(x, y)
    assert same_x is x and x.tolist() == [[2.0] * 3] * 2 and total.item() == 24
    z[0, 0] = 7
    assert x[0, 0].item() == 7


def test_a_backend_changes_the_program():
    f = torch.compile(lambda x: torch.sin(x) + 1, backend=replacing)
    assert torch.allclose(f(torch.zeros(3)), torch.full((3,), 2.0))


def test_the_graph_that_backends_get():
    kept = EagerAndRecordGraphs()
    torch.compile(lambda x, y: torch.relu(x @ y) * 2, backend=kept)(torch.ones(2, 3), torch.ones(3, 2))
    graph = kept.graphs[0].graph
    graph.lint()
    assert [n.op for n in graph.nodes] == ["placeholder"] * 2 + ["call_function"] * 3 + ["output"]
    relu = graph.find_nodes(op="call_function", target=torch.relu)[0]
    assert tuple(relu.meta["example_value"].shape) == (2, 2) and "test_backends.py" in relu.stack_trace
    assert 'x0: "f32[2, 3]"' in kept.graphs[0].print_readable(print_output=False)


def test_a_graph_with_varying_sizes():
    kept = EagerAndRecordGraphs()
    f = torch.compile(lambda x: x.reshape(x.shape[0] * 2, -1) + x.shape[0], backend=kept, dynamic=True)
    for n in (4, 6):
        assert f(torch.zeros(n, 2)).tolist() == [[float(n)]] * (2 * n)
    assert len(kept.graphs) == 1


def test_counters_and_registration():
    counter = CompileCounter()
    f = torch.compile(lambda x: (x.sin() + 1).sum(), backend=counter)
    f(torch.ones(2)), f(torch.ones(2))
    assert (counter.frame_count, counter.op_count) == (1, 3)

    @torch._dynamo.register_backend
    def mine_for_test(module, inputs):
        return module.forward

    assert "mine_for_test" in torch.compiler.list_backends() and torch.compile(lambda x: x + 1,
                                                                               backend="mine_for_test")(
                                                                                   torch.ones(1)).item() == 2
    with pytest.raises(ValueError, match="built in"):
        torch._dynamo.register_backend(mine_for_test, "eager")


def test_a_backend_that_returns_nothing():
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="cannot be called"):
        torch.compile(lambda x: x + 1, backend=lambda module, inputs: None)(torch.ones(1))


def test_config_is_patched_for_a_block():
    config = torch._dynamo.config
    before = config.recompile_limit
    with config.patch(cache_size_limit=3, verbose=True):
        assert config.recompile_limit == 3 and config.verbose
    assert config.recompile_limit == before and not config.verbose
    with pytest.raises(AttributeError, match="no setting 'nothing'"):
        config.nothing = 1


def test_same():
    x = torch.ones(2)
    assert same([x, {"a": x}],
                [x + 1e-7, {"a": x}]) and not same(x, x + 1) and not same((x,), {0: x}) and not same(x, torch.ones(3))
    pairs = [collections.namedtuple("Pair", "a b")(x, 1) for _ in range(2)]
    assert same(*pairs) and same(pairs[0], [x, 1]) and not same(pairs[0], [x, 2]) and not same([x], [x, x])


def test_dynamo_export():
    module, guards = torch._dynamo.export(lambda x, *rest, k=1: {"a": x.sin() + k, "b": rest[0].item(),
                                                                 "n": torch.ones(2 * x.shape[0])})(
        torch.zeros(2), torch.tensor(4), k=3)
    found = module(torch.zeros(3), torch.tensor(5), k=3)
    assert found["a"].tolist() == [3.0] * 3 and found["b"] == 5 and found["n"].shape == (6,) and guards


def failing(module, inputs):
    raise KeyError("nothing")


def test_a_backend_that_fails():
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="backend='failing' raised") as caught:
        torch.compile(lambda x: x + 1, backend=failing)(torch.ones(1))
    assert isinstance(caught.value.inner_exception, KeyError)
    with torch._dynamo.config.patch(suppress_errors=True), pytest.warns(UserWarning, match="compiling it failed"):
        assert torch.compile(lambda x: x + 1, backend=failing)(torch.ones(1)).item() == 2


def test_mode_and_options_reach_users_backends():
    seen = []

    def mine(module, inputs, **named):
        seen.append(named)
        return module.forward

    torch.compile(lambda x: x + 1, backend=mine, mode="reduce-overhead")(torch.ones(1))
    torch.compile(lambda x: x + 1, backend=mine, options={"level": 3})(torch.ones(1))
    torch.compile(lambda x: x + 1, backend=mine)(torch.ones(1))
    assert seen == [{"mode": "reduce-overhead"}, {"options": {"level": 3}}, {}]


def test_config_of_the_compiler():
    config = torch._inductor.config
    with config.patch({"freezing": True, "triton.cudagraphs": True}):
        assert config.freezing and config.triton.cudagraphs
        assert torch.compile(lambda x: x).owner.options == {"freezing": True}
    assert not config.freezing and not config.triton.cudagraphs and torch.compile(lambda x: x).owner.options == {}
    with pytest.raises(AttributeError, match="did you mean 'max_autotune'"):
        config.max_autotun = True
    with pytest.raises(AttributeError, match="no setting 'triton.nothing'"), config.patch({"triton.nothing": 1}):
        pass
    assert torch._functorch.config.donated_buffer and torch.compiler.config.job_id is None
    assert "max_autotune" in torch._inductor.list_options() and torch._inductor.list_mode_options("max-autotune") == {
        "max_autotune": True, "launch_graphs": True}


def test_backends_of_boxed_functions_whose_results_are_views_of_inputs():
    from rushlight._dynamo.backends.common import aot_autograd
    from rushlight.functorch.compile import make_boxed_compiler, make_boxed_func, nop

    def f(x, y):
        return x, y.view(2, 2), y[1:], (x * y).sum()

    for compiler in (lambda module, inputs: make_boxed_func(module.forward), make_boxed_compiler(nop)):
        x, y = torch.ones(4, requires_grad=True), torch.arange(4.0, requires_grad=True)
        same, shown, part, total = torch.compile(f, backend=aot_autograd(fw_compiler=compiler))(x, y)
        (total + part.sum()).backward()
        assert same is x and shown.data_ptr() == y.data_ptr() and torch.equal(
            x.grad, y.detach()) and y.grad.tolist() == [1, 2, 2, 2]


def test_compile_fx_of_a_graph_that_checks_elements():
    from rushlight._inductor.compile_fx import compile_fx
    compiled = rushlight.compile(lambda x: rushlight.nn.functional.one_hot(x, 3) * 2, backend=compile_fx)
    assert compiled(rushlight.tensor([0, 2])).tolist() == [[2, 0, 0], [0, 0, 2]]
    with pytest.raises(RuntimeError):
        compiled(rushlight.tensor([0, 3]))

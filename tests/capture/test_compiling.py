"""The public names: compile and its options, compiler.*, _dynamo.*."""
import copy
import os
import pickle

import pytest

import rushlight as torch
import rushlight.nn as nn


def test_decorator_forms():
    @torch.compile
    def f(x):
        return x + 1

    @torch.compile(fullgraph=True, dynamic=False)
    def g(x, *, k=2):
        """Doc."""
        return x * k

    assert torch.equal(f(torch.ones(2)), torch.full((2,), 2.0))
    assert torch.equal(g(torch.ones(2), k=3), torch.full((2,), 3.0)) and g.__doc__ == "Doc." and g.__name__ == "g"


def test_methods_callables_and_bound_arguments():
    class Model:
        def __init__(self):
            self.k = 2

        @torch.compile
        def method(self, x):
            return x * self.k

        def __call__(self, x):
            return x + self.k

    model = Model()
    assert torch.equal(model.method(torch.ones(2)), torch.full((2,), 2.0))
    assert torch.equal(torch.compile(model)(torch.ones(2)), torch.full((2,), 3.0))
    assert torch.equal(torch.compile(model.method)(torch.ones(2)), torch.full((2,), 2.0))


def test_wrong_arguments():
    with pytest.raises(TypeError, match="function or a module"):
        torch.compile(3)
    with pytest.raises(ValueError, match="no backend 'nothing'"):
        torch.compile(lambda x: x, backend="nothing")
    with pytest.raises(TypeError, match="missing"):
        torch.compile(lambda x: x)()


def test_disable_leaves_the_original_as_it_is():
    def inner(x):
        return x.item()

    outer = torch.compiler.disable(inner)
    compiled = torch.compile(lambda x: x + outer(x))
    assert compiled(torch.ones(())) == 2 and inner is not outer
    assert [b.code for b in compiled.owner.stats.breaks] == ["RB006"]
    assert torch.compile(lambda x: x, disable=True)(3) == 3

    @torch.compiler.disable()
    def third(x):
        return x * 3

    @torch.compiler.disable(recursive=False)
    def fourth(x):
        return third(x)

    assert torch.compile(lambda x: fourth(x))(torch.ones(1)) == 3


def test_is_compiling():
    def f(x):
        return x + (1 if torch.compiler.is_compiling() else 0)

    assert f(torch.zeros(1)) == 0 and torch.compile(f)(torch.zeros(1)) == 1


def test_allow_in_graph_and_constant_results():
    calls = []

    @torch.compiler.allow_in_graph
    def opaque(x):
        calls.append(1)
        return [x.sin(), x.cos()][0]

    @torch.compiler.assume_constant_result
    def setting():
        calls.append(2)
        return 3

    compiled = torch.compile(lambda x: opaque(x) * setting(), fullgraph=True)
    for _ in range(3):
        assert torch.allclose(compiled(torch.ones(2)), torch.ones(2).sin() * 3)
    assert calls.count(2) == 1
    compiled, calls[:] = torch.compile(lambda x: opaque(x * 2) + 1, fullgraph=True, backend="eager"), []
    for _ in range(3):
        before = len(calls)
        assert torch.allclose(compiled(torch.ones(2)), torch.full((2,), 2.0).sin() + 1)
    assert len(calls) == before + 1  # one node, which calls the function


def test_an_allowed_function_without_tensors_is_called_in_its_place():
    seen = []

    @torch.compiler.allow_in_graph
    def mode():
        seen.append(torch.is_grad_enabled())

    def f(x):
        mode()
        torch.set_grad_enabled(False)
        mode()
        return x + 1

    for function in (f, torch.compile(f, backend="eager", fullgraph=True), torch.compile(f, fullgraph=True)):
        for _ in range(2):
            seen.clear()
            with torch.enable_grad():
                function(torch.ones(1))
        assert seen == [True, False]


def test_a_backward_pass_in_a_function_that_switches_recording_on():
    def f(x):
        with torch.enable_grad():
            x.sin().sum().backward()
        return x.grad * 1

    for backend in ("eager", "rushlight"):
        x = torch.ones(2, requires_grad=True)
        with torch.no_grad():
            assert torch.allclose(torch.compile(f, backend=backend)(x), x.cos())


def test_backends_get_a_graph_and_inputs():
    seen = []

    def backend(module, inputs, *, options):
        seen.append((len(module.graph.find_nodes(op="call_function")), [tuple(x.shape) for x in inputs],
                     options["verbose"], "relu" in module.code))
        return module.forward

    compiled = torch.compile(lambda x, y: (x + y).relu(), backend=backend, options={"verbose": True})
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2), torch.ones(2)), torch.full((2,), 2.0))
    assert seen == [(2, [(2,), (2,)], True, True)]
    assert {"eager", "rushlight", "inductor"} <= set(torch.compiler.list_backends(None))


def test_nodes_know_the_line():
    compiled = torch.compile(lambda x: x.sin(), backend="eager")
    compiled(torch.ones(1))
    (node,) = compiled.owner.stats.graphs[0].graph.nodes
    assert node.where == (__file__, compiled.__wrapped__.__code__.co_firstlineno)


def test_explain():
    def f(x):
        y = x + 1
        os.getpid()
        return y * 2

    found = torch._dynamo.explain(f)(torch.ones(2))
    assert (found.graph_count, found.graph_break_count, found.op_count) == (2, 1, 2)
    text = str(found)
    assert "RB001" in text and "add" in text and "V[0]._rush_meta" in text and torch.equal(found.result,
                                                                                           torch.full((2,), 4.0))


def test_calls_that_count_uses_stay_in_the_graph():
    def f(x):
        torch._C._log_api_usage_once("mine.f")
        y = x + 1
        torch._C._log_api_usage_once(f"mine.{len(x.shape)}")
        return y * 2

    assert torch._dynamo.explain(f)(torch.ones(2)).graph_break_count == 0


def test_context_of_a_compiled_module_compiles_functions():
    compiled = torch.compile(torch.nn.Linear(2, 2), backend="eager")
    module, x = compiled._orig_mod, torch.ones(1, 2)
    wanted, module.forward = module(x), compiled.dynamo_ctx(module.forward)
    before = len(compiled.owner.stats.graphs)
    assert torch.equal(module(x), wanted) and len(compiled.owner.stats.graphs) == before + 1


def test_reset_and_counters():
    compiled = torch.compile(lambda x: x + 1)
    compiled(torch.ones(1))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] >= 1
    torch._dynamo.reset()
    assert compiled.owner.stats.segments == 0 and not torch._dynamo.utils.counters
    assert compiled(torch.ones(1)) == 2 and compiled.owner.stats.segments == 1


def test_recompile_limit_setting():
    before = torch._dynamo.config.recompile_limit
    torch._dynamo.config.recompile_limit = 2
    try:
        compiled = torch.compile(lambda x, s: x + len(s))
        with pytest.warns(UserWarning, match="captured 2 times"):
            for k in range(4):
                assert compiled(torch.zeros(1), "a" * k) == k
    finally:
        torch._dynamo.config.recompile_limit = before


def test_compiled_functions_inside_compiled_functions():
    inner = torch.compile(lambda x: x * 2)
    outer = torch.compile(lambda x: inner(x) + 1)
    assert outer(torch.ones(1)) == 3 and len(outer.owner.stats.graphs) == 1 and not inner.owner.stats.graphs


def test_generators_are_left_alone():
    @torch.compile
    def items(x):
        yield x + 1

    assert [v.item() for v in items(torch.ones(1))] == [2.0]


def test_no_memory_of_dead_functions():
    import gc
    import weakref

    model = nn.Linear(2, 2)
    compiled = torch.compile(model)
    compiled(torch.ones(1, 2))
    gone = weakref.ref(model)
    del model, compiled
    gc.collect()
    assert gone() is None


def test_threads():
    import threading

    compiled = torch.compile(lambda x, k: (x * 2 + k).sum())
    results = []

    def work(n):
        for k in range(5):
            results.append((compiled(torch.ones(n + 2), k), 2 * (n + 2) + k * (n + 2)))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 20 and all(a == b for a, b in results)


def test_errors_of_graphs_tell_lines():
    def f(x, i):
        return x[i] * 2

    compiled = torch.compile(f)
    with pytest.raises(IndexError) as caught:
        compiled(torch.ones(2), torch.tensor([5]))
    line = f.__code__.co_firstlineno + 1
    assert f"{__file__}, lines {line} to {line}" in caught.value.__notes__[0]


def test_errors_of_calls_and_guards_use_the_names_of_the_program():
    compiled = torch.compile(lambda x, scale: x * len(scale), backend="eager")
    with pytest.raises(TypeError, match=r"<lambda>\(\) missing 1 required positional argument: 'scale'"):
        compiled(torch.ones(1))
    compiled(torch.ones(1), "a")
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="scale == 'a'"):
        compiled(torch.ones(1), "bb")
    torch.compiler.set_stance("default")


def test_forward_mode_through_compiled_code():
    value, tangent = torch.func.jvp(torch.compile(lambda x: x ** 2), (torch.arange(3.0),), (torch.ones(3),))
    assert value.tolist() == [0, 1, 4] and tangent.tolist() == [0, 2, 4]


def test_hooks_of_the_compiled_module():
    compiled = torch.compile(nn.Linear(2, 2))
    x = torch.ones(1, 2, requires_grad=True)
    plain = compiled(x).detach()
    handles = [compiled.register_forward_hook(lambda module, inputs, output: output * 10),
               compiled.register_full_backward_hook(lambda module, before, after: (before[0] * 3,))]
    y = compiled(x)
    y.sum().backward()
    assert torch.allclose(y, plain * 10) and torch.allclose(x.grad, 30 * compiled.weight.detach().sum(0, keepdim=True))
    for handle in handles:
        handle.remove()
    assert torch.equal(compiled(x), plain)


def test_mode_of_the_compiled_module():
    model = nn.Sequential(nn.Dropout(0.5))
    compiled = torch.compile(model)
    compiled.eval()
    assert not compiled.training and not model[0].training
    model.train()
    assert compiled.training


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_copies_of_the_compiled_module(copied):
    compiled = torch.compile(nn.Linear(2, 2), dynamic=False, backend="eager")
    x = torch.ones(1, 2)
    before = compiled(x)
    other = copied(compiled)
    assert torch.equal(other(x), before) and type(other) is type(
        compiled) and other.owner is not compiled.owner and other.owner.dynamic is False
    with torch.no_grad():
        other.weight.zero_()
    assert torch.equal(compiled(x), before) and not torch.equal(other(x), before)


def test_compile_in_compiled_code():
    """It gives what it is given, which is followed: one graph, whatever form the call has."""
    inner, layer = (lambda x, c=None: x * (2 if c is None else c)), nn.Linear(3, 2)
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module

    @torch.compile(backend=backend, fullgraph=True)
    def f(x):
        return torch.compile(layer)(torch.compile(inner, backend="eager")(x)
                                    + torch.compile(backend="eager")(inner)(x, 3))

    x = torch.randn(4, 3)
    torch.testing.assert_close(f(x), layer(x * 5))
    assert len(graphs) == 1


def test_attributes_of_threads():
    """``threading.local`` has no ``__dict__`` in its layout, but takes attributes."""
    import threading
    held = threading.local()

    @torch.compile(fullgraph=True)
    def f(x, held):
        held.x = x
        return x + held.x

    x = torch.ones(2)
    assert torch.equal(f(x, held), torch.full((2,), 2.0)) and held.x is x


def test_types_of_results_are_made_of_sequences():
    x, y = torch.ones(2), torch.zeros(2)
    for make in (torch.return_types.max, torch.return_types.qr):
        found = make((x, y))
        assert found[0] is x and found == make([x, y])[:] and make(found)[1] is y
        compiled = torch.compile(lambda x, y: make((x + 1, y)), fullgraph=True)(x, y)
        assert type(compiled) is make and torch.equal(compiled[0], x + 1)
    with pytest.raises(TypeError, match=r"takes a 2-sequence \(1-sequence given\)"):
        torch.return_types.max((x,))
    with pytest.raises(TypeError, match="requires a sequence"):
        torch.return_types.max(1)
    assert pickle.loads(pickle.dumps(torch.return_types.max((1, 2)))) == (1, 2)


@pytest.mark.parametrize("make, x", [
    (lambda: nn.LazyLinear(3), torch.ones(2, 5)), (lambda: nn.LazyConvTranspose2d(4, 3), torch.randn(2, 3, 6, 6)),
    (lambda: nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2)).eval(),
     torch.randn(2, 3, 6, 6))])
def test_modules_that_learn_shapes(make, x):
    """They learn them while capturing: one graph."""
    module = make()
    found = torch.compile(module, fullgraph=True)(x)
    assert torch.allclose(found, module(x), atol=1e-5)
    assert not any(isinstance(m, nn.modules.lazy.LazyModuleMixin) for m in module.modules())
    loaded = make()
    loaded.load_state_dict(module.state_dict())
    assert torch.allclose(loaded(x), found, atol=1e-5)


def test_own_module_that_learns_shapes():
    class Scale(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def initialize_parameters(self, xs):
            self.weight = nn.Parameter(torch.full(xs[0].shape, 0.5))

        def forward(self, xs):
            return sum(xs) * self.weight

    scale, xs = Scale(), [torch.randn(2, 3)] * 2
    found = torch.compile(scale, fullgraph=True)(xs)
    assert torch.equal(found, xs[0] + xs[1] - found) and scale.weight.shape == (2, 3)

"""What steers compiled code: default backends, functions that stand for others, filters of guards, stances, forbidden
functions."""
import operator
import warnings

import pytest

import rushlight as torch

SCALE = 2.0


@pytest.fixture(autouse=True)
def untouched():
    yield
    torch.compiler.set_stance("default")
    torch.compiler.set_default_backend(None)


def test_the_default_backend():
    seen = []

    def backend(module, inputs):
        seen.append(module)
        return module.forward

    assert torch.compiler.get_default_backend() == "rushlight"
    torch.compiler.set_default_backend(backend)
    assert torch.compile(lambda x: x + 1)(torch.zeros(1)).item() == 1 and len(seen) == 1
    with pytest.raises(ValueError, match="no backend 'nothing'"):
        torch.compiler.set_default_backend("nothing")


def test_a_function_stands_for_another():
    def reached(a, b, /):
        return a.index(b) + 100

    with pytest.raises(TypeError, match="signature"):
        torch.compiler.substitute_in_graph(operator.countOf)(lambda only: 0)
    with pytest.raises(TypeError, match="expects a function"):
        torch.compiler.substitute_in_graph(3)
    torch.compiler.substitute_in_graph(operator.countOf)(reached)
    f = lambda x: x + operator.countOf([4, 5], 5)
    assert torch.compile(f, fullgraph=True)(torch.zeros(())).item() == 101 and f(torch.zeros(())).item() == 1
    with pytest.raises(ValueError, match="already"):
        torch.compiler.substitute_in_graph(operator.countOf)(reached)


def test_numpy_functions():
    import numpy as np

    @torch.compiler.wrap_numpy
    def f(a, more):
        return np.sort(a)[::-1] + more["b"], a.sum()

    compiled = torch.compile(lambda x: f(x * 2, {"b": x})[0] + 1)
    assert compiled(torch.tensor([1.0, 3.0])).tolist() == [8.0, 6.0]
    with pytest.raises(RuntimeError, match="requires grad"):
        f(torch.ones(2, requires_grad=True), {"b": torch.ones(2)})


@pytest.mark.parametrize("keep,stale", [("skip_guard_on_globals_unsafe", True), ("skip_all_guards_unsafe", True),
                                        ("keep_tensor_guards_unsafe", True),
                                        ("skip_guard_on_all_nn_modules_unsafe", False)])
def test_filters_of_guards(keep, stale):
    global SCALE
    compiled = torch.compile(lambda x: x * SCALE, options={"guard_filter_fn": getattr(torch.compiler, keep)})
    SCALE = 2.0
    assert compiled(torch.ones(())).item() == 2
    SCALE = 3.0
    assert compiled(torch.ones(())).item() == (2 if stale else 3)


def test_functions_kept_out_of_graphs():
    def helper(x):
        return x * 2

    torch._dynamo.disallow_in_graph(helper)
    compiled = torch.compile(lambda x: helper(x + 1) + 1, backend="eager")
    assert compiled(torch.ones(())).item() == 5 and [b.code for b in compiled.owner.stats.breaks] == ["RB006"]
    torch._dynamo.forbid_in_graph([helper])
    with pytest.raises(RuntimeError, match="helper.. was called in compiled code"):
        torch.compile(lambda x: helper(x))(torch.ones(()))
    torch._dynamo.disallow_in_graph(torch.sub)
    try:
        compiled = torch.compile(lambda x: torch.sub(x + 1, 1) * 2, backend="eager")
        assert compiled(torch.ones(())).item() == 2 and len(compiled.owner.stats.graphs) == 2
    finally:
        torch._dynamo.allow_in_graph(torch.sub)


def test_skipping_a_frame():
    def f(x):
        y = x + 1
        torch._dynamo.skip_frame("for now")
        return y * 2 + 1

    compiled = torch.compile(f, backend="eager")
    assert compiled(torch.ones(())).item() == f(torch.ones(())).item() == 5
    assert len(compiled.owner.stats.graphs) == 1


def test_stances():
    def make():
        return torch.compile(lambda x, n: x + n, backend="eager")

    f = make()
    with torch.compiler.set_stance("eager_then_compile"):
        assert f(torch.ones(()), 1).item() == 2 and not f.owner.stats.segments
        assert f(torch.ones(()), 1).item() == 2 and f.owner.stats.segments == 1
    run = torch._dynamo.run(f)
    assert run(torch.ones(2), "no" and 5).tolist() == [6, 6] and f.owner.stats.segments == 1
    with torch._dynamo.config.patch(error_on_recompile=True), pytest.raises(RuntimeError, match="captured again"):
        f(torch.ones(2), 5)
    with pytest.raises(RuntimeError, match="unknown stance"):
        torch.compiler.set_stance("nothing")


def test_breaks_as_errors():
    def f(x):
        torch._dynamo.graph_break()
        return x + 1

    with torch._dynamo.error_on_graph_break(True), pytest.raises(RuntimeError, match="RB006"):
        torch.compile(f)(torch.ones(1))
    assert torch.compile(f)(torch.ones(1)).item() == 2


def test_the_limit_as_an_error():
    with torch._dynamo.config.patch(recompile_limit=2, fail_on_recompile_limit_hit=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        f = torch.compile(lambda x, name: x + len(name), backend="eager")
        with pytest.raises(RuntimeError, match="captured 2 times"):
            for name in "abcd":
                f(torch.ones(1), name)


def test_names_without_an_effect():
    torch._dynamo.mark_static_address(torch.ones(1))
    with pytest.raises(TypeError):
        torch._dynamo.mark_static_address(3)
    with torch._dynamo.patch_dynamo_config(verbose=True):
        assert torch._dynamo.config.verbose

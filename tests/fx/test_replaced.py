"""What tracing and rewriting leave as it is: calls of modules, functions wrapped twice, gradients of folded values."""
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
import rushlight.fx.experimental.const_fold  # noqa: E402


def helper(x):
    return x + 1


rushlight.fx.wrap("helper")
rushlight.fx.wrap("helper")


def test_a_function_wrapped_twice_is_the_target():
    graph = rushlight.fx.symbolic_trace(lambda x: helper(x)).graph
    assert [node.target for node in graph.nodes if node.op == "call_function"] == [helper]


def logging(library):
    """A module that notes its calls, then negates, traced with all its modules as leaves."""
    class Log(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = []

        def forward(self, x):
            self.seen.append(1)

    class Logged(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.log = Log()

        def forward(self, x):
            self.log(x)
            return library.neg(x)

    class Leaves(library.fx.Tracer):
        def is_leaf_module(self, m, name):
            return True

    root = Logged()
    return library.fx.GraphModule(root, Leaves().trace(root))


def test_replacements_keep_modules_without_readers():
    kinds = []
    for library in (torch, rushlight):
        module = library.fx.symbolic_trace(lambda x: library.relu(x))
        replacement = logging(library)
        before = [node.op for node in replacement.graph.nodes]
        library.fx.replace_pattern(module, lambda x: library.relu(x), replacement)
        assert [node.op for node in replacement.graph.nodes] == before
        kinds.append([node.op for node in module.graph.nodes])
    assert kinds[0] == kinds[1] and "call_module" in kinds[0]


@pytest.mark.parametrize("what", ["gradient", "number"])
def test_folded_values(what):
    found = []
    for library in (torch, rushlight):
        class Module(library.nn.Module):
            def __init__(self):
                super().__init__()
                self.w = library.nn.Parameter(library.ones(3))

            def forward(self, x):
                return x * (self.w + 1) if what == "gradient" else x * self.w.size(0)

        folded = library.fx.experimental.const_fold.split_const_subgraphs(Module())
        result = folded(library.ones(3))
        found.append((result.tolist(), [p.requires_grad for p in folded.parameters()]))
    assert found[0] == found[1]

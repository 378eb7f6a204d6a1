"""Graphs changed by hand: nodes put in, moved, replaced and removed; what lint refuses; patterns; passes."""
import pytest
import torch as judge

import rushlight as torch
from rushlight import fx
from rushlight.fx.passes.infra.pass_base import PassBase, PassResult
from rushlight.fx.passes.infra.pass_manager import PassManager
from rushlight.fx.passes.shape_prop import ShapeProp


def names(graph):
    return [n.name for n in graph.nodes]


def built(library):
    """The same graph in either framework."""
    graph = library.fx.Graph()
    x = graph.placeholder("x")
    a = graph.call_function(library.sin, (x,))
    b = graph.call_method("cos", (a,))
    graph.output((b, a))
    with graph.inserting_before(b):
        graph.call_function(library.exp, (a,))
        graph.call_function(library.exp, (a,))
    with graph.inserting_after(a):
        graph.call_function(library.neg, (a,), name="first")
        graph.call_function(library.neg, (a,), name="second")
    with graph.inserting_before():
        graph.placeholder("w")
    return graph


def test_places_and_names_as_the_judge_has_them():
    assert names(built(torch)) == names(built(judge))


def test_erasing_and_replacing():
    graph = built(torch)
    a = graph.find_nodes(op="call_function", target=torch.sin)[0]
    with pytest.raises(RuntimeError, match="still had"):
        graph.erase_node(a)
    with graph.inserting_after(a):
        tanh = graph.call_function(torch.tanh, (a.args[0],))
    changed = a.replace_all_uses_with(tanh)
    graph.erase_node(a)
    graph.lint()
    assert len(changed) == 6 and not a.users and len(tanh.users) == 6 and "sin" not in names(graph)
    assert graph.eliminate_dead_code() and names(graph) == ["w", "x", "tanh", "cos", "output"] and len(graph.nodes) == 5
    assert names(graph)[::-1] == [n.name for n in reversed(graph.nodes)]


def test_dead_code_keeps_what_writes():
    module = fx.symbolic_trace(lambda x: (x.add_(1), torch.sin(x), x)[2])
    module.graph.eliminate_dead_code()
    assert [n.name for n in module.graph.nodes] == ["x", "add_", "output"]


def test_removing_while_iterating():
    graph = built(torch)
    for node in reversed(graph.nodes):
        if not node.users and node.op not in ("placeholder", "output"):
            graph.erase_node(node)
    for node in graph.nodes:
        assert node.op in ("placeholder", "output") or node.users


def test_lint():
    graph, other = built(torch), built(torch)
    sin = graph.find_nodes(op="call_function", target=torch.sin)[0]
    sin.args = (other.find_nodes(op="placeholder")[0],)
    with pytest.raises(RuntimeError, match="does not belong to this Graph"):
        graph.lint()
    graph = built(torch)
    first = graph.find_nodes(op="placeholder", target="x")[0]
    graph.output_node().prepend(first)
    with pytest.raises(RuntimeError, match="before it has been defined"):
        graph.lint()
    module = torch.nn.Linear(2, 2)
    graph = fx.Graph()
    graph.output(graph.get_attr("weight"))
    made = fx.GraphModule(module, graph)
    made.graph.get_attr("nothing")
    with pytest.raises(RuntimeError, match="nonexistent attribute nothing"):
        made.graph.lint()


def test_arguments_refuse_changes_in_place():
    graph = fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_function(torch.cat, ([x, x],))
    with pytest.raises(NotImplementedError, match="does not support mutation"):
        node.args[0].append(x)
    with pytest.raises(NotImplementedError, match="does not support mutation"):
        node.kwargs["dim"] = 1
    node.update_kwarg("dim", 1)
    node.insert_arg(1, 0)
    assert node.args[1] == 0 and node.kwargs == {"dim": 1}
    with pytest.raises(AssertionError, match="no opcode 'nothing'"):
        graph.create_node("nothing", "x")
    with pytest.raises(ValueError, match="Callable is expected"):
        graph.call_function("sin", (x,))


def test_listing_and_table(capsys):
    graph = built(torch)
    graph.print_tabular()
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["opcode", "name", "target", "args",
                                "kwargs"] and shown[3].split()[:3] == ["placeholder", "x", "x"]
    assert "%sin : [num_users=6] = call_function[target=torch.sin](args = (%x,), kwargs = {})" in str(graph)


def pairs(library):
    """Matches and resulting node names of some replacements."""
    found = []
    cases = [
        (lambda x, w1, w2: x + library.max(library.cat([w1, w2]).sum()) + library.max(library.cat([w1, w2]).sum()),
         lambda w1, w2: library.cat([w1, w2]).sum(), lambda w1, w2: library.stack([w1, w2])),
        (lambda x: library.neg(library.neg(library.neg(library.neg(x)))), lambda x: library.neg(library.neg(x)),
         lambda x: library.abs(x)),
        (lambda x: library.relu(x) + library.relu(x * 2), lambda x: library.relu(x), lambda x: library.sigmoid(x)),
        (lambda x: library.sin(x) + library.sin(x).cos(), lambda x: library.sin(x).cos(), lambda x: x.exp()),
        (lambda x, y: (x + y) * x, lambda a, b: a * b, lambda a, b: b / a),
        (lambda x: (library.sin(x).cos(), library.sin(x)), lambda x: library.tan(x), lambda x: x),
    ]
    for function, pattern, replacement in cases:
        module = library.fx.symbolic_trace(function)
        count = len(library.fx.replace_pattern(module, pattern, replacement))
        module.graph.lint()
        found.append((count, [getattr(n.target, "__name__", n.target) for n in module.graph.nodes]))
    return found


def test_patterns_as_the_judge_replaces_them():
    assert pairs(torch) == pairs(judge)


def test_a_pattern_whose_inside_is_used_elsewhere_stays():
    def f(x):
        a = torch.sin(x)
        return a.cos() + a

    module = fx.symbolic_trace(f)
    assert fx.replace_pattern(module, lambda x: torch.sin(x).cos(), lambda x: x) == []


def test_patterns_of_modules_bring_their_modules():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    traced = fx.symbolic_trace(model)
    node = traced.graph.find_nodes(op="call_module", target="1")[0]
    traced.add_submodule("smooth.inner", torch.nn.Tanh())
    node.target = "smooth.inner"
    traced.delete_all_unused_submodules()
    traced.recompile()
    assert [n for n, _ in traced.named_modules()] == ["", "0", "smooth", "smooth.inner"]
    x = torch.randn(3, 2)
    assert torch.equal(traced(x), torch.tanh(model[0](x)))


def test_shapes_are_noted():
    module = fx.symbolic_trace(lambda x: x.t().chunk(2))
    ShapeProp(module).propagate(torch.ones(2, 4))
    kept = [n.meta["tensor_meta"] for n in module.graph.nodes]
    assert tuple(kept[0].shape) == (2, 4) and tuple(kept[1].shape) == (4, 2) and kept[1].stride == (1, 4)
    assert [tuple(m.shape) for m in kept[2]] == [(2, 2), (2, 2)] and kept[0].memory_format is torch.contiguous_format


def test_passes_run_until_nothing_changes():
    class Halve(PassBase):
        def call(self, module):
            nodes = module.graph.find_nodes(op="call_function", target=torch.neg)
            if not nodes:
                return PassResult(module, False)
            nodes[-1].replace_all_uses_with(nodes[-1].args[0])
            module.graph.erase_node(nodes[-1])
            return PassResult(module, True)

    module = fx.symbolic_trace(lambda x: torch.neg(torch.neg(x)))
    result = PassManager([Halve()], steps=5)(module)
    assert result.modified and result.graph_module(torch.ones(1)).item() == 1


def test_text_can_be_changed_on_the_way():
    module = fx.symbolic_trace(lambda x: x + 1)
    with module.graph.on_generate_code(lambda before: lambda lines: [line.replace("+ 1", "+ 2") for line in lines]):
        module.recompile()
        assert module(torch.zeros(1)).item() == 2
    module.recompile()
    assert module(torch.zeros(1)).item() == 1


def test_folder(tmp_path, monkeypatch):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    fx.symbolic_trace(model).to_folder(tmp_path / "exported", "Mine")
    monkeypatch.syspath_prepend(str(tmp_path))
    import exported
    x = torch.randn(1, 2)
    assert torch.equal(exported.Mine()(x), model(x))


def test_interpreters_and_transformers():
    class Swap(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(torch.cos if target is torch.sin else target, args, kwargs)

    module = fx.symbolic_trace(lambda x: torch.sin(x) + 1)
    x = torch.randn(3)
    assert torch.equal(Swap(module).transform()(x), torch.cos(x) + 1)
    with pytest.raises(RuntimeError, match="positional argument for parameter x"):
        fx.Interpreter(module).run()
    add = module.graph.find_nodes(op="call_function")[1]
    assert fx.Interpreter(module).run(x, initial_env={add: 5}) == 5


def test_modules_share_the_graph_that_they_are_made_of():
    traced = fx.symbolic_trace(torch.nn.Linear(2, 2))
    other = fx.GraphModule(traced, traced.graph)
    assert other.graph is traced.graph and traced.graph.owning_module is other

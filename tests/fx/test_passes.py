"""Passes: which nodes a backend takes, groups of them as submodules, order, sizes, sources; each beside PyTorch's."""
import importlib
import operator

import pytest
import torch as judge

import rushlight as torch


def of(lib, path):
    return importlib.import_module(f"{lib.__name__}.fx.{path}")


def example(lib):
    def program(x, y):
        a = lib.sin(x) + y
        b = lib.relu(a)
        c = lib.cos(b) * a
        return c.sum(0) + b, lib.exp(y)

    return lib.fx.symbolic_trace(program)


def both(result):
    return [result(lib) for lib in (torch, judge)]


GROUPS = [("sin", "add"), ("sin", "add", "relu", "cos", "mul"), ("sin", "cos", "mul", "sum_1"), ("add", "mul"),
          ("exp", "relu", "sin")]


@pytest.mark.parametrize("names", GROUPS, ids=" ".join)
@pytest.mark.parametrize("single", [False, True])
def test_groups_compute_what_their_nodes_did(names, single):
    def result(lib):
        module, x, y = example(lib), lib.linspace(-1, 1, 6).reshape(2, 3), lib.linspace(0, 2, 3)
        expected = module(x, y)
        support = of(lib, "passes.operator_support").create_op_support(lambda modules, node: node.name in names)
        maker = of(lib, "passes.infra.partitioner").CapabilityBasedPartitioner(module, support,
                                                                               allows_single_node_partition=single)
        groups = maker.propose_partitions()
        fused = maker.fuse_partitions(groups)
        for a, b in zip(fused(x, y), expected):
            assert lib.allclose(a, b)
        return sorted(sorted(n.name for n in g.nodes)
                      for g in groups), sorted(name for name, _ in fused.named_children())

    ours, theirs = both(result)
    assert ours == theirs


def test_supports():
    def result(lib):
        support, module = of(lib, "passes.operator_support"), example(lib)
        of(lib, "passes.shape_prop").ShapeProp(module).propagate(lib.ones(2, 3), lib.ones(3))
        some = support.OperatorSupport({"_operator.add": None, "sum": (((lib.float32,),), {})})
        none = support.OperatorSupport({"sum": (((lib.float64,),), {})})
        kinds = [some, none, support.chain(some, none), support.any_chain(some, none),
                 support.OpSupports.decline_if_input_dtype(lib.float32),
                 support.OpSupports.decline_if_node_in_names({"relu"})]
        return [[k.is_node_supported({}, n) for n in module.graph.nodes] for k in kinds]

    ours, theirs = both(result)
    assert ours == theirs


def test_order_is_mended():
    def result(lib):
        module = example(lib)
        nodes = {n.name: n for n in module.graph.nodes}
        nodes["output"].prepend(nodes["sin"])
        tools = of(lib, "passes.tools_common")
        stable = [n.name for n in tools.stable_topological_sort(module).graph.nodes]
        module.graph.lint()
        tools.legalize_graph(module).graph.lint()
        return stable, [tools.get_node_target({}, n) for n in module.graph.nodes if n.target in (operator.add, "sum")]

    ours, theirs = both(result)
    assert ours == theirs


def test_lifted_parts():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(2, 1)))
    traced = torch.fx.symbolic_trace(model)
    lifted, names = of(torch, "passes.utils.common").lift_subgraph_as_module(traced, traced.graph, "part")
    assert names == {"part.0": "0", "part.1.0": "1.0", "part.1.1": "1.1"} and torch.equal(lifted(torch.ones(3, 2)),
                                                                                          model(torch.ones(3, 2)))
    compare = of(torch, "passes.utils.common").compare_graphs
    assert compare(traced.graph, torch.fx.symbolic_trace(model).graph) and not compare(traced.graph,
                                                                                       example(torch).graph)


def test_sizes_and_targets():
    def result(lib):
        tools, module = of(lib, "passes.graph_manipulation"), example(lib)
        tools.replace_target_nodes_with(module, "call_function", lib.sin, "call_function", lib.cos)
        tools.get_size_of_all_nodes(module, [lib.ones(2, 3), lib.ones(3)])
        return [tuple(n.size_bytes) for n in module.graph.nodes if n.op != "output"], module(lib.zeros(1, 3),
                                                                                             lib.zeros(3))[1].tolist()

    ours, theirs = both(result)
    assert ours == theirs


def test_passes_in_order():
    def result(lib):
        tools, seen = of(lib, "passes.pass_manager"), []

        def first(m):
            seen.append("first")
            return m

        def second(m):
            seen.append("second")
            return m

        manager = tools.PassManager([first, tools.loop_pass(second, n_iter=2)],
                                    [tools.this_before_that_pass_constraint(first, second)])
        manager(example(lib))
        manager.add_constraint(tools.these_before_those_pass_constraint(second, first))
        with pytest.raises(RuntimeError, match="constraint"):
            manager(example(lib))
        manager.remove_pass(["second"])
        return seen, len(manager.passes), len(manager.constraints)

    ours, theirs = both(result)
    assert ours == theirs


def test_sources():
    def result(lib):
        tools, module = of(lib, "passes.utils.source_matcher_utils"), example(lib)
        for node in module.graph.nodes:
            if node.op == "call_function" and node.name in ("sin", "add", "relu"):
                node.meta["source_fn_stack"] = [("outer", "outer"),
                                                ("part" if node.name != "relu" else "act",
                                                 "Part" if node.name != "relu" else "Act")]
        found = tools.get_source_partitions(module.graph, ["Part", "Act", "None"])
        part, act = found["Part"][0], found["Act"][0]
        names = lambda nodes: sorted(n.name for n in nodes)
        return [(names(p.nodes), names(p.input_nodes), names(p.output_nodes))
                for p in (part, act)], tools.check_subgraphs_connected(part, act), tools.check_subgraphs_connected(
                        act, part)

    ours, theirs = both(result)
    assert ours == theirs


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_fused_normalization(rank):
    layers = torch.nn
    model = layers.Sequential(getattr(layers, f"Conv{rank}d")(2, 3, 2), getattr(layers, f"BatchNorm{rank}d")(3),
                              layers.Dropout(0.5), layers.ReLU()).eval()
    x = torch.randn(4, 2, *[5] * rank)
    model[1].running_mean.normal_()
    model[1].running_var.uniform_(0.5, 2)
    made = of(torch, "experimental.optimization").optimize_for_inference(model)
    assert [n.op for n in made.graph.nodes] == ["placeholder", "call_module", "call_module", "output"]
    torch.testing.assert_close(made(x), model(x), rtol=1e-4, atol=1e-5)

"""The stages from a traced call to launches, and what is checked after each."""
import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import rushlight as torch
from rushlight._src.compiler import math, pipeline
from rushlight._src.compiler.launch import Launch, decode, encode, starts
from rushlight._src.core.kinds import P
from rushlight._src.core.meta import Meta
from rushlight._src.core.settings import settings
from rushlight._src.graph.graph import Graph, Node, Store
from rushlight._src.graph.verify import Malformed, verify

WORD = some.integers(-2 ** 63, 2 ** 63 - 1)
LAUNCH = some.builds(Launch, WORD, WORD, WORD, some.lists(some.tuples(WORD, WORD), max_size=4).map(tuple))


@given(some.lists(LAUNCH, max_size=5))
def test_words_mean_launches(launches):
    words = encode(launches)
    assert list(decode(words)) == launches
    assert [words[at] for at in starts(words)] == [launch.kernel for launch in launches]


def test_the_processor_writes_the_operations_that_every_device_writes():
    from rushlight._src.devices.cpu.llvm.scalars import INSTRUCTIONS

    assert set(INSTRUCTIONS) == math.INSTRUCTIONS


def test_every_stage_says_what_it_takes_and_leaves():
    names = [stage.name for stage in pipeline.STAGES]
    assert len(set(names)) == len(names)
    for stage in pipeline.STAGES:
        assert "->" in stage.run.__doc__, stage.name


def step():
    x, w = torch.randn(5, 6), torch.randn(6, 7, requires_grad=True)
    torch.compile(lambda x, w: torch.softmax(x @ w, -1).square().sum())(x, w).backward()
    return x.numpy(), w.detach().numpy(), w.grad.numpy()


def test_all_stages_run_in_order_and_are_logged(caplog):
    torch._dynamo.reset()
    with settings.set(store=False), caplog.at_level(logging.DEBUG, "rushlight.stages"):
        step()
    seen = [r.getMessage().split(": ")[1] for r in caplog.records if r.name == "rushlight.stages"
            and r.getMessage().startswith("compiled:")]
    names = [stage.name for stage in pipeline.STAGES]
    assert seen == names, seen


@pytest.mark.parametrize("broken", [stage.name for stage in (*pipeline.DERIVING, *pipeline.PLANNING[:-1])])
def test_a_stage_that_breaks_a_rule_is_named(broken, monkeypatch):
    """Each stage in turn loses the first node of the program it leaves, which something reads: the check after it says
    so."""
    def breaking(stage):
        def run(c):
            stage.run(c)
            if len(c.graph.nodes) > 1:
                c.graph = Graph(c.graph.inputs, c.graph.nodes[1:], c.graph.outputs)
        return stage._replace(run=run) if stage.name == broken else stage

    for name in ("DERIVING", "PLANNING"):
        monkeypatch.setattr(pipeline, name, tuple(map(breaking, getattr(pipeline, name))))
    monkeypatch.setattr("rushlight._src.eager.programs.DERIVING", pipeline.DERIVING)
    torch._dynamo.reset()
    with settings.set(verify=True, store=False, recompile_limit=100), pytest.raises(Malformed, match=f"after {broken}"):
        x = torch.randn(3, 4, requires_grad=True)
        (torch.nn.functional.gelu(x) * 2.5).sum()


def node(op, *args, meta=None, **params):
    found = op.kind.meta(op, *[a.meta if isinstance(a, Node) else a for a in args], **params)
    return Node("y", op, args, params, meta or found)


def test_rules_of_programs():
    x, z = (Node(name, None, meta=Meta.of((2, 3), torch.float32)) for name in "xz")
    y = node(P.exp, x)
    verify(Graph([x], [y], [y]))
    wrong = node(P.exp, x, meta=Meta.of((2, 4), torch.float32))
    for graph, reason in [(Graph([], [y], [y]), "before it is computed"), (Graph([x], [], [y]), "is not computed"),
                          (Graph([x], [y, y], [y]), "twice"),
                          (Graph([x], [wrong], [wrong]), "gives"), (Graph([x], [y], [Store(y, z)]), "no input"),
                          (Graph([x], [y], [Store(y, x), Store(y, x)]), "stored into twice"),
                          (Graph([x, w := Node("w", None, meta=Meta.of((3,), torch.float32))], [y], [Store(y, w)]),
                           "of shape")]:
        with pytest.raises(Malformed, match=reason):
            verify(graph)


def double(graph):
    graph.nodes.append(graph.nodes[-1])


def resize(graph):
    graph.inputs[0].meta = Meta.of((2, 4), torch.float32)


def resize_result(graph):
    graph.nodes[1].meta = Meta.of((2, 4), torch.float32)


def retype(graph):
    graph.nodes[0].meta = graph.inputs[0].meta.like(dtype=torch.float64)


@pytest.mark.parametrize("change", [
    lambda graph: graph.nodes.reverse(), lambda graph: graph.nodes.pop(), lambda graph: graph.inputs.clear(),
    lambda graph: graph.outputs.append(Node("other", None, meta=graph.nodes[0].meta)), double, resize, resize_result,
    retype, lambda graph: graph.nodes[1].become(P.lt, graph.nodes[1].args),
    lambda graph: graph.nodes[1].become(P.add, (graph.nodes[0], graph.nodes[1])),
    lambda graph: graph.outputs.append(Store(graph.nodes[1], Node("other", None, meta=graph.nodes[0].meta))),
    lambda graph: graph.outputs.extend([Store(graph.nodes[1], graph.inputs[0])] * 2)])
def test_changes_of_a_verified_program_are_seen(change):
    """A program that kept the rules is checked anew if any part of it is replaced where it stands."""
    x = Node("x", None, meta=Meta.of((2, 3), torch.float32))
    y = node(P.exp, x)
    z = node(P.add, y, x)
    graph = Graph([x], [y, z], [z])
    verify(graph)
    verify(graph)
    change(graph)
    with pytest.raises(Malformed):
        verify(graph)


def test_results_are_the_same_under_verification():
    torch.manual_seed(0)
    with settings.set(verify=True, store=False):
        x, w, checked = step()
    w = torch.from_numpy(w.copy()).requires_grad_()
    torch.softmax(torch.from_numpy(x) @ w, -1).square().sum().backward()
    np.testing.assert_allclose(checked, w.grad.numpy(), rtol=1e-4, atol=1e-6)

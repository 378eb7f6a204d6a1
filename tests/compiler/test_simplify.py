"""Every rule: what it rewrites and what comes out compute the same, and the outcome is as short as its own form."""
import numpy as np
import pytest

import rushlight as torch
from rushlight.compiler.simplify import SHOWN, simplify
from rushlight.core.kinds import P
from rushlight.eager.reference import evaluate
from rushlight.graph.graph import Graph, splice
from rushlight.transforms.trace import Trace

from ..whole import whole


def graph_of(function, x):
    trace = Trace()
    given = trace.input(x._meta)
    with trace:
        result = function(given)
    return splice(Graph(trace.inputs, trace.nodes, [result.node]))


def count(function, x) -> int:
    return len(simplify(graph_of(function, x)).nodes)


@pytest.mark.parametrize("number", range(len(SHOWN)), ids=[rule.__name__ for rule, _, _ in SHOWN])
def test_before_and_after_compute_the_same(number):
    _, before, after = SHOWN[number]
    x = torch.randn(5, 5)

    found, expected = (evaluate(graph_of(function, x), [x.numpy()])[0] for function in (before, after))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(evaluate(simplify(graph_of(before, x)), [x.numpy()])[0], expected, rtol=1e-5, atol=1e-6)
    assert count(lambda x: P.copy(before(x)), x) <= count(lambda x: P.copy(after(x)), x)


def test_common_values_are_computed_once():
    x = torch.randn(3, 3)
    assert count(lambda x: P.add(P.exp(P.mul(x, 2.0)), P.exp(P.mul(x, 2.0))), x) == 3
    assert count(lambda x: P.add(P.mul(x, 1.0), P.mul(x, 2.0)), x) == 2


def test_numbers_of_different_types_are_different():
    x = torch.arange(4)
    made = simplify(graph_of(lambda x: P.cat((P.convert(P.mul(x, 2), dtype=torch.float32), P.mul(P.convert(x, dtype=torch.float32), 2.0)), dim=0), x))
    assert sum(n.op is P.mul for n in made.nodes) == 2


def test_outputs_keep_their_strides():
    x = torch.randn(3, 4)
    graph = graph_of(lambda x: P.permute(P.matmul(x, P.permute(x, dims=(1, 0))), dims=(1, 0)), x)
    assert simplify(graph).outputs[0].meta is graph.outputs[0].meta
    assert simplify(graph, fixed=0).outputs[0].op is P.matmul


def test_an_output_that_equals_an_input_is_a_copy():
    x = torch.randn(3)
    y = whole(lambda x: P.convert(x, dtype=x.dtype))(x)
    y.add_(1)
    assert not np.array_equal(x.numpy(), y.numpy())


def test_parts_of_a_gradient_are_joined():
    """What a split leaves in the backward: sums of padded parts."""
    def body(x):
        parts = [P.pad(P.slice(x, starts=(0, k), steps=(1, 1), shape=(3, 2)), low=(0, k), high=(0, 4 - k), inner=(0, 0), value=0) for k in (0, 2, 4)]
        return P.add(P.add(parts[0], parts[1]), parts[2])

    x = torch.randn(3, 6)
    made = simplify(graph_of(body, x))
    assert [n.op for n in made.nodes].count(P.cat) == 1 and not any(n.op in (P.add, P.pad) for n in made.nodes)
    np.testing.assert_array_equal(whole(body)(x).numpy(), x.numpy())

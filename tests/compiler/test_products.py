"""Sums of products become one product where that is less to move, and compute the same."""
import numpy as np
import pytest

import rushlight as torch
from rushlight._src.compiler.products import joined_products
from rushlight._src.compiler.simplify import simplify
from rushlight._src.core.kinds import P
from rushlight._src.compiler.reference import evaluate
from rushlight._src.graph.graph import Graph, splice
from rushlight._src.transforms.trace import Trace

pytestmark = pytest.mark.processor


def graph_of(function, tensors):
    trace = Trace()
    given = [trace.input(x._rush_meta) for x in tensors]
    with trace:
        results = function(*given)
    return simplify(splice(Graph(trace.inputs, trace.nodes, [r.node for r in results])))


def products_of(function, *tensors):
    """The numbers of matmuls before and after; results must agree."""
    graph = graph_of(function, tensors)
    joined = joined_products(graph)
    expected, found = (evaluate(g, [x.numpy() for x in tensors]) for g in (graph, joined))
    for a, b in zip(expected, found):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    return tuple(sum(n.op is P.matmul for n in g.nodes) for g in (graph, joined))


def steps(count, rows=24, depth=2, columns=20):
    return [torch.randn(depth, rows) for _ in range(count)] + [torch.randn(depth, columns) for _ in range(count)]


def gradient(*tensors):
    """The sum of transposed matmuls, as for a weight that is used at every step."""
    half = len(tensors) // 2
    return P.matmul(P.permute(tensors[0], dims=(1, 0)), tensors[half]), [P.matmul(P.permute(a, dims=(1, 0)), b)
                                                                         for a, b in zip(tensors[1:half],
                                                                                         tensors[half + 1:])]


def summed(*tensors):
    total, others = gradient(*tensors)
    for other in others:
        total = P.add(total, other)
    return [total]


@pytest.mark.parametrize("count", [2, 3, 9])
def test_products_of_the_steps_are_one(count):
    assert products_of(summed, *steps(count)) == (count, 1)


def test_other_terms_stay():
    assert products_of(lambda x, *tensors: [P.add(P.add(summed(*tensors)[0], P.exp(x)), x)], torch.randn(24, 20),
                       *steps(4)) == (4, 1)


def test_products_of_other_depths_are_joined_too():
    left, right = [torch.randn(24, k) for k in (1, 3, 2)], [torch.randn(k, 20) for k in (1, 3, 2)]
    assert products_of(lambda a, b, c, d, e, f: [P.add(P.matmul(a, d), P.add(P.matmul(b, e), P.matmul(c, f)))], *left,
                       *right) == (3, 1)


def test_a_product_that_is_read_elsewhere_stays():
    def function(*tensors):
        first, others = gradient(*tensors)
        total = first
        for other in others:
            total = P.add(total, other)
        return [total, P.exp(first)]

    assert products_of(function, *steps(4)) == (4, 2)


def test_a_partial_sum_that_is_read_elsewhere_stays():
    def function(*tensors):
        first, others = gradient(*tensors)
        partial = P.add(first, others[0])
        return [P.add(P.add(partial, others[1]), others[2]), P.exp(partial)]

    assert products_of(function, *steps(4)) == (4, 2)


def test_deep_products_stay():
    assert products_of(summed, *steps(3, depth=40)) == (3, 3)


def test_halves_round_every_product():
    assert products_of(summed, *[x.half() for x in steps(3)]) == (3, 3)



"""Every rule: what it rewrites and what comes out compute the same, and the outcome is as short as its own form."""
import numpy as np
import pytest

import rushlight as torch
from rushlight._src.compiler.simplify import SHOWN, simplify
from rushlight._src.core.kinds import P
from rushlight._src.compiler.reference import evaluate
from rushlight._src.graph.graph import Graph, splice
from rushlight._src.transforms.trace import Trace

from ..whole import whole


def graph_of(function, x):
    trace = Trace()
    given = trace.input(x._rush_meta)
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


SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.5, -3.5, 65504.0, -1e-7, 1e-40, float("inf"), -float("inf"), float("nan"))
# sums in another order, or of zeros that are not there
REORDERED = ("side_by_side", "accumulated", "transposed_product")


def bits(x):
    """Elements as text: the sign of zero counts, NaN is NaN."""
    return ["nan" if v != v else repr(v) for v in x.double().flatten().tolist()]


def special(dtype, count=25):
    random = np.random.default_rng(0)
    return torch.tensor(random.choice(SPECIAL, count), dtype=dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("number", [k for k, (rule, _, _) in enumerate(SHOWN) if rule.__name__ not in REORDERED])
def test_rules_keep_every_bit_of_special_numbers(number, dtype):
    """The program before any rule, by its NumPy reference implementation, against compiled code."""
    _, before, after = SHOWN[number]
    x = special(getattr(torch, dtype)).reshape(5, 5)
    held = x.float().numpy() if x.dtype.is_half else x.numpy()
    for function in (before, after):
        expected, = evaluate(graph_of(function, x), [held])
        assert bits(whole(function)(x)) == bits(torch.tensor(expected.copy()).to(x.dtype))


FORMS = [
    lambda x: x * 0 + 0.0, lambda x: x + 0.0, lambda x: 0 + x, lambda x: x + -0.0, lambda x: x - 0.0,
    lambda x: x - -0.0, lambda x: 0 - x, lambda x: -0.0 - x, lambda x: x - x,
    lambda x: x + torch.zeros_like(x), lambda x: x - torch.zeros_like(x), lambda x: x * torch.ones_like(x),
    lambda x: x * 1, lambda x: x / 1, lambda x: x * -1, lambda x: -(-x),
    lambda x: 0 * x, lambda x: x * -0.0, lambda x: x ** 1, lambda x: x ** 2, lambda x: x ** 0, lambda x: x ** 0.5,
    lambda x: x ** -0.5, lambda x: x ** -1, lambda x: x ** 3,
    lambda x: 1 ** x, lambda x: torch.maximum(x, torch.zeros_like(x)), lambda x: torch.maximum(torch.zeros_like(x), x),
    lambda x: torch.minimum(x, -torch.zeros_like(x)),
    lambda x: x.clamp(min=0.0), lambda x: x.clamp(min=-0.0), lambda x: x.clamp(max=0.0), lambda x: x.clamp(0.0, 2.0),
    lambda x: x.relu(), lambda x: torch.where(x > 0, x, -0.0),
    lambda x: torch.where(x == 0, 0.0, x), lambda x: (-x).abs(), lambda x: -x.abs(), lambda x: x.round(),
    lambda x: x.sign(), lambda x: x.reshape(-1, 1).sum(1),
    lambda x: x.reshape(-1, 1).prod(1), lambda x: x.reshape(-1, 1).amax(1), lambda x: x.reshape(-1, 1).mean(1),
    lambda x: (x * 0).sum(), lambda x: torch.add(x, x, alpha=0),
    lambda x: torch.lerp(x, x + 1, 0.0), lambda x: torch.addcmul(x, x * 0, x * 0), lambda x: torch.copysign(x, -0.0),
    lambda x: x.masked_fill(x != x, -0.0),
    lambda x: torch.full((3,), 0.1, dtype=x.dtype).double(),
    lambda x: torch.full((3,), 1e30, dtype=torch.float32).half().to(x.dtype) + x[:3],
    lambda x: torch.full((3,), 0.1, dtype=torch.float16).to(x.dtype) + x[:3],
    lambda x: torch.full((3,), 300).to(torch.uint8), lambda x: torch.full((3,), 2 ** 40 + 5).int(),
]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_compiled_code_gives_every_bit_that_operators_one_by_one_give(dtype):
    x = special(getattr(torch, dtype), 40)
    for number, form in enumerate(FORMS):
        assert bits(torch.compile(form)(x)) == bits(form(x)), number


def test_powers_do_not_depend_on_earlier_calls():
    """An exponent that took many values is a run-time scalar: special ones come out as they did at first."""
    x = special(torch.float32)
    exponents = (0.5, -0.5, 1.0, 2.0, 3.0, -1.0, -2.0, 0.0)
    for k in range(5):
        x ** (1.3 + k)
    for exponent in exponents:
        assert bits(x ** exponent) == bits(whole(lambda x: x ** exponent)(x)), exponent


def test_common_values_are_computed_once():
    x = torch.randn(3, 3)
    assert count(lambda x: P.add(P.exp(P.mul(x, 2.0)), P.exp(P.mul(x, 2.0))), x) == 3
    assert count(lambda x: P.add(P.mul(x, 1.0), P.mul(x, 2.0)), x) == 2


def test_numbers_of_different_types_are_different():
    x = torch.arange(4)
    made = simplify(graph_of(lambda x: P.cat((P.convert(P.mul(x, 2), dtype=torch.float32),
                                              P.mul(P.convert(x, dtype=torch.float32), 2.0)), dim=0), x))
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
        parts = [P.pad(P.slice(x, starts=(0, k), steps=(1, 1), shape=(3, 2)), low=(0, k), high=(0, 4 - k), inner=(0, 0),
                       value=0) for k in (0, 2, 4)]
        return P.add(P.add(parts[0], parts[1]), parts[2])

    x = torch.randn(3, 6)
    made = simplify(graph_of(body, x))
    assert [n.op for n in made.nodes].count(P.cat) == 1 and not any(n.op in (P.add, P.pad) for n in made.nodes)
    np.testing.assert_array_equal(whole(body)(x).numpy(), x.numpy())

"""Complex numbers in generated kernels: every operator with a rule beside torch, values and gradients; where they lie,
and what is written in place."""
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
from rushlight._src.compiler.complex_lowering import in_pairs, is_complex  # noqa: E402
from rushlight._src.core.dtypes import complex64  # noqa: E402
from rushlight._src.core.kinds import P  # noqa: E402
from rushlight._src.core.meta import Meta  # noqa: E402
from rushlight._src.transforms.trace import Trace  # noqa: E402
from tests.ops.judge import arrays, same  # noqa: E402

ONE = {name: (lambda lib, x, name=name: getattr(x, name)()) for name in (
    "abs", "angle", "sgn", "exp", "log", "log2", "log10", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tan", "sinh",
    "cosh", "tanh", "sigmoid", "neg", "square", "sum",
    "mean", "prod", "clone")}
MORE = {
    "conj": lambda lib, x: x.conj() * 1, "real": lambda lib, x: x.real * 1, "imag": lambda lib, x: x.imag * 1,
    "integer power": lambda lib, x: x ** 3, "inverse power": lambda lib, x: x ** -2,
    "power": lambda lib, x: x ** 0.3, "complex power": lambda lib, x: x ** (1.5 - 0.5j),
    "number over": lambda lib, x: (2 - 1j) / x, "over number": lambda lib, x: x / (2 - 1j),
    "plus": lambda lib, x: x + 1j,
    "rows": lambda lib, x: x.sum(1), "running sum": lambda lib, x: x.cumsum(0),
    "running product": lambda lib, x: x.cumprod(0), "transposed": lambda lib, x: x.t().contiguous(),
    "part": lambda lib, x: x[1:3, ::2] + 1,
    "flipped": lambda lib, x: x.flip(1) * 2, "padded": lambda lib, x: lib.nn.functional.pad(x, (1, 2), value=0.5),
    "chosen": lambda lib, x: x.index_select(1, lib.tensor([3, 1, 1])),
    "joined": lambda lib, x: lib.cat((x, x * 2), 1), "where": lambda lib, x: lib.where(x.real > 0, x, 0.5),
    "pairs": lambda lib, x: lib.view_as_real(x * x), "one": lambda lib, x: x.sum() * x[0, 0],
    "other windows": lambda lib, x: (x * 1).as_strided((3, 2), (2, 3), 1) * 2,
    "written in place": lambda lib, x: x.clone().mul_(x),
    "written transposed": lambda lib, x: x.clone().t().add_(x.t()),
    "inverse": lambda lib, x: x[:, :4].inverse() * 2, "product": lambda lib, x: x @ x.mT,
    "double": lambda lib, x: x.to(lib.complex64).to(lib.complex128) * 1}


@pytest.mark.parametrize("name", [*ONE, *MORE])
def test_beside_torch(name):
    x, = arrays((4, 7), dtype=np.complex128)
    same(lambda lib, x: (ONE | MORE)[name](lib, x), x, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "eq", "ne"])
def test_two_operands(name):
    x, y = arrays((4, 1, 7), (5, 1), dtype=np.complex128)
    same(lambda lib, x, y: getattr(lib, name)(x, y), x, y, rtol=1e-6)
    real, = arrays((5, 1))
    same(lambda lib, x, y: getattr(lib, name)(x, y), x, real, rtol=1e-6)


@pytest.mark.parametrize("size", [1, 3, 16, 17, 100, 1000])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_every_length_and_both_orders_of_parts(size, dtype):
    x, = arrays((size,), dtype=dtype)
    for call in (lambda t: t * t, lambda t: t.conj().resolve_conj() + 0, lambda t: t[::2] * 3):
        np.testing.assert_allclose(call(rushlight.tensor(x)).numpy(), call(torch.tensor(x)).numpy(), rtol=1e-5,
                                   atol=1e-6)


HARD = np.array([0, 1e30 + 1e30j, 1e-30 - 1e-30j, complex(math.inf, 1), complex(1, -math.inf), complex(-0.0, 0.0),
                 1 + 1e-6j, -1, -1 - 0j, complex(math.nan, 0)], np.complex64)


@pytest.mark.parametrize("name", ["abs", "angle", "sqrt", "log", "exp", "sgn"])
def test_hard_numbers(name):
    hard = HARD[2:] if name == "exp" else HARD  # sines of 1e30 are another matter
    ours, theirs = (getattr(lib.tensor(hard), name)().numpy() for lib in (rushlight, torch))
    np.testing.assert_allclose(ours[:-1], theirs[:-1], rtol=1e-5, atol=1e-6)
    assert np.isnan(ours[-1]) == np.isnan(theirs[-1])


def test_division_does_not_overflow():
    big, small = np.complex64(1e30 + 1e30j), np.complex64(1e-30 + 2e-30j)
    for a, b in ((big, big * 2), (small, small), (big, 1 + 0j), (1 + 1j, 0j)):
        with np.errstate(all="ignore"):
            wanted = np.complex64(a) / np.complex64(b)
        found = (rushlight.tensor([a]) / rushlight.tensor([b])).numpy()[0]
        np.testing.assert_allclose([found.real, found.imag], [wanted.real, wanted.imag], rtol=1e-6)


def test_only_memory_is_complex():
    with Trace() as trace:
        x = trace.input(Meta.of((3, 4), complex64))
        y = P.mul(P.exp(x), P.conj(x))
        P.abs(y)
    from rushlight._src.graph.graph import Graph
    found = in_pairs(Graph(trace.inputs, trace.nodes, [y.node, trace.nodes[-1]]))
    assert [n.op for n in found.nodes if is_complex(n)] == [P.complex]


def test_rotary_embeddings_are_one_kernel():
    """Llama's way: pairs as complex numbers, turned, and back."""
    def turn(lib, x, angle):
        pairs = lib.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return lib.view_as_real(pairs * lib.polar(lib.ones_like(angle), angle)).flatten(-2)

    x, angle = arrays((2, 3, 8), (3, 4), dtype=np.float32)
    same(lambda lib, x, angle: turn(lib, x, angle), x, angle, rtol=1e-5, atol=1e-6)
    compiled = rushlight.compile(lambda x, a: turn(rushlight, x, a), fullgraph=True)
    np.testing.assert_allclose(compiled(*map(rushlight.tensor, (x, angle))).numpy(),
                               turn(torch, *map(torch.tensor, (x, angle))).numpy(), rtol=1e-5, atol=1e-6)


def test_parameters_stay_where_they_lie():
    x, y = (rushlight.tensor(v) for v in arrays((5,), (5,), dtype=np.complex64))
    before, at = x.numpy().copy(), x.data_ptr()
    rushlight.add(x, y, out=x)
    assert x.data_ptr() == at
    np.testing.assert_allclose(x.numpy(), before + y.numpy(), rtol=1e-6)

"""Numbers and strings of TorchScript files are PyTorch's: 64-bit integers, floats as in C."""
import io
import math
from typing import Dict, List, Optional, Tuple, Union

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
INF = float("inf")


class Whole(torch.nn.Module):
    def forward(self, n: int, m: int):
        return (n ** m, n << m, n >> m, n * m, n + m, n - m, n // m, n % m, n / m, max(n, m), min(n, m), abs(n), n & m,
                n | m, n ^ m, -n, round(n), math.sqrt(n), math.log(n), math.exp(n), math.floor(n), n * n * n,
                [n, m] * 2,
                sorted([n, m]))


class Floats(torch.nn.Module):
    def forward(self, a: float, b: float):
        return a ** b, a // b, a % b, a / b, max(a, b), min(a, b), round(a), a * b, a - b, math.fmod(a, b), -a, abs(a)


class Functions(torch.nn.Module):
    def forward(self, a: float):
        return (math.sqrt(a), math.log(a), math.exp(a), math.log10(a), math.sin(a), math.cos(a), math.tan(a),
                math.tanh(a), math.isnan(a), math.isinf(a))


class Mixed(torch.nn.Module):
    def forward(self, n: int, a: float):
        return max(n, a), min(n, a), n + a, n ** a, a ** n, n // a, n % a, a / n, n == a, n < a, n * a


class Floors(torch.nn.Module):
    def forward(self, a: float):
        return math.floor(a), math.ceil(a), int(a), round(a)


class Texts(torch.nn.Module):
    def forward(self, a: float, n: int, b: bool, d: Dict[str, int], o: Optional[int], e: Tuple[int, float]):
        return str(a), f"{a} {n} {b} {[a, 1.0]} {[n]}", str(b), str(d), "{} {}".format(o, e), "{}".format(["x"])


class Loops(torch.nn.Module):
    def forward(self, n: int):
        s = 0
        for k in range(5, 0, -2):
            s += k * n
        for x, y in zip([1, 2, 3], [4, 5, 6]):
            s += x * y
        for q, x in enumerate([3, 4]):
            s += q * x
        return s + sum([k for k in range(n)])


class Kinds(torch.nn.Module):
    def forward(self, x: Union[int, bool, List[int], List[str], float]):
        if isinstance(x, int):
            return 1
        elif isinstance(x, bool):
            return 2
        elif isinstance(x, List[int]):
            return 3
        elif isinstance(x, float):
            return 5
        return 4


class Tensors(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int):
        return x * (n ** 2), x * round(n), x * max(1, 0.5), x << 1, x >> 1, x + 1.5, 1.5 - x, x * n, x + n * n


FLOATS = (2.5, -2.7, 0.1, -1.0, 0.0, -0.0, 1e300, 1000.0, INF, -INF, float("nan"))
CASES = {Whole: [(3, 2), (-7, 2), (2 ** 62, 3), (1, 65), (3, -2), (-(2 ** 63) + 1, -1), (1000, 70)],
         Floats: [(a, b) for a in FLOATS for b in (2.0, 0.5, 0.1, -1.0, -0.0, INF)], Functions: [(a,) for a in FLOATS],
         Mixed: [(n, a) for n in (1, 2, -3) for a in (0.5, 0.0, -1.5, 4.0)],
         Floors: [(a,) for a in (2.5, -2.5, 3.5, 0.0, 1e15, -7.0)],
         Texts: [(a, 3, True, {"a": 1}, None, (1, a)) for a in (
             2.0, 0.1, 1e-5, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, -3.0, -0.0, 1 / 3, 123456.75, INF, -INF, 1e300)],
         Loops: [(3,)], Kinds: [(True,), (3,), ([1],), (["a"],), (1.5,)],
         Tensors: [(torch.tensor([5, -6]), 3)]}


def loaded(module):
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(module), file)
    file.seek(0)
    return rl.jit.load(file)


def seen(value):
    """A result with its types; nan is equal to itself."""
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(seen, value)]
    if hasattr(value, "tolist"):
        return str(value.dtype).rpartition(".")[2], value.tolist()
    return type(value).__name__, repr(value)


def tried(run, given):
    try:
        return seen(run(*given))
    except (RuntimeError, torch.jit.Error):
        return "an error"


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_results_are_pytorchs(kind):
    judge, ours = torch.jit.script(kind()), loaded(kind())
    for given in CASES[kind]:
        args = [rl.tensor(x.numpy()) if isinstance(x, torch.Tensor) else x for x in given]
        assert tried(ours, args) == tried(judge, given), given


def test_an_empty_list_has_no_type_to_ask_for():
    with pytest.raises(RuntimeError, match="empty list"):
        loaded(Kinds())([])


@pytest.mark.parametrize("value", [INF, float("nan"), 1e300])
def test_floats_that_are_no_whole_numbers(value):
    with pytest.raises(RuntimeError, match="Cannot convert float"):
        loaded(Floors())(value)

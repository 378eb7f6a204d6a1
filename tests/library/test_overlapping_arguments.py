"""Operators that write arguments of overlapping memory: compiled functions do what plain ones do."""
import itertools

import pytest

import rushlight as torch

REGIONS = {"whole": lambda x: x, "head": lambda x: x[:4], "tail": lambda x: x[2:], "end": lambda x: x[4:],
           "evens": lambda x: x[::2], "pairs": lambda x: x.view(2, 3)[1]}


@pytest.fixture(scope="module")
def update():
    @torch.library.custom_op("overlapping::update", mutates_args={"a", "b"})
    def update(a: torch.Tensor, b: torch.Tensor) -> None:
        a.add_(1)
        b.mul_(10)

    return update


@pytest.fixture(scope="module")
def add_first():
    @torch.library.custom_op("overlapping::add_first", mutates_args={"a"})
    def add_first(a: torch.Tensor, b: torch.Tensor) -> None:
        for k in range(a.numel()):
            a[k] += b[k % b.numel()]

    return add_first


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("one, other", list(itertools.product(REGIONS, REGIONS)))
def test_as_in_eager_mode(update, add_first, one, other, backend):
    for operator in (update, add_first):
        def function(x):
            operator(REGIONS[one](x), REGIONS[other](x))
            return x.sum()

        torch._dynamo.reset()
        x, y = torch.arange(6.0), torch.arange(6.0)
        wanted, found = function(x), torch.compile(function, backend=backend)(y)
        assert y.tolist() == x.tolist() and found.item() == wanted.item()


def test_arguments_that_are_apart_stay_in_one_graph(update):
    def function(x):
        update(x[:2], x[4:])
        return x * 2

    x, y = torch.arange(6.0), torch.arange(6.0)
    assert torch.compile(function, fullgraph=True)(y).tolist() == function(x).tolist()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("one, other", list(itertools.product(REGIONS, REGIONS)))
def test_inputs_as_in_eager_mode(update, add_first, one, other, backend):
    """What the program was captured for were inputs; each write went into a copy of its own."""
    for operator in (update, add_first):
        def function(a, b):
            a.add_(1)
            operator(a, b)
            b.mul_(2)
            return a * 2, b * 2

        torch._dynamo.reset()
        compiled = torch.compile(function, backend=backend)
        for _ in range(2):
            x, y = torch.arange(6.0), torch.arange(6.0)
            wanted = function(REGIONS[one](x), REGIONS[other](x))
            found = compiled(REGIONS[one](y), REGIONS[other](y))
            assert y.tolist() == x.tolist() and [t.tolist() for t in found] == [t.tolist() for t in wanted]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_lists_and_results_as_in_eager_mode(backend):
    with torch.library._scoped_library("overlapping_lists", "DEF") as library:
        library.define("mix(Tensor(a!)[] a, Tensor(b!) b, float c) -> Tensor")

        def mix(a, b, c):
            for k, t in enumerate(a):
                t.mul_(k + c)
            b.add_(a[0].sum())
            return b.clone()

        library.impl("mix", mix, "CPU")
        library.impl("mix", lambda a, b, c: torch.empty_like(b), "Meta")

        def function(x, y, z):
            return torch.ops.overlapping_lists.mix([x, y], z, 1.5) + x.sum()

        regions = list(REGIONS.values())
        for one, other, third in itertools.product(regions[::2], repeat=3):
            torch._dynamo.reset()
            compiled = torch.compile(function, backend=backend)
            x, y = torch.arange(6.0), torch.arange(6.0)
            wanted, found = function(one(x), other(x), third(x)), compiled(one(y), other(y), third(y))
            assert y.tolist() == x.tolist() and found.tolist() == wanted.tolist()

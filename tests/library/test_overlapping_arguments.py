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

"""Collectives as operators, in a world of three threads: what they give, their gradients (those of the whole
computation on one side), and the same within compiled programs."""
import pytest

import rushlight as torch
import rushlight.distributed._functional_collectives as C
import rushlight.distributed.nn.functional as F
from rushlight import distributed as dist
from rushlight.distributed import threads

N = 3
WORLD = "0"


def given(rank):
    return (torch.arange(18.0, dtype=torch.float64) * (rank + 1) % 7 - 3).reshape(6, 3)


PROGRAMS = {  # of one process on its tensor; and of all tensors on one side
    "all_reduce": (lambda x: C.all_reduce(x, "sum", WORLD), lambda xs: [sum(xs)] * N),
    "average": (lambda x: C.all_reduce(x, "avg", WORLD), lambda xs: [sum(xs) / N] * N),
    "all_gather": (lambda x: C.all_gather_tensor(x, 0, WORLD), lambda xs: [torch.cat(xs)] * N),
    "all_gather along columns": (lambda x: C.all_gather_tensor(x, 1, WORLD), lambda xs: [torch.cat(xs, 1)] * N),
    "reduce_scatter": (lambda x: C.reduce_scatter_tensor(x, "sum", 0, WORLD), lambda xs: list(sum(xs).chunk(N))),
    "reduce_scatter along columns": (lambda x: C.reduce_scatter_tensor(x, "avg", 1, WORLD),
                                     lambda xs: list((sum(xs) / N).chunk(N, 1))),
    "all_to_all": (lambda x: C.all_to_all_single(x, None, None, WORLD),
                   lambda xs: [torch.cat([x.chunk(N)[k] for x in xs]) for k in range(N)]),
    "broadcast": (lambda x: C.broadcast(x, 1, WORLD), lambda xs: [xs[1]] * N),
    "permuted": (lambda x: C.permute_tensor(x, [1, 2, 0], WORLD), lambda xs: [xs[2], xs[0], xs[1]]),
    "gathered": (lambda x: torch.stack(F.all_gather(x)), lambda xs: [torch.stack(xs)] * N),
    "scattered": (lambda x: F.scatter(list(x.reshape(N, 2, 3)), 0), lambda xs: list(xs[0].reshape(N, 2, 3))),
    "between": (lambda x: C.all_reduce(x.sin(), "sum", WORLD) * x,
                lambda xs: [sum(x.sin() for x in xs) * x for x in xs]),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_gradients(name, compiled):
    program, whole = PROGRAMS[name]
    xs = [given(rank).requires_grad_() for rank in range(N)]
    expected = whole(xs)
    weights = [torch.arange(1.0 * y.numel()).reshape(y.shape) + k for k, y in enumerate(expected)]
    sum((y * w).sum() for y, w in zip(expected, weights)).backward()

    def member(rank):
        x = given(rank).requires_grad_()
        y = (torch.compile(lambda x: program(x) * 1, fullgraph=True) if compiled else program)(x)
        (y * weights[rank]).sum().backward()
        torch.testing.assert_close(y, expected[rank])
        torch.testing.assert_close(x.grad, torch.zeros_like(x) if xs[rank].grad is None else xs[rank].grad)
    threads.run(N, member)


def test_batches_and_what_is_refused():
    def member(rank):
        x = torch.arange(4.0).reshape(2, 2) + rank
        assert torch.equal(torch.vmap(lambda v: C.all_reduce(v, "sum", WORLD))(x), 3 * x - 3 * rank + 3)
        assert torch.equal(torch.vmap(lambda v: C.all_gather_tensor(v, 0, WORLD))(x)[0],
                           torch.tensor([0.0, 1, 1, 2, 2, 3]))
        with pytest.raises(AssertionError, match="multiple"):
            C.reduce_scatter_tensor(x, "sum", 0, WORLD)
        with pytest.raises(RuntimeError, match="non-integral"):
            C.all_reduce(x, "band", WORLD)
        with pytest.raises(ValueError, match="no group"):
            C.all_reduce(x, "sum", "nothing")
        assert C.all_reduce(x.bfloat16(), "max", dist.group.WORLD).dtype is torch.bfloat16
    threads.run(N, member)

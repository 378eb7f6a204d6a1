"""What takes statistics or samples over several processes."""
import copy

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed import threads


def test_batch_normalisation_over_all_ranks():
    x = torch.randn(9, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    whole = torch.nn.BatchNorm1d(4, dtype=torch.float64)
    given = x.clone().requires_grad_()
    expected = whole(given)
    weights = torch.arange(1.0 * x.numel(), dtype=torch.float64).reshape(x.shape).sin()
    (expected * weights).sum().backward()
    models = [torch.nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(torch.nn.BatchNorm1d(4, dtype=torch.float64)))
              .double() for _ in range(2)]

    def member(rank):
        rows = slice(0, 4) if rank == 0 else slice(4, 9)
        mine = x[rows].clone().requires_grad_()
        y = models[rank](mine)
        (y * weights[rows]).sum().backward()
        torch.testing.assert_close(y, expected[rows])
        torch.testing.assert_close(mine.grad, given.grad[rows])
        torch.testing.assert_close(models[rank].running_var, whole.running_var)
        torch.testing.assert_close(models[rank].running_mean, whole.running_mean)
        total = models[rank].weight.grad
        dist.all_reduce(total)
        torch.testing.assert_close(total, whole.weight.grad)
    threads.run(2, member)


def test_samplers_ask_the_group():
    found = threads.run(2, lambda rank: list(torch.utils.data.DistributedSampler(range(6), shuffle=False)))
    assert found == [[0, 2, 4], [1, 3, 5]]

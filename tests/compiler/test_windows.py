"""Windows that skip every other element, beside an edge and away from it: pooling as kernels, against torch."""

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402


@pytest.mark.parametrize("width", [5, 16, 33, 70])
@pytest.mark.parametrize("kernel, padding", [(3, 1), (2, 0), (4, 2)])
def test_every_other_element(width, kernel, padding):
    torch.manual_seed(width)
    x = torch.randn(2, 3, 9, width)
    pools = [lambda f, x: f.max_pool2d(x, kernel, 2, padding), lambda f, x: f.avg_pool2d(x, kernel, 2, padding)]
    for pool in pools:
        ours = rushlight.compile(lambda x, pool=pool: pool(rushlight.nn.functional, x))(rushlight.tensor(x.numpy()))
        torch.testing.assert_close(torch.from_numpy(ours.numpy()), pool(torch.nn.functional, x))


def test_reads_nothing_beyond_the_last_element():
    x = torch.full((1, 1, 1, 64), float("nan"))
    x[..., :33] = torch.arange(33.0)
    whole = rushlight.tensor(x.numpy())
    ours = rushlight.compile(lambda x: rushlight.nn.functional.max_pool1d(x[0, :, :, :33], 3, 2, 1))(whole)
    assert ours.flatten().tolist() == [1.0, *range(3, 33, 2), 32.0]

"""A part of the operators' samples (``python -m tests.webgpu.operators`` runs all of them)."""
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight._src.core.settings import settings
from rushlight._src.devices.shared.host import HostStep

from ..ops.test_samples import SAMPLED
from .operators import ABSOLUTE, RELATIVE, compared, main

ALONE = ("add", "softmax", "cat", "cumsum", "matmul", "nn.functional.gelu", "erf", "sin", "pow", "argmax", "std",
         "roll", "tril", "nn.functional.pad", "digamma")
EACH = 2  # samples of each


@pytest.mark.parametrize("name", ALONE)
def test_by_shaders_alone(name):
    indices = [k for n, k in SAMPLED if n == name][:EACH]
    assert indices
    for index in indices:
        assert not compared(name, index)


def test_with_help_of_the_host():
    assert compared("linalg.inv", 0)


def test_products_of_nothing():
    before = HostStep.runs.copy()
    for m, k, n in ((2, 0, 3), (0, 4, 3), (2, 4, 0)):
        x, y = rl.ones(m, k, device="webgpu", requires_grad=True), rl.ones(k, n, device="webgpu", requires_grad=True)
        found = x @ y
        found.sum().backward()
        assert found.tolist() == (rl.ones(m, k) @ rl.ones(k, n)).tolist() and x.grad.shape == x.shape
        assert y.grad.cpu().sum() == m * k * n
    weight = rl.ones(5, 2, 3, device="webgpu", requires_grad=True)
    F.bilinear(rl.ones(0, 2, device="webgpu"), rl.ones(0, 3, device="webgpu"), weight).sum().backward()
    assert weight.grad.cpu().abs().sum() == 0 and HostStep.runs == before


def test_images_with_pixels_of_no_window():
    x, weight = rl.randn(1, 2, 4, 4), rl.randn(2, 3, 3, 3)
    given = dict(stride=3, output_padding=2, dilation=2)
    found = F.conv_transpose2d(x.to("webgpu"), weight.to("webgpu"), **given)
    rl.testing.assert_close(found.cpu(), F.conv_transpose2d(x, weight, **given), rtol=RELATIVE, atol=ABSOLUTE)


def test_positions_where_there_is_one_place():
    before = HostStep.runs.copy()
    x, at = rl.tensor([[3.0], [4.0]], device="webgpu"), rl.zeros(2, 3, dtype=rl.int64, device="webgpu")
    assert rl.gather(x, 1, at).tolist() == [[3] * 3, [4] * 3] and x.T[at].shape == (2, 3, 2)
    with pytest.raises(RuntimeError):
        rl.gather(x, 1, at + 1)
    assert HostStep.runs == before


def test_shaders_that_read_no_element_of_a_buffer():
    x = rl.arange(12.0, device="webgpu").reshape(3, 4).requires_grad_()
    rl.as_strided(x, (2, 2), (4, 1), 1).sum().backward()
    assert x.grad.tolist() == [[0, 1, 1, 0], [0, 1, 1, 0], [0] * 4]
    x.grad = None
    (x.diagonal(4).sum() + x.diagonal(3).sum()).backward()
    assert x.grad.tolist() == [[0, 0, 0, 1], [0] * 4, [0] * 4]


def test_results_of_the_host_that_lie_among_each_other():
    """A gradient of points is one result for each coordinate, adjacent in memory."""
    x, at, found = rl.randn(2, 3, 5, 5, 5), rl.rand(2, 5, 5, 5, 3) * 2 - 1, []
    for where in ("cpu", "webgpu"):
        points = at.to(where).detach().requires_grad_()
        with settings.set(kernels=where == "cpu", store=False):
            F.grid_sample(x.to(where), points, padding_mode="border", align_corners=False).square().sum().backward()
        found.append(points.grad.cpu())
    rl.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-3)


def test_repeats_of_the_device():
    x = rl.arange(3.0, device="webgpu")
    assert x.repeat_interleave(rl.tensor([2, 0, 1], device="webgpu")).tolist() == [0, 0, 2]


@pytest.mark.long
def test_as_many_by_shaders_alone_as_before():
    assert not main()

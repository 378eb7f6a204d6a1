"""Sampling on grids against torch."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

from .judge import arrays, same  # noqa: E402

pytestmark = pytest.mark.sampled  # all cases with `-m long`


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_images(mode, padding, align):
    x, grid = arrays((2, 3, 5, 6), (2, 4, 3, 2))
    same(lambda lib, x, g: lib.nn.functional.grid_sample(x, g, mode, padding, align), x, grid)


def test_volumes():
    x, grid = arrays((1, 2, 4, 5, 6), (1, 2, 3, 4, 3))
    same(lambda lib, x, g: lib.nn.functional.grid_sample(x, g, align_corners=False), x, grid)


@pytest.mark.parametrize("align", [True, False])
def test_affine_grids(align):
    same(lambda lib, t: lib.nn.functional.affine_grid(t, (2, 3, 4, 5), align), arrays((2, 2, 3))[0])
    same(lambda lib, t: lib.nn.functional.affine_grid(t, (2, 3, 4, 5, 6), align), arrays((2, 3, 4))[0])


@pytest.mark.parametrize("shapes,mode,error", [(((1, 1, 3, 3), (2, 2, 2, 2)), "bilinear", RuntimeError),
                                               (((1, 1, 3, 3), (1, 2, 2, 3)), "bilinear", RuntimeError),
                                               (((1, 1, 3, 3), (1, 2, 2, 2)), "cubic", ValueError),
                                               (((1, 3, 3), (1, 2, 2)), "bilinear", RuntimeError)])
def test_arguments_refused(shapes, mode, error):
    for lib in (torch, rushlight):
        with pytest.raises(error):
            lib.nn.functional.grid_sample(lib.ones(shapes[0]), lib.ones(shapes[1]), mode)


def test_no_gradient_where_a_point_sees_one_element_only():
    """All sixteen neighbours are one element of the border: their weights add up to 1 wherever the point lies."""
    x, grid = (rushlight.from_numpy(v) for v in arrays((1, 3, 5, 20), (1, 8, 8, 2), dtype=np.float32))
    far = (grid.abs() + 1.5).requires_grad_()
    found, = rushlight.autograd.grad(rushlight.nn.functional.grid_sample(x, far, "bicubic", "border", False).sum(), far)
    assert found.abs().max() < 1e-6

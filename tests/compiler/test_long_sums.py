"""Sums over rows: rounding errors grow with the blocks of a column, not with its length."""
import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize("columns", [19, 600])
def test_columns_of_equal_terms_are_as_exact_as_in_pytorch(name, columns):
    """Equal terms round to the same side, so that errors add up: 8,000 in one accumulator lose five digits."""
    found = []
    for lib in (rl, torch):
        x = lib.full((8000, columns), 0.1)
        wanted = float(np.float32(0.1)) * (8000 if name == "sum" else 1)
        found.append(float((getattr(x, name)(0).double() / wanted - 1).abs().max()))
    assert found[0] <= 8 * found[1] + 4e-7, found


@pytest.mark.parametrize("rows", [1, 127, 128, 129, 257])
def test_any_number_of_rows(rows):
    array = np.random.default_rng(rows).normal(size=(rows, 19))
    several = rl.compile(lambda x: (x.sum(0), x.amax(0), (x * x).sum(0), x.argmin(0), x.prod(0)))
    for dtype, tolerance in ((torch.float32, 2e-5), (torch.float64, 1e-12), (torch.float16, 2e-3)):
        x = torch.tensor(array).to(dtype)
        ours = rl.tensor(x.double().numpy()).to(getattr(rl, str(dtype).removeprefix("torch.")))
        y = x.double()
        wanted = (y.sum(0), y.amax(0), (y * y).sum(0), y.argmin(0))
        for k, (a, b) in enumerate(zip(several(ours)[:4], wanted)):
            if k == 2 and dtype is torch.float16:
                continue  # its squares are rounded first
            np.testing.assert_allclose(a.double().numpy(), b.numpy(), rtol=tolerance, atol=tolerance * rows ** 0.5)
    whole = rl.tensor(np.arange(rows * 19).reshape(rows, 19))
    assert whole.sum(0).tolist() == torch.arange(rows * 19).reshape(rows, 19).sum(0).tolist()

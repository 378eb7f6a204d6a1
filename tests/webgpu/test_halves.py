"""float16 and bfloat16 on WebGPU: what memory holds, which operators compute them, and how they are rounded."""
import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn

from ..ops.test_samples import SAMPLED
from .operators import judged
from .variants import without

NAMES = ("add", "softmax", "cat", "cumsum", "matmul", "nn.functional.gelu", "argmax", "std", "gather", "index_add")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_operators(dtype):
    for name in NAMES:
        helped, failure = judged(name, [k for n, k in SAMPLED if n == name][:1], dtype)
        assert not failure and not helped, (name, helped, failure)


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
def test_all_numbers_pass_through(dtype):
    every = rl.arange(-32768, 32768, dtype=rl.int16).view(dtype)
    found, wide = (every.to("webgpu") * 1).cpu(), every.to("webgpu").float().cpu()
    finite = ~every.isnan()
    assert (found.view(rl.int16) == every.view(rl.int16))[finite].all() and found.isnan().equal(every.isnan())
    assert (wide == every.float())[finite].all()


def test_numbers_are_rounded_to_the_nearest():
    x = rl.cat((rl.randn(4096) * rl.logspace(-8, 5, 4096), rl.tensor([65519.0, 65520.0, 70000.0, 2.0**-25, 1e-45,
                                                                      float("inf"), float("-inf"), -0.0])))
    for dtype in (rl.float16, rl.bfloat16):
        assert x.to("webgpu").to(dtype).cpu().view(rl.int16).equal(x.to(dtype).view(rl.int16))


def test_halves_that_are_parts_of_words():
    """Where the adapter has no float16 in memory; matmuls, reductions and writes of single elements are the same."""
    x, found = rl.randn(20, 33).half(), []
    for where in ("webgpu", without("plain", "f16", "subgroups")):
        y = x.to(where)
        z = (y @ y.T).relu() + y.sum(1)
        z[1, 2] = 3
        found.append(z.cpu())
    assert found[0].equal(found[1])


def test_autocast_and_scaled_losses():
    rl.manual_seed(0)
    x, y, found = rl.randn(16, 8), rl.randn(16, 4), []
    for where in ("cpu", "webgpu"):
        rl.manual_seed(1)
        model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 4)).to(where)
        optimizer, scaler = rl.optim.SGD(model.parameters(), 0.1), rl.amp.GradScaler(where, init_scale=1024.0)
        losses = []
        for k in range(4):
            with rl.autocast(where, dtype=rl.float16):
                made = model(x.to(where))
                loss = F.mse_loss(made.float(), y.to(where))
            assert made.dtype is rl.float16 and made.device.type == where
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            if k == 1:
                model[0].weight.grad[0, 0] = float("inf")
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        assert losses[2] == losses[1] != losses[0]  # the step whose gradients are infinite is left out
        found.append((losses, scaler.get_scale()))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=5e-3)
    assert found[0][1] == found[1][1] == 512
    with rl.autocast("webgpu"):
        assert (rl.ones(2, 2) @ rl.ones(2, 2)).dtype is rl.float32  # of the processor's tensors nothing was said
    with pytest.raises(RuntimeError, match="unsupported autocast device_type"):
        rl.autocast("meta")

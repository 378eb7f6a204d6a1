"""float8 on GPUs: conversions, and scaled matmuls by units for them, or in bfloat16 where there are none."""
import numpy as np
import pytest

import rushlight as rl
from rushlight._src.devices.shared.host import HostStep
from rushlight._src.devices.triton.driver import Driver
from rushlight._src.devices.triton.step import Module, modules

FORMATS = "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"


@pytest.mark.parametrize("name", FORMATS)
def test_conversions(gpu, name):
    before, dtype = sum(HostStep.runs.values()), getattr(rl, name)
    x = rl.cat([rl.randn(60) * 10.0 ** rl.linspace(-8, 6, 60), rl.tensor([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e9])])
    found = x.to("cuda").to(dtype)
    assert found.dtype is dtype and found.view(rl.uint8).tolist() == x.to(dtype).view(rl.uint8).tolist()
    codes = rl.arange(256, dtype=rl.uint8)
    np.testing.assert_array_equal(codes.to("cuda").view(dtype).float().cpu().numpy(), codes.view(dtype).float().numpy())
    assert sum(HostStep.runs.values()) == before


def scaled(where, left, right, rows, out, fast=False, size=20):
    rl.manual_seed(0)
    a, b = rl.randn(size, 32).to(getattr(rl, left)), rl.randn(24, 32).to(getattr(rl, right))
    scales = (rl.rand(size, 1), rl.rand(1, 24)) if rows else (rl.tensor(0.5), rl.tensor([[2.0]]))
    a, b, *scales = (x.to(where) for x in (a, b, *scales))
    bias = rl.linspace(-1, 1, 24).bfloat16().to(where)
    found = rl._scaled_mm(a, b.t(), *scales, bias=bias, out_dtype=getattr(rl, out), use_fast_accum=fast)
    return found.dtype, found.float().cpu().numpy()


def last_matmul_text():
    """Return the source of the newest matmul kernel; modules of loaded packages have no source."""
    return [one for one in modules.made[1:] if isinstance(one, Module) and one.name.startswith("p")][-1].text


@pytest.mark.parametrize("left, right, architecture, kind", [
    ("float8_e4m3fn", "float8_e4m3fn", "sm_90", "tl.float8e4nv"),
    ("float8_e4m3fn", "float8_e5m2", "sm_100", "tl.float8e5"),
    ("float8_e4m3fn", "float8_e5m2", "sm_80", ""), ("float8_e4m3fnuz", "float8_e5m2fnuz", "sm_90", "")])
@pytest.mark.parametrize("rows, out", [(False, "bfloat16"), (True, "float32"), (True, "float8_e4m3fn")])
def test_scaled_products(gpu, monkeypatch, left, right, architecture, kind, rows, out):
    monkeypatch.setattr(Driver, "architecture", lambda self, index: architecture)
    gpu[0].compiler, size = None, {"sm_90": 20, "sm_100": 21, "sm_80": 22}[architecture]  # plans know no architecture
    before = sum(HostStep.runs.values())
    (dtype, found), (_, wanted) = (scaled(where, left, right, rows, out, size=size) for where in ("cuda", "cpu"))
    np.testing.assert_allclose(found, wanted, rtol=1e-2 if out == "bfloat16" else 1e-5, atol=1e-5)
    assert dtype is getattr(rl, out) and sum(HostStep.runs.values()) == before
    text = last_matmul_text()
    assert (f"{kind}, bitcast=True" in text) if kind else "tl.float8" not in text


def test_sums_that_may_lose_digits(gpu):
    for fast in (False, True):
        scaled("cuda", "float8_e4m3fn", "float8_e4m3fn", False, "float32", fast)
        text = last_matmul_text()
        assert ("max_num_imprecise_acc" in text) is not fast

"""Planned attention against float64: ragged sizes, masks, shared heads, strides, half precision, gradients, other
CPUs."""

import math
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from rushlight._src.devices.cpu.templates import flash, flash_backward  # noqa: E402
from rushlight._src.devices.cpu.templates.attention import Attention, plan_attention, plan_attention_backward  # noqa: E402
from rushlight._src.devices.cpu.templates.scores import numbers_of, tile_of  # noqa: E402
from rushlight._src.ops.flash import AttentionSpec  # noqa: E402

from .contractions import Runner  # noqa: E402

pytestmark = pytest.mark.processor

# batch, heads, sharing, queries, keys, size, value size, causal, mask
CASES = {
    "whole blocks": (1, 2, 1, 96, 192, 64, 64, False, ""),
    "ragged": (2, 3, 1, 101, 333, 37, 19, False, ""),
    "causal": (1, 2, 1, 250, 250, 32, 32, True, ""),
    "causal, few keys": (1, 1, 1, 300, 70, 16, 16, True, ""),
    "causal, many keys": (1, 1, 1, 50, 400, 16, 80, True, ""),
    "shared heads": (2, 6, 3, 60, 200, 64, 64, False, ""),
    "bool mask": (2, 2, 1, 70, 210, 24, 24, False, "bool"),
    "added mask": (2, 2, 1, 70, 210, 24, 24, False, "float"),
    "mask of keys": (2, 2, 1, 70, 410, 24, 24, False, "keys"),
    "causal and mask": (2, 4, 2, 230, 230, 40, 24, True, "bool"),
    "one query": (3, 2, 1, 1, 500, 64, 64, False, ""),
    "few queries": (2, 4, 2, 3, 300, 64, 80, False, "bool"),
    "ten queries": (1, 2, 1, 10, 250, 40, 33, True, ""),
    "one key": (1, 1, 1, 5, 1, 3, 2, False, ""),
    "many queries": (1, 1, 1, 1000, 40, 8, 8, False, ""),
    "many of both": (1, 1, 1, 530, 800, 80, 24, False, ""),
}
TOLERANCE = {"float32": 5e-6, "bfloat16": 1e-2, "float16": 2e-3}


class Case:
    """Operands of one case, and what attention of them is in float64."""

    def __init__(self, name, dtype, last=False):
        batch, heads, sharing, queries, keys, size, value_size, self.causal, mask = CASES[name]
        torch.manual_seed(0)
        self.dtype, self.sharing = dtype, sharing

        def operand(*shape):
            x = torch.randn(shape).to(getattr(torch, dtype))
            return x.transpose(1, 2).contiguous().transpose(1, 2) if last else x

        self.q, self.k = operand(batch, heads, queries, size), operand(batch, heads // sharing, keys, size)
        self.v, self.grad = operand(batch, heads // sharing, keys, value_size), operand(batch, heads, queries,
                                                                                        value_size)
        self.scale = 1 / math.sqrt(size)
        self.mask = self.mask_kind = None
        if mask in ("bool", "keys"):
            self.mask = torch.rand(*((batch, 1, queries, keys) if mask == "bool" else (batch, 1, 1, keys))) > 0.4
            self.mask[0, 0, 0] = False  # a query that sees nothing
            self.mask[:, :, :, :keys // 2] = False  # blocks that nobody sees
            self.mask_kind = "bool"
        elif mask:
            self.mask, self.mask_kind = operand(batch, heads, queries, keys), dtype
        self.wide = [x.double().requires_grad_() for x in (self.q, self.k, self.v)]
        q, k, v = self.wide
        scores = q @ k.repeat_interleave(sharing, 1).mT * self.scale
        if self.mask_kind == "bool":
            scores = scores.masked_fill(~self.mask, -math.inf)
        elif self.mask_kind:
            scores = scores + self.mask.double()
        if self.causal:
            scores = scores.masked_fill(torch.ones(queries, keys).tril() == 0, -math.inf)
        weights = torch.softmax(scores, -1).nan_to_num(0)
        self.out = weights @ v.repeat_interleave(sharing, 1)
        self.lse = torch.logsumexp(scores, -1)
        self.lse = torch.where(self.lse == -math.inf, math.inf, self.lse)

    def problem(self):
        (batch, heads, queries, size), (_, _, keys, value_size) = self.q.shape, self.v.shape
        mask_strides = self.mask.expand(batch, heads, queries, keys).stride() if self.mask is not None else (0, 0, 0, 1)
        return Attention(batch, heads, self.sharing, queries, keys, size, value_size, self.q.stride(), self.k.stride(),
                         self.v.stride(), self.grad.stride(), self.dtype, AttentionSpec(self.causal, self.scale),
                         self.mask_kind or "", mask_strides,
                         self.grad.stride(), self.q.stride(), self.k.stride(), self.v.stride())

    def operands(self, **others):
        given = {"q": self.q, "k": self.k, "v": self.v, **others}
        if self.mask is not None:
            given["mask"] = self.mask
        return {name: x.data_ptr() for name, x in given.items()}

    def forward(self):
        out = torch.full_like(self.grad, math.nan)
        lse = torch.full(self.grad.shape[:3], math.nan)
        Runner(plan_attention(self.problem()), **self.operands(out=out, lse=lse))()
        return out, lse


def close(got, wanted, dtype):
    assert not got.isnan().any()
    assert (got.double() - wanted).abs().max() <= TOLERANCE[dtype] * max(wanted.abs().max(), 0.1)


@pytest.mark.parametrize("last", [False, True], ids=["heads first", "heads last"])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", CASES)
def test_forward(name, dtype, last):
    case = Case(name, dtype, last)
    out, lse = case.forward()
    close(out, case.out, dtype)
    seen = case.lse != math.inf
    assert torch.equal(seen, lse != math.inf)
    assert (lse.double() - case.lse)[seen].abs().max() < (1e-5 if dtype == "float32" else 1e-3)


@pytest.mark.parametrize("last", [False, True], ids=["heads first", "heads last"])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", CASES)
def test_gradients(name, dtype, last):
    case = Case(name, dtype, last)
    out, lse = case.forward()
    gradients = [torch.full_like(x, math.nan) for x in (case.q, case.k, case.v)]
    operands = case.operands(out=out, lse=lse, grad=case.grad, **dict(zip(("grad_q", "grad_k", "grad_v"), gradients)))
    Runner(plan_attention_backward(case.problem()), **operands)()
    for got, wanted in zip(gradients, torch.autograd.grad(case.out, case.wide, case.grad.double())):
        close(got, wanted.nan_to_num(0), dtype)


def test_infinities_and_nans_spread_as_in_the_formula():
    case = Case("whole blocks", "float32")
    case.q[0, 0, 5, 0] = math.nan
    case.k[0, 1, 7, 3] = math.inf
    out, _ = case.forward()
    assert out[0, 0, 5].isnan().all()
    assert not out[0, 0, :5].isnan().any()
    assert out[0, 1].isnan().any()


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_tiles_divide_blocks(dtype):
    for few in (False, True):
        kind = numbers_of(dtype, few)
        for module in (flash, flash_backward):
            block = module.block_of(kind)
            for rows in (1, 3, 14, 28, 48):
                for columns in (1, 16, 40, 64, 96, 112, 192):
                    tile_rows, vectors = tile_of(kind, rows, columns, block)
                    assert block.queries % tile_rows == block.keys % tile_rows == block.keys % (
                        vectors * kind.lanes) == 0


def test_refusals():
    strides = (256, 256, 16, 1)
    whole = (1, 1, 1, 16, 16, 16, 16)
    with pytest.raises(ValueError, match="float64"):
        plan_attention(Attention(*whole, strides, strides, strides, strides, "float64", AttentionSpec(False, 1.0)))
    with pytest.raises(ValueError, match="unit stride"):
        plan_attention(Attention(*whole, strides, (256, 256, 1, 16), strides, strides, "float32",
                                 AttentionSpec(False, 1.0)))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", ["ragged", "causal", "added mask"])
def test_scratch_is_not_left(name, dtype):
    """Tiles that do not divide a block would write past a worker's buffers, of which the last ends scratch."""
    case = Case(name, dtype, False)
    out, lse = case.forward()
    gradients = [torch.full_like(x, math.nan) for x in (case.q, case.k, case.v)]
    operands = case.operands(out=out, lse=lse, grad=case.grad, **dict(zip(("grad_q", "grad_k", "grad_v"), gradients)))
    plan = plan_attention_backward(case.problem())
    bounded = replace(plan, temporaries={key: size + 4096 for key, size in plan.temporaries.items()})
    runner = Runner(bounded, **operands)
    for key, buffer, address in zip(plan.temporaries, runner.keep[2], runner.values[len(operands):]):
        end = int(address) - buffer.ctypes.data + plan.temporaries[key]
        buffer[end:] = 77
        runner()
        assert (buffer[end:] == 77).all(), key

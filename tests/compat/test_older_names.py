"""Older names that programs still write, and small ones of devices, beside PyTorch."""
import importlib

import pytest
import torch as judge

import rushlight as torch

BOTH = (judge, torch)


def outcome(f, t):
    try:
        return f(t)
    except Exception as error:  # noqa: BLE001 - compared
        kind = type(error)
        return next(base.__name__ for base in kind.__mro__ if base.__module__ == "builtins")


def of(t, path):
    return importlib.import_module(f"{t.__name__}.{path}")


def scaled(t, recipe, scale_a, scale_b, **more):
    a = t.arange(-8, 8).repeat(16, 1).add(t.arange(16)[:, None] / 4).to(t.float8_e4m3fn)
    kind = getattr(t.nn.functional.ScalingType, recipe)
    out = t.nn.functional.scaled_mm(a, a.t(), t.tensor(scale_a), kind, t.tensor(scale_b), kind, **more)
    return str(out.dtype).split(".")[-1], out.float().tolist()


def entered(block):
    with block as found:
        return found if found is None else type(found).__name__


CALLS = [
    lambda t: t.zeros(2, device="meta").type(),
    lambda t: t.zeros(2).type(t.DoubleTensor).type(),
    lambda t: t.zeros(2).type("torch.LongTensor").type(),
    lambda t: t.zeros(2).type("torch.foo.DoubleTensor"),
    lambda t: t.zeros(2).type("DoubleTensor"),
    lambda t: t.zeros(2).type(int),
    lambda t: t.zeros(2).type(3),
    lambda t: t.zeros(2, device="meta").type(t.FloatTensor),
    lambda t: str(t.zeros(2).type_as(t.zeros(2, device="meta", dtype=t.float64)).device),
    lambda t: isinstance(t.zeros(2, device="meta"), t.FloatTensor),
    lambda t: isinstance(t.zeros(2), t.cuda.FloatTensor),
    lambda t: (t.cuda.LongTensor.__module__, t.cuda.LongTensor.__name__, t.cuda.LongTensor.is_cuda,
               t.LongTensor.is_cuda, str(t.cuda.LongTensor.dtype)),
    lambda t: t.cuda.FloatTensor([1.0]),
    lambda t: t.distributed.reduce_op.SUM.name,
    lambda t: t.distributed.reduce_op.NOTHING,
    lambda t: entered(t.cuda.stream(None)),
    lambda t: isinstance(t.cuda.stream(None), t.cuda.StreamContext),
    lambda t: entered(t.autograd.profiler.emit_itt(enabled=False)),
    lambda t: entered(t.autograd.profiler.emit_nvtx(enabled=False)),
    lambda t: of(t, "fx.experimental.symbolic_shapes").free_unbacked_symbols(3),
    lambda t: of(t, "backends.cuda").can_use_flash_attention(3),
    lambda t: scaled(t, "TensorWise", 0.5, 0.25),
    lambda t: scaled(t, "TensorWise", [0.5, 1.0], 0.25),
    lambda t: scaled(t, "TensorWise", 0.5, 0.25, output_dtype=t.float32, bias=t.arange(16.0)),
    lambda t: scaled(t, "TensorWise", 0.5, 2 ** -6, output_dtype=None),
    lambda t: scaled(t, "RowWise", [[0.5 + k] for k in range(16)], [[2.0 - k for k in range(16)]]),
    lambda t: scaled(t, "RowWise", [[0.5]], [[2.0]]),
]


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
@pytest.mark.filterwarnings("ignore")
def test_as_pytorch(call):
    wanted, got = (outcome(call, t) for t in BOTH)
    assert got == wanted or wanted == set() == set(got)


def test_questions_about_kernels_of_attention():
    for t in BOTH:
        cuda, q = of(t, "backends.cuda"), t.zeros(1, 1, 2, 4)
        asked = cuda.SDPAParams(q, q, q, None, 0.0, True, False)
        assert asked.query is q and asked.is_causal and asked.attn_mask is None
        assert not cuda.can_use_flash_attention(asked) and not cuda.can_use_efficient_attention(asked)


def test_unbacked_symbols_are_told():
    from rushlight.fx.experimental.symbolic_shapes import free_symbols, free_unbacked_symbols

    class Grown(torch.nn.Module):
        def forward(self, x, y):
            n = y.item()
            torch._check(n >= 0)
            return x + 1, torch.zeros(n)

    sizes = {"x": {0: torch.export.Dim("b", min=2)}, "y": None}
    program = torch.export.export(Grown(), (torch.ones(3), torch.tensor(4)), dynamic_shapes=sizes)
    shapes = [node.meta["val"] for node in program.graph.nodes if isinstance(node.meta.get("val"), torch.Tensor)]
    assert len(free_symbols(shapes)) == 2
    assert [str(s) for s in free_unbacked_symbols(shapes)] == ["u0"]


def test_the_legacy_profiler_records():
    from rushlight.autograd import profiler_legacy
    with profiler_legacy.profile() as found:
        torch.zeros(3).sum()
    assert any("sum" in event.key for event in found.function_events)

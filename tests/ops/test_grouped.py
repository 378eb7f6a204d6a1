"""Grouped matmuls and float8 matmuls, against torch."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

pytestmark = pytest.mark.processor

BOTH = (rushlight, torch)
SHAPES = {"rows": ((10, 8), (3, 8, 16), [2, 6, 10]), "columns": ((3, 4, 8), (8, 24), [8, 8, 24]),
          "within": ((4, 24), (24, 16), [8, 16, 24]), "batches": ((3, 4, 8), (3, 8, 16), None)}


def operands(f, shapes, offs):
    random = np.random.default_rng(0)
    a, b = (f.from_numpy(random.normal(size=s).astype(np.float32)).requires_grad_() for s in shapes)
    return a, b, None if offs is None else f.tensor(offs, dtype=f.int32)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_groups(name, dtype):
    *shapes, offs = SHAPES[name]
    found = []
    for f in BOTH:
        a, b, ends = operands(f, shapes, offs)
        out = f.nn.functional.grouped_mm(a.to(getattr(f, dtype)), b.to(getattr(f, dtype)), offs=ends)
        out.float().square().sum().backward()
        found.append([np.asarray(v.detach().float().tolist()) for v in (out, a.grad, b.grad)])
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4 if dtype == "float32" else 5e-2,
                                   atol=1e-4 if dtype == "float32" else 0.3)


@pytest.mark.parametrize("shapes, offs", [(((10, 8), (3, 8, 16)), None), (((10, 8), (3, 8, 16)), [2, 10]),
                                          (((10, 7), (3, 8, 16)), [2, 6, 10]), (((3, 4, 8), (2, 8, 16)), None)])
def test_wrong_groups(shapes, offs):
    for f in BOTH:
        a, b, ends = operands(f, shapes, offs)
        with pytest.raises(RuntimeError):
            f._grouped_mm(a, b, offs=ends)


def test_scaled_bytes():
    random = np.random.default_rng(0)
    x, y = random.normal(size=(16, 32)).astype(np.float32), random.normal(size=(32, 16)).astype(np.float32)
    found = []
    for f in BOTH:
        a, b = f.from_numpy(x).to(f.float8_e4m3fn), f.from_numpy(y.T.copy()).to(f.float8_e4m3fn).t()
        found.append(np.asarray(f._scaled_mm(a, b, scale_a=f.tensor(0.5), scale_b=f.tensor(2.0),
                                             out_dtype=f.bfloat16).float().tolist()))
        with pytest.raises((ValueError, RuntimeError)):  # PyTorch's type depends on the processor
            f._scaled_mm(a.float(), b.float(), scale_a=f.tensor(0.5), scale_b=f.tensor(2.0))
    np.testing.assert_allclose(*found, rtol=2e-2, atol=1e-2)


def test_bags_with_sparse_gradients():
    for mode in ("sum", "mean"):
        found = []
        for f in BOTH:
            table = f.nn.EmbeddingBag(10, 3, sparse=True, mode=mode)
            table(f.tensor([1, 2, 4, 5, 4]), f.tensor([0, 2])).sum().backward()
            assert table.weight.grad.is_sparse
            found.append(table.weight.grad.to_dense().tolist())
        np.testing.assert_allclose(*found, rtol=1e-6)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_kernels_of_floats_of_a_byte(name):
    """Conversions are arithmetic of kernels, with PyTorch's codes and numbers; what moves elements moves codes."""
    random = np.random.default_rng(0)
    values = np.concatenate([random.integers(0, 1 << 32, 20000, dtype=np.uint32).view(np.float32),
                             np.float32(random.normal(size=20000) * np.exp(4 * random.normal(size=20000)))])
    codes = np.arange(256, dtype=np.uint8).reshape(16, 16)
    found = []
    for f in BOTH:
        dtype = getattr(f, name)
        own = f.tensor(codes).view(dtype)
        rows = [f.tensor(values).to(dtype), f.tensor(values[20000:]).to(f.bfloat16).to(dtype), own.t().contiguous(),
                f.cat([own, own[:, 3:5].expand(16, 2)], 1)]
        found.append([r.view(f.uint8).tolist() for r in rows] + [own.float().numpy(),
                                                                 own.to(f.bfloat16).float().numpy()])
    for ours, theirs in zip(*found):
        np.testing.assert_array_equal(ours, theirs)


def written_bytes(f):
    """Operators that write, move and select float8 values."""
    dtype = f.float8_e4m3fn
    x = f.arange(24.0).reshape(4, 6).to(dtype)
    yield x.fill_(3.0)
    yield x.copy_(f.linspace(-5, 5, 24).reshape(4, 6))
    x[1:3] = f.ones(2, 6).to(dtype)
    x[:, ::2].copy_(f.full((4, 3), 7.7))
    yield x
    x[f.tensor([0, 3])] = f.full((2, 6), -2.0).to(dtype)
    yield x
    yield x[f.tensor([2, 0])]
    yield f.where(f.eye(4, 6).bool(), x, x.t().clone().t())
    yield f.full((2, 2), 2.3, dtype=dtype)
    yield f.stack([x, x]).unbind(0)[1].expand(2, 4, 6).contiguous()
    yield (x.float() > 0).to(dtype)
    yield x.to(f.float8_e5m2)
    yield x.double().to(dtype)
    y = f.linspace(-3, 3, 12).requires_grad_()
    y.to(dtype).float().square().sum().backward()
    yield y.grad


def test_writes_of_floats_of_a_byte():
    """A copy of each result, as it is then."""
    ours, theirs = ([(str(y.dtype).split(".")[-1], y.float().tolist()) for y in written_bytes(f)] for f in BOTH)
    assert ours == theirs


def test_a_compiled_layer_of_floats_of_a_byte():
    def layer(f):
        def run(x, w, s):
            codes = (x / s).clamp(-448, 448).to(f.float8_e4m3fn)
            return f._scaled_mm(codes, w.t(), s, f.tensor(1.0), out_dtype=f.bfloat16).relu()
        return run

    random = np.random.default_rng(0)
    x, w = (random.normal(size=s).astype(np.float32) for s in ((16, 32), (16, 32)))
    ours, theirs = (f.from_numpy(x) for f in BOTH), (f.from_numpy(w).to(f.float8_e4m3fn) for f in BOTH)
    (a, b), (c, d) = ours, theirs
    found = rushlight.compile(layer(rushlight))(a, c, rushlight.tensor(0.01))
    wanted = layer(torch)(b, d, torch.tensor(0.01))
    np.testing.assert_allclose(found.float().numpy(), wanted.float().numpy(), rtol=2e-2, atol=1e-2)


@pytest.mark.parametrize("wanting", ["input", "scale", "bias"])
def test_no_gradient_is_lost(wanting):
    """Results say that they depend on what wants a gradient; who asks for it is told that there is none."""
    for f in BOTH:
        x, scale = f.ones(16, 16, requires_grad=wanting == "input"), f.tensor(1.0, requires_grad=wanting == "scale")
        bias = f.ones(16, dtype=f.bfloat16, requires_grad=wanting == "bias")

        def run(x, scale, bias):
            w = f.ones(16, 16).to(f.float8_e4m3fn)
            return f._scaled_mm(x.to(w.dtype), w.t(), scale, f.tensor(1.0), bias=bias, out_dtype=f.bfloat16)

        with f.no_grad():
            assert not run(x, scale, bias).requires_grad
        found = run(x, scale, bias)
        assert found.requires_grad
        with pytest.raises(RuntimeError, match="derivative for aten::_scaled_mm is not implemented"):
            found.float().sum().backward()
    with pytest.raises(RuntimeError, match="derivative for aten::_scaled_mm is not implemented"):
        rushlight.compile(run)(x, scale, bias).float().sum().backward()

"""scaled_dot_product_attention against torch: by the template, by its formula, differentiated twice, mapped."""

import logging

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

pytestmark = pytest.mark.processor

ours, theirs = rushlight.nn.functional.scaled_dot_product_attention, torch.nn.functional.scaled_dot_product_attention


def operands(*shapes, dtype="float32", order=None):
    """Tensors of both, wanting gradients; ``order`` permutes dimensions in memory."""
    generator = torch.Generator().manual_seed(0)
    values = [torch.randn(s, generator=generator).to(getattr(torch, dtype)) for s in shapes]
    mirrored = [rushlight.tensor(x.float().numpy()).to(getattr(rushlight, dtype)) for x in values]
    if order:
        values, mirrored = ([x.permute(order).contiguous().permute(np.argsort(order).tolist()) for x in xs]
                            for xs in (values, mirrored))
    return [x.requires_grad_() for x in values], [x.requires_grad_() for x in mirrored]


def array(x):
    return x.detach().float().numpy()


def same(x, y, tolerance=3e-6):
    np.testing.assert_allclose(array(x), array(y), rtol=tolerance,
                               atol=tolerance * max(1, abs(array(y)).max(initial=0)))


SHAPE = (2, 4, 30, 16)
CASES = {
    "plain": ([SHAPE] * 3, None, {}),
    "causal": ([SHAPE] * 3, None, {"is_causal": True}),
    "scale": ([SHAPE] * 3, None, {"scale": -0.7}),
    "shared heads": ([SHAPE, (2, 2, 50, 16), (2, 2, 50, 8)], None, {"enable_gqa": True}),
    "mask of keys": ([SHAPE] * 3, ("bool", (2, 1, 1, 30)), {}),
    "added mask": ([SHAPE] * 3, ("float32", (30, 30)), {}),
    "two dimensions": ([(30, 16), (20, 16), (20, 8)], None, {}),
    "three dimensions": ([(3, 30, 16), (3, 20, 16), (3, 20, 8)], ("bool", (30, 20)), {}),
    "five dimensions": ([(2, 3, 4, 30, 16)] * 3, ("bool", (4, 30, 30)), {}),
    "keys for all batches": ([SHAPE, (4, 30, 16), (4, 30, 16)], None, {}),
    "mask of one column": ([SHAPE] * 3, ("float32", (30, 1)), {}),
    "no queries": ([(2, 4, 0, 16), SHAPE, SHAPE], None, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    shapes, mask, arguments = CASES[name]
    xs, ys = operands(*shapes)
    mask_x = mask_y = None
    if mask:
        mask_x = torch.rand(mask[1], generator=torch.Generator().manual_seed(1))
        mask_x = mask_x > 0.3 if mask[0] == "bool" else mask_x
        mask_y = rushlight.tensor(mask_x.numpy())
    wanted, got = theirs(*xs, mask_x, **arguments), ours(*ys, mask_y, **arguments)
    same(got, wanted)
    assert got.stride() == wanted.stride()
    if not wanted.numel():
        return
    weight = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(2))
    wanted.backward(weight)
    got.backward(rushlight.tensor(weight.numpy()))
    for x, y in zip(xs, ys):
        same(y.grad, x.grad)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves_with_heads_last(dtype):
    xs, ys = operands(SHAPE, SHAPE, SHAPE, dtype=dtype, order=(0, 2, 1, 3))
    wanted, got = theirs(*xs), ours(*ys)
    assert got.stride() == wanted.stride() and got.dtype is getattr(rushlight, dtype)
    same(got, wanted, 2e-2)
    wanted.sum().backward()
    got.sum().backward()
    for x, y in zip(xs, ys):
        same(y.grad, x.grad, 2e-2)
        assert x.grad.stride() == y.grad.stride()


@pytest.mark.parametrize("dtype, unit", [("bfloat16", 2.0 ** -8), ("float16", 2.0 ** -11)])
def test_the_formula_rounds_halves_once(dtype, unit):
    """Scores of a hundred units: one rounding of them would change results by tens of percent."""
    shapes = [(4, 30, 16), (2, 4, 20, 16), (2, 4, 20, 8)]
    xs, ys = operands(*shapes, dtype=dtype)
    xs, ys = ([(x.detach() * 5).requires_grad_() for x in values] for values in (xs, ys))
    exact = [x.detach().double().requires_grad_() for x in xs]
    wanted, got = theirs(*exact), ours(*ys)
    wanted.sum().backward()
    got.sum().backward()
    assert got.dtype is ys[0].dtype
    for found, true in [(got, wanted), *((y.grad, x.grad) for x, y in zip(exact, ys))]:
        np.testing.assert_allclose(array(found), array(true), rtol=2 * unit, atol=unit * abs(array(true)).max())


@pytest.mark.parametrize("shapes, mask, arguments", [
    ([(1, 2, 5, 4)] * 3, False, {}), ([(1, 2, 5, 4)] * 3, True, {}),
    ([(1, 2, 5, 4)] * 3, False, {"is_causal": True}),
    ([(1, 4, 5, 4), (1, 2, 6, 4), (1, 2, 6, 3)], False, {"enable_gqa": True})])
def test_second_derivatives(shapes, mask, arguments):
    xs, ys = operands(*shapes)
    masks = (torch.tensor([True, False, True, True, True]),
             rushlight.tensor([True, False, True, True, True])) if mask else (None, None)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        wanted = theirs(*xs, masks[0], **arguments)
    got = ours(*ys, masks[1], **arguments)
    first = torch.autograd.grad((wanted ** 2).sum(), xs, create_graph=True)
    ours_first = rushlight.autograd.grad((got ** 2).sum(), ys, create_graph=True)
    second = torch.autograd.grad(sum((g ** 2).sum() for g in first), xs)
    ours_second = rushlight.autograd.grad(sum((g ** 2).sum() for g in ours_first), ys)
    for x, y in zip(second, ours_second):
        same(y, x, 1e-5)


def test_the_template_takes_what_it_can_and_says_what_it_cannot(caplog):
    _, (q, k, v) = operands((1, 2, 7, 8), (1, 2, 7, 8), (1, 2, 7, 8))
    with caplog.at_level(logging.DEBUG, "rushlight.kernels"):
        ours(q, k, v)
        assert "prims.attention by template" in caplog.text
        assert "by its formula" not in caplog.text
        ours(q.double(), k.double(), v.double())
        assert "attention by its formula: FLASH_ATTENTION: torch.float64" in caplog.text
        ours(q, k, v, rushlight.zeros(7, 7, requires_grad=True))
        assert "a mask that wants a gradient" in caplog.text


def test_the_numpy_meaning_agrees():
    from rushlight._src.ops.flash import AttentionOperands, AttentionSpec, attention_numpy, gradient_numpy

    (q, k, v), _ = operands((2, 4, 9, 8), (2, 2, 11, 8), (2, 2, 11, 5))
    mask = torch.rand(2, 4, 9, 11, generator=torch.Generator().manual_seed(1)) > 0.3
    wanted = theirs(q, k, v, mask, enable_gqa=True)
    arrays = [array(x) for x in (q, k, v)]
    read, how = AttentionOperands(*arrays, mask.numpy()), vars(AttentionSpec(False, 8 ** -0.5))
    out, lse = attention_numpy(*read, **how)
    np.testing.assert_allclose(out, array(wanted), rtol=1e-5, atol=1e-6)
    gradients = gradient_numpy(np.ones_like(out), out, lse, *read, **how)
    for got, expected in zip(gradients, torch.autograd.grad(wanted.sum(), (q, k, v))):
        np.testing.assert_allclose(got, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_mapped():
    _, (q, k, v) = operands((3, 2, 5, 4), (3, 2, 5, 4), (3, 2, 5, 4))
    got = rushlight.func.vmap(ours)(q, k, v)
    same(got, ours(q, k, v))


@pytest.mark.parametrize("shape", [(5, 1), (2, 1, 5, 1), (1, 1), (2, 3, 1, 1), (1,)])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks_that_are_the_same_for_all_keys(shape, kind):
    """The kernel takes them, too, and agrees with the formula."""
    query, key = rushlight.randn(2, 3, 5, 8), rushlight.randn(2, 3, 7, 8)
    mask = rushlight.randn(shape) if kind == "float" else rushlight.ones(shape).bool()
    found = []
    for backend in (rushlight.nn.attention.SDPBackend.FLASH_ATTENTION, rushlight.nn.attention.SDPBackend.MATH):
        with rushlight.nn.attention.sdpa_kernel(backend):
            found.append(rushlight.nn.functional.scaled_dot_product_attention(query, key, key, mask))
    assert rushlight.allclose(*found, atol=1e-5)


@pytest.mark.parametrize("kind", ["bool", "float"])
@pytest.mark.parametrize("shape", [(3, 1, 6, 6), (2, 2, 6, 6), (2, 6, 6), (7, 1, 1, 1), (1, 1, 5, 6), (2, 3, 6, 2)])
def test_masks_that_do_not_broadcast_are_refused(shape, kind):
    for lib in (torch, rushlight):
        q = lib.zeros(2, 3, 6, 4)
        with pytest.raises(RuntimeError, match="must match the .*size"):
            lib.nn.functional.scaled_dot_product_attention(q, q, q, lib.ones(shape, dtype=getattr(lib, kind)))


@pytest.mark.parametrize("name, shape", [("src_mask", (2, 2)), ("src_key_padding_mask", (2, 4)),
                                         ("src_key_padding_mask", (3, 5))])
def test_masks_of_other_sizes_are_refused_by_layers(name, shape):
    for lib in (torch, rushlight):
        layer = lib.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
        with lib.no_grad(), pytest.raises(RuntimeError):
            layer(lib.zeros(2, 5, 8), **{name: lib.zeros(shape, dtype=lib.bool)})


@pytest.mark.parametrize("lead, dropout", [((2, 3), 0.5), ((3,), 0.0)])
def test_causal_with_a_mask_is_refused_where_the_formula_answers(lead, dropout):
    x, mask = rushlight.randn(*lead, 4, 8), rushlight.ones(4, 4).bool()
    with pytest.raises(RuntimeError, match="Explicit attn_mask should not be set when is_causal=True"):
        rushlight.nn.functional.scaled_dot_product_attention(x, x, x, mask, dropout, True)

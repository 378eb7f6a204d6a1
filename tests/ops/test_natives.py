"""Operators of the top level that are compositions, beside PyTorch."""
import pytest
import torch as judge

import rushlight as torch

BOTH = (judge, torch)


def at(t, values, *shape, **more):
    return t.tensor(values, **more).reshape(shape or (-1,))


def quantized(t):
    return t.quantize_per_tensor(t.arange(16.0).reshape(1, 1, 4, 4), 0.5, 3, t.quint8)


def written(t, name, *args):
    x = t.linspace(-2, 2, 8).reshape(2, 4)
    found = getattr(t, name)(x, *args)
    return x, found


def observed(t, rows, symmetric=False, low=0, high=255):
    state = [t.tensor([1]), t.tensor([1]), t.tensor([float("inf")] * rows), t.tensor([-float("inf")] * rows),
             t.ones(rows), t.zeros(rows, dtype=t.int32)]
    x = t.linspace(-2, 5, 24).reshape(4, 6).sin()
    found = [t.fused_moving_avg_obs_fake_quant(v, *state, 0.1, low, high, 0, rows > 1, symmetric) for v in (x, 3 * x)]
    return [*found, *state[2:]]


CALLS = [
    lambda t: t.conv_tbc(t.arange(30.0).reshape(5, 2, 3), t.arange(24.0).reshape(2, 3, 4), t.ones(4), 1),
    lambda t: t.native_channel_shuffle(t.arange(24).reshape(2, 4, 3), 2), lambda t: t.is_distributed(t.ones(1)),
    lambda t: t.affine_grid_generator(t.arange(6.0).reshape(1, 2, 3), [1, 1, 2, 2], False),
    lambda t: written(t, "dropout_", 1.0, True), lambda t: written(t, "alpha_dropout_", 0.5, False),
    lambda t: written(t, "feature_dropout_", 0.0, True), lambda t: written(t, "feature_dropout_", 1.0, True),
    lambda t: written(t, "rrelu_", 0.1, 0.3, False), lambda t: written(t, "i0_"),
    lambda t: written(t, "embedding_renorm_", t.tensor([0, 0]), 1.0, 2.0),
    lambda t: t.mkldnn_convolution(t.ones(1, 1, 3, 3), t.ones(1, 1, 2, 2), None, [0, 0], [1, 1], [1, 1], 1),
    lambda t: t.sym_constrain_range(3, min=1, max=5), lambda t: t.sym_constrain_range(9, min=1, max=5),
    lambda t: [t.autocast_increment_nesting(), t.autocast_increment_nesting(), t.autocast_decrement_nesting(),
               t.autocast_decrement_nesting()],
    lambda t: t.crow_indices_copy(t.eye(3).to_sparse_csr()), lambda t: t.cudnn_is_acceptable(t.ones(1)),
    lambda t: t.quantized_max_pool2d(quantized(t), [2, 2]), lambda t: t.quantized_max_pool1d(quantized(t)[0], [2]),
    lambda t: t.quantized_batch_norm(quantized(t), t.ones(1), t.zeros(1), t.ones(1), t.ones(1), 1e-5, 0.5, 2),
    lambda t: t.int_repr(quantized(t)), lambda t: [t.q_scale(quantized(t)), t.q_zero_point(quantized(t))],
    lambda t: t.batch_norm_update_stats(t.zeros(0, 3), t.zeros(3), t.ones(3), 0.1),
    lambda t: t.batch_norm_update_stats(t.zeros(2, 0), None, None, 0.1),
    lambda t: t.batch_norm_update_stats(t.arange(12.0).reshape(4, 3), t.zeros(3), t.ones(3), 0.1),
    lambda t: observed(t, 1), lambda t: observed(t, 4), lambda t: observed(t, 1, True, -128, 127),
    lambda t: t.cudnn_convolution(t.ones(1), t.ones(1), [0], [1], [1], 1, False, False, False),
    lambda t: t.miopen_convolution(t.ones(1), t.ones(1), None, [0], [1], [1], 1, False, False),
    lambda t: t.batch_norm_stats(t.ones(2, 3), 1e-5),
    lambda t: masked(t, (2, 1), 2), lambda t: masked(t, (2, 1), None), lambda t: masked(t, (2, 1), 1, 0),
    lambda t: masked(t, (1, 2), 1), lambda t: masked(t, (2, 2), 0), lambda t: masked(t, (2, 2), None),
    lambda t: masked(t, (2, 2), 1), lambda t: t._masked_softmax(t.ones(2), t.ones(2), 0, 2),
]


def masked(t, shape, kind, dim=None):
    """The softmax of scores [1, 1, 2, 2], or of a vector, with their first element masked; the vector's gradient, too:
    for others PyTorch has none."""
    mask, vector = t.arange(float(shape[0] * shape[1])).reshape(shape) == 0, shape == (2, 1)
    scores = t.arange(2.0 if vector else 4.0).reshape(shape if vector else (1, 1, 2, 2)).requires_grad_(vector)
    result = t._masked_softmax(scores, mask, dim, kind)
    if vector:
        (result.nan_to_num() * t.arange(1.0, 3.0).reshape(shape)).sum().backward()
    return [result.detach().nan_to_num(7.0)] + [scores.grad] * vector


def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return pytest.approx(value.dequantize().double().numpy(), abs=1e-5) if hasattr(value, "dequantize") else value


def values(value):
    if isinstance(value, (list, tuple)):
        return [values(v) for v in value]
    return value.dequantize().double().numpy() if hasattr(value, "dequantize") else value


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_as_pytorch_has_it(number):
    try:
        wanted = plain(CALLS[number](judge))
    except (NotImplementedError, RuntimeError) as error:
        with pytest.raises(type(error)):
            CALLS[number](torch)
        return
    assert values(CALLS[number](torch)) == wanted

"""Backward operators of ``torch.ops.aten`` give what PyTorch's give: eagerly, in compiled code, and differentiated."""
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402

DRAW = np.random.default_rng(0)


def drawn(*shape):
    return DRAW.standard_normal(shape).astype("float32")


X, G, IMAGE, WIDE = drawn(3, 4), drawn(3, 4), drawn(2, 4, 6, 7), drawn(2, 4, 6, 7)
UNIT, VOLUME = 1 / (1 + np.exp(-X)), drawn(2, 2, 5, 6, 6)
ROWS = np.array([0, 2, 1])
POINTWISE = {"threshold": (0.3,), "gelu": (), "silu": (), "mish": (), "hardswish": (), "hardsigmoid": (),
             "softplus": (2.0, 1.0), "softshrink": (0.4,), "hardshrink": (0.4,), "hardtanh": (-0.5, 0.8),
             "leaky_relu": (0.1, False)}
CASES = {f"{name}_backward": lambda t, a, more=more: (a(G), a(X), *more) for name, more in POINTWISE.items()}
CASES |= {f"{name}_backward": lambda t, a, more=more: (a(G), a(X), a(X[::-1] * 2), 0, *more)
          for name, more in (("mse_loss", ()), ("smooth_l1_loss", (0.7,)), ("huber_loss", (0.7,)))}
CASES |= {
    "sigmoid_backward": lambda t, a: (a(G), a(UNIT)),
    "tanh_backward": lambda t, a: (a(G), a(np.tanh(X))),
    "logit_backward": lambda t, a: (a(G), a(UNIT), 0.2),
    "elu_backward": lambda t, a: (a(G), 1.3, 1.1, 0.9, False, a(X)),
    "log_sigmoid_backward": lambda t, a: (a(G), a(X), a(np.exp(-abs(X)))),
    "glu_backward": lambda t, a: (a(G[:, :2]), a(X), 1),
    "_softmax_backward_data": lambda t, a: (a(G), a(UNIT), 1, t.float32),
    "_log_softmax_backward_data": lambda t, a: (a(G), a(np.log(UNIT)), 1, t.float32),
    "binary_cross_entropy_backward": lambda t, a: (a(G), a(UNIT), a(UNIT[::-1]), None, 0),
    "nll_loss_backward": lambda t, a: (a(G[0, 0]), a(X), a(ROWS), None, 1, -100, a(np.float32(3))),
    "embedding_dense_backward": lambda t, a: (a(G), a(np.array([1, 1, 4])), 6, 4, False),
    "native_layer_norm_backward": lambda t, a: (a(G), a(X), [4], *a.moments(X, 1), a(X[0]), a(X[1]), [True] * 3),
    "native_batch_norm_backward": lambda t, a: (a(G), a(X), a(X[0]), a(X[1]), a(UNIT[0]), *a.moments(X, 0, False), True,
                                                1e-5, [True] * 3),
    "native_group_norm_backward": lambda t, a: (a(WIDE), a(IMAGE), *a.moments(IMAGE.reshape(2, 2, -1), 2, False),
                                                a(X[0]), 2, 4, 42, 2, [True] * 3),
    "convolution_backward": lambda t, a: (a(WIDE[:, :3]), a(IMAGE), a(X.reshape(3, 4, 1, 1)), [3], [1, 1],
                                          [0, 0], [1, 1], False, [0, 0], 1, [True, True, True]),
    "avg_pool2d_backward": lambda t, a: (a(WIDE[..., :3, :3]), a(IMAGE), [2, 2], [2, 2], [0, 0], False, True, None),
    "avg_pool3d_backward": lambda t, a: (a(VOLUME[..., :2, :3, :3]), a(VOLUME), [2, 2, 2], [2, 2, 2], [0] * 3, False,
                                         True, None),
    "_adaptive_avg_pool2d_backward": lambda t, a: (a(WIDE[..., :2, :3]), a(IMAGE)),
    "max_pool2d_with_indices_backward": lambda t, a: (
        a(WIDE[..., :3, :3]), a(IMAGE), [2, 2], [2, 2], [0, 0], [1, 1], False,
        t.ops.aten.max_pool2d_with_indices(a(IMAGE).detach(), [2, 2])[1]),
    "reflection_pad2d_backward": lambda t, a: (a(np.pad(WIDE, [(0, 0), (0, 0), (1, 2), (2, 1)])), a(IMAGE),
                                               [2, 1, 1, 2]),
    "replication_pad1d_backward": lambda t, a: (a(VOLUME.reshape(2, 4, -1)[..., :9]), a(IMAGE[:, :, 0]), [1, 1]),
    "select_backward": lambda t, a: (a(G[0]), [3, 4], 0, 2),
    "slice_backward": lambda t, a: (a(G[:, :2]), [3, 4], 1, 0, 4, 2),
    "diagonal_backward": lambda t, a: (a(G[0, :3]), [3, 4], 1, 0, 1),
    "unfold_backward": lambda t, a: (a(WIDE[0, :3, :2, :3]), [3, 4], 1, 3, 1),
}


class Arrays:
    """Arrays as tensors of a library; those of floats want gradients."""

    def __init__(self, library):
        self.library, self.made = library, []

    def __call__(self, array):
        made = self.library.tensor(np.array(array))
        if made.is_floating_point():
            self.made.append(made.requires_grad_())
        return made

    def moments(self, array, dim, keep=True):
        """The mean and the inverse deviation over a dimension."""
        mean, spread = array.mean(dim, keepdims=keep), 1 / np.sqrt(array.var(dim, keepdims=keep) + 1e-5)
        return self(mean).detach(), self(spread).detach()


def results(value):
    return [one for one in (value if isinstance(value, (tuple, list)) else [value]) if one is not None]


def close(ours, theirs):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        assert a.shape == b.shape and str(a.dtype) == str(b.dtype)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", CASES)
def test_as_pytorch(name):
    theirs = results(getattr(torch.ops.aten, name).default(*[
        x.detach() if isinstance(x, torch.Tensor) else x for x in CASES[name](torch, Arrays(torch))]))
    given = [x.detach() if isinstance(x, rl.Tensor) else x for x in CASES[name](rl, Arrays(rl))]
    close(results(getattr(rl.ops.aten, name).default(*given)), theirs)
    places = [k for k, x in enumerate(given) if isinstance(x, rl.Tensor)]

    def call(*tensors):
        filled = list(given)
        for k, tensor in zip(places, tensors):
            filled[k] = tensor
        return getattr(rl.ops.aten, name)(*filled)

    close(results(rl.compile(call, fullgraph=True)(*[given[k] for k in places])), theirs)


@pytest.mark.parametrize("name", ["gelu_backward", "convolution_backward", "avg_pool2d_backward", "sigmoid_backward",
                                  "_softmax_backward_data", "embedding_dense_backward"])
def test_gradients_of_gradients(name):
    """The backward operator is differentiable, by the gradient that it is given and by the tensors of the forward."""
    found = []
    for library in (rl, torch):
        arrays = Arrays(library)
        outputs = results(getattr(library.ops.aten, name)(*CASES[name](library, arrays)))
        sum((one * one).sum() for one in outputs).backward()
        found.append([library.zeros_like(x) if x.grad is None else x.grad for x in arrays.made])
    close(*found)

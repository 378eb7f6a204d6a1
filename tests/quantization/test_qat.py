"""Training with rounded weights and activations against PyTorch: the same graph, losses near each other, and the same
integers in the end."""
import numpy as np
import pytest

import rushlight

from .judge import BOTH, torch
from .test_fx import convolutional, room

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(5)
IMAGES = RNG.standard_normal((6, 8, 3, 16, 16)).astype(np.float32)
LABELS = RNG.integers(0, 5, (6, 8))


def same_start(build):
    torch.manual_seed(0)
    theirs, ours = build(torch), build(rushlight)
    ours.load_state_dict({k: rushlight.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    return (rushlight, ours), (torch, theirs)


def train(t, model):
    """Losses of six steps."""
    optimizer, losses = t.optim.SGD(model.parameters(), lr=0.05), []
    for x, y in zip(IMAGES, LABELS):
        optimizer.zero_grad()
        loss = t.nn.functional.cross_entropy(model(t.tensor(x)), t.tensor(y))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def prepared(t, model, mapping=None):
    return room(t, ".quantize_fx").prepare_qat_fx(model, mapping or room(t, "").get_default_qat_qconfig_mapping("x86"),
                                                  (t.tensor(IMAGES[0]),))


@pytest.mark.parametrize("observer, kwargs", [
    ("MovingAverageMinMaxObserver", {"quant_min": 0, "quant_max": 255, "reduce_range": True}),
    ("MovingAverageMinMaxObserver", {"quant_min": -128, "quant_max": 127, "dtype": "qint8",
                                     "qscheme": "per_tensor_symmetric"}),
    ("MovingAveragePerChannelMinMaxObserver", {"quant_min": -128, "quant_max": 127, "dtype": "qint8",
                                               "qscheme": "per_channel_symmetric"})])
@pytest.mark.parametrize("shift, size", [(0, 1), (-3, 1), (5, 1), (0, 1e-4), (0, 0)])
def test_moving_averages_choose_the_same_steps(observer, kwargs, shift, size):
    found = []
    for t in BOTH:
        given = {k: getattr(t, v) if isinstance(v, str) else v for k, v in kwargs.items()}
        module = room(t, "").FusedMovingAvgObsFakeQuantize(getattr(room(t, ".observer"), observer), **given)
        for x in IMAGES[:3, :, 0]:
            out = module(t.tensor(((x * (1 + np.arange(8)[:, None, None]) + shift) * size).astype(np.float32)))
        found.append([v.numpy() for v in (out, module.scale, module.zero_point, *module.calculate_qparams())])
    for ours, theirs in zip(*found):
        assert ours.dtype == theirs.dtype and np.allclose(ours, theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["ConvBn2d", "ConvBnReLU2d", "ConvReLU2d", "LinearReLU", "LinearBn1d"])
def test_layers_and_their_states(name):
    found = []
    for t in BOTH:
        kind = getattr(t.ao.nn.intrinsic.qat, name)
        qconfig = room(t, "").get_default_qat_qconfig("x86")
        layer = kind(3, 4, 3, bias=True, qconfig=qconfig) if "Conv" in name else kind(3, 4, qconfig=qconfig)
        x = IMAGES[0] if "Conv" in name else IMAGES[0, :, :, 0, 0]
        rng = np.random.default_rng(1)
        for parameter in layer.parameters():
            parameter.data = t.tensor(rng.uniform(0.2, 1.0, tuple(parameter.shape)).astype(np.float32))
        out = [layer(t.tensor(x))]
        out[0].square().sum().backward()
        if "Bn" in name:
            layer.apply(t.ao.nn.intrinsic.qat.freeze_bn_stats)
            layer.freeze_bn_stats()  # PyTorch's function leaves linear layers alone
            out.append(layer(t.tensor(x)))
            assert not layer.train().bn.training
        found.append([[v.detach().numpy() for v in out], {k: v.numpy() for k, v in layer.state_dict().items()},
                      [p.grad.numpy() for p in layer.parameters()]])
    ours, theirs = found
    assert list(ours[1]) == list(theirs[1])
    for a, b in zip([*ours[0], *ours[1].values(), *ours[2]], [*theirs[0], *theirs[1].values(), *theirs[2]]):
        assert np.allclose(a, b, rtol=1e-4, atol=1e-3), (a, b)


def test_training_and_conversion_agree():
    (t, ours), (u, theirs) = same_start(convolutional)
    a, b = prepared(t, ours), prepared(u, theirs)
    assert [str(n) for n in a.graph.nodes] == [str(n) for n in b.graph.nodes]
    assert {k: type(m).__name__ for k, m in a.named_children()} == {k: type(m).__name__ for k, m in b.named_children()}
    assert train(t, a) == pytest.approx(train(u, b), rel=0.02)
    # from the same state, the same quantized values
    a.load_state_dict({k: t.tensor(v.numpy()) for k, v in b.state_dict().items()})
    a, b = (room(lib, ".quantize_fx").convert_fx(model.eval()) for lib, model in ((t, a), (u, b)))
    for name in ("first", "second", "depthwise", "head"):
        x, y = getattr(a, name), getattr(b, name)
        assert type(x).__name__ == type(y).__name__ and x.zero_point == int(y.zero_point)
        assert np.abs(x.weight().int_repr().numpy().astype(int) - y.weight().int_repr().numpy()).mean() < 0.01
    step = float(b.head.scale)
    for x in IMAGES:
        apart = np.abs(a(t.tensor(x)).numpy() - b(u.tensor(x)).numpy())
        assert apart.max() <= 2.01 * step and (apart > 1.01 * step).mean() < 0.05


def test_learning_goes_on_where_layers_are_excluded():
    t, ours = same_start(convolutional)[0]
    model = prepared(t, ours, room(t, "").get_default_qat_qconfig_mapping("x86").set_module_name("second", None))
    assert type(model.second) is t.ao.nn.intrinsic.ConvBn2d and np.isfinite(train(t, model)).all()


def test_what_cannot_be_prepared():
    t = rushlight
    with pytest.raises(AssertionError):
        prepared(t, convolutional(t).eval())
    with pytest.raises(AssertionError):
        t.ao.nn.qat.Linear(2, 2)
    with pytest.raises(AssertionError):
        t.ao.nn.qat.Linear.from_float(t.nn.Linear(2, 2))

"""Models prepared and converted module by module, against PyTorch: the same modules, scales and integers."""
import io

import numpy as np
import pytest

import rushlight

from .judge import BOTH, torch
from .test_fx import room
from .test_qat import IMAGES, same_start, train

pytestmark = pytest.mark.filterwarnings("ignore")
FUSED = [["first", "norm", "relu"], ["second", "other"]]


def network(t):
    nn, eager = t.nn, t.ao.quantization

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = eager.QuantStub(), eager.DeQuantStub()
            self.first, self.norm, self.relu = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()
            self.second, self.other = nn.Conv2d(8, 8, 1, bias=False), nn.BatchNorm2d(8)
            self.plus, self.both = t.ao.nn.quantized.FloatFunctional(), t.ao.nn.quantized.FloatFunctional()
            self.pool, self.head = nn.MaxPool2d(2), nn.Linear(16, 5)

        def forward(self, x):
            x = self.relu(self.norm(self.first(self.quant(x))))
            x = self.pool(self.plus.add_relu(x, self.other(self.second(x))))
            x = t.flatten(t.nn.functional.adaptive_avg_pool2d(self.both.cat([x, x], 1), 1), 1)
            return self.dequant(self.head(x))

    return Model()


def static(t, model):
    model = t.ao.quantization.fuse_modules(model.eval(), FUSED)
    model.qconfig = t.ao.quantization.get_default_qconfig("x86")
    return t.ao.quantization.prepare(model)


def names(model):
    return {k: type(m).__name__ for k, m in model.named_modules() if not k.endswith("_packed_params")}


def close(t, a, u, b, step):
    """Few results are a unit apart, nearly none two."""
    apart = np.concatenate([np.abs(a(t.tensor(x)).detach().numpy() - b(u.tensor(x)).detach().numpy()) for x in IMAGES])
    assert apart.max() <= 2.01 * step and (apart > 1.01 * step).mean() < 0.02 and (apart > 0.01 * step).mean() < 0.2


def crossed(source, target, state):
    """A state dict of one framework as that of the other, by a file."""
    file = io.BytesIO()
    source.save(state, file)
    file.seek(0)
    return target.load(file, weights_only=False)


def test_static_models_agree_and_files_cross():
    (t, ours), (u, theirs) = same_start(network)
    made = []
    for lib, model in ((t, ours), (u, theirs)):
        model = static(lib, model)
        with lib.no_grad():
            for x in IMAGES:
                model(lib.tensor(x))
        made.append((names(model), list(model.state_dict()), lib.ao.quantization.convert(model)))
    assert made[0][:2] == made[1][:2]
    a, b = made[0][2], made[1][2]
    assert names(a) == names(b) and list(a.state_dict()) == list(b.state_dict())
    step = float(b.head.scale)
    close(t, a, u, b, step)
    fresh = t.ao.quantization.convert(static(t, network(t)))
    fresh.load_state_dict(crossed(u, t, b.state_dict()))
    close(t, fresh, u, b, step)
    back = u.ao.quantization.convert(static(u, network(u)))
    back.load_state_dict(crossed(t, u, a.state_dict()))
    close(t, a, u, back, step)


def test_training_agrees():
    (t, ours), (u, theirs) = same_start(network)
    made = []
    for lib, model in ((t, ours), (u, theirs)):
        model = lib.ao.quantization.fuse_modules_qat(model.train(), FUSED)
        model.qconfig = lib.ao.quantization.get_default_qat_qconfig("x86")
        made.append(lib.ao.quantization.prepare_qat(model))
    a, b = made
    assert names(a) == names(b) and list(a.state_dict()) == list(b.state_dict())
    assert train(t, a) == pytest.approx(train(u, b), rel=0.02)
    a.load_state_dict({k: t.tensor(v.numpy()) for k, v in b.state_dict().items()})
    a, b = t.ao.quantization.convert(a.eval()), u.ao.quantization.convert(b.eval())
    assert names(a) == names(b)
    close(t, a, u, b, float(b.head.scale))


LAYERS = {"ReLU6": (), "Hardswish": (), "ELU": (), "LeakyReLU": (0.1,), "Dropout": (), "BatchNorm2d": (6,),
          "LayerNorm": (5,), "GroupNorm": (2, 6), "InstanceNorm2d": (6,), "Conv2d": (6, 4, 3), "Linear": (5, 3)}


@pytest.mark.parametrize("name", LAYERS)
def test_each_layer(name):
    x, found = np.random.default_rng(0).standard_normal((4, 6, 5, 5)).astype(np.float32), []
    for t in BOTH:
        torch.manual_seed(0)
        layer = getattr(torch.nn, name)(*LAYERS[name]).eval()
        if t is rushlight:
            state, layer = layer.state_dict(), getattr(t.nn, name)(*LAYERS[name]).eval()
            layer.load_state_dict({k: t.tensor(v.numpy()) for k, v in state.items()})
        layer.qconfig = t.ao.quantization.default_qconfig
        made = t.ao.quantization.quantize(t.ao.quantization.QuantWrapper(layer), lambda m, t=t: m(t.tensor(x)), ())
        found.append((names(made), made(t.tensor(x)).detach().numpy(), sorted(made.state_dict()), repr(made.quant)))
    ours, theirs = found
    assert ours[0] == theirs[0] and ours[2:] == theirs[2:]
    step = np.diff(np.unique(theirs[1])).max()
    apart = np.abs(ours[1] - theirs[1])
    assert apart.max() <= 1.01 * step and (apart > 0.01 * step).mean() < 0.02


def test_prelu():
    t = rushlight
    x, layer = t.linspace(-2, 2, 24).reshape(2, 6, 2), t.nn.PReLU(6).eval()
    layer.qconfig = t.ao.quantization.default_qconfig
    made = t.ao.quantization.quantize(t.ao.quantization.QuantWrapper(layer), lambda m: m(x), ())
    assert type(made.module) is t.ao.nn.quantized.PReLU and (made(x) - layer(x)).abs().max() < 0.05


def test_converted_models_are_one_graph():
    t, ours = same_start(network)[0]
    model = static(t, ours)
    model(t.tensor(IMAGES[0]))
    model = t.ao.quantization.convert(model)
    with t.no_grad():
        found = t.compile(model, fullgraph=True)(t.tensor(IMAGES[1]))
        assert (found == model(t.tensor(IMAGES[1]))).all()


@pytest.mark.parametrize("kinds, qat", [
    (("Conv2d", "BatchNorm2d"), False), (("Conv2d", "BatchNorm2d", "ReLU"), False),
    (("Linear", "BatchNorm1d", "ReLU"), False),
    (("Conv2d", "Conv2d"), True), (("Conv2d",), True), (("Conv1d", "ReLU"), True),
    (("Linear", "ReLU"), True), (("Linear", "BatchNorm1d"), True), (("BatchNorm2d", "ReLU"), True),
    (("Conv2d", "BatchNorm2d", "ReLU"), True), (("Linear", "BatchNorm1d", "ReLU"), True), (("ReLU", "Conv2d"), True),
    (("Conv2d", "ReLU", "BatchNorm2d"), True), (("Conv2d", "BatchNorm1d"), True), (("Linear", "Tanh"), False)])
def test_what_is_fused(kinds, qat):
    found = []
    for t in BOTH:
        layers = [getattr(t.nn, k)(*((4, 4, 1) if "Conv" in k else (4, 4) if k == "Linear" else (4,)
                                     if "Norm" in k else ())) for k in kinds]
        model = t.nn.Sequential(*layers).train(qat)
        fuse = t.ao.quantization.fuse_modules_qat if qat else t.ao.quantization.fuse_modules
        try:
            found.append(names(fuse(model, [str(k) for k in range(len(kinds))])))
        except AssertionError:
            found.append(None)
    assert found[0] == found[1]


@pytest.mark.parametrize("form", ["Embedding", "rows", "offsets", "weighted", "last"])
def test_tables(form):
    found, indices = [], np.array([[1, 2, 9], [0, 0, 3]])
    table = np.random.default_rng(2).standard_normal((10, 12)).astype(np.float32)
    for t in BOTH:
        layer = t.nn.Embedding(10, 12) if form == "Embedding" else t.nn.EmbeddingBag(
            10, 12, mode="sum", include_last_offset=form == "last")
        layer.weight.data = t.tensor(table)
        model = t.nn.Sequential(layer)
        model.qconfig = t.ao.quantization.float_qparams_weight_only_qconfig
        model = t.ao.quantization.convert(t.ao.quantization.prepare(model))
        given = (t.tensor(indices),) if form in ("Embedding", "rows", "weighted") else (
            t.tensor(indices.reshape(-1)), t.tensor([0, 2, 6] if form == "last" else [0, 2]))
        more = {"per_sample_weights": t.tensor(table[:2, :3])} if form == "weighted" else {}
        found.append((t, model, given, more, model[0](*given, **more).numpy(), model.state_dict()))
    (t, ours, given, more, a, mine), (u, theirs, _, _, b, other) = found
    assert np.abs(a - b).max() < 1e-5 and names(ours) == names(theirs) and list(mine) == list(other)
    assert (ours[0].weight().int_repr().numpy() == theirs[0].weight().int_repr().numpy()).all()
    fresh = type(ours[0])(10, 12, **({"include_last_offset": True} if form == "last" else {}))
    fresh.load_state_dict({k.removeprefix("0."): v for k, v in crossed(u, t, other).items()})
    assert (fresh(*given, **more).numpy() == a).all()


def test_what_cannot_be_done():
    eager = room(rushlight, "")
    with pytest.raises(AssertionError):
        eager.prepare_qat(rushlight.nn.Linear(2, 2).eval())
    with pytest.raises(NotImplementedError):
        eager.convert(rushlight.nn.Linear(2, 2), is_reference=True)
    with pytest.raises(NotImplementedError):
        rushlight.ao.nn.quantized.EmbeddingBag(3, 2, mode="mean")
    with pytest.raises(RuntimeError):
        rushlight.ao.nn.quantized.QFunctional()(rushlight.ones(2))


@pytest.mark.parametrize("make", [
    lambda q: q.Linear(3, 2), lambda q: q.Conv2d(3, 2, 1), lambda q: q.QFunctional(),
    lambda q: q.LayerNorm([4], rushlight.ones(4), rushlight.zeros(4), 0.5, 3)])
def test_state_dicts_are_loaded_by_layers_of_their_kind(make):
    made = make(rushlight.ao.nn.quantized)
    assert str(make(rushlight.ao.nn.quantized).load_state_dict(made.state_dict())) == "<All keys matched successfully>"


def test_a_layer_norm_rounds_its_scale_before_it_is_loaded_as_after():
    made, loaded = (rushlight.ao.nn.quantized.LayerNorm([4], rushlight.ones(4), rushlight.zeros(4), scale, 3)
                    for scale in (0.1, 0.5))
    loaded.load_state_dict(made.state_dict())
    assert made.known == loaded.known == (float(rushlight.tensor(0.1)), 3)

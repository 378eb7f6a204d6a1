"""prepare_fx and convert_fx against PyTorch: the same observers, scales and zero points, and the same integers except
halfway cases."""
import importlib

import numpy as np
import pytest

import rushlight

from .judge import torch

pytestmark = pytest.mark.filterwarnings("ignore")


def room(t, path):
    return importlib.import_module(f"{t.__name__}.ao.quantization{path}")


def convolutional(t):
    nn = t.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.relu = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()
            self.second, self.other = nn.Conv2d(8, 8, 1, bias=False), nn.BatchNorm2d(8)
            self.depthwise, self.pool, self.average, self.head = nn.Conv2d(8, 8, 3, 2, 1,
                                                                           groups=8), nn.MaxPool2d(
                                                                               2), nn.AdaptiveAvgPool2d(1), nn.Linear(
                                                                                   8, 5)

        def forward(self, x):
            x = self.relu(self.norm(self.first(x)))
            x = self.relu(x + self.other(self.second(x)))
            x = self.pool(self.depthwise(x))
            return self.head(t.flatten(self.average(x), 1))

    return Model()


def mixed(t):
    nn = t.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.norm = nn.Linear(48, 24), nn.Linear(24, 16), nn.LayerNorm(16)

        def forward(self, x):
            x = t.nn.functional.gelu(self.first(x.flatten(2)))
            x = t.softmax((self.norm(self.second(x)) * 2).sigmoid(), -1)
            return t.cat([x, x], -1)

    return Model()


def activated(t):
    nn = t.nn
    return nn.Sequential(nn.Linear(12, 16), nn.Hardswish(), nn.Dropout(0.4), nn.Linear(16, 8), nn.LeakyReLU(0.2),
                         nn.Linear(8, 6), nn.ELU(0.7), nn.Linear(6, 3), nn.Dropout())


MODELS = {"convolutional": (convolutional, (4, 3, 16, 16)), "mixed": (mixed, (4, 3, 4, 12)),
          "activated": (activated, (5, 12))}


def both(name):
    build, shape = MODELS[name]
    torch.manual_seed(0)
    theirs, ours = build(torch).eval(), build(rushlight).eval()
    ours.load_state_dict({k: rushlight.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    rng = np.random.default_rng(0)
    return (rushlight, ours), (torch, theirs), [rng.standard_normal(shape).astype(np.float32) for _ in range(3)]


def prepared(t, model, data, mapping=None):
    found = room(t, ".quantize_fx").prepare_fx(model, mapping or room(t, "").get_default_qconfig_mapping("x86"),
                                               (t.tensor(data[0]),))
    with t.no_grad():
        for x in data:
            found(t.tensor(x))
    return found


@pytest.mark.parametrize("name", MODELS)
def test_observers_stand_where_pytorch_puts_them(name):
    (t, ours), (u, theirs), data = both(name)
    a, b = prepared(t, ours, data), prepared(u, theirs, data)
    assert [str(n) for n in a.graph.nodes] == [str(n) for n in b.graph.nodes]
    children = dict(b.named_children())
    assert children.keys() == dict(a.named_children()).keys()
    for name, x in a.named_children():
        y = children[name]
        assert type(x).__name__ == type(y).__name__
        if name.startswith("activation_post_process"):
            for p, q in zip(x.calculate_qparams(), y.calculate_qparams()):
                assert p.numpy() == pytest.approx(q.numpy(), rel=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_converted_models_agree(name):
    (t, ours), (u, theirs), data = both(name)
    a, b = (room(lib, ".quantize_fx").convert_fx(prepared(lib, model, data)) for lib, model in ((t, ours), (u, theirs)))
    with t.no_grad(), u.no_grad():
        wanted = b(u.tensor(data[0])).numpy()
        found = a(t.tensor(data[0])).numpy()
        # the value of one quantization step
        step = float(b.head.scale) if name == "convolutional" else np.diff(np.unique(wanted)).max()
        assert np.abs(found - wanted).max() <= 1.01 * step and (np.abs(found - wanted) > 0.01 * step).mean() < 0.1
        assert [type(m).__name__ for m in a.children()] == [type(m).__name__ for m in b.children()]
        compiled = t.compile(a, fullgraph=True, options={"freezing": True})
        assert np.abs(compiled(t.tensor(data[0])).numpy() - found).max() == 0


def test_layers_hold_the_same_numbers_and_files_cross():
    (t, ours), (u, theirs), data = both("convolutional")
    a, b = (room(lib, ".quantize_fx").convert_fx(prepared(lib, model, data)) for lib, model in ((t, ours), (u, theirs)))
    for name in ("first", "second", "depthwise", "head"):
        x, y = getattr(a, name), getattr(b, name)
        assert type(x).__name__ == type(y).__name__ and x.scale == pytest.approx(float(y.scale),
                                                                                 rel=1e-6) and x.zero_point == int(
                                                                                     y.zero_point)
        assert (x.weight().int_repr().numpy()
                == y.weight().int_repr().numpy()).all() and list(x.state_dict()) == list(y.state_dict())
    state = a.state_dict()
    a.load_state_dict(state)
    assert (a(t.tensor(data[0])).numpy() == a(t.tensor(data[0])).numpy()).all()


def test_what_a_mapping_excludes_stays_float():
    (t, ours), _, data = both("convolutional")
    mapping = room(t, "").get_default_qconfig_mapping("x86").set_module_name("second", None)
    converted = room(t, ".quantize_fx").convert_fx(prepared(t, ours, data, mapping))
    assert type(converted.second) is t.nn.Conv2d and np.isfinite(converted(t.tensor(data[0])).detach().numpy()).all()


@pytest.mark.parametrize("name, kwargs", [
    ("MinMaxObserver", {}), ("MinMaxObserver", {"qscheme": "per_tensor_symmetric", "dtype": "qint8"}),
    ("MovingAverageMinMaxObserver", {}),
    ("PerChannelMinMaxObserver", {}),
    ("PerChannelMinMaxObserver", {"qscheme": "per_channel_symmetric", "dtype": "qint8", "ch_axis": 1}),
    ("PerChannelMinMaxObserver", {"qscheme": "per_channel_affine_float_qparams"}),
    ("MovingAveragePerChannelMinMaxObserver", {}), ("HistogramObserver", {}),
    ("HistogramObserver", {"reduce_range": True}),
    ("HistogramObserver", {"qscheme": "per_tensor_symmetric", "dtype": "qint8", "bins": 256})])
def test_observers(name, kwargs):
    rng, found = np.random.default_rng(3), []
    data = [(rng.standard_normal((6, 5, 40)) * (k + 1) + k).astype(np.float32) for k in range(4)]
    for t in (rushlight, torch):
        given = {k: getattr(t, v) if isinstance(v, str) else v for k, v in kwargs.items()}
        observer = getattr(room(t, ".observer"), name)(**given)
        for x in data:
            assert observer(t.tensor(x)).shape == x.shape
        found.append(observer.calculate_qparams())
    for ours, theirs in zip(*found):
        assert ours.numpy() == pytest.approx(theirs.numpy(), rel=1e-6) and repr(ours.dtype) == repr(theirs.dtype)


def test_a_model_in_training_is_refused():
    with pytest.raises(RuntimeError):
        room(rushlight, ".quantize_fx").prepare_fx(rushlight.nn.Linear(2, 2), None, ())
    with pytest.raises(AssertionError):
        room(rushlight, ".quantize_fx").convert_fx(rushlight.nn.Linear(2, 2))


def residual(t):
    nn = t.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.relu = nn.Conv2d(1, 1, 1), nn.Conv2d(1, 1, 1), nn.ReLU()

        def forward(self, x):
            return self.relu(self.second(self.relu(self.first(x))) + x)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.head, self.layers = nn.Linear(1, 2), nn.Sequential(Block(), Block())
            self.pool = nn.AdaptiveAvgPool2d(1)

        def forward(self, x):
            return self.head(t.flatten(self.pool(self.layers(x)), 1))

    return Model()


def mixed(t):
    nn = t.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right, self.norm, self.conv = nn.Linear(4, 4), nn.Linear(4, 4), nn.LayerNorm(4), nn.Conv2d(
                1, 1, 1)

        def forward(self, x):
            x = t.relu(self.conv(x)) + 1
            a, b = self.left(self.norm(x)), self.right(x)
            c = a * b
            return t.cat([a, b], 1).sigmoid(), nn.functional.relu(c + a), t.sin(c) + 1, t.exp(x)

    return Model()


@pytest.mark.parametrize("model", [residual, mixed])
def test_scales_are_buffers_by_the_names_of_modules(model):
    """State dicts of converted models have PyTorch's keys, and models print as there; what a state dict holds is what
    the model computes with."""
    found = []
    data = np.linspace(-1, 2, 16).astype(np.float32).reshape(1, 1, 4, 4)
    for t in (rushlight, torch):
        one = model(t).eval()
        for parameter in one.parameters():
            t.nn.init.constant_(parameter, 0.5)
        prepared_model = room(t, ".quantize_fx").prepare_fx(
            one, room(t, "").get_default_qconfig_mapping("fbgemm"), (t.tensor(data),))
        prepared_model(t.tensor(data))
        converted = room(t, ".quantize_fx").convert_fx(prepared_model)
        state = converted.state_dict()
        found.append((converted, state))
    (ours, state), (theirs, wanted) = found
    assert list(state) == list(wanted)
    for key, value in wanted.items():
        if key.partition(".")[0].rpartition("_")[0].endswith(("scale", "zero_point")) and "." not in key:
            assert state[key].shape == tuple(value.shape) and repr(state[key].dtype) == repr(value.dtype)
            assert state[key].item() == pytest.approx(value.item(), rel=1e-5)
    names = [(name, type(module).__name__) for name, module in theirs.named_modules()]
    assert [(name, type(module).__name__) for name, module in ours.named_modules()] == names
    assert [line.partition("scale=")[0] for line in repr(ours).partition("\n\n")[0].splitlines()] == [
        line.partition("scale=")[0] for line in repr(theirs).partition("\n\n")[0].splitlines()]
    x, key = rushlight.tensor(data), next(key for key in state if key.endswith("scale_0"))
    compiled = rushlight.compile(ours, fullgraph=True)
    before = values(ours(x))
    assert all((a == b).all() for a, b in zip(before, values(compiled(x))))
    ours.load_state_dict(state | {key: state[key] * 50})
    changed = values(ours(x))
    assert any((a != b).any() for a, b in zip(before, changed))
    assert all((a == b).all() for a, b in zip(changed, values(compiled(x))))
    exported = rushlight.export.export(ours, (x,)).module()
    assert all((a == b).all() for a, b in zip(changed, values(exported(x))))


def values(results) -> list:
    return [one.detach().numpy() for one in rushlight.utils._pytree.tree_leaves(results)]

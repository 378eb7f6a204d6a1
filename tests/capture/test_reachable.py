"""No wrong guard is reachable: whatever is changed between calls, the compiled function does what the plain one
does."""
import types

import pytest
from hypothesis import given, settings, strategies as st

import rushlight as torch
import rushlight.nn as nn

from .compare import shown


class Settings:
    level = 3

    def __init__(self):
        self.scale, self.names, self.table, self.flag = 2, ["a", "b"], {"k": 1, "n": [1]}, True

    @property
    def doubled(self):
        return self.scale * 2

    def power(self, x):
        return x * self.scale


def world():
    """Everything that the function below reads, made anew."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Dropout(0.0))
    model.note, model.extra = 1, {"gain": 2}
    module = types.ModuleType("world")
    module.torch = torch
    module.LEVEL, module.TABLE, module.settings, module.model, module.tensor = 1, {
        "x": 1}, Settings(), model, torch.ones(3)
    exec(SOURCE, module.__dict__)
    return module


SOURCE = """
def outer(bias):
    def f(x, y=1, *rest, key=None):
        h = model(x) * settings.scale + bias[0]
        if settings.flag and model.training:
            h = h + LEVEL
        for name in settings.names:
            h = h + len(name)
        if "k" in settings.table and isinstance(settings.table["k"], int):
            h = h * settings.table["k"]
        h = h + sum(settings.table.get("n", [])) + settings.doubled + settings.level
        h = settings.power(h) + tensor.sum() + TABLE["x"] + y + len(rest)
        if key is not None:
            h = h + key.get("v", 0)
        if model[0].bias is not None and model[0].weight.requires_grad:
            h = h * 2
        if tensor.dtype == torch.float64 or tensor.shape[0] > 3:
            h = h - 5
        return h.sum() + model.note + model.extra["gain"], h.shape, list(settings.table)
    return f

bias = [1]
f = outer(bias)
"""


def put(name, value):
    return lambda w: w.__dict__.__setitem__(name, value())


CHANGES = {
    "scale": lambda w: setattr(w.settings, "scale", w.settings.scale + 1),
    "scale to float": lambda w: setattr(w.settings, "scale", 1.5),
    "names grow": lambda w: setattr(w.settings, "names", [*w.settings.names, "ccc"]),
    "names replaced": lambda w: setattr(w.settings, "names", ("q",)),
    "table value": lambda w: w.settings.table.__setitem__("k", 4),
    "table text": lambda w: w.settings.table.__setitem__("k", "text"),
    "table deletes": lambda w: w.settings.table.pop("k", None),
    "table order": lambda w: setattr(w.settings, "table", dict(reversed(w.settings.table.items()))),
    "nested list": lambda w: w.settings.table.get("n", []).append(2),
    "flag": lambda w: setattr(w.settings, "flag", not w.settings.flag),
    "class attribute": lambda w: setattr(Settings, "level", Settings.level + 1),
    "shadowed attribute": lambda w: w.settings.__dict__.__setitem__("level", 9),
    "shadowed method": lambda w: setattr(w.settings, "power", lambda x: x + 1),
    "method replaced": lambda w: setattr(Settings, "power", lambda self, x: x - self.scale),
    "global": put("LEVEL", lambda: 7),
    "global table": lambda w: w.TABLE.__setitem__("x", w.TABLE["x"] + 1),
    "global table replaced": put("TABLE", lambda: {"x": 20}),
    "tensor replaced": put("tensor", lambda: torch.full((5,), 2.0)),
    "tensor dtype": put("tensor", lambda: torch.ones(3, dtype=torch.float64)),
    "tensor in place": lambda w: w.tensor.add_(1),
    "closure": lambda w: w.bias.__setitem__(0, w.bias[0] + 1),
    "closure to tensor": lambda w: w.bias.__setitem__(0, torch.ones(3)),
    "eval": lambda w: w.model.eval(),
    "train": lambda w: w.model.train(),
    "weight in place": lambda w: w.model[0].weight.data.mul_(2),
    "weight replaced": lambda w: setattr(w.model[0], "weight", nn.Parameter(torch.eye(3))),
    "weight data": lambda w: setattr(w.model[0].weight, "data", torch.ones(3, 3)),
    "frozen": lambda w: w.model.requires_grad_(False),
    "unfrozen": lambda w: w.model.requires_grad_(True),
    "no bias": lambda w: setattr(w.model[0], "bias", None),
    "layer replaced": lambda w: w.model.__setitem__(1, nn.Sigmoid()),
    "layer added": lambda w: w.model.append(nn.Tanh()),
    "note": lambda w: setattr(w.model, "note", w.model.note + 1),
    "extra": lambda w: w.model.extra.__setitem__("gain", w.model.extra["gain"] + 1),
    "hook": lambda w: w.model[0].register_forward_hook(lambda m, a, o: o + 1),
    "defaults": lambda w: setattr(w.f, "__defaults__", (w.f.__defaults__[0] + 1,)),
    "keyword default": lambda w: w.f.__kwdefaults__.__setitem__("key", {"v": 3}),
}
CALLS = [lambda x: ((x,), {}), lambda x: ((x, 2), {}), lambda x: ((x, 3, 4), {}), lambda x: ((x, 2.5), {}),
         lambda x: ((x[:1],), {}), lambda x: ((x.double().float().t().t(),), {}),
         lambda x: ((x,), {"key": {"v": 2}}), lambda x: ((x,), {"key": {}})]


def result(function, call):
    args, kwargs = call(torch.arange(6.0).view(2, 3))
    try:
        return shown(function(*args, **kwargs))
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.filterwarnings("ignore:.*was captured")  # changes without end reach the limit
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from(sorted(CHANGES)), st.sampled_from(range(len(CALLS)))), min_size=1,
                max_size=8))
def test_changes_between_calls(steps):
    level, power = Settings.level, Settings.power
    try:
        plain, other = world(), world()
        compiled = torch.compile(other.f, backend="eager")
        assert result(compiled, CALLS[0]) == result(plain.f, CALLS[0])
        for name, call in steps:
            if name in ("class attribute", "method replaced"):
                CHANGES[name](plain)  # both worlds share the class
            else:
                CHANGES[name](plain)
                CHANGES[name](other)
            assert result(compiled, CALLS[call]) == result(plain.f, CALLS[call]), (name, call)
    finally:
        Settings.level, Settings.power = level, power

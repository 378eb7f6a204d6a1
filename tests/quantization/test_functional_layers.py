"""Functional linear layers with inputs quantized as they run: the same graphs and numbers as PyTorch's."""
import importlib

import pytest

import rushlight

from .judge import torch

pytestmark = pytest.mark.filterwarnings("ignore")


def functional(t, bias=True, relu=False, twice=False):
    F = t.nn.functional

    class Model(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = t.nn.Parameter(t.arange(16.0).reshape(4, 4) / 10 - 0.5)
            self.b = t.nn.Parameter(t.tensor([0.1, -0.2, 0.3, 0.0])) if bias else None

        def forward(self, x):
            x = F.linear(x, self.w, self.b)
            x = F.relu(x) if relu else x
            return F.linear(x, self.w, self.b) if twice else x

    return Model().eval()


def inputs(t):
    return t.arange(8.0).reshape(2, 4) / 3 - 1


def converted(t, qconfig, **options):
    quantization, fx = (importlib.import_module(f"{t.__name__}.ao.quantization{path}") for path in ("", ".quantize_fx"))
    mapping = quantization.QConfigMapping().set_global(getattr(quantization, qconfig))
    prepared = fx.prepare_fx(functional(t, **options), mapping, (inputs(t),))
    prepared(inputs(t))
    return fx.convert_fx(prepared)


@pytest.mark.parametrize("qconfig", ["default_dynamic_qconfig", "float16_dynamic_qconfig",
                                     "per_channel_dynamic_qconfig", "default_qconfig", "default_per_channel_qconfig"])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"relu": True}, {"twice": True}], ids=str)
def test_as_pytorch_converts_them(qconfig, options):
    ours, theirs = (converted(t, qconfig, **options) for t in (rushlight, torch))
    found, wanted = ours(inputs(rushlight)).tolist(), theirs(inputs(torch)).tolist()
    for row, other in zip(found, wanted):
        assert row == pytest.approx(other, abs=1e-6)
    called = [[node.target.__name__ for node in model.graph.nodes if node.op == "call_function"]
              for model in (ours, theirs)]
    assert [name.removesuffix(".default") for name in called[0]] == [str(name).split(".")[0] for name in called[1]]
    assert not list(ours.named_parameters())


def test_a_weight_that_is_computed_stays_float():
    class Model(rushlight.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = rushlight.nn.Parameter(rushlight.ones(4, 4))

        def forward(self, x):
            return rushlight.nn.functional.linear(x, self.w * 2)

    quantization, fx = (importlib.import_module(f"rushlight.ao.quantization{path}") for path in ("", ".quantize_fx"))
    mapping = quantization.QConfigMapping().set_global(quantization.default_dynamic_qconfig)
    model = fx.convert_fx(fx.prepare_fx(Model().eval(), mapping, (inputs(rushlight),)))
    assert model(inputs(rushlight)).tolist() == Model()(inputs(rushlight)).tolist()

"""quantize_dynamic against PyTorch."""
import importlib

import numpy as np
import pytest

import rushlight

from .judge import torch

pytestmark = [pytest.mark.processor, pytest.mark.filterwarnings("ignore")]


def model(t):
    nn = t.nn
    return nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Sequential(nn.Linear(24, 16), nn.LayerNorm(16)),
                         nn.Linear(16, 3, bias=False))


@pytest.mark.parametrize("spec", [None, "classes", "path"])
def test_dynamic_models_agree(spec):
    torch.manual_seed(0)
    theirs, ours = model(torch), model(rushlight)
    ours.load_state_dict({k: rushlight.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    x, found = np.random.default_rng(0).standard_normal((2, 5, 12)).astype(np.float32), []
    for t, one in ((rushlight, ours), (torch, theirs)):
        given = {"classes": {t.nn.Linear}, "path": {"2.0": t.ao.quantization.default_dynamic_qconfig}}.get(spec)
        made = t.ao.quantization.quantize_dynamic(one, given)
        found.append((made(t.tensor(x)).detach().numpy(),
                      [type(m).__module__.endswith("dynamic.modules.linear") for m in made.modules()
                       if type(m).__name__ == "Linear"],
                      [k for k in made.state_dict() if not k.endswith(("scale", "zero_point"))]))
    assert found[0][1:] == found[1][1:]
    assert np.abs(found[0][0] - found[1][0]).max() < 0.02 and np.abs(found[0][0] - found[1][0]).mean() < 1e-3


def test_tables_are_quantized_where_they_are_named():
    for t in (rushlight, torch):
        given, tables = t.ao.quantization.float_qparams_weight_only_qconfig, t.nn.Sequential(
            t.nn.Embedding(4, 3), t.nn.EmbeddingBag(4, 3, mode="sum"))
        found = t.ao.quantization.quantize_dynamic(tables, {t.nn.Embedding: given, t.nn.EmbeddingBag: given})
        assert [type(m).__module__.split(".", 1)[1] for m in found] == ["ao.nn.quantized.modules.embedding_ops"] * 2
        assert not any(m.__module__.endswith("embedding_ops") for m in t.ao.quantization.quantize_dynamic(tables))


def test_compiled_in_one_graph():
    made = rushlight.ao.quantization.quantize_dynamic(model(rushlight).eval())
    x = rushlight.randn(7, 12)
    with rushlight.no_grad():
        assert (rushlight.compile(made, fullgraph=True)(x) - made(x)).abs().max() < 1e-5


def graph_model(t):
    nn = t.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.bag = nn.Embedding(20, 12), nn.EmbeddingBag(20, 12, mode="sum", include_last_offset=True)
            self.first, self.relu, self.lstm = nn.Linear(12, 24), nn.ReLU(), nn.LSTM(24, 16)
            self.conv, self.last = nn.Conv1d(16, 8, 1), nn.Linear(8, 3)

        def forward(self, words, offsets):
            x = self.relu(self.first(self.table(words) + self.bag(words, offsets)[0]))
            x, _ = self.lstm(x.unsqueeze(1))
            return self.last(self.conv(x.permute(1, 2, 0)).permute(2, 0, 1)[:, 0])

    return Model().eval()


def test_layers_in_graphs_choose_scales_as_they_run():
    torch.manual_seed(0)
    theirs, ours = graph_model(torch), graph_model(rushlight)
    ours.load_state_dict({k: rushlight.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    found, kinds = [], []
    for t, one in ((rushlight, ours), (torch, theirs)):
        Q, fx = t.ao.quantization, importlib.import_module(f"{t.__name__}.ao.quantization.quantize_fx")
        mapping = Q.QConfigMapping().set_module_name("last", Q.float16_dynamic_qconfig)
        for kind in (t.nn.Linear, t.nn.ReLU, t.nn.LSTM):
            mapping.set_object_type(kind, Q.default_dynamic_qconfig)
        for kind in (t.nn.Embedding, t.nn.EmbeddingBag):
            mapping.set_object_type(kind, Q.float_qparams_weight_only_qconfig)
        given = t.tensor([1, 5, 9, 2]), t.tensor([0, 2, 4])
        made = fx.convert_fx(fx.prepare_fx(one, mapping, given))
        kinds.append({name: type(m).__module__.partition(".")[2] + "." + type(m).__name__
                      for name, m in made.named_modules() if name and "." not in name})
        found.append(made(*given).detach().numpy())
    kinds[1].pop("relu", None), kinds[0].pop("relu", None)
    assert kinds[0] == kinds[1]
    assert kinds[0]["first"].endswith("intrinsic.quantized.dynamic.modules.linear_relu.LinearReLU")
    assert np.abs(found[0] - found[1]).max() < 0.02


def test_engines_are_named_as_pytorchs():
    assert rushlight.backends.quantized.supported_engines == torch.backends.quantized.supported_engines
    before = rushlight.backends.quantized.engine
    assert before == torch.backends.quantized.engine
    try:
        rushlight.backends.quantized.engine = "fbgemm"
        assert rushlight.backends.quantized.engine == "fbgemm"
        with pytest.raises(RuntimeError, match="not a valid value"):
            rushlight.backends.quantized.engine = "other"
    finally:
        rushlight.backends.quantized.engine = before

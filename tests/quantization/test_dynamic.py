"""quantize_dynamic against PyTorch."""
import numpy as np
import pytest

import rushlight

from .judge import torch

pytestmark = pytest.mark.filterwarnings("ignore")


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


def test_what_is_not_built_is_refused():
    with pytest.raises(NotImplementedError):
        rushlight.ao.quantization.quantize_dynamic(rushlight.nn.Sequential(rushlight.nn.LSTM(2, 2)))

"""Ten models as ONNX, for many sizes: equal in onnxruntime, where that is installed."""
import numpy as np
import pytest

import rushlight as torch
from benchmarks.models.packaged import PACKAGED

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
QUICK = "vit", "bert", "dlrm"  # others take seconds each
MODELS = [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in PACKAGED
          if name != "gpt2-decode"]


def built(name):
    """(the Packaged, its model, the arrays of its example)."""
    one = PACKAGED[name]
    torch.manual_seed(0)
    return one, one.case.model(torch, True).eval(), one.case.inputs(True)[:len(one.varying)]


@pytest.mark.parametrize("name", MODELS)
def test_models_are_equal_in_onnxruntime(name, tmp_path):
    one, model, arrays = built(name)
    with torch.no_grad():
        example = tuple(map(torch.tensor, one.resized(arrays, batch=3)))
        program = torch.onnx.export(model, example, dynamic_shapes=one.dynamic_shapes(torch, True), opset_version=20)
    onnx.checker.check_model(program.model_proto, full_check=True)
    program.save(tmp_path / "model.onnx")
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    for sizes in ({"batch": 3}, {"batch": 1, "length": 7}, {"batch": 5, "length": 24}):
        given = one.resized(arrays, **sizes)
        found = session.run(None, {i.name: x for i, x in zip(session.get_inputs(), given, strict=True)})
        with torch.no_grad():
            wanted = torch.utils._pytree.tree_leaves(model(*map(torch.tensor, given)))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-4, atol=2e-5)


def test_state_that_is_written_is_refused():
    one, model, arrays = built("gpt2-decode")
    with torch.no_grad(), pytest.raises(torch.onnx.OnnxExporterError, match="writes into its inputs or buffers"):
        torch.onnx.export(model, tuple(map(torch.tensor, arrays)))

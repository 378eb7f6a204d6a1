"""Ten models as ONNX, for many sizes: equal in onnxruntime, where that is installed."""
import numpy as np
import pytest

import rushlight as torch
from benchmarks.models.packaged import PACKAGED

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
QUICK = "vit", "bert", "dlrm", "gpt2-decode"  # others take seconds each
MODELS = [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in PACKAGED]


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
        for a, b in zip(found[:len(found) - len(program.written)], wanted, strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-4, atol=2e-5)


def test_a_cache_is_an_input_and_an_output(tmp_path):
    _, model, (ids, _) = built("gpt2-decode")
    with torch.no_grad():
        program = torch.onnx.export(model, (torch.tensor(ids), torch.tensor([0])), tmp_path / "model.onnx")
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_overridable_initializers()]
    assert names == [name for name, _ in model.named_buffers() if "attention" in name] == list(program.written)
    assert [o.name for o in session.get_outputs()[1:]] == [f"{name}_next" for name in names]
    state = {}
    for place in range(4):
        ids = (ids * 7 + place) % 101
        given = dict(zip((i.name for i in session.get_inputs()), (ids, np.array([place]))))
        found, *rest = session.run(None, given | state)
        state = dict(zip(names, rest))
        with torch.no_grad():
            wanted = model(torch.tensor(ids), torch.tensor([place]))
            again, = program(torch.tensor(ids), torch.tensor([place]))
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=2e-5)
        np.testing.assert_allclose(again.numpy(), wanted.numpy(), rtol=1e-4, atol=2e-5)
    for name, value in state.items():
        np.testing.assert_allclose(value, model.get_buffer(name).numpy(), rtol=1e-4, atol=2e-5)


def slices(rows, x, at):
    rows[:x.shape[0]] = x


def shifted_slices(rows, x, at):
    rows[2:x.shape[0] + 2, 1:] = x[:, 1:]


def index_puts(rows, x, at):
    rows[at] = x


def accumulated(rows, x, at):
    rows.index_put_((at % 2,), x, accumulate=True)


def added_in_columns(rows, x, at):
    rows[at, 1] += x[:, 0]


def scattered(rows, x, at):
    rows.scatter_(0, at[:, None].expand(-1, 3), x)


def steps(rows, x, at):
    rows[::2][:x.shape[0]] = x


def masked(rows, x, at):
    rows.masked_fill_(rows > 0.5, 0)
    rows[0] = x.sum(0)


def views(rows, x, at):
    rows.narrow(0, 1, x.shape[0]).mul_(2).add_(x)


def inputs(rows, x, at):
    x.add_(rows[:x.shape[0]] + 1)


class Writing(torch.nn.Module):
    def __init__(self, write):
        super().__init__()
        self.write = write
        self.register_buffer("rows", torch.zeros(12, 3))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x, at):
        self.count.add_(1)
        self.write(self.rows, x, at)
        return self.rows * 2 + self.count


@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize("write", [slices, shifted_slices, index_puts, accumulated, added_in_columns, scattered, steps,
                                   masked, views, inputs])
def test_writes_are_outputs(write, varying):
    model, dim = Writing(write), torch.export.Dim("n", min=2, max=5)
    shapes = {"x": {0: dim}, "at": {0: dim}} if varying else None
    program = torch.onnx.export(model, (torch.randn(4, 3), torch.tensor([3, 1, 7, 5])), dynamic_shapes=shapes,
                                verify=True)
    assert not model.count.item() and not model.rows.any()
    for n in (2, 5, 4) if varying else (4, 4):
        x, at = torch.randn(n, 3), torch.randperm(12)[:n]
        other = x.clone()
        wanted = model(x, at)
        found, = program(other, at)
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(other, x)

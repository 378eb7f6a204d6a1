"""Event files for TensorBoard, read again by its own reader, and beside those of PyTorch."""
import io
import wave

import numpy as np
import pytest

pytest.importorskip("tensorboard")
torch = pytest.importorskip("torch")
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader  # noqa: E402
from tensorboard.compat.proto.graph_pb2 import GraphDef  # noqa: E402

import rushlight  # noqa: E402
from rushlight.utils.tensorboard import SummaryWriter  # noqa: E402


def written(folder):
    found = EventAccumulator(str(folder),
                             size_guidance={kind: 0 for kind in ("scalars", "images", "histograms", "tensors",
                                                                 "audio")})
    found.Reload()
    return found


def test_scalars(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar("loss", rushlight.tensor(1.0 / (step + 1), requires_grad=True), step)
        writer.add_scalar("new", 2.5, 7, new_style=True)
        writer.add_scalars("both", {"a": 1, "b": 2.0}, 3)
    found = written(tmp_path)
    assert [(e.step, e.value) for e in found.Scalars("loss")] == [(0, 1.0), (1, 0.5), (2, pytest.approx(1 / 3))]
    assert found.Tensors("new")[0].tensor_proto.float_val == [2.5]
    assert written(tmp_path / "both_b").Scalars("both")[0].value == 2


@pytest.mark.parametrize("bins", ["tensorflow", 10])
def test_histograms_are_those_of_torch(tmp_path, bins):
    values = np.random.default_rng(0).standard_normal(1000).astype("f")
    with SummaryWriter(tmp_path / "ours") as writer:
        writer.add_histogram("h", rushlight.tensor(values), 1, bins=bins)
        with pytest.raises(ValueError, match="empty"):
            writer.add_histogram("h", rushlight.zeros(0))
    from torch.utils.tensorboard import SummaryWriter as Judge
    with Judge(tmp_path / "torch") as judge:
        judge.add_histogram("h", torch.tensor(values), 1, bins=bins)
    ours, expected = (written(tmp_path / who).Histograms("h")[0].histogram_value for who in ("ours", "torch"))
    assert (ours.num, ours.min, ours.max) == (expected.num, expected.min, expected.max)
    assert ours.sum == pytest.approx(expected.sum, rel=1e-4) and ours.sum_squares == pytest.approx(expected.sum_squares,
                                                                                                   rel=1e-4)
    np.testing.assert_allclose(ours.bucket_limit, expected.bucket_limit, rtol=1e-6)
    assert list(ours.bucket) == list(expected.bucket)


def test_pictures(tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    picture = rushlight.rand(3, 5, 7)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("one", picture, 0)
        writer.add_image("grey", (picture[0] * 255).to(rushlight.uint8), 0, dataformats="HW")
        writer.add_images("many", rushlight.rand(10, 1, 4, 6), 0)
        figure, axes = plt.subplots(figsize=(2, 1), dpi=50)
        axes.plot([1, 2])
        writer.add_figure("figure", figure, 0)
        with pytest.raises(ValueError, match="dataformats"):
            writer.add_image("wrong", picture, dataformats="HW")
    found = written(tmp_path)
    sizes = {tag: (found.Images(tag)[0].height, found.Images(tag)[0].width)
             for tag in ("one", "grey", "many", "figure")}
    assert sizes == {"one": (5, 7), "grey": (5, 7), "many": (8, 48), "figure": (50, 100)}
    pixels = plt.imread(io.BytesIO(found.Images("one")[0].encoded_image_string))
    np.testing.assert_allclose(pixels, picture.numpy().transpose(1, 2, 0), atol=1 / 255)


def test_sound_text_and_curves(tmp_path):
    labels, guesses = np.array([0, 1, 1, 0, 1]), np.array([0.1, 0.9, 0.4, 0.6, 0.8])
    with SummaryWriter(tmp_path) as writer:
        writer.add_audio("sound", rushlight.sin(rushlight.arange(100) / 5.0), sample_rate=8000)
        writer.add_text("words", "*so*", 2)
        writer.add_pr_curve("curve", rushlight.tensor(labels), rushlight.tensor(guesses), 1, num_thresholds=5)
    found = written(tmp_path)
    with wave.open(io.BytesIO(found.Audio("sound")[0].encoded_audio_string)) as file:
        assert (file.getnframes(), file.getframerate()) == (100, 8000)
    assert found.Tensors("words/text_summary")[0].tensor_proto.string_val == [b"*so*"]
    table = np.reshape(found.Tensors("curve")[0].tensor_proto.float_val, (6, 5))
    assert table[0].tolist() == [3, 3, 2, 2, 0]          # true positives at thresholds 0, 1/4, 1/2, 3/4, 1
    assert table[1].tolist() == [2, 1, 1, 0, 0]
    np.testing.assert_allclose(table[4], [0.6, 0.75, 2 / 3, 1, 0], rtol=1e-5)


def test_hyperparameters(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams({"lr": 0.1, "layers": 2, "kind": "a", "norm": True}, {"accuracy": 0.5}, run_name="first")
        with pytest.raises(ValueError, match="hyperparameter"):
            writer.add_hparams({"x": object()}, {})
        with pytest.raises(TypeError):
            writer.add_hparams([], {})
    found = written(tmp_path / "first")
    assert found.Scalars("accuracy")[0].value == 0.5
    assert {"_hparams_/experiment", "_hparams_/session_start_info"} <= set(found.summary_metadata)


def graph_text(path) -> bytes:
    """The first graph of a file, which its reader turns into a summary."""
    values = (v for e in EventFileLoader(str(path)).Load() for v in e.summary.value)
    return next(v.tensor.string_val[0] for v in values if v.tag == "__run_graph__")


def test_graphs(tmp_path):
    model = rushlight.nn.Sequential(rushlight.nn.Linear(3, 4), rushlight.nn.ReLU(), rushlight.nn.Linear(4, 2))
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, rushlight.ones(5, 3))
        with pytest.raises(ValueError, match="input_to_model"):
            writer.add_graph(model)
        with pytest.raises(RuntimeError, match="no result"):
            writer.add_graph(rushlight.nn.Identity(), (3,))
    path, = tmp_path.glob("events*")
    graph = GraphDef.FromString(graph_text(path))
    nodes = {n.name: n for n in graph.node}
    assert all(i in nodes for n in graph.node for i in n.input)
    assert list(nodes["Sequential/Linear[2]/linear"].input) == ["Sequential/ReLU[1]/relu",
                                                                "Sequential/Linear[2]/weight",
                                                                "Sequential/Linear[2]/bias"]
    assert list(nodes["output/output.1"].input) == ["Sequential/Linear[2]/linear"]
    assert [d.size for d in nodes["Sequential/Linear[0]/linear"].attr["_output_shapes"].list.shape[0].dim] == [5, 4]
    assert not model._forward_hooks and rushlight.ones(2).add(1).tolist() == [2.0, 2.0]


def test_a_closed_writer_opens_again(tmp_path):
    writer = SummaryWriter(tmp_path)
    writer.add_scalar("a", 1, 0)
    writer.close()
    writer.add_scalar("a", 2, 1)
    writer.close()
    assert [e.value for e in written(tmp_path).Scalars("a")] == [1, 2]

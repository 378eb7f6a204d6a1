"""What is written for TensorBoard, message by message beside PyTorch's."""
import inspect
import io

import numpy as np
import pytest

pytest.importorskip("tensorboard")
judge = pytest.importorskip("torch")
import torch.utils.tensorboard as theirs  # noqa: E402
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader  # noqa: E402
from tensorboard.compat.proto.graph_pb2 import GraphDef  # noqa: E402
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData  # noqa: E402

import rushlight  # noqa: E402
import rushlight.utils.tensorboard as ours  # noqa: E402
from rushlight.utils.tensorboard import summary  # noqa: E402

LABELS, GUESSES = np.array([0, 1, 1, 0]), np.array([0.1, 0.9, 0.4, 0.6])
CALLS = {
    "scalar": lambda s, t: s.scalar("x", 2.5),
    "scalar_new": lambda s, t: s.scalar("x", t.tensor(2.5), new_style=True),
    "scalar_double": lambda s, t: s.scalar("x", 0.1, None, True, True),
    "histogram": lambda s, t: s.histogram("h", np.arange(9.0), 4),
    "histogram_most": lambda s, t: s.make_histogram(np.array([1.0, 2, 3]), 4, 2),
    "histogram_raw": lambda s, t: s.histogram_raw("h", 0, 1, 2, 3, 4, [1, 2], [0, 1]),
    "custom": lambda s, t: s.custom_scalars({"c": {"a": ["Multiline", ["x", "y"]], "b": ["Margin", ["x", "y", "z"]]}}),
    "tensor": lambda s, t: s.tensor_proto("t", t.tensor([[1.0, 2.0]])),
    "tensor_bool": lambda s, t: s.tensor_proto("t", t.tensor([True, False])),
    "tensor_long": lambda s, t: s.tensor_proto("t", t.tensor([3])),
    "tensor_double": lambda s, t: s.tensor_proto("t", t.tensor(3.5, dtype=t.float64)),
    "curve": lambda s, t: s.pr_curve("p", LABELS, GUESSES, 5),
    "curve_weights": lambda s, t: s.pr_curve("p", LABELS, GUESSES, 4,
                                                 np.array([1.0, 2.0, 3.0, 4.0])),
    "curve_raw": lambda s, t: s.pr_curve_raw("p", [1], [2], [3], [4], [0.5], [0.25], 1),
    "mesh": lambda s, t: s.mesh("m", t.arange(6.0).reshape(1, 2, 3), t.zeros(1, 2, 3, dtype=t.uint8), None, {"a": 1}),
    "mesh_faces": lambda s, t: s.mesh("m", t.ones(1, 3, 3), None, t.tensor([[[0, 1, 2]]]), None),
    "text": lambda s, t: s.text("a", "b"),
    "audio": lambda s, t: s.audio("a", t.zeros(4), 8000),
    "bits": lambda s, t: (s.half_to_int(1.5), s.int_to_half(15872)),
    "compute": lambda s, t: np.round(s.compute_curve(LABELS, GUESSES, 5), 6).tolist(),
}


@pytest.mark.parametrize("name", CALLS)
def test_messages(name):
    assert str(CALLS[name](summary, rushlight)) == str(CALLS[name](theirs.summary, judge))


@pytest.mark.parametrize("arguments", [({"a": 1, "b": "x", "c": True, "d": 2.5}, {"m": 1}, {"a": [1, 2]}), ({}, {})])
def test_hyperparameters(arguments):
    def told(module):
        return [HParamsPluginData.FromString(m.value[0].metadata.plugin_data.content)
                for m in module.hparams(*arguments)]

    assert told(summary) == told(theirs.summary)


def test_hyperparameters_that_are_refused():
    for module in (summary, theirs.summary):
        with pytest.raises(TypeError):
            module.hparams([1], {})
        with pytest.raises(TypeError):
            module.hparams({"a": 1})
        with pytest.raises(ValueError):
            module.hparams({"a": object()}, {})
        with pytest.raises(TypeError):
            module.hparams({"a": 1}, {}, {"b": [1]})


def pixels(content):
    from PIL import Image
    return np.asarray(Image.open(io.BytesIO(content)))


@pytest.mark.parametrize("options", [{}, {"labels": ["one", "two"]}, {"rescale": 2}, {"dataformats": "HWC"}])
def test_boxes(options):
    pytest.importorskip("PIL")
    shape = (30, 40, 3) if "dataformats" in options else (3, 30, 40)
    picture, boxes = np.random.default_rng(0).random(shape).astype("f"), np.array([[1, 1, 15, 25], [20, 5, 35, 28]])
    found, wanted = (pixels(module.image_boxes("b", t.tensor(picture), t.tensor(boxes), **options)
                            .value[0].image.encoded_image_string)
                     for module, t in ((summary, rushlight), (theirs.summary, judge)))
    np.testing.assert_array_equal(found, wanted)


def test_halves_are_written_as_their_bits():
    """PyTorch writes those of float32, which readers do not take for half_val."""
    halves = summary.tensor_proto("t", rushlight.tensor([1.5, -2.0], dtype=rushlight.float16)).value[0].tensor
    assert list(halves.half_val) == [0x3e00, 0xc000]
    pairs = summary.tensor_proto("t", rushlight.tensor([1 + 2j, 3 - 4j])).value[0].tensor
    assert list(pairs.scomplex_val) == [1, 2, 3, -4]
    with pytest.raises(ValueError, match="quint8|cannot be written"):
        summary.tensor_proto("t", rushlight.quantize_per_tensor(rushlight.ones(1), 1.0, 0, rushlight.quint8))


def test_videos_move():
    Image = pytest.importorskip("PIL.Image")
    frames = rushlight.zeros(3, 5, 1, 6, 8)
    for t in range(5):
        frames[:, t, :, :, t] = 1
    message = summary.video("v", frames, 10).value[0].image
    assert (message.height, message.width) == (12, 16)  # four places for three
    film = Image.open(io.BytesIO(message.encoded_image_string))
    assert film.n_frames == 5 and film.info["duration"] == 100
    with pytest.raises(ValueError, match="5 dimensions"):
        summary.video("v", frames[0])


def files(folder):
    return {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file() and "events" not in p.name}


@pytest.mark.parametrize("header", [None, ["name", "kind"]])
def test_embeddings_are_files(tmp_path, header):
    labels = [["a", 1], ["b", 2], ["c", 3]] if header else ["a", "b", "c"]
    for who, module, t in (("ours", ours, rushlight), ("theirs", theirs, judge)):
        with module.SummaryWriter(tmp_path / who) as writer:
            writer.add_embedding(t.arange(6.0).reshape(3, 2), labels, t.linspace(0, 1, 36).reshape(3, 3, 2, 2), 7,
                                 "some/tag", header)
            writer.add_embedding(t.ones(2, 2), global_step=8)
            with pytest.raises(AssertionError):
                writer.add_embedding(t.ones(2, 2), ["one"], global_step=8)
    found, wanted = files(tmp_path / "ours"), files(tmp_path / "theirs")
    assert found.keys() == wanted.keys() and len(found) == 5
    for name, path in wanted.items():
        if path.suffix == ".png":
            np.testing.assert_array_equal(pixels(found[name].read_bytes()), pixels(path.read_bytes()))
        else:
            assert found[name].read_text() == path.read_text(), name


def test_writers_have_the_same_methods(tmp_path):
    def methods(module):
        return {f"{kind}.{name}": list(inspect.signature(getattr(getattr(module, kind), name)).parameters)
                for kind in ("SummaryWriter", "FileWriter") for name in dir(getattr(module, kind)) if name[0] != "_"}

    assert methods(ours) == methods(theirs)
    assert ours.RecordWriter is theirs.RecordWriter
    with ours.SummaryWriter(tmp_path) as writer:
        writer.add_tensor("a", rushlight.ones(2), 1)
        writer.add_histogram_raw("b", 0, 1, 2, 3, 4, [1, 2], [0, 1], 2)
        writer.add_pr_curve_raw("c", [1], [2], [3], [4], [0.5], [0.25], 3, 1)
        writer.add_custom_scalars_multilinechart(["x", "y"])
        writer.add_custom_scalars_marginchart(["x", "y", "z"])
        writer.add_mesh("d", rushlight.ones(1, 3, 3), global_step=5)
        writer.add_image_with_boxes("e", rushlight.zeros(3, 9, 9), rushlight.tensor([[1, 1, 5, 5]]), 6)
        writer.add_video("f", rushlight.zeros(1, 2, 3, 4, 4), 7)
        with pytest.raises(ValueError):
            writer.add_histogram_raw("b", 0, 1, 2, 3, 4, [1], [0, 1])
        with pytest.raises(AssertionError):
            writer.add_custom_scalars_marginchart(["x"])
        writer.add_scalar("g", 0.1, 8, new_style=True, double_precision=True)
        path, = tmp_path.glob("events*")
    events = [(v.tag, e.step) for e in EventFileLoader(str(path)).Load() for v in e.summary.value]
    assert events == [("a", 1), ("b", 2), ("c", 3), ("custom_scalars__config__", 0), ("custom_scalars__config__", 0),
                      ("d_VERTEX", 5), ("e", 6), ("f", 7), ("g", 8)]


def test_graphs_of_onnx_files(tmp_path):
    onnx = pytest.importorskip("onnx")
    value = onnx.helper.make_tensor_value_info("x", 1, [2])
    step = onnx.helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.5)
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([step], "g", [value], [value])), tmp_path / "a.onnx")
    with ours.SummaryWriter(tmp_path / "run") as writer:
        writer.add_onnx_graph(str(tmp_path / "a.onnx"))
        path, = (tmp_path / "run").glob("events*")
    values = (v for e in EventFileLoader(str(path)).Load() for v in e.summary.value)
    graph = GraphDef.FromString(next(v.tensor.string_val[0] for v in values if v.tag == "__run_graph__"))
    assert [(n.name, n.op, list(n.input)) for n in graph.node] == [("x", "Variable", []), ("y", "LeakyRelu", ["x"])]

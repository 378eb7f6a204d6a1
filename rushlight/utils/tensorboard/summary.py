"""TensorBoard's messages: one function for each kind of content."""
from __future__ import annotations

import io
import json
import struct
import wave
import zlib

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

from ..._src.core.dtypes import BY_NAME
from ..._src.core.native import Tensor

MOST_BUCKETS = 30  # of a histogram with chosen bins: TensorBoard shows no more
SAMPLES = 16       # bits of a sample of sound
# dtype -> (its name in messages, the field of its values)
KINDS = {"float32": ("DT_FLOAT", "float_val"), "float64": ("DT_DOUBLE", "double_val"), "uint8": ("DT_UINT8", "int_val"),
         "int8": ("DT_INT8", "int_val"), "int16": ("DT_INT16", "int_val"), "int32": ("DT_INT32", "int_val"),
         "int64": ("DT_INT64", "int64_val"), "bool": ("DT_BOOL", "bool_val"), "float16": ("DT_HALF", "half_val"),
         "bfloat16": ("DT_BFLOAT16", "half_val"), "complex64": ("DT_COMPLEX64", "scomplex_val"),
         "complex128": ("DT_COMPLEX128", "dcomplex_val")}


def array(value) -> np.ndarray:
    """Tensors, numbers and lists as NumPy arrays.

    >>> array([1, 2]).tolist()
    [1, 2]
    """
    if isinstance(value, Tensor):
        value = value.detach().float() if value.dtype.is_half else value.detach()
        return value.cpu().numpy()
    return np.asarray(value)


def single(tag: str, **content) -> Summary:
    return Summary(value=[Summary.Value(tag=tag, **content)])


def shown_by(plugin: str, content: bytes = b"", title: str = "") -> SummaryMetadata:
    """Return the plugin that shows a value, and its data."""
    return SummaryMetadata(display_name=title,
                           plugin_data=SummaryMetadata.PluginData(plugin_name=plugin, content=content))


def shape_of(values) -> TensorShapeProto | None:
    """None for a number."""
    return None if values.ndim == 0 else TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in values.shape])


def numbers(values, dtype=np.float32) -> TensorProto:
    """float32 numbers of any shape, or those of another dtype of ``KINDS``."""
    values = np.asarray(values, dtype=dtype)
    kind, field = KINDS[values.dtype.name]
    return TensorProto(dtype=kind, tensor_shape=shape_of(values), **{field: values.ravel().tolist()})


def scalar(name, tensor, collections=None, new_style=False, double_precision=False) -> Summary:
    """One number; ``new_style``: as a tensor, which TensorBoard reads faster, of float64 if ``double_precision``.
    ``collections`` says nothing any more."""
    value = float(array(tensor).reshape(()))
    if new_style:
        return single(name, tensor=numbers(value, np.float64 if double_precision else np.float32),
                      metadata=shown_by("scalars"))
    return single(name, simple_value=value)


def tensor_proto(tag, tensor) -> Summary:
    """A tensor as it is.  ValueError for a dtype that messages lack.

    >>> import rushlight as torch
    >>> tensor_proto("x", torch.tensor([True])).value[0].tensor.bool_val
    [True]
    """
    name = tensor.dtype.name
    if name not in KINDS:
        raise ValueError(f"tensors of {tensor.dtype} cannot be written: those of {', '.join(KINDS)} can")
    kind, field = KINDS[name]
    values = tensor.detach().cpu()
    if field == "half_val":  # the bits
        values = values.contiguous().view(torch_dtype("int16")).to(torch_dtype("int32")) & 0xffff
    if values.dtype.is_complex:
        values = values.resolve_conj().view(torch_dtype("float32" if name == "complex64" else "float64"))
    body = TensorProto(dtype=kind, tensor_shape=shape_of(tensor) or TensorShapeProto(),
                       **{field: values.reshape(-1).tolist()})
    return single(tag, tensor=body, metadata=shown_by("tensor"))


def torch_dtype(name: str):
    return BY_NAME[name]


def half_to_int(f: float) -> int:
    """The bits of a number as float32.

    >>> half_to_int(1.5)
    1069547520
    """
    return struct.unpack("i", struct.pack("f", f))[0]


def int_to_half(i: int) -> float:
    """The float32 number of these bits.

    >>> int_to_half(1069547520)
    1.5
    """
    return struct.unpack("f", struct.pack("i", i))[0]


# --- histograms -------------------------------------------------------------------------------------------------------
def limits() -> np.ndarray:
    """Ends of the buckets of histograms: each a tenth above the one before, to either side of 0."""
    above = 1e-12 * 1.1 ** np.arange(774)
    return np.concatenate([-above[::-1], [0.0], above])


def histogram(name, values, bins="tensorflow", max_bins=None) -> Summary:
    """Histogram of values; ``bins`` as NumPy's, or "tensorflow" for buckets that grow with distance from 0."""
    values = array(values).ravel().astype(np.float64)
    if not values.size:
        raise ValueError(f"the values of histogram {name!r} are empty: there is nothing to count")
    return single(name, histo=make_histogram(values, limits() if isinstance(bins, str) and bins == "tensorflow"
                                             else bins, max_bins))


def make_histogram(values, bins, max_bins=None) -> HistogramProto:
    """The message of a histogram; of more than ``max_bins`` buckets several are put together.

    >>> make_histogram([1.0, 2.0, 3.0], 2).bucket
    [0.0, 1.0, 2.0]
    """
    values = np.asarray(values, dtype=np.float64).ravel()
    if not values.size:
        raise ValueError("the values of a histogram are empty: there is nothing to count")
    counts, ends = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        together = -(-len(counts) // max_bins)
        starts = range(0, len(counts), together)
        counts, ends = np.add.reduceat(counts, starts), np.append(ends[:-1][list(starts)], ends[-1])
    filled = np.flatnonzero(counts)
    first, last = (filled[0], filled[-1] + 1) if len(filled) else (0, 1)
    return HistogramProto(
        min=values.min(), max=values.max(), num=values.size, sum=values.sum(), sum_squares=values @ values,
        bucket_limit=[ends[first], *ends[first + 1:last + 1]], bucket=[0, *counts[first:last].tolist()])


def histogram_raw(name, min, max, num, sum, sum_squares, bucket_limits, bucket_counts) -> Summary:
    """A precomputed histogram: the upper ends of its buckets, and the count of each."""
    return single(name, histo=HistogramProto(min=min, max=max, num=num, sum=sum, sum_squares=sum_squares,
                                             bucket_limit=bucket_limits, bucket=bucket_counts))


def pr_curve(tag, labels, predictions, num_thresholds=127, weights=None) -> Summary:
    """Precision and recall of ``predictions`` in [0, 1] of ``labels`` that are 0 or 1, for thresholds at equal
    distances."""
    count = min(num_thresholds, 127)
    return curve(tag, compute_curve(array(labels), array(predictions), count, weights), count)


def pr_curve_raw(tag, tp, fp, tn, fn, precision, recall, num_thresholds=127, weights=None) -> Summary:
    """A curve that was counted elsewhere: six numbers for each threshold."""
    return curve(tag, np.stack([array(part) for part in (tp, fp, tn, fn, precision, recall)]), min(num_thresholds, 127))


def curve(tag, table, count) -> Summary:
    from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
    return single(tag, tensor=numbers(table),
                  metadata=shown_by("pr_curves", PrCurvePluginData(num_thresholds=count).SerializeToString()))


def compute_curve(labels, predictions, num_thresholds=None, weights=None) -> np.ndarray:
    """[6, thresholds]: true and false positives, true and false negatives, precision, recall.

    >>> compute_curve([0, 1], [0.2, 0.9], 3)[0].tolist()
    [1.0, 1.0, 0.0]
    """
    labels, predictions = np.asarray(labels).ravel().astype(bool), np.asarray(predictions).ravel().astype(np.float64)
    weights = np.ones(len(labels)) if weights is None else np.broadcast_to(
        array(weights).astype(np.float64).ravel(), labels.shape)
    count = 127 if num_thresholds is None else num_thresholds
    buckets = np.clip((predictions * (count - 1)).astype(np.int64), 0, count - 1)
    hit, false = [np.cumsum(np.bincount(buckets, weights * chosen, count)[::-1])[::-1] for chosen in (labels, ~labels)]
    missed, right = hit[0] - hit, false[0] - false
    return np.stack([hit, false, right, missed, hit / np.maximum(hit + false, 1e-7),
                     hit / np.maximum(hit + missed, 1e-7)])


# --- pictures, sound, text --------------------------------------------------------------------------------------------
def png(pixels: np.ndarray) -> bytes:
    """A PNG file of uint8 pixels [height, width, channels] with 1 (grey), 3 or 4 channels (ISO/IEC 15948)."""
    height, width, channels = pixels.shape
    kinds = {1: 0, 3: 2, 4: 6}
    if channels not in kinds:
        raise ValueError(f"a picture has 1, 3 or 4 channels, got {channels}: check dataformats")
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # each begins with its filter: none
    lines[:, 1:] = pixels.reshape(height, -1)

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = struct.pack(">IIBBBBB", width, height, 8, kinds[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines.tobytes())) + chunk(
        b"IEND", b"")


def pixels_of(picture, dataformats: str) -> np.ndarray:
    """uint8 pixels [height, width, channels]; several images (a format with N) are tiled in a grid.

    Floating-point values are in [0, 1].
    """
    values, order = array(picture), dataformats.upper()
    if len(order) != values.ndim or len(set(order)) != len(order) or not set(order) <= set("NCHW"):
        raise ValueError(
            f"dataformats {dataformats!r} has to name the {values.ndim} dimensions of a picture of shape "
            f"{list(values.shape)}, by letters of NCHW")
    wanted = [c for c in "NHWC" if c in order]
    values = values.transpose([order.index(c) for c in wanted])
    values = values[..., None] if "C" not in order else values
    if values.dtype.kind == "f":
        values = np.clip(values * 255.0, 0, 255)
    values = values.astype(np.uint8)
    return in_grid(values) if "N" in order else values


def in_grid(pictures: np.ndarray, columns=8) -> np.ndarray:
    """[n, height, width, channels] -> one picture, with black where none is left."""
    count, height, width, channels = pictures.shape
    columns = min(count, columns)
    rows = -(-count // columns)
    grid = np.zeros((rows * columns, height, width, channels), np.uint8)
    grid[:count] = pictures
    return grid.reshape(rows, columns, height, width, channels).transpose(0, 2, 1, 3, 4).reshape(rows * height,
                                                                                                 columns * width,
                                                                                                 channels)


def image(tag, tensor, rescale=1, dataformats="NCHW") -> Summary:
    """A picture, or several in a grid, ``rescale`` times as large as it is."""
    return single(tag, image=make_image(pixels_of(tensor, dataformats), rescale))


def make_image(tensor, rescale=1, rois=None, labels=None) -> Summary.Image:
    """The message of uint8 pixels [height, width, channels], with ``rois`` (boxes, each left, top, right, bottom)
    drawn on it if there are any.  Pillow draws and rescales."""
    pixels = np.asarray(tensor)
    if rois is not None or rescale != 1:
        from PIL import Image
        picture = Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels)
        if rois is not None:
            picture = draw_boxes(picture, rois, labels)
        if rescale != 1:
            picture = picture.resize((int(picture.width * rescale), int(picture.height * rescale)), Image.LANCZOS)
        pixels = np.asarray(picture).reshape(picture.height, picture.width, -1)
    height, width, channels = pixels.shape
    return Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=png(pixels))


def image_boxes(tag, tensor_image, tensor_boxes, rescale=1, dataformats="CHW", labels=None) -> Summary:
    """A picture with boxes [n, 4] (left, top, right, bottom), and a label for each if there are any."""
    return single(tag, image=make_image(pixels_of(tensor_image, dataformats), rescale, array(tensor_boxes), labels))


def draw_boxes(disp_image, boxes, labels=None):
    """A picture of Pillow's with red frames, two pixels wide, and white labels on red below them."""
    from PIL import ImageDraw, ImageFont

    pen, font = ImageDraw.Draw(disp_image), ImageFont.load_default()
    for k, (left, top, right, bottom) in enumerate(np.asarray(boxes)[:, :4].tolist()):
        pen.line([(left, top), (left, bottom), (right, bottom), (right, top), (left, top)], width=2, fill="Red")
        if labels is not None and labels[k]:
            x0, y0, x1, y1 = font.getbbox(labels[k])
            width, height = x1 - x0, y1 - y0
            margin = np.ceil(0.05 * height)
            pen.rectangle([(left, bottom - height - 2 * margin), (left + width, bottom)], fill="Red")
            pen.text((left + margin, bottom - height - margin), labels[k], fill="black", font=font)
    return disp_image


def video(tag, tensor, fps=4) -> Summary:
    """Write a video [n, time, channels, height, width]; several are tiled."""
    values = array(tensor)
    if values.ndim != 5:
        raise ValueError(f"a video has 5 dimensions (n, time, channels, height, width), got {list(values.shape)}")
    values = np.clip(values * 255.0, 0, 255).astype(np.uint8) if values.dtype.kind == "f" else values.astype(np.uint8)
    count = 1 << (len(values) - 1).bit_length()  # a power of two; half of the bits are columns
    columns = 1 << (count.bit_length() - 1) - (count.bit_length() - 1) // 2
    full = np.zeros((count, *values.shape[1:]), np.uint8)
    full[:len(values)] = values
    frames = np.stack([in_grid(full[:, t].transpose(0, 2, 3, 1), columns) for t in range(full.shape[1])])
    return single(tag, image=make_video(frames, fps))


def make_video(tensor, fps) -> Summary.Image:
    """The message of uint8 frames [time, height, width, channels]: a GIF, which Pillow writes."""
    from PIL import Image

    frames = np.asarray(tensor)
    count, height, width, channels = frames.shape
    pictures = [Image.fromarray(f.squeeze(2) if channels == 1 else f) for f in frames]
    body = io.BytesIO()
    pictures[0].save(body, "GIF", save_all=True, append_images=pictures[1:], duration=1000 / fps, loop=0)
    return Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=body.getvalue())


def figure_pixels(figures, close: bool) -> np.ndarray:
    """Matplotlib figures, drawn: [n, height, width, 4]."""
    import matplotlib.pyplot as plt
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    drawn = []
    for figure in figures:
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        drawn.append(np.asarray(canvas.buffer_rgba()))
        if close:
            plt.close(figure)
    return np.stack(drawn)


def audio(tag, tensor, sample_rate=44100) -> Summary:
    """Sound in [-1, 1] of one channel: a WAV file of 16 bits."""
    samples = np.clip(array(tensor).ravel().astype(np.float64), -1, 1)
    body = io.BytesIO()
    with wave.open(body, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(SAMPLES // 8)
        file.setframerate(sample_rate)
        file.writeframes((samples * (2 ** (SAMPLES - 1) - 1)).astype("<i2").tobytes())
    content = Summary.Audio(sample_rate=sample_rate, num_channels=1, length_frames=len(samples),
                            encoded_audio_string=body.getvalue(), content_type="audio/wav")
    return single(tag, audio=content)


def text(tag, text) -> Summary:
    """Text, which TensorBoard reads as Markdown."""
    body = TensorProto(dtype="DT_STRING", string_val=[text.encode()],
                       tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]))
    return single(f"{tag}/text_summary", tensor=body, metadata=shown_by("text"))


# --- arrangements -----------------------------------------------------------------------------------------------------
def custom_scalars(layout) -> Summary:
    """Layout of scalars drawn together: category -> title -> ("Multiline", tags), or ("Margin", [value, lower, upper]).
    """
    from tensorboard.plugins.custom_scalar import layout_pb2 as messages

    categories = []
    for category, charts in layout.items():
        drawn = []
        for title, (kind, tags) in charts.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise ValueError(f"a margin chart shows 3 tags (value, lower and upper), got {len(tags)}")
                value, lower, upper = tags
                series = messages.MarginChartContent.Series(value=value, lower=lower, upper=upper)
                drawn.append(messages.Chart(title=title, margin=messages.MarginChartContent(series=[series])))
            else:
                drawn.append(messages.Chart(title=title, multiline=messages.MultilineChartContent(tag=tags)))
        categories.append(messages.Category(title=category, chart=drawn))
    body = TensorProto(dtype="DT_STRING", tensor_shape=TensorShapeProto(),
                       string_val=[messages.Layout(category=categories).SerializeToString()])
    return single("custom_scalars__config__", tensor=body, metadata=shown_by("custom_scalars"))


def mesh(tag, vertices, colors, faces, config_dict, display_name=None, description=None) -> Summary:
    """Bodies: ``vertices`` [n, points, 3], ``colors`` [n, points, 3] in 0..255, ``faces`` [n, triangles, 3] of
    integers; ``config_dict`` is passed to three.js."""
    from tensorboard.plugins.mesh import metadata as about
    from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData

    parts = [(kind, array(value)) for kind, value in (
        (MeshPluginData.VERTEX, vertices), (MeshPluginData.FACE, faces), (MeshPluginData.COLOR, colors))
             if value is not None]
    components, config = about.get_components_bitmask([kind for kind, _ in parts]), json.dumps(
        config_dict or {}, sort_keys=True)
    return Summary(value=[Summary.Value(
        tag=about.get_instance_name(tag, kind), tensor=numbers(value),
        metadata=about.create_summary_metadata(tag, display_name, kind, components, value.shape, description,
                                               json_config=config)) for kind, value in parts])


def hparams(hparam_dict=None, metric_dict=None, hparam_domain_discrete=None) -> tuple:
    """(what is tried, that this trial starts, that it ends) of hyperparameters: three messages, as TensorBoard wants
    them.  ``hparam_domain_discrete``: the values that are tried of some.  TypeError for what is no dict, ValueError for
    values that are not shown."""
    from tensorboard.plugins.hparams.api_pb2 import (DataType, Experiment, HParamInfo, MetricInfo, MetricName, Status)
    from tensorboard.plugins.hparams.plugin_data_pb2 import (HParamsPluginData, SessionEndInfo, SessionStartInfo)

    given, metrics, domains = hparam_dict, metric_dict, hparam_domain_discrete or {}
    for name, value in (("hparam_dict", given), ("metric_dict", metrics), ("hparam_domain_discrete", domains)):
        if not isinstance(value, dict):
            raise TypeError(f"{name} should be a dictionary, got {type(value).__name__}")
    kinds = {str: DataType.DATA_TYPE_STRING, float: DataType.DATA_TYPE_FLOAT64}
    start, shown = SessionStartInfo(), []
    for name, value in given.items():
        if value is None:
            continue
        value = plain_parameter(name, value)
        setattr(start.hparams[name], "string_value" if isinstance(value, str) else "number_value", value)
        info = HParamInfo(name=name, type=kinds[type(value)])
        if name in domains:
            info.domain_discrete.extend(plain_parameter(name, v, type(value)) for v in domains[name])
        shown.append(info)
    for name in domains.keys() - given.keys():
        raise TypeError(f"hparam_domain_discrete has {name!r}, which is no hyperparameter")
    experiment = Experiment(hparam_infos=shown,
                            metric_infos=[MetricInfo(name=MetricName(tag=name)) for name in metrics])
    parts = (("experiment", HParamsPluginData(experiment=experiment)),
             ("session_start_info", HParamsPluginData(session_start_info=start)),
             ("session_end_info", HParamsPluginData(session_end_info=SessionEndInfo(
                 status=Status.Value("STATUS_SUCCESS")))))
    return tuple(single(f"_hparams_/{name}", metadata=shown_by("hparams", content.SerializeToString()))
                 for name, content in parts)


def plain_parameter(name, value, kind=None):
    """A hyperparameter's value as str or float; of a bool, 0 or 1.  ValueError for other types, TypeError for one that
    is not of the ``kind`` of the rest."""
    if isinstance(value, (Tensor, np.generic)):
        value = array(value).reshape(-1)[0].item()
    if not isinstance(value, (bool, int, float, str)):
        raise ValueError(
            f"hyperparameter {name!r} is a {type(value).__name__}: numbers, strings and booleans are shown")
    value = value if isinstance(value, str) else float(value)
    if kind is not None and type(value) is not kind:
        raise TypeError(f"hyperparameter {name!r} has {value!r} among its values, the others are {kind.__name__}")
    return value

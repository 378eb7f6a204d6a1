"""What TensorBoard shows, as the messages that it reads: one function for each kind of content."""
from __future__ import annotations

import io
import struct
import wave
import zlib

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.hparams import summary_v2 as hparams_messages

from ..._src.core.native import Tensor

MOST_BUCKETS = 30  # of a histogram with chosen bins: TensorBoard shows no more
SAMPLES = 16       # bits of a sample of sound


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
    """Which part of TensorBoard shows a value, and what it is told."""
    return SummaryMetadata(display_name=title,
                           plugin_data=SummaryMetadata.PluginData(plugin_name=plugin, content=content))


def numbers(values: np.ndarray) -> TensorProto:
    """float32 numbers of any shape."""
    values = np.asarray(values, dtype=np.float32)
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in values.shape])
    return TensorProto(dtype="DT_FLOAT", float_val=values.ravel().tolist(), tensor_shape=shape)


def scalar(tag, value, new_style=False) -> Summary:
    """One number; ``new_style``: as a tensor, which TensorBoard reads faster."""
    value = float(array(value).reshape(()))
    if new_style:
        return single(tag, tensor=numbers(value), metadata=shown_by("scalars"))
    return single(tag, simple_value=value)


# --- histograms -------------------------------------------------------------------------------------------------------
def limits() -> np.ndarray:
    """Ends of the buckets of histograms: each a tenth above the one before, to either side of 0."""
    above = 1e-12 * 1.1 ** np.arange(774)
    return np.concatenate([-above[::-1], [0.0], above])


def histogram(tag, values, bins="tensorflow", max_bins=None) -> Summary:
    """How often values lie where; ``bins`` as NumPy's, or "tensorflow" for buckets that grow with distance from 0."""
    values = array(values).ravel().astype(np.float64)
    if not values.size:
        raise ValueError(f"the values of histogram {tag!r} are empty: there is nothing to count")
    counts, ends = np.histogram(values, bins=limits() if isinstance(bins, str) and bins == "tensorflow" else bins)
    if max_bins is not None and len(counts) > max_bins:
        together = -(-len(counts) // max_bins)
        starts = range(0, len(counts), together)
        counts, ends = np.add.reduceat(counts, starts), np.append(ends[:-1][list(starts)], ends[-1])
    filled = np.flatnonzero(counts)
    first, last = (filled[0], filled[-1] + 1) if len(filled) else (0, 1)
    return single(tag, histo=HistogramProto(
        min=values.min(), max=values.max(), num=values.size, sum=values.sum(), sum_squares=values @ values,
        bucket_limit=[ends[first], *ends[first + 1:last + 1]], bucket=[0, *counts[first:last].tolist()]))


def pr_curve(tag, labels, predictions, num_thresholds=127, weights=None) -> Summary:
    """Precision and recall of ``predictions`` in [0, 1] of ``labels`` that are 0 or 1, for thresholds at equal
    distances."""
    from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData

    labels, predictions = array(labels).ravel().astype(bool), array(predictions).ravel().astype(np.float64)
    weights = np.ones(len(labels)) if weights is None else array(weights).ravel().astype(np.float64)
    count = min(num_thresholds, 127)
    buckets = np.clip((predictions * (count - 1)).astype(np.int64), 0, count - 1)
    # true and false positives
    at_least = [np.cumsum(np.bincount(buckets, weights * chosen, count)[::-1])[::-1] for chosen in (labels, ~labels)]
    hit, false = at_least
    missed, right = hit[0] - hit, false[0] - false
    table = np.stack([hit, false, right, missed, hit / np.maximum(hit + false, 1e-7),
                      hit / np.maximum(hit + missed, 1e-7)])
    return single(tag, tensor=numbers(table),
                  metadata=shown_by("pr_curves", PrCurvePluginData(num_thresholds=count).SerializeToString()))


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
    """uint8 pixels [height, width, channels]; several pictures (a format with N) side by side in a grid.

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


def image(tag, picture, dataformats="CHW") -> Summary:
    pixels = pixels_of(picture, dataformats)
    height, width, channels = pixels.shape
    return single(tag, image=Summary.Image(height=height, width=width, colorspace=channels,
                                           encoded_image_string=png(pixels)))


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


def audio(tag, sound, sample_rate=44100) -> Summary:
    """Sound in [-1, 1] of one channel: a WAV file of 16 bits."""
    samples = np.clip(array(sound).ravel().astype(np.float64), -1, 1)
    body = io.BytesIO()
    with wave.open(body, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(SAMPLES // 8)
        file.setframerate(sample_rate)
        file.writeframes((samples * (2 ** (SAMPLES - 1) - 1)).astype("<i2").tobytes())
    content = Summary.Audio(sample_rate=sample_rate, num_channels=1, length_frames=len(samples),
                            encoded_audio_string=body.getvalue(), content_type="audio/wav")
    return single(tag, audio=content)


def text(tag, words: str) -> Summary:
    """Text, which TensorBoard reads as Markdown."""
    body = TensorProto(dtype="DT_STRING", string_val=[words.encode()],
                       tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]))
    return single(f"{tag}/text_summary", tensor=body, metadata=shown_by("text"))


def hparams(chosen: dict, metrics) -> tuple:
    """(what is tried, this trial) of hyperparameters: two messages, as TensorBoard wants them."""
    for name, value in chosen.items():
        if not isinstance(value, (bool, int, float, str)):
            raise ValueError(
                f"hyperparameter {name!r} is a {type(value).__name__}: numbers, strings and booleans are shown")
    tried = [hparams_messages.HParam(name) for name in chosen]
    return hparams_messages.hparams_config_pb(tried, [hparams_messages.Metric(name)
                                                      for name in metrics]), hparams_messages.hparams_pb(chosen)

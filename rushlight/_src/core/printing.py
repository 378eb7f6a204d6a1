"""Printing of tensors."""
from __future__ import annotations

import contextlib
import math

import numpy as np

from . import dtypes
from .naming import is_own
from .native import Tensor, mine
from .overriding import of_mode
from .shutdown import allow_imports
from .tensor import attach


class Options:
    """The options of ``set_printoptions``."""

    precision, threshold, edgeitems, linewidth, sci_mode = 4, 1000, 3, 80, None


OPTIONS = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")
PROFILES = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, math.inf, 3, 80)}


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """How many digits, elements and columns tensors print with."""
    if profile in PROFILES:
        Options.precision, Options.threshold, Options.edgeitems, Options.linewidth = PROFILES[profile]
    for name, value in {"precision": precision, "threshold": threshold, "edgeitems": edgeitems,
                        "linewidth": linewidth}.items():
        if value is not None:
            setattr(Options, name, value)
    Options.sci_mode = sci_mode


def get_printoptions() -> dict:
    """Return the options for printing, as ``set_printoptions`` takes them."""
    return {name: getattr(Options, name) for name in OPTIONS}


@contextlib.contextmanager
def printoptions(**options):
    """Set options for printing, as ``set_printoptions`` takes them, within a block."""
    previous = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**previous)


class Formatter:
    """One format for all elements of a tensor: integers, decimals or scientific."""

    def __init__(self, values: np.ndarray):
        self.floating = values.dtype.kind == "f"
        self.integral, self.scientific, self.width = True, False, 1
        if not self.floating:
            self.width = max([1, *(len(str(v)) for v in values.reshape(-1).tolist())])
            return
        plain = np.abs(values[np.isfinite(values) & (values != 0)]).astype(np.float64)
        if plain.size:
            high, low = plain.max(), plain.min()
            self.integral = bool((values[np.isfinite(values)] == np.ceil(values[np.isfinite(values)])).all())
            self.scientific = bool(high / low > 1000 or high > 1e8 or (low < 1e-4 and not self.integral))
            if self.integral and high / low <= 1000 and high <= 1e8:
                self.scientific = False
        if Options.sci_mode is not None:
            self.scientific = Options.sci_mode
        counted = values[np.isfinite(values)] if np.isfinite(values).any() else values
        self.width = max([1, *(len(self.text(v)) for v in counted.reshape(-1).tolist())])

    def text(self, value) -> str:
        if not self.floating:
            return str(value)
        if self.scientific:
            return f"{value:.{Options.precision}e}"
        if self.integral:
            return f"{value:.0f}." if math.isfinite(value) else f"{value}"
        return f"{value:.{Options.precision}f}"

    def __call__(self, value) -> str:
        return self.text(value).rjust(self.width)


class ComplexFormatter:
    """Real and imaginary parts, each in its own format."""

    def __init__(self, values):
        self.real, self.imag = Formatter(values.real), Formatter(values.imag)
        self.width = self.real.width + self.imag.width + 2

    def __call__(self, value):
        sign = "+" if value.imag >= 0 or value.imag != value.imag else "-"
        return f"{self.real(value.real)}{sign}{self.imag.text(abs(value.imag))}j"


def shown(values: np.ndarray) -> np.ndarray:
    """The elements that will be printed."""
    edge = Options.edgeitems
    for k in range(values.ndim):
        if values.shape[k] > 2 * edge:
            values = np.concatenate([values.take(range(edge), k),
                                     values.take(range(values.shape[k] - edge, values.shape[k]), k)], k)
    return values


def render(values, formatter, indent, short) -> str:
    if values.ndim == 0:
        return formatter(values.item())
    edge = Options.edgeitems
    cut = short and len(values) > 2 * edge
    if values.ndim == 1:
        per_line = max(1, int((Options.linewidth - indent) // (formatter.width + 2)))
        items = [formatter(v) for v in (values[:edge] if cut else values).tolist()]
        if cut:
            items += [" ..."] + [formatter(v) for v in values[-edge:].tolist()]
        lines = [", ".join(items[k:k + per_line]) for k in range(0, len(items), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    rows = [render(v, formatter, indent + 1, short) for v in (values[:edge] if cut else values)]
    if cut:
        rows += ["..."] + [render(v, formatter, indent + 1, short) for v in values[-edge:]]
    return "[" + ("," + "\n" * (values.ndim - 1) + " " * (indent + 1)).join(rows) + "]"


@attach
def __repr__(self, *, tensor_contents=None):
    """The string form of a tensor: its elements, or what its class gives instead (``tensor_contents``), and metadata
    that the elements do not show."""
    kind = self.__class__
    # users' classes say their names
    prefix = "tensor(" if is_own(kind) else f"{kind.__name__}("
    suffixes = []
    where = self._rush_meta.device
    if not where.provider.has_data:
        body = "..."
        suffixes += [f"device='{where}'", f"size={tuple(self.shape)}"]
        if self.dtype is not dtypes.Defaults.floating:
            suffixes.append(f"dtype={self.dtype}")
    elif self.numel() == 0:
        body = "[]"
        if self.dim() != 1:
            suffixes.append(f"size={tuple(self.shape)}")
        if self.dtype is not dtypes.Defaults.floating:
            suffixes.append(f"dtype={self.dtype}")
    else:
        body = elements(self, len(prefix)) if tensor_contents is None else ""
        usual = (dtypes.Defaults.floating, dtypes.int64, dtypes.bool_, dtypes.Defaults.floating.to_complex())
        if self.dtype not in usual:
            suffixes.append(f"dtype={self.dtype}")
    if tensor_contents is not None:
        body = tensor_contents
    if self._rush_meta.dtype.scheme is not None:
        if f"size={tuple(self.shape)}" not in suffixes:
            suffixes.insert(0, f"size={tuple(self.shape)}")
        suffixes += quantizer(self)
    if where.provider.has_data and not where.provider.on_host:
        suffixes.insert(0, f"device='{where}'")
    suffixes += spell_history(self)
    text = add_suffixes(prefix + body, suffixes, len(prefix))
    marked = type(self) is not Tensor and vars(self).get("_is_param", False)  # a parameter that keeps its own class
    return f"Parameter({text})" if marked else text


def spell_history(tensor) -> list:
    """The part of a tensor's string form that shows its history: the name of its node, "Invalid" if reading ``grad_fn``
    raises."""
    try:
        node = tensor.grad_fn
    except RuntimeError:
        return ["grad_fn=<Invalid>"]
    if node is not None:
        return [f"grad_fn=<{type(node).__name__}>"]
    return ["requires_grad=True"] if tensor.requires_grad else []


def elements(tensor, indent: int) -> str:
    """The elements of a tensor that has some, in brackets."""
    allow_imports()
    from .exchange import seen_memory, values_of
    values = values_of(tensor, seen_memory)
    short = tensor.numel() > Options.threshold
    sample = shown(values) if short else values
    formatter = ComplexFormatter(sample) if tensor.dtype.is_complex else Formatter(
        sample.astype(np.float64) if sample.dtype.kind == "f" else sample)
    return render(values, formatter, indent, short)


def quantizer(tensor) -> list[str]:
    """The quantization parameters in a quantized tensor's string form."""
    found = tensor._rush_meta.dtype.scheme
    told = [f"quantization_scheme={found.kind}"]
    if hasattr(found, "scale"):
        return [*told, f"scale={found.scale}", f"zero_point={found.zero_point}"]
    return [*told, f"scale={tensor.q_per_channel_scales()}", f"zero_point={tensor.q_per_channel_zero_points()}",
            f"axis={found.axis}"]


def add_suffixes(text, suffixes, indent, new_line=False):
    """The text with suffixes, in lines of at most ``linewidth``; ``new_line``: the first suffix begins a line."""
    last = len(text.rsplit("\n", 1)[-1]) + 2  # as PyTorch counts
    for suffix in suffixes:
        if new_line or last + len(suffix) + 2 > Options.linewidth:
            new_line = False
            text, last = text + ",\n" + " " * indent + suffix, indent + len(suffix)
        else:
            text, last = text + ", " + suffix, last + len(suffix) + 2
    return text + ")"


@attach
def __format__(self, spec):
    if mine.modes:
        return of_mode("__format__", self, spec)
    if not self.dim():
        return self.item().__format__(spec)
    if spec:
        raise TypeError(
            f"unsupported format string passed to Tensor.__format__: {spec!r} is for one number, and the tensor has "
            f"the shape {list(self.shape)}")
    return str(self)


Tensor.__str__ = lambda self: repr(self)

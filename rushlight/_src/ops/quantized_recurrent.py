"""Recurrent cells with prepacked weights, in ``torch.ops.quantized``: inputs and states are quantized by their
extremes, or weights are float16."""
from __future__ import annotations

from typing import NamedTuple

from ..core.dtypes import float16
from .quantized_library import LIBRARY, PackedWeight, entry, linear_prepack, linear_prepack_fp16
from .recurrent import step

CELL = "__torch__.torch.classes.rnn.CellParamsBase"
LINEAR = "__torch__.torch.classes.quantized.LinearPackedParamsBase"


class CellParams(NamedTuple):
    """Prepacked weights of one layer in one direction, for inputs and for states; ``reduce_range``: these are quantized
    to 7 bits."""

    ih: PackedWeight
    hh: PackedWeight
    reduce_range: bool = True

    scripted = True  # files hold it as an object of PyTorch's class

    def __getstate__(self):
        """(kind, tensors, floats, integers and prepacked weights, the name of PyTorch's class), as in files."""
        if self.ih.qweight.dtype is float16:
            return ("quantized_fp16", [], [], [], [self.ih, self.hh]), CELL
        biases = [self.ih.bias_values, self.hh.bias_values]
        return ("quantized_dynamic", biases, [], [int(self.reduce_range)], [self.ih, self.hh]), CELL

    def __deepcopy__(self, memo):
        return CellParams(self.ih.__deepcopy__(memo), self.hh.__deepcopy__(memo), self.reduce_range)

    def __reduce__(self):
        return CellParams, tuple(self)


def restored_linear(parts) -> PackedWeight:
    """Prepacked weight from a file's (weight, bias): a float32 one was rounded to float16."""
    weight, bias = parts
    return (linear_prepack if weight.is_quantized else linear_prepack_fp16)(weight, bias)


def restored_cell(parts) -> CellParams:
    """CellParams from a file's parts."""
    kind, _, _, numbers, weights = parts
    if kind not in ("quantized_dynamic", "quantized_fp16"):
        raise RuntimeError(f"unknown parameters of a recurrent cell: {kind}; expected quantized_dynamic or "
                           "quantized_fp16")
    ih, hh = (getattr(one, "made", one) for one in weights)
    return CellParams(ih, hh, bool(numbers[0]) if numbers else False)


MAKERS = {LINEAR: restored_linear, CELL: restored_cell}  # PyTorch's class -> constructor from its state


@entry("make_quantized_cell_params_dynamic")
def make_quantized_cell_params_dynamic(w_ih, w_hh, bias_ih, bias_hh, reduce_range=False):
    """Prepacked weights of a cell; biases are those of the weights."""
    return CellParams(w_ih, w_hh, bool(reduce_range))


@entry("make_quantized_cell_params_fp16")
def make_quantized_cell_params_fp16(w_ih, w_hh):
    """Weights of a cell, rounded to float16."""
    return CellParams(w_ih, w_hh, False)


def gates(x, weight: PackedWeight, reduce_range=True):
    """A share of the gates, [*, size] -> [*, gates], by a prepacked weight."""
    if weight.qweight.dtype is float16:
        return LIBRARY["linear_dynamic_fp16"](x, weight)
    return LIBRARY["linear_dynamic"](x, weight, reduce_range)


def cell_of(mode):
    def cell(input, hx, w_ih, w_hh, bias_ih, bias_hh):
        h, c = hx if mode == "LSTM" else (hx, None)
        new_h, new_c = step(mode, gates(input, w_ih), h, c, gates(h, w_hh))
        return new_h if new_c is None else (new_h, new_c)
    cell.__doc__ = f"One step of a cell ({mode}) by prepared weights, whose biases count: [batch, size] each."
    return cell


LIBRARY.update({f"quantized_{mode.lower()}_cell_dynamic": cell_of(mode)
                for mode in ("LSTM", "GRU", "RNN_TANH", "RNN_RELU")})

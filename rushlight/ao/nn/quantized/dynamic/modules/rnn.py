"""Recurrent networks whose inputs and states are quantized by their extremes, or whose weights are halves."""
from __future__ import annotations

from ......_src.core.dtypes import float16, float32
from ......_src.core.later import facade, later
from ......_src.core.quantized import qint8
from ......_src.ops.quantized_recurrent import LIBRARY, CellParams, gates
from ......_src.restored import found
from ......nn import LSTM as FloatLSTM
from ......nn import GRU as FloatGRU
from ......nn import GRUCell as FloatGRUCell
from ......nn import LSTMCell as FloatLSTMCell
from ......nn import Module, ModuleList
from ......nn import RNNCell as FloatRNNCell
from ......nn.modules import rnn as floats
from ......nn.utils.rnn import PackedSequence
from ...modules.utils import Prepared, empty_weight, quantized_weight

__getattr__ = later(__name__)
STEPS = {"LSTM": 4, "GRU": 3, "RNN": 1}  # blocks of a weight's rows
SIDES = "ih", "hh"


def pack_weight_bias(qweight, bias, dtype):
    """A weight [n, k] and its bias [n], prepared: a quantized one for qint8, else one rounded to the half."""
    return LIBRARY["linear_prepack" if dtype is qint8 else "linear_prepack_fp16"](qweight, bias)


def observer_of(mod):
    """Return the constructor of the observer of a float layer's weights.  RuntimeError for dtypes other than qint8
    and float16, AssertionError without a ``qconfig`` or a bias."""
    from .....quantization.qconfig import default_dynamic_qconfig
    if not hasattr(mod, "qconfig"):
        raise AssertionError("Input float module must have qconfig defined")
    made = default_dynamic_qconfig.weight if mod.qconfig is None else mod.qconfig.weight
    dtype = made().dtype
    if dtype not in (qint8, float16):
        raise RuntimeError(f"Unsupported dtype for dynamic RNN quantization: {dtype}")
    if not mod.bias:
        raise AssertionError("mod.bias must be True")
    return made, dtype


def prepared(weight, bias, observer, dtype):
    """A float weight and its bias, prepared."""
    weight = quantized_weight(weight, observer()) if dtype is qint8 else weight.detach().to(float32)
    return pack_weight_bias(weight, bias.detach(), dtype)


def blank(rows, columns, dtype):
    """A prepared weight of zeros."""
    torch = facade()
    weight = empty_weight(rows, columns) if dtype is qint8 else torch.zeros(rows, columns)
    return pack_weight_bias(weight, torch.zeros(rows), dtype)


class PackedParameter(Prepared, Module):
    """The prepared weights of one layer in one direction."""

    def __init__(self, param):
        super().__init__()
        self.param = param

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "param"] = self.param

    def _load_from_state_dict(self, state_dict, prefix, *args):
        self.param = found(state_dict[prefix + "param"])
        super()._load_from_state_dict(state_dict, prefix, args[0], False, *args[2:])


class RNNBase(Module):
    """Layers of cells run over time, optionally in both directions: float32 in and out."""

    _version = 2
    proj_size = 0
    _rush_start, _rush_layers = floats.RNNBase._rush_start, floats.RNNBase._rush_layers

    def __init__(self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, dtype=qint8):
        super().__init__()
        if mode not in ("LSTM", "GRU"):
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element "
                             "being zeroed")
        self.mode, self.input_size, self.hidden_size, self.num_layers, self.bias = (mode, input_size, hidden_size,
                                                                                    num_layers, bias)
        self.batch_first, self.dropout, self.bidirectional = batch_first, float(dropout), bidirectional
        self.dtype, self.version, self.training = dtype, self._version, False
        rows, both = STEPS[mode] * hidden_size, hidden_size * (1 + bidirectional)
        self.set_cells(CellParams(blank(rows, both if layer else input_size, dtype), blank(rows, hidden_size, dtype),
                                  dtype is qint8)
                       for layer in range(num_layers) for _ in range(1 + bidirectional))

    def set_cells(self, cells):
        """Takes the prepared weights of all layers, each in one direction or both."""
        self._all_weight_values = ModuleList(map(PackedParameter, cells))

    @property
    def _all_weights(self):
        return [one.param for one in self._all_weight_values]

    def _rush_direction(self, x, h, c, cell, reverse, alive):
        """As that of ``nn.RNNBase``, by prepared weights."""
        x = x if alive is None else facade().where(alive, x, 0.0)  # what is not there has no part in the extremes
        hh = cell.hh
        shares = gates(x, cell.ih, cell.reduce_range)
        if hh.factor is None:
            weights = *hh.unpack(), None
        else:
            weights = hh.factor, hh.bias_values, None, hh.total, hh.scales, cell.reduce_range
        return floats.over_time(self.mode, shares, alive, h, c, reverse, weights)

    def forward(self, input, hx=None):
        data, rank = (input.data, 2) if isinstance(input, PackedSequence) else (input, 3)
        if data.dim() != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {data.dim()}")
        return floats.RNNBase.forward(self, input, hx)

    def extra_repr(self):
        options = floats.unusual(self, num_layers=1, bias=True, batch_first=False, dropout=0, bidirectional=False)
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *options])

    def __repr__(self):
        return f"{self._get_name()}({self.extra_repr()})"

    def _get_name(self):
        return f"DynamicQuantized{self.mode}"

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, *args):
        self.version = local_metadata.get("version", None)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *args)

    def _suffixes(self):
        """The ends of the names of weights, in order."""
        return [f"_l{layer}{end}" for layer in range(self.num_layers)
                for end in ("", "_reverse")[:1 + self.bidirectional]]

    def set_weight_bias(self, weight_bias_dict):
        """Takes weights and biases from a dict with the names of a float layer."""
        self.set_cells(CellParams(*(pack_weight_bias(weight_bias_dict[f"weight_{side}{end}"],
                                                     weight_bias_dict[f"bias_{side}{end}"], self.dtype)
                                    for side in SIDES), self.dtype is qint8 and (self.version or 0) >= 2)
                       for end in self._suffixes())

    def _weight_bias(self):
        """{"weight": {name: weight}, "bias": {name: bias}}"""
        made = {"weight": {}, "bias": {}}
        for end, cell in zip(self._suffixes(), self._all_weights):
            for side in SIDES:
                made["weight"][f"weight_{side}{end}"], made["bias"][f"bias_{side}{end}"] = getattr(cell, side).unpack()
        return made

    def get_weight(self):
        return self._weight_bias()["weight"]

    def get_bias(self):
        return self._weight_bias()["bias"]

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """From a float LSTM or GRU that has a ``qconfig``.  AssertionError for other classes, NotImplementedError for
        an LSTM with projections."""
        kinds = {FloatLSTM: LSTM, FloatGRU: GRU}
        if type(mod) not in kinds:
            raise AssertionError("nn.quantized.dynamic.RNNBase.from_float only works for nn.LSTM and nn.GRU")
        if mod.proj_size:
            raise NotImplementedError("an LSTM with projections (proj_size) has no quantized form")
        observer, dtype = observer_of(mod)
        made = kinds[type(mod)](mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first,
                                mod.dropout, mod.bidirectional, dtype)
        made.set_cells(CellParams(*(prepared(getattr(mod, f"weight_{side}{end}"), getattr(mod, f"bias_{side}{end}"),
                                             observer, dtype) for side in SIDES), dtype is qint8)
                       for end in made._suffixes())
        return made


class LSTM(RNNBase):
    """Long short-term memory by prepared weights: as ``nn.LSTM`` without projections.

    >>> torch.ao.nn.quantized.dynamic.LSTM(3, 4)(torch.ones(5, 2, 3))[0].shape
    torch.Size([5, 2, 4])
    """

    _FLOAT_MODULE = FloatLSTM

    def __init__(self, *args, **kwargs):
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """The gated recurrent unit by prepared weights: as ``nn.GRU``.

    >>> torch.ao.nn.quantized.dynamic.GRU(3, 4)(torch.ones(5, 2, 3))[0].shape
    torch.Size([5, 2, 4])
    """

    _FLOAT_MODULE = FloatGRU

    def __init__(self, *args, **kwargs):
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Prepared, Module):
    """One step of a recurrent network by prepared weights."""

    def __init__(self, input_size, hidden_size, bias=True, num_chunks=4, dtype=qint8):
        super().__init__()
        torch = facade()
        self.input_size, self.hidden_size, self.bias, self.weight_dtype = input_size, hidden_size, bias, dtype
        for side, columns in zip(SIDES, (input_size, hidden_size)):
            setattr(self, f"bias_{side}", torch.zeros(num_chunks * hidden_size) if bias else None)
            setattr(self, f"_packed_weight_{side}", blank(num_chunks * hidden_size, columns, dtype))

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias is True else f", bias={self.bias}")
        kind = getattr(self, "nonlinearity", "tanh")
        return text if kind == "tanh" else f"{text}, nonlinearity={kind}"

    def _get_name(self):
        return f"DynamicQuantized{type(self).__name__}"

    def check_forward_input(self, input):
        if input.size(1) != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.size(1)}, expected {self.input_size}")

    def check_forward_hidden(self, input, hx, hidden_label=""):
        if input.size(0) != hx.size(0):
            raise RuntimeError(
                f"Input batch size {input.size(0)} doesn't match hidden{hidden_label} batch size {hx.size(0)}")
        if hx.size(1) != self.hidden_size:
            raise RuntimeError(f"hidden{hidden_label} has inconsistent hidden_size: got {hx.size(1)}, expected "
                               f"{self.hidden_size}")

    def _rush_run(self, mode, input, hx):
        """One step: [batch, size] -> the new state, of an LSTM (hidden, cell)."""
        lstm = mode == "lstm"
        self.check_forward_input(input)
        if hx is None:
            hx = input.new_zeros((input.size(0), self.hidden_size))
            hx = (hx, hx) if lstm else hx
        for label, state in (("[0]", hx[0]), ("[1]", hx[1])) if lstm else (("", hx),):
            self.check_forward_hidden(input, state, label)
        return LIBRARY[f"quantized_{mode}_cell_dynamic"](input, hx, self._packed_weight_ih, self._packed_weight_hh,
                                                         self.bias_ih, self.bias_hh)

    def set_weight_bias(self, weight_bias_dict):
        """Takes {"weight": {"weight_ih": ..}, "bias": {"bias_ih": ..}}, each for both sides."""
        for side in SIDES:
            setattr(self, f"_packed_weight_{side}",
                    pack_weight_bias(weight_bias_dict["weight"][f"weight_{side}"],
                                     weight_bias_dict["bias"][f"bias_{side}"], self.weight_dtype))

    def _weight_bias(self):
        """What ``set_weight_bias`` takes."""
        made = {"weight": {}, "bias": {}}
        for side in SIDES:
            pair = getattr(self, f"_packed_weight_{side}").unpack()
            made["weight"][f"weight_{side}"], made["bias"][f"bias_{side}"] = pair
        return made

    get_weight, get_bias = RNNBase.get_weight, RNNBase.get_bias

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for side in SIDES:
            destination[f"{prefix}_packed_weight_{side}"] = getattr(self, f"_packed_weight_{side}")

    def _load_from_state_dict(self, state_dict, prefix, *args):
        for side in SIDES:
            setattr(self, f"_packed_weight_{side}", found(state_dict.pop(f"{prefix}_packed_weight_{side}")))
        super()._load_from_state_dict(state_dict, prefix, *args)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """From a float cell that has a ``qconfig``.  AssertionError for other classes."""
        kinds = {FloatLSTMCell: LSTMCell, FloatGRUCell: GRUCell, FloatRNNCell: RNNCell}
        if type(mod) not in kinds:
            raise AssertionError("nn.quantized.dynamic.RNNCellBase.from_float only works for nn.LSTMCell, nn.GRUCell "
                                 "and nn.RNNCell")
        observer, dtype = observer_of(mod)
        more = {"nonlinearity": mod.nonlinearity} if type(mod) is FloatRNNCell else {}
        made = kinds[type(mod)](mod.input_size, mod.hidden_size, bias=mod.bias, dtype=dtype, **more)
        for side in SIDES:
            setattr(made, f"_packed_weight_{side}", prepared(getattr(mod, f"weight_{side}"),
                                                             getattr(mod, f"bias_{side}"), observer, dtype))
        return made


class RNNCell(RNNCellBase):
    """One step of the simple recurrent network by prepared weights: as ``nn.RNNCell``.

    >>> torch.ao.nn.quantized.dynamic.RNNCell(3, 4)(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", dtype=qint8):
        super().__init__(input_size, hidden_size, bias, 1, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._rush_run(f"rnn_{self.nonlinearity}", input, hx)


class LSTMCell(RNNCellBase):
    """One step of an LSTM by prepared weights: as ``nn.LSTMCell``.

    >>> torch.ao.nn.quantized.dynamic.LSTMCell(3, 4)(torch.ones(2, 3))[0].shape
    torch.Size([2, 4])
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, num_chunks=4, **kwargs)

    def forward(self, input, hx=None):
        return self._rush_run("lstm", input, hx)


class GRUCell(RNNCellBase):
    """One step of a GRU by prepared weights: as ``nn.GRUCell``.

    >>> torch.ao.nn.quantized.dynamic.GRUCell(3, 4)(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(self, input_size, hidden_size, bias=True, dtype=qint8):
        super().__init__(input_size, hidden_size, bias, 3, dtype)

    def forward(self, input, hx=None):
        return self._rush_run("gru", input, hx)


def apply_permutation(tensor, permutation, dim=1):
    """A tensor's elements along a dimension in another order."""
    return tensor.index_select(dim, permutation)

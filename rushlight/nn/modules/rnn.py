"""Recurrent networks."""
from __future__ import annotations

import math
import warnings

from .. import functional as F
from .. import init
from .linear import empty, unusual
from .module import Module
from ..._src import flat as torch
from ..._src.capture.asking import is_compiling
from ..._src.ops.recurrent import advanced, state_gates, step

GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}
STEPS = 32  # at most, that are one program where layers run uncompiled


class RNNBase(Module):
    """Layers of cells run over time, optionally in both directions."""

    def __init__(self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, proj_size=0, device=None, dtype=None):
        super().__init__()
        if not isinstance(hidden_size, int):
            raise TypeError(f"hidden_size should be of type int, got: {type(hidden_size).__name__}")
        if hidden_size <= 0 or num_layers <= 0:
            raise ValueError("hidden_size and num_layers must be greater than zero")
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                "num_layers greater than 1, but got "
                f"dropout={dropout} and num_layers={num_layers}", stacklevel=3)
        if proj_size < 0 or proj_size >= hidden_size and proj_size:
            raise ValueError(
                "proj_size should be a non-negative integer smaller than hidden_size, or zero to disable projections")
        self.mode, self.input_size, self.hidden_size, self.num_layers, self.bias = (mode, input_size, hidden_size,
                                                                                    num_layers, bias)
        self.batch_first, self.dropout, self.bidirectional, self.proj_size = batch_first, float(
            dropout), bidirectional, proj_size
        self._all_weights = []
        directions, gates, real = 2 if bidirectional else 1, GATES[mode] * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            for direction in range(directions):
                suffix = f"_l{layer}" + ("_reverse" if direction else "")
                size = input_size if layer == 0 else real * directions
                shapes = {f"weight_ih{suffix}": (gates, size), f"weight_hh{suffix}": (gates, real)}
                if bias:
                    shapes.update({f"bias_ih{suffix}": (gates,), f"bias_hh{suffix}": (gates,)})
                if proj_size:
                    shapes[f"weight_hr{suffix}"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    setattr(self, name, empty(shape, device=device, dtype=dtype))
                self._all_weights.append(list(shapes))
        self.reset_parameters()

    def __getstate__(self):
        weights = {name: self._parameters.get(name) for name in self._flat_weights_names}
        return {**super().__getstate__(), "_flat_weights_names": [*weights], "_flat_weights": [*weights.values()]}

    def __setstate__(self, state):
        super().__setstate__({name: value for name, value in state.items() if not name.startswith("_flat_weight")})

    @property
    def _flat_weights(self):
        """All weights, in order."""
        return [weight for layer in self.all_weights for weight in layer]

    @_flat_weights.setter
    def _flat_weights(self, weights):
        for name, weight in zip(self._flat_weights_names, weights):
            if getattr(self, name, None) is not weight:
                setattr(self, name, weight)

    @property
    def _flat_weights_names(self):
        """The names of all weights, in order."""
        return [name for names in self._all_weights for name in names]

    @property
    def all_weights(self):
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self):
        """Do nothing: weights need no flattening."""

    def reset_parameters(self):
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self):
        options = unusual(self, proj_size=0, num_layers=1, bias=True, batch_first=False, dropout=0, bidirectional=False)
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *options])

    def _rush_direction(self, x, h, c, names, reverse, alive):
        """One layer in one direction over time: outputs, last hidden and cell state.  ``alive``: which sequences last
        until each time."""
        weights = {name.rsplit("_l", 1)[0]: getattr(self, name) for name in names}
        gates = F.linear(x, weights["weight_ih"], weights.get("bias_ih"))
        return over_time(self.mode, gates, alive, h, c, reverse,
                         (weights["weight_hh"], weights.get("bias_hh"), weights.get("weight_hr")))

    def forward(self, input, hx=None):
        from ..utils.rnn import PackedSequence, padded, running

        packed = input if isinstance(input, PackedSequence) else None
        single = packed is None and input.dim() == 2
        lasting = None
        if packed is not None:
            lasting = running(packed).to(packed.data.device)
            x = padded(packed.data, lasting)
        elif input.dim() in (2, 3):
            x = input.unsqueeze(1) if single else input.transpose(0, 1) if self.batch_first else input
        else:
            raise ValueError(f"{self._get_name()}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        if x.size(-1) != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {x.size(-1)}")
        if packed is None and x.size(0) == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        h, c = self._rush_start(x, hx, single, packed.sorted_indices if packed is not None else None)
        x, h, c = self._rush_layers(x, h, c, None if packed is None else lasting.unsqueeze(2))
        if packed is not None:
            h, c = (ordered(state, packed.unsorted_indices) for state in (h, c))
            x = PackedSequence(x[lasting], packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
        elif single:
            x, h, c = (None if value is None else value.squeeze(1) for value in (x, h, c))
        elif self.batch_first:
            x = x.transpose(0, 1)
        return x, h if c is None else (h, c)

    def _rush_start(self, x, hx, single, order):
        """The first hidden state and (of LSTMs, else None) cell state, [layers * directions, batch, size]."""
        shape = self.num_layers * (1 + self.bidirectional), x.size(1)
        hidden = (*shape, self.proj_size or self.hidden_size)
        if hx is None:
            return x.new_zeros(hidden), x.new_zeros((*shape, self.hidden_size)) if self.mode == "LSTM" else None
        states = hx if self.mode == "LSTM" else (hx, None)
        h, c = (ordered(state.unsqueeze(1) if single and state is not None else state, order) for state in states)
        if tuple(h.shape) != hidden:
            raise RuntimeError(f"Expected hidden size {hidden}, got {list(h.shape)}")
        return h, c

    def _rush_layers(self, x, h, c, alive):
        """All layers over all times: outputs, last hidden and cell states."""

        directions = 1 + self.bidirectional
        hidden, cells = [], []
        for layer in range(self.num_layers):
            outs = []
            for backwards in range(directions):
                at = layer * directions + backwards
                out, last_h, last_c = self._rush_direction(x, h[at], None if c is None else c[at],
                                                           self._all_weights[at], bool(backwards), alive)
                outs.append(out)
                hidden.append(last_h)
                cells.append(last_c)
            x = torch.cat(outs, -1) if self.bidirectional else outs[0]
            if self.dropout and self.training and layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, True)
        return x, torch.stack(hidden), None if c is None else torch.stack(cells)


def over_time(mode, gates, alive, h, c, reverse, weights):
    """All steps, or those from the last to the first: outputs, last hidden and cell state."""
    gates, alive = (row.flip(0) if reverse and row is not None else row for row in (gates, alive))
    outputs, h, c = (together if is_compiling() else in_parts)(mode, gates, alive, h, c, weights)
    return outputs.flip(0) if reverse else outputs, h, c


def together(mode, gates, alive, h, c, weights):
    """All steps, one by one: outputs, last hidden and cell state."""
    from ..._higher_order_ops.scan import steps

    def one(state, row):
        new_h, new_c = advanced(mode, row[0], row[1] if len(row) > 1 else None, *state, *weights)
        return (new_h, new_c), new_h

    (h, c), outputs = steps(one, (h, c), (gates,) if alive is None else (gates, alive))
    return outputs, h, c


def in_parts(mode, gates, alive, h, c, weights):
    """The same, some steps at a time: numbers of steps that are powers of two, so that there are few programs."""
    left, sizes = gates.size(0), []
    while left:
        sizes.append(min(STEPS, 1 << left.bit_length() - 1))
        left -= sizes[-1]
    found, ends = [], [None] * len(sizes) if alive is None else alive.split(sizes)
    for rows, end in zip(gates.split(sizes), ends):
        out, h, *rest = torch._recurrent_steps(mode, rows, end, h, c, *weights)
        c = rest[0] if rest else None
        found.append(out)
    return (found[0] if len(found) == 1 else torch.cat(found)), h, c


def ordered(state, indices):
    """A state [layers, batch, size] with its batch in another order; None stays."""
    return state if state is None or indices is None else state.index_select(1, indices)


class RNN(RNNBase):
    """The simple recurrent network (Elman 1990).

    >>> torch.nn.RNN(3, 4)(torch.ones(5, 2, 3))[0].shape
    torch.Size([5, 2, 4])
    """

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False,
                 dropout=0.0, bidirectional=False, device=None, dtype=None):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, 0, device, dtype)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter & Schmidhuber 1997).

    >>> torch.nn.LSTM(3, 4)(torch.ones(5, 2, 3))[0].shape
    torch.Size([5, 2, 4])
    """

    def __init__(self, *args, **kwargs):
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """The gated recurrent unit (Cho et al. 2014).

    >>> torch.nn.GRU(3, 4)(torch.ones(5, 2, 3))[0].shape
    torch.Size([5, 2, 4])
    """

    def __init__(self, *args, **kwargs):
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """One step of a recurrent network."""

    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self.weight_ih = empty((num_chunks * hidden_size, input_size), device=device, dtype=dtype)
        self.weight_hh = empty((num_chunks * hidden_size, hidden_size), device=device, dtype=dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, empty(num_chunks * hidden_size, device=device, dtype=dtype) if bias else None)
        self.reset_parameters()

    reset_parameters = RNNBase.reset_parameters

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _rush_run(self, mode, input, hx):
        if input.dim() not in (1, 2):
            raise ValueError(f"{self._get_name()}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        lstm = mode == "LSTM"
        single = input.dim() == 1
        x = input.unsqueeze(0) if single else input
        h, c = hx if lstm and hx is not None else (hx, None)
        if h is None:
            h = x.new_zeros((x.size(0), self.hidden_size))
            c = h if lstm else None
        elif single:
            h, c = h.unsqueeze(0), c.unsqueeze(0) if lstm else None
        out = step(mode, F.linear(x, self.weight_ih, self.bias_ih), h, c,
                   state_gates(h, self.weight_hh, self.bias_hh))
        out = tuple(v.squeeze(0) if single else v for v in out if v is not None)
        return out if lstm else out[0]


class RNNCell(RNNCellBase):
    """One step of the simple recurrent network.

    >>> torch.nn.RNNCell(3, 4)(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._rush_run(f"RNN_{self.nonlinearity.upper()}", input, hx)


class LSTMCell(RNNCellBase):
    """One step of an LSTM: (hidden, cell).

    >>> torch.nn.LSTMCell(3, 4)(torch.ones(2, 3))[0].shape
    torch.Size([2, 4])
    """

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input, hx=None):
        return self._rush_run("LSTM", input, hx)


class GRUCell(RNNCellBase):
    """One step of a GRU.

    >>> torch.nn.GRUCell(3, 4)(torch.ones(2, 3)).shape
    torch.Size([2, 4])
    """

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input, hx=None):
        return self._rush_run("GRU", input, hx)


def apply_permutation(tensor, permutation, dim=1):
    """A tensor's elements along a dimension in another order."""
    return tensor.index_select(dim, permutation)

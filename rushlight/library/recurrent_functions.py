"""Recurrent networks and their cells as ``aten`` calls them: with all of their weights in one list."""
from __future__ import annotations

from .._src.core.op import OPS
from .._src.ops.recurrent import state_gates, step


class Network:
    """A network of layers whose weights are given, in the order of ``aten``: those of the layers one after another, in
    each those of the directions, in each ``w_ih``, ``w_hh``, with ``has_biases`` ``b_ih``, ``b_hh``, and the projection
    where there is one.  RuntimeError for another number of them."""

    def __init__(self, mode, params, has_biases, num_layers, dropout, train, bidirectional):
        from ..nn.modules.rnn import RNNBase
        self.layers, self.direction = RNNBase._rush_layers, RNNBase._rush_direction
        self.mode, self.num_layers, self.dropout = mode, num_layers, dropout
        self.training, self.bidirectional = train, bidirectional
        cells, own = num_layers * (1 + bidirectional), 2 + 2 * has_biases
        count = len(params) // max(cells, 1)
        if len(params) != cells * count or count not in ((own, own + 1) if mode == "LSTM" else (own,)):
            raise RuntimeError(f"{mode.lower()}: {len(params)} weights do not fit {num_layers} layers of {own} in "
                               f"{1 + bidirectional} directions")
        names = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if has_biases else []), "weight_hr"][:count]
        self._all_weights = [[f"{name}_l{k}" for name in names] for k in range(cells)]
        for k, group in enumerate(self._all_weights):
            vars(self).update(zip(group, params[k * count:]))

    def _rush_direction(self, *values):
        return self.direction(self, *values)

    def run(self, x, h, c, alive=None):
        """Outputs [t, b, size] of x [t, b, features], and the states after them [cells, b, size]."""
        return self.layers(self, x, h, c, alive)


def network(mode):
    """One kind of network, in its forms for inputs [t, b, n] and for packed sequences."""
    def run(input, *given, **named):
        names = ("hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional")
        if "batch_sizes" in named or not isinstance(given[0 if mode == "LSTM" else 1] if len(given) > 1 else [], list
                                                    | tuple):
            given = dict(zip(("batch_sizes", *names), given)) | named
            return packed(mode, given.pop("data", input), **given)
        given = dict(zip((*names, "batch_first"), given)) | named
        return plain(mode, input, **given)

    return run


def states(mode, hx):
    """(hidden, cell) states; a cell state of LSTMs alone."""
    return tuple(hx) if mode == "LSTM" else (hx, None)


def plain(mode, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    x = input.transpose(0, 1) if batch_first else input
    found, h, c = Network(mode, params, has_biases, num_layers, dropout, train, bidirectional).run(
        x, *states(mode, hx))
    found = found.transpose(0, 1) if batch_first else found
    return (found, h) if c is None else (found, h, c)


def packed(mode, data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional):
    from ..nn.utils.rnn import PackedSequence, padded, running
    lasting = running(PackedSequence(data, batch_sizes)).to(data.device)
    found, h, c = Network(mode, params, has_biases, num_layers, dropout, train, bidirectional).run(
        padded(data, lasting), *states(mode, hx), lasting.unsqueeze(2))
    return (found[lasting], h) if c is None else (found[lasting], h, c)


def cell(mode):
    """One step of one kind of network."""
    def run(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        h, c = states(mode, hx)
        made = step(mode, OPS["nn.functional.linear"](input, w_ih, b_ih), h, c, state_gates(h, w_hh, b_hh))
        return made if mode == "LSTM" else made[0]

    return run


FUNCTIONS = {name: network(name.upper()) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")}
FUNCTIONS |= {f"{name}_cell": cell(name.upper()) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")}

"""Recurrent cells: one step, and several steps as one program, which packs the weights once."""
from __future__ import annotations

from ..core.op import OPS, op


def state_gates(h, w_hh, b_hh=None, total=None, scales=None, reduce_range=True):
    """The state's share of the gates: [batch, size] -> [batch, gates].  With ``total`` and ``scales`` the weight is
    int8, from ``_int8_operand``, and the state is quantized by its extremes, to 7 bits with ``reduce_range``."""
    if total is None:
        return OPS["nn.functional.linear"](h, w_hh, b_hh)
    return OPS["_dynamic_linear"](h, w_hh, total, scales, b_hh, reduce_range)


def step(mode, gates_x, h, c, gates_h, w_hr=None):
    """One step of a cell from both shares of the gates: the new hidden (and cell) state."""
    if mode == "GRU":
        rx, zx, nx = gates_x.chunk(3, -1)
        rh, zh, nh = gates_h.chunk(3, -1)
        r, z = (rx + rh).sigmoid(), (zx + zh).sigmoid()
        n = (nx + r * nh).tanh()
        return n + z * (h - n), None
    gates = gates_x + gates_h
    if mode == "LSTM":
        i, f, g, o = gates.chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return (h if w_hr is None else OPS["nn.functional.linear"](h, w_hr)), c
    return (gates.tanh() if mode == "RNN_TANH" else gates.relu()), None


def advanced(mode, gates_x, alive, h, c, w_hh, b_hh, w_hr=None, total=None, scales=None, reduce_range=True):
    """One step with the weights of ``state_gates``; where ``alive`` is false, states are unchanged."""
    where = OPS["where"]
    seen = h if alive is None or total is None else where(alive, h, 0.0)  # others have no part in the extremes
    new_h, new_c = step(mode, gates_x, h, c, state_gates(seen, w_hh, b_hh, total, scales, reduce_range), w_hr)
    if alive is not None:
        new_h, new_c = where(alive, new_h, h), None if new_c is None else where(alive, new_c, c)
    return new_h, new_c


@op(composite=True, planned=True, method=False, autocast="parts")
def _recurrent_steps(mode, gates, alive, h, c, w_hh, b_hh=None, w_hr=None, total=None, scales=None,
                     reduce_range=True):
    """Several steps of a cell: gates [steps, batch, gates] -> (hidden states [steps, batch, size], the last hidden and,
    of an LSTM, cell state)."""
    found = []
    for k in range(gates.shape[0]):
        h, c = advanced(mode, gates[k], None if alive is None else alive[k], h, c, w_hh, b_hh, w_hr, total, scales,
                        reduce_range)
        found.append(h)
    outputs = OPS["stack"](found)
    return (outputs, h) if c is None else (outputs, h, c)

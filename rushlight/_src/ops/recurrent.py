"""Cells of recurrent networks: one step, and several steps as one program, which packs the weights once."""
from __future__ import annotations

from ..core.op import OPS, op


def step(mode, gates_x, h, c, w_hh, b_hh, w_hr=None):
    """One step of a cell, the input's share of the gates already computed: the new hidden (and cell) state."""
    linear = OPS["nn.functional.linear"]
    gates_h = linear(h, w_hh, b_hh)
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
        return (h if w_hr is None else linear(h, w_hr)), c
    return (gates.tanh() if mode == "RNN_TANH" else gates.relu()), None


def advanced(mode, gates_x, alive, h, c, w_hh, b_hh, w_hr=None):
    """As ``step``; where ``alive`` is false, states stay as they were."""
    new_h, new_c = step(mode, gates_x, h, c, w_hh, b_hh, w_hr)
    if alive is not None:
        where = OPS["where"]
        new_h, new_c = where(alive, new_h, h), None if new_c is None else where(alive, new_c, c)
    return new_h, new_c


@op(composite=True, planned=True, method=False, autocast="parts")
def _recurrent_steps(mode, gates, alive, h, c, w_hh, b_hh=None, w_hr=None):
    """Several steps of a cell: gates [steps, batch, gates] -> (hidden states [steps, batch, size], the last hidden and,
    of an LSTM, cell state)."""
    found = []
    for k in range(gates.shape[0]):
        h, c = advanced(mode, gates[k], None if alive is None else alive[k], h, c, w_hh, b_hh, w_hr)
        found.append(h)
    outputs = OPS["stack"](found)
    return (outputs, h) if c is None else (outputs, h, c)

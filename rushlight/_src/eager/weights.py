"""Programs without the launches that pack operands: the hot path runs these while the operands are unchanged
(``core/native/weights.py``)."""
from __future__ import annotations

import ctypes
import hashlib
import threading
import weakref

from ..compiler.launch import CONSTANT, Launch, decode, encode
from ..core import copies  # registers hooks
from ..core.forking import guarded
from ..core.log import logger
from ..core.native import Plan, Tensor, state
from ..core.native.hooks import connect
from ..core.native.weights import Form, Packing, kept, own
from ..core.settings import settings
from ..core.tensor import flat
from .polymorphic import SymbolicArgument

log = logger("memory")
learning = guarded("plans", threading.Lock())  # one thread at a time gives a Packing its forms
forms: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # by content: those that are alive


def give_packing(plan: Plan, code):
    """Let the hot path check whether the operands that a program packs are unchanged."""
    found = getattr(code, "packings", ())
    if not found:
        return
    packing = Packing()
    packing.count = len(found)
    packing.tensors, packing.places = tuple(one[2] for one in found), tuple(one[1] for one in found)
    plan.packing = packing


def steady(args, nodes, given) -> frozenset:
    """Return the values of a call without gradients that are weights whose packed form may be kept; ``nodes``: the
    inputs for its tensors."""
    places = {node: k for k, node in enumerate(given)}
    tensors = (a for a in flat(args) if isinstance(a, (Tensor, SymbolicArgument)))
    return frozenset(places[node] for a, node in zip(tensors, nodes) if isinstance(a, state.parameter)
                     and a._rush_storage is not None and own(a._rush_storage) and node in places)


def first_packed(code) -> int:
    """Return the value that is the first packed operand: they follow the error flag and its word."""
    return sum(map(len, code.names)) + len(code.outputs) + len(code.temporaries) + 2


def without_packing(code) -> dict:
    """Return the launches of a program except those that pack, by number; their outputs become further values."""
    words, first = list(code.block), first_packed(code)
    for number, (_, _, _, _, _, offset, uses) in enumerate(code.packings):
        for at in uses:
            words[at], words[at + 1] = first + number, words[at + 1] - offset
    left_out = {one[0] for one in code.packings}
    return {k: launch for k, launch in enumerate(decode(words)) if k not in left_out}


def forms_of(code) -> tuple:
    """Return the packing of a program's operands: a Form each."""
    launches = code.launches
    return tuple(form_of(launches[one[0]], one, code) for one in code.packings)


def leave_out(plan: Plan, packing: Packing):
    """Give a Packing its forms, and the program without the packing launches; once, whichever threads request it.
    While another thread does so, nothing happens: the program runs unchanged."""
    if learning.acquire(blocking=False):
        try:
            if packing.code == 0:
                give_forms(plan, packing)
        finally:
            learning.release()


def give_forms(plan: Plan, packing: Packing):
    code = plan.code_owner
    made = encode(without_packing(code).values())
    kept.most, kept.checked = settings.packed_mb << 20, int(settings.verify)
    packing.forms = forms_of(code)
    packing.owner = (ctypes.c_int64 * len(made))(*made), code
    packing.code = ctypes.addressof(packing.owner[0])  # last: other threads run it afterwards
    log.debug("%s: %d of its operands, %d bytes when packed, are packed once while they are unchanged",
              plan.op.name, packing.count, sum(one[3] for one in code.packings))


def form_of(launch: Launch, packing: tuple, code) -> Form:
    """Return the packing of an operand by a launch as a program of two values; equal ones are one Form."""
    _, value, _, nbytes, place, offset, _ = packing
    slots = tuple((CONSTANT, number) if one == CONSTANT else (0, number) if one == value else (1, number - offset)
                  for one, number in launch.slots)
    words = encode([launch._replace(slots=slots)])
    tables = {array.ctypes.data: hashlib.sha256(array).digest() for array in code.tables.values()}
    key = tuple(tables.get(word, word) for word in words), nbytes
    found = forms.get(key)
    if found is None:
        found = Form()
        block = (ctypes.c_int64 * len(words))(*words)
        found.code, found.owner, found.nbytes = ctypes.addressof(block), (block, code), nbytes
        forms[key] = found
    return found


connect("_src/eager/weights.py", leave_out=leave_out)

"""Public views of a node's saved values: ``grad_fn._saved_self``, and the packed ones, on which hooks are
registered."""
from __future__ import annotations

from ..core.meta import Meta
from ..core.native import GradNode, Tensor, counter, state
from ..core.native.objects import DERIVED
from ..core.op import key_of
from .saved import Packed, Unpacking, handed, linked, packed_by, unpacking
from .slow_paths import changed, freed

RESULT = "result"
NUMBERS = (int, float, bool)  # types that a plan key has in place of scalars that the plan does not depend on


class Unknown(AttributeError):
    """A name under which a node saves nothing."""


def look_up(node: GradNode, name: str):
    """Return the value of ``_saved_...`` or ``_raw_saved_...``: a tensor that the node saves (None: it needs none), or
    a parameter of its operator.  AttributeError for another name."""
    raw = name.startswith("_raw_saved_")
    wanted = name.removeprefix("_raw_saved_" if raw else "_saved_")
    if node.plan is None:
        raise Unknown(name)
    kept, others = contents(node)
    read = (lambda place: None if place is None else SavedTensor.of(node, place)) if raw else (lambda place: None
                                                                                               if place is None
                                                                                               else value(node, place))
    if wanted in kept:
        places = kept[wanted]
        return tuple(map(read, places)) if isinstance(places, tuple) else read(places)
    if raw or wanted not in others:
        raise Unknown(name)
    return others[wanted]


def names_of(node: GradNode) -> list:
    """Names that ``look_up`` accepts for a node."""
    if node.plan is None:
        return []
    kept, others = contents(node)
    return [f"{prefix}{name}" for prefix in ("_saved_", "_raw_saved_")
            for name in kept] + [f"_saved_{name}" for name in others]


def contents(node: GradNode):
    """Return, by name, the indices in ``node.saved`` of arguments and results that are tensors (None: not saved, tuples
    for lists); and the other parameters."""
    plan = node.plan
    place = {code: k for k, code in reversed(list(enumerate(plan.saves)))}
    kept, others, tensors = {}, {}, iter(range(1 << 30))
    for name, found in parameters(plan):
        if isinstance(found, Meta):
            kept[name] = place.get(next(tensors))
        elif isinstance(found, tuple) and any(isinstance(f, Meta) for f in found):
            kept[name] = tuple(place.get(next(tensors)) if isinstance(f, Meta) else None for f in found)
        elif found not in NUMBERS:
            others[name] = found
    results = [place.get(~k) for k in range(len(plan.outputs) - plan.extra)]
    kept.update({RESULT: results[0]} if len(results) == 1
                else {f"{RESULT}{k}": found for k, found in enumerate(results)})
    return kept, others


def parameters(plan):
    """Yield each parameter of a plan's operator with its entry in the key; the first tensor is called ``self``."""
    key = key_of(plan)
    if key is None or plan.op.signature is None:
        return
    *given, names, _ = key
    order = list(plan.op.signature.parameters)
    named = order[:len(given) - len(names or ())]
    for name, found in zip([*named, *(names or ())], given):
        # a scalar has its type next to it
        if isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], type):
            found = found[1]
        yield "self" if name == "input" else name, found


ARITHMETIC = ("add", "sub", "mul", "div")  # operators whose second argument PyTorch converts to a tensor


def wants(plan) -> list:
    """True for each argument of a plan that is a tensor (or becomes one in PyTorch) and requires a gradient."""
    found, tensors, wanted = [], iter(range(1 << 30)), set(plan.wanted)
    for name, given in parameters(plan):
        if isinstance(given, (Meta, tuple)):
            found += [next(tensors) in wanted for each in (given if isinstance(given, tuple) else (given,))
                      if isinstance(each, Meta)]
        elif name == "other" and plan.op.name.strip("_") in ARITHMETIC:
            found.append(False)
    return found if sum(found) == len(wanted) else [True] * len(wanted)


def value(node: GradNode, place: int):
    """Value that a node saves at an index, unpacked.  RuntimeError if it was freed, or modified since."""
    if isinstance(node.function, Unpacking):
        found, link, code = node.function.value(place), node.function.links[place], node.plan.saves[place]
        if code < 0 and ~code in node.plan.cotangents:
            link = node, ~code
        return found if link is None or not isinstance(found, Tensor) else linked(found, *link)
    if node.saved is None:
        freed(node)
    found, code = node.saved[place], node.plan.saves[place]
    if isinstance(found, Tensor):
        if counter(found).version != node.versions[place]:
            changed(found, node.plan.op.name, node.versions[place])
        if code < 0 and ~code in node.plan.cotangents:
            found = linked(found, node, ~code)
    return found


class SavedTensor:
    """A saved tensor: ``data`` is its packed value, ``register_hooks`` sets hooks that pack it."""

    def __init__(self):
        raise RuntimeError(
            "Trying to create a SavedTensor object from Python is forbidden: they come from attributes such as "
            "grad_fn._raw_saved_self")

    @classmethod
    def of(cls, node, place):
        made = cls.__new__(cls)
        made.node, made.place = state.weak(node), place
        return made

    def holder(self):
        """List or tuple that keeps the values, and this one among them.  RuntimeError if they were freed."""
        node = self.node()
        if node is None:
            freed(None)
        context = getattr(node.function, "context", None)
        if context is not None:
            saved = context._saved
        else:
            saved = node.function.saved if isinstance(node.function, Unpacking) else node.saved
        if saved is None:
            freed(node)
        return node, context, saved[self.place]

    @property
    def data(self):
        """The tensor, or the result of the hook that packed it."""
        found = self.holder()[2]
        return found.value if isinstance(found, Packed) else found

    def unpack(self):
        """The tensor."""
        found = self.holder()[2]
        return found.unpacked() if isinstance(found, Packed) else found

    def register_hooks(self, pack_hook, unpack_hook=None):
        """Save ``pack_hook(tensor)``, from which ``unpack_hook`` restores the tensor.  RuntimeError if there are hooks
        already."""
        if not callable(pack_hook) or not callable(unpack_hook):
            raise TypeError(
                "register_hooks(): incompatible function arguments: pack_hook and unpack_hook are functions of one "
                "argument")
        node, context, found = self.holder()
        if isinstance(found, Packed):
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of "
                "hooks is allowed at a time.")
        if found is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor with value None is forbidden: None needs no packing")
        if context is not None:
            made = packed_by(found, pack_hook, unpack_hook)
            context._saved = (*context._saved[:self.place], made, *context._saved[self.place + 1:])
            return
        code = node.plan.saves[self.place]
        made = packed_by(handed(found, node, code), pack_hook, unpack_hook)
        if node.kind == DERIVED:
            unpacking(node, list(node.saved))
        node.function.saved[self.place] = made


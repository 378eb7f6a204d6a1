"""Mapping between Rushlight's operators and PyTorch's ``aten``, in both directions.

Most operators have PyTorch's name and parameters, in its order.  ``FORMS`` has the others.
"""
from __future__ import annotations

import functools
import inspect

from .._src.api import get_default_device
from .._src.core.native import Tensor
from .._src.core.op import OPS
from .overloads import MISSING, is_tensor, overloads

REDUCTIONS = ("none", "mean", "sum")
PREFIXED = ("linalg", "special", "fft")
# Python's operators take numbers as tensors here; other overloads are for other languages
UNUSED = {("add", "Scalar"), ("sub", "Scalar"), ("mul", "Scalar"), ("div", "Scalar"), ("div", "Scalar_mode"),
          ("split", "sizes"), ("split", "default"), ("repeat_interleave", "Tensor"),
          ("floor_divide", "Scalar"), ("var", "default"), ("std", "default"), ("var_mean", "default"),
          ("std_mean", "default"),
          *((f"{name}_", "Scalar") for name in ("add", "sub", "mul", "div"))}


class Form:
    """PyTorch's form of an operator: ``names`` in ``aten``, ``given`` {aten parameter: ours}, ``fixed`` {aten
    parameter: value}, ``dropped``: our parameters that aten's lacks, whatever their values, ``same``: parameters
    whose different defaults are equivalent, ``forward``: converts our values {our parameter: value} to aten's,
    ``back``: the reverse."""

    def __init__(self, *names, given=None, fixed=None, dropped=(), same=(), forward=None, back=None):
        self.names, self.given, self.fixed, self.dropped = names, given or {}, fixed or {}, dropped
        self.same, self.forward, self.back = same, forward or dict, back or dict


def row_of_padding(found: dict) -> dict:
    """The row that pads, counted from the first one: -1 is none in ``aten``."""
    row = found["padding_idx"]
    return found if row is None or row >= 0 else {**found, "padding_idx": row + found["weight"].shape[0]}


def padding_of_row(found: dict) -> dict:
    """None for every negative row, which pads nothing in ``aten``."""
    row = found.get("padding_idx")
    return {**found, "padding_idx": None} if row is not None and row < 0 else found


def spread(found: dict) -> dict:
    """Convert ``unbiased``, which may be passed in place of the dimension, to a correction."""
    if isinstance(found.get("dim"), bool):
        found = {**found, "unbiased": found["dim"], "dim": None}
    if found.get("unbiased") is not None:
        found = {**found, "correction": int(found["unbiased"]), "unbiased": None}
    return found


CUDNN = {"cudnn_enabled": True}
FORMS = {
    "_filled": Form("full", given={"size": "size", "fill_value": "value"}),
    "_to_dtype": Form("to", given={"self": "input", "dtype": "dtype"}),
    "split": Form("split", "split_with_sizes"),
    "nn.functional.embedding": Form("embedding", given={"weight": "weight", "indices": "input"},
                                    forward=row_of_padding, back=padding_of_row),
    "nn.functional.logsigmoid": Form("log_sigmoid"),
    "nn.functional.unfold": Form("im2col"),
    "nn.functional.fold": Form("col2im"),
    "nn.functional.cross_entropy": Form("cross_entropy_loss", given={"self": "input"}),
    "nn.functional.nll_loss": Form("nll_loss_nd"),
    "nn.functional.batch_norm": Form("batch_norm", fixed=CUDNN),
    "nn.functional.instance_norm": Form("instance_norm", fixed=CUDNN),
    "nn.functional.group_norm": Form("group_norm", fixed=CUDNN),
    "nn.functional.layer_norm": Form("layer_norm", fixed={"cudnn_enable": True}),
    "nn.functional.softmax": Form("softmax", dropped=("_stacklevel",)),
    "nn.functional.log_softmax": Form("log_softmax", dropped=("_stacklevel",)),
    "nn.functional.grouped_mm": Form("_grouped_mm"),
    **{name: Form(name, forward=spread) for name in ("var", "std", "var_mean", "std_mean")},
    "norm": Form("norm", same=("p",)),  # "fro" and 2
    "einsum": Form("einsum", given={"tensors": "operands"}),
    **{f"nn.functional.max_pool{n}d": Form(f"max_pool{n}d") for n in (1, 2, 3)},
    **{f"nn.functional.max_pool{n}d_with_indices": Form(f"max_pool{n}d_with_indices", dropped=("return_indices",))
       for n in (1, 2, 3)},
    **{f"nn.functional.adaptive_max_pool{n}d_with_indices": Form(f"adaptive_max_pool{n}d", dropped=("return_indices",))
       for n in (1, 2, 3)},
}
UNPOOL = Form(back=lambda found: {"kernel_size": (), **found})  # the size is given
OPENED = {  # operators that PyTorch decomposes, and how a call of PyTorch's operator becomes one of Rushlight's
    "tensordot": Form(given={"dims_self": "dims", "dims_other": "others"}, back=lambda found: {
        **{k: v for k, v in found.items() if k != "others"}, "dims": (found["dims"], found["others"])}),
    "nn.functional.max_unpool2d": UNPOOL, "nn.functional.max_unpool3d": UNPOOL,
    **{name: Form() for name in ("nn.functional.embedding_bag", "_softmax_of_allowed",
                                 "nn.functional.gaussian_nll_loss", "lu", "nn.functional.adaptive_max_pool1d",
                                 "nn.functional.adaptive_max_pool2d", "nn.functional.adaptive_max_pool3d")}}


def form_of(op) -> Form | None:
    """Return PyTorch's form of an operator; None if it has none, or decomposes it."""
    found = FORMS.get(op.name)
    if found is not None or OPS.get(op.name) is not op or op.name in OPENED:
        return found
    where, _, last = op.name.rpartition(".")
    if where not in ("", "nn.functional", *PREFIXED):
        return None
    name = f"{where}_{last}" if where in PREFIXED else last
    return Form(name) if overloads(name) else None


@functools.cache
def owners() -> dict:
    """{name in aten: our operator}, of what ``FORMS`` names."""
    return {name: ours for ours, form in FORMS.items() for name in form.names}


def arguments(op, args, kwargs) -> tuple:
    """(arguments by our names in order, {name: value} of those that are not at their default); None where they do not
    fit."""
    try:
        bound = op.signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    found, before = {}, None
    for name, value in bound.arguments.items():
        kind = op.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            value = list(value[0]) if len(value) == 1 and isinstance(value[0], (list, tuple)) else list(value)
            if before is not None and value and not is_tensor(found[before]) and not isinstance(found[before], str):
                first = found[before]
                found[before] = [*(first if isinstance(first, (list, tuple)) else [first]), *value]
            else:
                found[name] = value or (value if args and [] in map(listed, args) else None)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        else:
            found[name], before = value, name
    return found


def listed(value):
    """A sequence as a list, and all else as it is."""
    return list(value) if isinstance(value, (list, tuple)) else value


def is_wrapper(op) -> bool:
    """Whether an operator passes all of its arguments on, so that they are PyTorch's by position."""
    kinds = [p.kind for p in op.signature.parameters.values()]
    return inspect.Parameter.VAR_POSITIONAL in kinds and inspect.Parameter.VAR_KEYWORD in kinds


def source(form: Form, argument, k, ours, theirs, unset=()):
    """Our name of the k-th argument of a schema; names that are ``unset`` are the last choice."""
    name = argument.name
    if name in form.given:
        return form.given[name]
    if name in ours and name not in unset:
        return name
    if name == "self" and "input" in ours:
        return "input"
    if not argument.kwarg_only and k < len(ours):
        found = ours[k]
        if found not in theirs and found != "inplace" and not (found == "input" and "self" in theirs):
            return found
    return name if name in ours else None


def converted(argument, value):
    return REDUCTIONS.index(value) if argument.name == "reduction" and value in REDUCTIONS else value


def spelled(op, form: Form, overload, found: dict):
    """(score, arguments by their names) of a call as one of this overload, or None."""
    ours, theirs, values, score, used = list(found), set(overload.by_name), {}, 0, set(form.dropped)
    unset = {name for name, value in found.items() if value is None}
    for k, argument in enumerate(overload.arguments):
        name = source(form, argument, k, ours, theirs, unset)
        value = MISSING if name is None else converted(argument, found[name])
        if value is MISSING:
            value = form.fixed.get(argument.name, MISSING)
        fit = None if value is MISSING else argument.fits(value)
        if fit is None:
            if argument.required or value is not MISSING and value is not None:
                if name is None or not is_default(op, name, found[name]) or argument.required:
                    return None
                if found[name] is not None and name not in form.same:
                    return None  # aten's would take another value
            used.add(name)
            continue
        values[argument.name] = value
        used.add(name)
        score += fit + (value is None and argument.required)
    rest = [n for n in ours if n not in used]
    return None if any(not is_default(op, n, found[n]) for n in rest) else (score, values)


def is_default(op, name, value) -> bool:
    parameter = op.signature.parameters.get(name)
    if parameter is None or parameter.default is inspect.Parameter.empty:
        return value is None or value is False
    return value is parameter.default or not is_tensor(value) and value == parameter.default


def by_position(op, args, kwargs, form):
    """Return the aten call that passes on all arguments of an operator, by position and name."""
    kwargs = {k: v for k, v in kwargs.items() if not (k == "inplace" and not v)}
    for name in form.names:
        for label, overload in overloads(name).items():
            rest = {"self" if k == "input" and "self" in overload.by_name else k: v for k, v in kwargs.items()}
            count = overload.conversions(args, rest) if (name, label) not in UNUSED else None
            if count is not None and (found := overload.bind(args, rest)):
                yield count, name, label, overload, found


def by_name(op, args, kwargs, form):
    found = arguments(op, args, kwargs)
    if found is None:
        return
    found = form.forward(found)
    for name in form.names:
        for label, overload in overloads(name).items():
            got = spelled(op, form, overload, found) if (name, label) not in UNUSED else None
            if got is not None:
                yield got[0], name, label, overload, got[1]


def written_to(op, args) -> bool:
    """Whether a call by position says ``inplace``."""
    names = list(op.signature.parameters)
    return "inplace" in names and not is_wrapper(op) and len(args) > names.index("inplace") and bool(
        args[names.index("inplace")])


def outside(op, args, kwargs) -> tuple:
    """The arguments of a call without its ``inplace``."""
    names = list(op.signature.parameters)
    if written_to(op, args):
        args = (*args[:names.index("inplace")], False, *args[names.index("inplace") + 1:])
    return args, {k: v for k, v in kwargs.items() if k != "inplace"}


def steps(op, args, kwargs, form):
    """``arange`` by as many numbers as it needs."""
    found = arguments(op, args, kwargs)
    start, end, step = found.pop("start"), found.pop("end"), found.pop("step")
    label = "default" if end is None else "start" if step == 1 and type(step) is int else "start_step"
    values = {"end": start} if end is None else {"start": start, "end": end, "step": step}
    overload = overloads("arange")[label]
    values = {k: v for k, v in {**found, **values}.items() if k in overload.by_name and v is not None}
    return [(0, "arange", label, overload, values)]


def meaning(op, args, kwargs):
    """Return (name in aten, overload's name, args, kwargs) of a call of our operator; None if PyTorch has no such
    operator."""
    form = form_of(op)
    if form is None or op.signature is None:
        return None
    if kwargs.get("inplace") or written_to(op, args):
        name, label, args, kwargs = meaning(op, *outside(op, args, kwargs)) or (None,) * 4
        return (f"{name}_", label, args, kwargs) if name and label in overloads(f"{name}_") else None
    find = steps if op.name == "arange" else by_position if is_wrapper(op) else by_name
    ways = list(find(op, args, kwargs, form))
    if not ways:
        return None
    _, name, label, overload, values = min(ways, key=lambda way: way[0])
    if "device" in overload.by_name and values.get("device") is None and "pin_memory" in overload.by_name and not any(
            is_tensor(v) for v in values.values()):
        values["device"] = get_default_device()
    return name, label, *overload.call(values)


def inplace_form(op, name: str):
    """Return the function of ``aten::name_`` for a Rushlight function, which has ``inplace`` or whose result is copied
    into its first argument; None if PyTorch has no such operator, or tensors a method."""
    if op is None or op.signature is None:
        return None
    switched = "inplace" in op.signature.parameters
    if not switched and (not overloads(f"{name}_") or hasattr(Tensor, f"{name}_")):
        return None

    def call(*args, **kwargs):
        schema = overloads(name)["default"]
        found = None if is_wrapper(op) else ours(op, schema, args, kwargs)
        given, named = (args, kwargs) if found is None else found
        return op(*given, **named, inplace=True) if switched else args[0].copy_(op(*given, **named))

    return call


@functools.cache
def plain(op, overload) -> bool:
    """Whether an overload takes what our operator takes, by position and name."""
    form = form_of(op) or OPENED.get(op.name)
    names = [n for n, p in op.signature.parameters.items()] if op.signature is not None else None
    if names is None or form is None or form.given or form.fixed:
        return form is None
    theirs = [a.name for a in overload.arguments]
    if "reduction" in theirs:
        return False
    named = [p.kind is inspect.Parameter.KEYWORD_ONLY for p in op.signature.parameters.values()]
    return is_wrapper(op) or all(k < len(names) and (name == names[k] and not named[k]
                                                     or name == "self" and names[k] == "input")
                                 for k, name in enumerate(theirs) if not overload.arguments[k].kwarg_only)


def ours(op, overload, args, kwargs) -> tuple:
    """The arguments of our operator for a call of this overload: by name.  None where they do not fit the schema.
    TypeError where our operator has no parameter for one of them."""
    form, values = form_of(op) or OPENED[op.name], overload.bind(args, kwargs)
    if values is None:
        return None
    names, theirs, found = list(op.signature.parameters), set(overload.by_name), {}
    for k, argument in enumerate(overload.arguments):
        if argument.name not in values or argument.name in form.fixed:
            continue
        name = source(form, argument, k, names, theirs)
        if name is None:
            if not argument.is_default(argument.written(values[argument.name])):
                raise TypeError(f"aten::{overload.text}: {argument.name} cannot be passed on")
            continue
        value = values[argument.name]
        found[name] = REDUCTIONS[value] if argument.name == "reduction" and type(value) is int else value
    return call_of(op, form.back(found))


def call_of(op, found: dict) -> tuple:
    """Positional and named arguments of our operator."""
    args, kwargs = [], dict(found)
    for name, parameter in op.signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL and name in kwargs:
            given = kwargs.pop(name)
            args += given if isinstance(given, (list, tuple)) else (given,)
        elif name in kwargs and parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            args.append(kwargs.pop(name))
        else:
            break
    return tuple(args), kwargs

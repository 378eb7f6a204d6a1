"""Functionalization of ``aten`` calls: their values, the update of the base when the target is a view, and calls
whose schemas do not declare that they mutate."""
from __future__ import annotations

from .._ops import ops
from .._src.core.convert import contiguous_format
from .._src.core.meta import Meta
from .._src.core.native import Tensor
from .._src.ops.index import is_mask, parse, prepared
from .implicit import find_decomposition, is_preservable
from .overloads import overloads

aten = ops.aten
OTHERWISE = {"normal_": "normal_functional", "_native_batch_norm_legit": "_native_batch_norm_legit_functional",
             "bernoulli_.float": "bernoulli.p"}

WHOLE = {"_conj": aten.conj_physical.default, "_neg_view": aten.neg.default,  # view -> what undoes it
         "view_as_real": aten.view_as_complex.default, "view_as_complex": aten.view_as_real.default}


def functional_form(called):
    """The overload that gives what another one writes.  NotImplementedError where there is none."""
    name, label = called._opname, called._overloadname
    found = OTHERWISE.get(f"{name}.{label}") or OTHERWISE.get(name)
    if found is None and name.endswith("_"):
        found = name[:-1]
    stem, _, other = (found or "").partition(".")
    known = overloads(stem) if found else {}
    label = other or label
    if label not in known:
        label = next((k for k, one in known.items() if takes(one) == takes(called.schema)), label)
    if label not in known:
        raise NotImplementedError(f"{called} writes into an argument, and no operator gives what it would write: a "
                                  "program with it cannot be written without writes")
    return getattr(getattr(aten, stem), label)


def takes(schema) -> list:
    """Names and kinds of the arguments of an overload."""
    return [(a.name, a.base, a.several) for a in schema.arguments]


def computed(writer, called, bound) -> tuple:
    """The new values of what a call writes into, in order."""
    if called is aten.zero_.default:
        return (writer.overload(aten.full_like.default, (bound["self"], 0), {"pin_memory": False}),)
    functional = functional_form(called)
    known = [a for a in functional.schema.arguments if a.name in bound]
    args = tuple(bound[a.name] for a in known if not a.kwarg_only)
    kwargs = {a.name: bound[a.name] for a in known if a.kwarg_only}
    results = writer.overload(functional, args, kwargs)
    if called._opname == "_native_batch_norm_legit":
        return results[3], results[4]
    return results if isinstance(results, (tuple, list)) else (results,)


def returned(called, written, results):
    """Return the results of the call itself: its targets."""
    if called._opname == "_native_batch_norm_legit":
        return tuple(results[:3])
    return written[0] if len(called.schema.returns) == 1 and called.schema.result.strip() != "()" else None


def put_back(writer, step, before, value):
    """Return a tensor's new value when a view of it, made by ``step``, is assigned a value."""
    called, args, kwargs, part = step
    if called.schema is None:
        raise NotImplementedError(f"a write into a view that {called} makes cannot be written without writes")
    bound = called.schema.bind((before, *args), kwargs)
    bound = {a.name: bound.get(a.name, a.default_value) for a in called.schema.arguments}
    name, shape = called._opname, list(before._rush_meta.shape)

    def call(overload, *given):
        return writer.overload(overload, (before, value, *given), {})

    if name in ("alias", "detach", "lift_fresh"):
        return value
    if name == "select":
        return call(aten.select_scatter.default, bound["dim"], bound["index"])
    if name == "unbind":
        return call(aten.select_scatter.default, bound["dim"], part)
    if name == "slice":
        return call(aten.slice_scatter.default, bound["dim"], bound["start"], bound["end"], bound["step"])
    if name == "diagonal":
        return call(aten.diagonal_scatter.default, bound["offset"], bound["dim1"], bound["dim2"])
    if name == "as_strided":
        return call(aten.as_strided_scatter.default, bound["size"], bound["stride"], bound["storage_offset"])
    if name in ("split", "split_with_sizes"):
        start, end = piece(bound, before, part)
        return call(aten.slice_scatter.default, bound["dim"], start, end)
    if name == "permute":
        dims = [d % len(shape) for d in bound["dims"]]
        return writer.overload(aten.permute.default, (value, [dims.index(k) for k in range(len(dims))]), {})
    if name in ("transpose", "t"):
        return writer.overload(called, (value, *args), kwargs)
    if name in WHOLE or name == "view" and called._overloadname == "dtype":
        return seen_back(writer, name, before, value)
    if name in ("view", "squeeze", "unsqueeze", "_unsafe_view", "reshape"):
        return writer.overload(aten.view.default, (value, shape), {})
    raise NotImplementedError(f"a write into a view that {called} makes cannot be written without writes")


def seen_back(writer, name, before, value):
    """Return a tensor's new value when its memory was written to with another dtype."""
    given = ()
    if name in ("view", "view_as_real", "view_as_complex") and not value._rush_meta.contiguous:
        value = writer.overload(aten.clone.default, (value,), {"memory_format": contiguous_format})
    if name == "view":
        given = (before.dtype,)
    return writer.overload(aten.view.dtype if name == "view" else WHOLE[name], (value, *given), {})


def laid_as(writer, base, value):
    """Return a value with the strides of the tensor that it is written to, which may have views."""
    if tuple(value._rush_meta.strides) == tuple(base._rush_meta.strides):
        return value
    if base._rush_meta.contiguous:
        return writer.overload(aten.clone.default, (value,), {"memory_format": contiguous_format})
    return writer.keep(aten.copy.default, (writer.worth(base), value), {})


def piece(bound, before, part) -> tuple:
    """Return the begin and end of one of several parts."""
    sizes = bound.get("split_sizes") or bound.get("split_size")
    if isinstance(sizes, (list, tuple)):
        start = sum(sizes[:part])
        return start, start + sizes[part]
    return part * sizes, min((part + 1) * sizes, before._rush_meta.shape[bound["dim"]])


def batch_norm(writer, input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=True):
    """A batch norm, which moves its running statistics while it trains."""
    if not training:
        return writer.overload(aten._native_batch_norm_legit_no_training.default,
                               (input, weight, bias, running_mean, running_var, momentum, eps), {})[0]
    if running_mean is None:
        return writer.overload(aten._native_batch_norm_legit.no_stats, (input, weight, bias, True, momentum, eps),
                               {})[0]
    found = writer.overload(aten._native_batch_norm_legit_functional.default,
                            (input, weight, bias, running_mean, running_var, True, momentum, eps), {})
    writer.assign(running_mean, found[3])
    writer.assign(running_var, found[4])
    return found[0]


def instance_norm(writer, input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps,
                  cudnn_enabled=True):
    """An instance norm, as a batch norm of a batch of one."""
    if running_mean is not None and use_input_stats:
        raise NotImplementedError("an instance norm that moves running statistics cannot be decomposed")
    n, c, *rest = input._rush_meta.shape

    def many(x):
        return None if x is None else writer.overload(aten.repeat.default, (x, [n]), {})

    folded = writer.overload(aten.view.default, (input, [1, n * c, *rest]), {})
    made = batch_norm(writer, folded, many(weight), many(bias), many(running_mean), many(running_var), use_input_stats,
                      momentum, eps)
    return writer.overload(aten.view.default, (made, [n, c, *rest]), {})


def index(writer, input, indices):
    """The elements that indices show, where some are masks: these become the positions of what they hold."""
    if not any(map(is_mask, indices)):
        return None
    x, places = prepared(input, parse(input, tuple(slice(None) if i is None else i for i in indices)))
    return writer.overload(aten.index.Tensor, (x, places), {})


HIDDEN = {aten.batch_norm.default: batch_norm, aten.instance_norm.default: instance_norm, aten.index.Tensor: index}


def foreign(writer, called, args, kwargs):
    """A call of an operator of another library: by the table's function, or as it is."""
    function = writer.table.get(called)
    if function is not None:
        return function(*args, **kwargs)
    custom = getattr(called.overloadpacket, "custom", None)
    if custom is None:
        return writer.keep(called, args, kwargs)
    given = custom.arguments(args, kwargs)
    composite = find_decomposition(called)
    if composite is not None and not is_preservable(custom):
        return composite(*args, **kwargs)
    if not custom.schema.mutated:
        return writer.keep(called, args, kwargs)
    metas, several = described(writer, custom, given)
    results = writer.results(writer.call_node(ops.higher_order.auto_functionalized, (called,), metas, given), metas)
    written = [given[name] for name in custom.schema.signature.parameters if name in custom.schema.mutated]
    for target, value in zip(written, results[several:]):
        if isinstance(target, Tensor):
            writer.assign(target, value)
    return custom.shaped(results[:several]) if custom.schema.returns != "()" else None


def described(writer, custom, given) -> tuple:
    """(the Metas of an operator's results and of what it writes, how many of them are results)."""
    from .operator import ArgumentLayout
    layout = ArgumentLayout(given.values())
    found = custom.described(layout, [t._rush_meta for t in layout.tensors])
    count = len(custom.written(given.values()))
    results = [m for m in found[count:] if isinstance(m, Meta)]
    return (*(results or (None,)), *found[:count]), max(len(results), 1)

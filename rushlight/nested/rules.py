"""Operators on nested tensors.

1. An operator that is elementwise, or reads last dimensions only (the trait ``by_rows``), acts on the
  rows of all examples at once.
2. One that takes dimensions acts on rows too, with renumbered dimensions, unless the ragged one is among them.
3. One along the ragged dimension acts on each example; reductions do so for all at once.

Operators whose bodies call others are simply run.  The few with a meaning of their own have a rule.
"""
from __future__ import annotations

import math

from .._src.core import convert
from .._src.core.composed import member, rulebook
from .._src.core.errors import UnsupportedLayoutError
from .._src.core.native import Op, Tensor
from .._src.core.op import OPS, bind
from .._src.core.overriding import DisableTorchFunctionSubclass
from .._src.core.tensor import wrapped
from .._src.transforms.elementwise import is_elementwise
from .examples import joined
from .products import multiply_examples
from .ragged import Ragged
from .tensor import Nested, contiguous, made

RULES, rule = rulebook()
PLAIN = frozenset((  # members of tensors that ask for types only, or call what is defined for nested tensors
    "dtype", "device", "element_size", "is_floating_point", "is_complex", "float", "double", "half", "bfloat16", "long",
    "int", "short", "char", "byte", "bool", "type_as",
    "cpu", "grad_fn", "layout"))
DIMENSIONS = ("dim", "dim0", "dim1", "start_dim", "end_dim")  # parameters that name dimensions


def answer(func, args, kwargs):
    """The result of a call with nested arguments."""
    found = RULES.get(func)
    if found is not None:
        return found(*args, **kwargs)
    if not isinstance(func, Op):
        name = member(func)
        if name in PLAIN:
            with DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        raise unsupported(name, args)
    if func.traits.get("by_rows"):
        return on_rows(func, args, kwargs)
    if func.traits.get("composite"):
        return func.body(*args, **kwargs)
    if any(name in func.signature.parameters for name in DIMENSIONS):
        return along(func, args, kwargs)
    if "reduction" in func.signature.parameters:
        return loss(func, args, kwargs)
    if is_elementwise(OPS.get(func.name.rstrip("_"), func), *rows_of(args, kwargs)):
        return elementwise(func, args, kwargs)
    raise unsupported(func.name, args)


def unsupported(name, args):
    shapes = [tuple(a.shape) for a in args if isinstance(a, Tensor)]
    return UnsupportedLayoutError(f"{name}: not implemented for nested tensors, given sizes {shapes}", "dense tensors",
                                  "use values(), to_padded_tensor() or unbind() first")


def rows_of(args, kwargs):
    """The arguments with rows in the place of nested tensors."""
    return [row_of(a) for a in args], {name: row_of(a) for name, a in kwargs.items()}


def row_of(value):
    return value.rows if isinstance(value, Nested) else value


def first_nested(args, kwargs=()):
    return next(a for a in (*args, *(kwargs.values() if kwargs else ())) if isinstance(a, Nested))


def nested_like(x: Nested, result, at=None):
    """Rows, or several tensors of rows, as nested tensors."""
    if isinstance(result, Tensor):
        return made(result, x.ragged, x.at if at is None else at, x.layout)
    return like(result, [nested_like(x, r, at) for r in result])


def like(results, parts):
    """Parts as a tuple of the kind that ``results`` is."""
    return type(results)(*parts) if hasattr(results, "_fields") else type(results)(parts)


# --- 1. rows ----------------------------------------------------------------------------------------------------------
def on_rows(func, args, kwargs):
    """An operator that does not look beyond one row."""
    x = first_nested(args, kwargs)
    args, kwargs = rows_of(args, kwargs)
    return nested_like(x, func(*args, **kwargs))


def elementwise(func, args, kwargs):
    """An elementwise operator: dense tensors are broadcast to the rows first."""
    x = next((a for a in (*args, *kwargs.values()) if isinstance(a, Nested) and a.dim() == widest(args, kwargs)),
             first_nested(args, kwargs))
    x = contiguous(x) if any(is_dense(a) for a in (*args, *kwargs.values())) else x
    out = func(*(fitted(x, a) for a in args), **{name: fitted(x, a) for name, a in kwargs.items()})
    if func.name.endswith("_") and isinstance(args[0], Nested):
        return args[0]
    return nested_like(x, out)


def loss(func, args, kwargs):
    """An elementwise loss, reduced over all rows or not at all."""
    given = dict(bind(func, args, kwargs))
    x = contiguous(first_nested(given.values()))
    if not is_elementwise(func, (), {**rows_of((), given)[1], "reduction": "none"}):
        raise unsupported(func.name, args)
    out = func(**{name: fitted(x, contiguous(value) if isinstance(value, Nested) else value)
                  for name, value in given.items()})
    return nested_like(x, out) if out.dim() else out


def widest(args, kwargs):
    return max(a.dim() for a in (*args, *kwargs.values()) if isinstance(a, Tensor))


def is_dense(value):
    return isinstance(value, Tensor) and not isinstance(value, Nested) and value.dim() > 0


def fitted(x: Nested, value):
    """An operand in the shape of the rows of ``x``, up to broadcasting."""
    if isinstance(value, Nested):
        if value.at - value.dim() != x.at - x.dim() or not value.ragged.fits(x.ragged):
            raise RuntimeError(
                f"cannot call a pointwise function with nested tensors of sizes {tuple(x.shape)} and "
                f"{tuple(value.shape)}: their examples differ in length. "
                "Make one with the offsets of the other by nested_tensor_from_jagged().")
        return value.rows
    if not is_dense(value) or value.dim() < x.dim() - x.at:
        return value
    if value.dim() > x.dim():
        raise RuntimeError(
            f"a dense operand of size {tuple(value.shape)} has more dimensions than the nested tensor of size "
            f"{tuple(x.shape)}")
    value = value[(None,) * (x.dim() - value.dim())]
    batch, length = value.size(0), value.size(x.at)
    if batch not in (1, x.ragged.count) or length not in (1, x.ragged.longest):
        raise RuntimeError(
            f"cannot call a pointwise function with inputs of sizes {tuple(x.shape)} and {tuple(value.shape)}: the "
            f"dense one wants 1 or {x.ragged.count} "
            f"examples, and 1 or {x.ragged.longest} (the longest) in the ragged dimension")
    owners = x.ragged.owners if batch > 1 else 0
    chosen = value.movedim(x.at, 1)[owners, x.ragged.places if length > 1 else 0]
    return chosen.movedim(0, x.at - 1) if batch > 1 or length > 1 else chosen.unsqueeze(x.at - 1)


# --- 2. dimensions ----------------------------------------------------------------------------------------------------
def along(func, args, kwargs):
    """An operator that takes dimensions: on the rows if it leaves the batch's and the ragged one alone, else on each
    example."""
    given = dict(bind(func, args, kwargs))
    names = [name for name in DIMENSIONS if name in given]
    tensors = next((v for v in given.values() if isinstance(v, (list, tuple))
                    and any(isinstance(a, Nested) for a in v)), None)
    x = first_nested(tensors if tensors is not None else given.values())
    named = {d for name in names for d in dimensions(x, given[name])}
    reduces = "keepdim" in given
    if reduces and (not named or 0 in named):
        return over_batch(func, x, given, named)
    if 0 in named:
        what = "when reducing across the batch dimension for NestedTensor" if "softmax" in func.name else (
            "for nested tensors on dim=0")
        raise RuntimeError(f"{func.name}(): not supported {what}, whose examples differ; use unbind()")
    if x.at in named:
        if len(names) > 1:
            raise RuntimeError(
                f"{func.name}(): not supported for nested tensors on the ragged dim {x.at}; use unbind()")
        return over_ragged(func, x, given, named)
    if min(named) < x.at < max(named):
        raise RuntimeError(f"{func.name}(): not supported for nested tensors across the ragged dim {x.at}")
    for name in names:
        given[name] = counted(x, given[name])
    out = call(func, {name: [fitted(x, v) for v in value] if value is tensors and value is not None else row_of(value)
                      for name, value in given.items()})
    single = out if isinstance(out, Tensor) else out[0]
    return nested_like(x, out, x.at + single.dim() - x.rows.dim() if max(named) < x.at else x.at)


def call(func, given):
    """Call by parameters; variadic ones are spread."""
    positional, named = [], {}
    for name, parameter in func.signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional.extend(given[name])
        elif parameter.kind is parameter.KEYWORD_ONLY:
            named[name] = given[name]
        elif parameter.kind is not parameter.VAR_KEYWORD:
            positional.append(given[name])
    return func(*positional, **named)


def dimensions(x: Nested, dim):
    """Dimensions as numbers from 0 on; none for None."""
    if dim is None:
        return []
    return [wrapped(d, x.dim()) for d in ((dim,) if isinstance(dim, int) else dim)]


def counted(x: Nested, dim):
    """Dimensions of the nested tensor as those of its rows."""
    found = [d - 1 for d in dimensions(x, dim)]
    return found[0] if isinstance(dim, int) else tuple(found)


def over_batch(func, x: Nested, given, named):
    """A reduction over everything, or over examples and their rows: of all rows."""
    if named and x.at not in named:
        raise RuntimeError(
            f"{func.name}(): reducing along the batch dimension but not the ragged dimension is not supported for "
            "nested tensors")
    dims = tuple(sorted(d - 1 for d in named if d))
    found = call(func, {**given, "input": contiguous(x).rows, "dim": dims or None})
    return found.unsqueeze(0) if given["keepdim"] else found


# --- 3. along the ragged dimension ------------------------------------------------------------------------------------
def over_ragged(func, x: Nested, given, named):
    """A reduction over the ragged dimension (dense), or what leaves it as it is (nested)."""
    others = sorted(named - {x.at})
    if others and func.name not in SEGMENTS:
        raise RuntimeError(
            f"{func.name}(): reducing along a ragged and non-batch dimension is not supported for nested tensors")
    x = contiguous(x)
    if func.name in SEGMENTS and not (func.name in ("amax", "amin") and 0 in x.ragged.read()[1]):
        found = SEGMENTS[func.name](x, {name: value for name, value in given.items()
                                        if name not in ("input", "dim", "keepdim")})
        if "keepdim" not in given:
            return found
        found = found.unsqueeze(x.at)
        found = getattr(found, func.name)(tuple(others), keepdim=True) if others else found
        return found if given["keepdim"] else squeezed(found, named)
    return each(func, x, given)


def squeezed(x, dims):
    return x.reshape([size for d, size in enumerate(x.shape) if d not in dims])


def each(func, x: Nested, given):
    """An operator on each example, along the dimension that is ragged."""
    dim = counted(x, given["dim"])
    others = {name: value.unbind() for name, value in given.items() if isinstance(value, Nested)}
    parts = [call(func, {**given, **{name: other[k] for name, other in others.items()}, "dim": dim})
             for k in range(len(x))]
    if not parts:
        raise unsupported(func.name, (x,))
    if isinstance(parts[0], Tensor):
        return together(func, x, parts, "keepdim" in given)
    return like(parts[0], [together(func, x, p, "keepdim" in given) for p in zip(*parts)])


def together(func, x: Nested, parts, reduced):
    """Results for each example as one: stacked, or nested again."""
    if reduced:
        return OPS["stack"](list(parts))
    if any(p.dim() != x.rows.dim() for p in parts):
        raise RuntimeError(f"{func.name}(): not supported for nested tensors on the ragged dim {x.at}; use unbind()")
    lengths = [p.size(x.at - 1) for p in parts]
    ragged = x.ragged if lengths == x.ragged.read()[1].tolist() else Ragged.of(lengths)
    return made(OPS["cat"](list(parts), x.at - 1), ragged, x.at, x.layout)


def sums(x: Nested, given=None):
    """[batch, ...], the sum of each example's rows."""
    rows = x.rows.movedim(x.at - 1, 0)
    rows = rows if (given or {}).get("dtype") is None else rows.to(given["dtype"])
    rows = rows.to(OPS["sum"](rows[:0]).dtype)
    total = rows.new_zeros((x.ragged.count, *rows.shape[1:])).index_add(0, x.ragged.owners, rows)
    return total


def means(x: Nested, given):
    lengths = OPS["diff"](x.ragged.offsets()).reshape(-1, *[1] * (x.rows.dim() - 1))
    total = sums(x, given)
    if not total.dtype.is_floating_point:
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {x.dtype}")
    return total / lengths.to(total.dtype)


def extremes(name):
    def most(x: Nested, given=None):
        rows = x.rows.movedim(x.at - 1, 0)
        start = rows.detach().new_zeros((x.ragged.count, *rows.shape[1:]))
        return start.index_reduce(0, x.ragged.owners, rows, name, include_self=False)
    return most


def softmaxed(x: Nested, given, logarithm=False):
    """Softmax along the ragged dimension: shifted by each example's largest."""
    rows = x.rows if given.get("dtype") is None else x.rows.to(given["dtype"])
    owners, count = x.ragged.owners, x.ragged.count
    rows = rows.movedim(x.at - 1, 0)
    start = rows.detach().new_zeros((count, *rows.shape[1:]))
    away = rows - start.index_reduce(0, owners, rows.detach(), "amax", include_self=False)[owners]
    powers = away.exp()
    total = start.index_add(0, owners, powers)[owners]
    out = away - total.log() if logarithm else powers / total
    return x.with_rows(out.movedim(0, x.at - 1))


SEGMENTS = {"sum": sums, "mean": means, "amax": extremes("amax"), "amin": extremes("amin"), "softmax": softmaxed,
            "log_softmax": lambda x, given: softmaxed(x, given, True)}


# --- shapes -----------------------------------------------------------------------------------------------------------
@rule("transpose")
def transpose(input, dim0, dim1):
    """Two dimensions exchanged, neither of them the batch's."""
    order = list(range(input.dim()))
    i, j = wrapped(dim0, input.dim()), wrapped(dim1, input.dim())
    order[i], order[j] = order[j], order[i]
    return permute(input, order)


@rule("permute")
def permute(input, *dims):
    order = dimensions(input, dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims)
    if sorted(order) != list(range(input.dim())) or order[0] != 0:
        raise ValueError(
            f"permute: not supported on the batch dimension of nested tensors; got the order {order} of {input.dim()} "
            "dimensions")
    return made(input.rows.permute([d - 1 for d in order[1:]]), input.ragged, order.index(input.at), input.layout)


@rule("t")
def t(input):
    raise ValueError(
        f"t(): not supported on the batch dimension of nested tensors; this one has size {tuple(input.shape)}; "
        "mT swaps the last two")


@rule("unsqueeze")
def unsqueeze(input, dim):
    at = wrapped(dim, input.dim() + 1)
    if not at:
        raise RuntimeError("unsqueeze(): not supported for nested tensors on dim=0, where the batch is")
    return made(input.rows.unsqueeze(at - 1), input.ragged, input.at + (at <= input.at), input.layout)


@rule("view", "reshape")
def reshape(input, *shape, sizes=None):
    """Another shape of each row; batch and ragged dimension stay (the latter may be given as -1)."""
    shape = sizes if sizes is not None else shape
    shape = list(shape[0] if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else shape)
    at = next((d for d, size in enumerate(shape) if isinstance(size, Ragged)), input.at)
    wrong = RuntimeError(
        f"view(): cannot view shape {tuple(input.shape)} as {shape}: the batch comes first, and the ragged dimension "
        "stays where it is")
    if len(shape) <= at or shape[0] not in (-1, input.ragged.count):
        raise wrong
    if (not (shape[at] == -1 or isinstance(shape[at], Ragged) and shape[at].fits(input.ragged))
        or (at != input.at and min(at, input.at) > 1)):
        raise wrong
    if math.prod(input.rows.shape[:input.at - 1]) != math.prod(shape[1:at]):
        raise wrong
    shape[at] = input.rows.size(input.at - 1)
    return made(input.rows.reshape(shape[1:]), input.ragged, at, input.layout)


@rule("expand", "broadcast_to")
def expand(input, *sizes, size=None, implicit=False):
    """Dimensions of size 1 repeated; batch and ragged dimension stay."""
    sizes = size if size is not None else sizes
    sizes = list(sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes)
    if len(sizes) != input.dim() or sizes[0] not in (-1, input.ragged.count) or not (sizes[input.at] == -1
                                                                                     or isinstance(sizes[input.at],
                                                                                                   Ragged)):
        raise RuntimeError(
            f"expand(): cannot expand shape {tuple(input.shape)} to {sizes}: give -1 for the ragged dimension")
    sizes[input.at] = -1
    return made(input.rows.expand(sizes[1:]), input.ragged, input.at, input.layout)


@rule("select")
def select(input, dim, index):
    """An example, or one place of a dimension that is not ragged."""
    at = wrapped(dim, input.dim())
    if at == input.at:
        raise RuntimeError(f"select(): not supported for nested tensors on the ragged dim {at}; use unbind()")
    if not at:
        return input.unbind()[index]
    return made(input.rows.select(at - 1, index), input.ragged, input.at - (at < input.at), input.layout)


@rule("unbind")
def unbind(input, dim=0):
    return input.unbind(dim)


@rule("contiguous")
def packed(input, memory_format=None):
    return input.contiguous(memory_format=memory_format)


# --- matmuls ----------------------------------------------------------------------------------------------------------
@rule("matmul")
def matmul(input, other):
    """With a dense matrix for all, or example by example: what both are ragged in is summed."""
    if isinstance(input, Nested) and not isinstance(other, Nested) and other.dim() <= 2 and input.at < input.dim() - 1:
        return input.with_rows(OPS["matmul"](input.rows, other))
    return multiply("matmul", input, other)


@rule("bmm")
def bmm(input, mat2):
    """Return the batched matmul of two batches."""
    return multiply("bmm", input, mat2)


def multiply(name, input, other):
    """Return the matmuls of all examples as one tensor."""
    x = first_nested((input, other))
    parts = multiply_examples(name, input, other)
    if x.layout is convert.strided:
        return joined(parts, x.layout)
    at, both = x.at, isinstance(input, Nested) and isinstance(other, Nested)
    if both and input.at == input.dim() - 1 and all(p.shape == parts[0].shape for p in parts):
        return OPS["stack"](parts)
    if both or [p.size(at - 1) for p in parts] != [length for _, length in x.ragged.spans()]:
        raise unsupported("matmul", (input, other))
    return made(OPS["cat"](parts, at - 1), x.ragged, at, x.layout)


@rule("cat")
def cat(tensors, dim=0):
    """Concatenate along the batch, or along a dimension that is not ragged."""
    first = first_nested(tensors)
    if wrapped(dim, first.dim()):
        return along(OPS["cat"], (tensors, dim), {})
    parts = [part for x in tensors for part in x.unbind()]
    return made(OPS["cat"](parts, first.at - 1), Ragged.of([part.size(first.at - 1) for part in parts]), first.at,
                first.layout)


@rule("nn.functional.layer_norm", "layer_norm")
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    """Normalization over the last dimensions: of each row, or of each example if the ragged dimension is among them."""
    shape, operator = tuple(normalized_shape), OPS["nn.functional.layer_norm"]
    if not isinstance(input, Nested):
        raise unsupported("layer_norm", (input, weight, bias))
    first = input.dim() - len(shape)
    if first > input.at:
        return input.with_rows(operator(input.rows, shape, weight, bias, eps))
    if input.dim() < 3:
        raise RuntimeError("layer_norm(): not supported for NestedTensor objects with 2 or fewer dimensions, got "
                           f"{input.dim()}")
    if first <= 0:
        raise RuntimeError("layer_norm(): not supported when normalizing over the batch dimension for NestedTensor, "
                           f"got normalized_shape={list(shape)} for {tuple(input.shape)}")
    if input.lengths() is not None:
        raise RuntimeError("layer_norm(): not supported where lengths is not None if operating on the ragged dimension "
                           "for NestedTensor; call contiguous() first")
    if tuple(input.shape[first:]) != shape:
        raise RuntimeError(f"Given normalized_shape={list(shape)}, expected input with these last sizes, but got input "
                           f"of size {tuple(input.shape)}")
    parts = [operator(part, tuple(part.shape[first - 1:]), eps=eps) for part in input.unbind()]
    out = input.with_rows(OPS["cat"](parts, input.at - 1)) if parts else input
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


@rule("nn.functional.scaled_dot_product_attention")
def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """Attention within each example: [batch, heads, j, size]."""
    from .attention import attend
    return attend(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


Nested.answers = staticmethod(answer)

"""ONNX translations of primitives: a rule takes the writer, the node and its arguments, and returns its result's
name."""

from __future__ import annotations

import math

import numpy as np

from .._src.core.dtypes import BOOL, INTEGER, bool_, float32, float64, int32, int64
from .._src.core.expr import Expr
from .._src.core.meta import product
from .._src.graph.graph import Node
from .errors import OnnxExporterError

RULES: dict = {}


def rule(*names):
    def register(function):
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def operand_dtype(node, arguments):
    """The dtype that an elementwise primitive computes in: that of its tensors."""
    return next((a.dtype for a in arguments if isinstance(a, Node)), node.dtype)


def elementwise(name, operator):
    """The primitive is one operator of ONNX."""

    def write(w, node, *arguments):
        dtype = operand_dtype(node, arguments)
        return w.emit(operator, *(w.value(a, dtype) for a in arguments))

    RULES[name] = write


ALIKE = ("neg abs sign reciprocal sqrt floor ceil round exp log sin cos tan asin acos atan sinh cosh asinh acosh atanh "
         "tanh erf sigmoid")
OTHERWISE = ("add:Add sub:Sub mul:Mul div:Div pow:Pow eq:Equal lt:Less le:LessOrEqual gt:Greater ge:GreaterOrEqual "
             "logical_and:And logical_or:Or logical_xor:Xor logical_not:Not")
for _name in ALIKE.split():
    elementwise(_name, _name.capitalize())
for _pair in OTHERWISE.split():
    elementwise(*_pair.split(":"))


def composed(*names):
    """The primitive is some operators of ONNX: the function takes the writer, the dtype and the operands by name."""

    def register(function):
        def write(w, node, *arguments):
            dtype = operand_dtype(node, arguments)
            return function(w, dtype, *(w.value(a, dtype) for a in arguments))

        RULES.update(dict.fromkeys(names, write))
        return function

    return register


@composed("copy")
def same(w, dtype, x):
    return w.emit("Identity", x)


@composed("ne")
def unequal(w, dtype, a, b):
    return w.emit("Not", w.emit("Equal", a, b))


@composed("rsqrt")
def inverse_root(w, dtype, x):
    return w.emit("Reciprocal", w.emit("Sqrt", x))


@composed("trunc")
def truncated(w, dtype, x):
    return w.emit("Where", w.emit("Less", x, w.constant(0, dtype)), w.emit("Ceil", x), w.emit("Floor", x))


@composed("exp2")
def power_of_two(w, dtype, x):
    return w.emit("Pow", w.constant(2, dtype), x)


@composed("log2")
def log2(w, dtype, x):
    return w.emit("Div", w.emit("Log", x), w.constant(math.log(2), dtype))


@composed("log10")
def log10(w, dtype, x):
    return w.emit("Div", w.emit("Log", x), w.constant(math.log(10), dtype))


@composed("log1p")
def log1p(w, dtype, x):
    """log(1 + x): the quotient compensates the rounding error of 1 + x."""
    one = w.constant(1, dtype)
    moved = w.emit("Add", x, one)
    scaled = w.emit("Mul", w.emit("Log", moved), w.emit("Div", x, w.emit("Sub", moved, one)))
    exact = w.emit("Or", w.emit("Equal", moved, one), w.emit("IsInf", moved))
    return w.emit("Where", exact, w.emit("Where", w.emit("IsInf", moved), moved, x), scaled)


@composed("expm1")
def expm1(w, dtype, x):
    """exp(x) - 1, by tanh(x / 2), which keeps small numbers."""
    half = w.emit("Tanh", w.emit("Div", x, w.constant(2, dtype)))
    small = w.emit("Div", w.emit("Mul", half, w.constant(2, dtype)), w.emit("Sub", w.constant(1, dtype), half))
    near = w.emit("Less", w.emit("Abs", x), w.constant(1, dtype))
    return w.emit("Where", near, small, w.emit("Sub", w.emit("Exp", x), w.constant(1, dtype)))


@composed("erfc")
def erfc(w, dtype, x):
    return w.emit("Sub", w.constant(1, dtype), w.emit("Erf", x))


def extreme_of(operator, join):
    def write(w, dtype, a, b):
        return w.emit(join if dtype is bool_ else operator, a, b)

    return write


composed("maximum")(extreme_of("Max", "Or"))
composed("minimum")(extreme_of("Min", "And"))


@composed("remainder")
def remainder(w, dtype, a, b):
    if dtype.category == INTEGER:
        return w.emit("Mod", a, b)
    rest = w.emit("Mod", a, b, fmod=1)
    zero = w.constant(0, dtype)
    other = w.emit("Xor", w.emit("Less", rest, zero), w.emit("Less", b, zero))
    wrong = w.emit("And", other, unequal(w, dtype, rest, zero))
    return w.emit("Where", wrong, w.emit("Add", rest, b), rest)


@composed("fmod")
def fmod(w, dtype, a, b):
    return w.emit("Mod", a, b, fmod=1)


@composed("floor_divide")
def floor_divide(w, dtype, a, b):
    if dtype.category != INTEGER:
        return w.emit("Floor", w.emit("Div", a, b))
    return w.emit("Div", w.emit("Sub", a, w.emit("Mod", a, b)), b)


@composed("hypot")
def hypot(w, dtype, a, b):
    return w.emit("Sqrt", w.emit("Add", w.emit("Mul", a, a), w.emit("Mul", b, b)))


def negative(w, dtype, x):
    """Whether the sign of floats is minus, that of zero too."""
    zero = w.constant(0, dtype)
    return w.emit("Less", w.emit("Where", w.emit("Equal", x, zero), w.emit("Reciprocal", x), x), zero)


@composed("copysign")
def copysign(w, dtype, a, b):
    size = w.emit("Abs", a)
    return w.emit("Where", negative(w, dtype, b), w.emit("Neg", size), size)


@composed("atan2")
def atan2(w, dtype, y, x):
    """The angle by the right half plane, turned by pi where x is on the left."""
    number = lambda v: w.constant(v, dtype)  # noqa: E731
    flat = w.emit("And", w.emit("Equal", y, number(0)), w.emit("Equal", x, number(0)))
    slope = w.emit("Where", flat, y, w.emit("Div", y, x))
    turn = w.emit("Where", negative(w, dtype, y), number(-math.pi), number(math.pi))
    angle = w.emit("Atan", slope)
    return w.emit("Where", negative(w, dtype, x), w.emit("Add", w.emit("Where", flat, number(0), angle), turn), angle)


def bitwise(name, operator, logical):
    @composed(name)
    def write(w, dtype, *operands):
        return w.emit(logical if dtype.category == BOOL else operator, *operands)


for _name, _bits, _truth in (
    ("bitwise_and", "BitwiseAnd", "And"),
    ("bitwise_or", "BitwiseOr", "Or"),
    ("bitwise_xor", "BitwiseXor", "Xor"),
    ("bitwise_not", "BitwiseNot", "Not"),
):
    bitwise(_name, _bits, _truth)


@composed("left_shift")
def left_shift(w, dtype, a, b):
    return w.emit("Mul", a, w.emit("Pow", w.constant(2, dtype), b))


@composed("right_shift")
def right_shift(w, dtype, a, b):
    return floor_divide(w, dtype, a, w.emit("Pow", w.constant(2, dtype), b))


@rule("where")
def where(w, node, condition, a, b):
    return w.emit("Where", w.value(condition, bool_), w.value(a, node.dtype), w.value(b, node.dtype))


@rule("convert")
def convert(w, node, x, dtype):
    return w.cast(w.value(x, dtype), dtype)


@rule("as_stored")
def as_stored(w, node, x):
    return w.value(x, node.dtype)


# --- views ------------------------------------------------------------------------------------------------------------
@rule("expand")
def expand(w, node, x, shape):
    return w.emit("Expand", w.value(x, node.dtype), w.vector(shape))


@rule("permute")
def permute(w, node, x, dims):
    name = w.value(x, node.dtype)
    return name if tuple(dims) == tuple(range(len(dims))) else w.emit("Transpose", name, perm=list(dims))


@rule("reshape")
def reshape(w, node, x, shape):
    return w.emit("Reshape", w.value(x, node.dtype), w.vector(shape), allowzero=1)


@rule("slice")
def slice_(w, node, x, starts, steps, shape):
    ends = [a + (n - 1) * t + 1 if not (type(n) is int and n == 0) else a for a, t, n in zip(starts, steps, shape)]
    return w.emit(
        "Slice", w.value(x, node.dtype), w.vector(starts), w.vector(ends), w.vector(range(len(shape))), w.vector(steps)
    )


@rule("flip")
def flip(w, node, x, dims):
    far = [np.iinfo(np.int64).min] * len(dims)
    return w.emit(
        "Slice",
        w.value(x, node.dtype),
        w.vector([-1] * len(dims)),
        w.vector(far),
        w.vector(dims),
        w.vector([-1] * len(dims)),
    )


@rule("pad")
def pad(w, node, x, low, high, inner, value):
    name = w.value(x, node.dtype)
    if any(inner):
        name = spread(w, name, x.shape, inner, w.constant(value, node.dtype))
    if node.dtype is bool_:  # runtimes pad numbers
        padded = w.emit("Pad", w.cast(name, int32), w.vector((*low, *high)), w.constant(int(value), int32))
        return w.cast(padded, bool_)
    return w.emit("Pad", name, w.vector((*low, *high)), w.constant(value, node.dtype))


def spread(w, name, shape, inner, value):
    """Insert ``inner[k]`` elements between adjacent elements along dimension k: each becomes a row of itself and the
    inserted ones."""
    rows = [n for size in shape for n in (size, 1)]
    ends = [n for gap in inner for n in (0, gap)]
    name = w.emit("Pad", w.emit("Reshape", name, w.vector(rows)), w.vector([0] * len(rows) + ends), value)
    name = w.emit("Reshape", name, w.vector([size * (gap + 1) for size, gap in zip(shape, inner)]))
    ends = [size * (gap + 1) - gap for size, gap in zip(shape, inner)]
    return w.emit(
        "Slice", name, w.vector([0] * len(ends)), w.vector(ends), w.vector(range(len(ends))), w.vector([1] * len(ends))
    )


@rule("unfold")
def unfold(w, node, x, dim, size, step):
    count = node.shape[dim] if x.shape else 1
    if not x.shape:
        return w.emit("Reshape", w.value(x, node.dtype), w.vector(node.shape))
    starts = w.emit("Mul", w.emit("Range", w.constant(0), scalar(w, count), w.constant(1)), w.constant(step))
    index = w.emit("Add", w.emit("Unsqueeze", starts, w.constant([1])), w.constant(np.arange(size)[None]))
    windows = w.emit("Gather", w.value(x, node.dtype), index, axis=dim)
    rank = len(node.shape)
    return w.emit("Transpose", windows, perm=[*range(dim + 1), *range(dim + 2, rank), dim + 1])


def scalar(w, e):
    """A size as a number without dimensions."""
    return w.emit("Squeeze", w.size(e), w.constant([0])) if isinstance(e, Expr) else w.constant(e)


@rule("diagonal", "strided", "within")
def rearranged(w, node, x, **params):
    """Write a view of fixed sizes as a table of positions, computed by its NumPy reference implementation."""
    if not all(type(n) is int for n in (*x.shape, *node.shape)) or node.dtype is not x.dtype:
        raise OnnxExporterError(
            f"{node.op.name} of dynamic sizes, or of another dtype, is not written as ONNX: export for fixed sizes"
        )
    table = node.op.kind.numpy(np.arange(product(x.shape), dtype=np.int64).reshape(x.shape), **params)
    flat = w.emit("Reshape", w.value(x, node.dtype), w.constant([-1]))
    return w.emit("Gather", flat, w.constant(np.ascontiguousarray(table)), axis=0)


@rule("cat")
def cat(w, node, tensors, dim):
    return w.emit("Concat", *(w.value(t, node.dtype) for t in tensors), axis=dim)


# --- reductions -------------------------------------------------------------------------------------------------------
def reduce(w, operator, value, dims):
    """A reduction that keeps its dimensions: up to opset 17 all but ReduceSum take axes as an attribute."""
    if w.opset >= 18 or operator == "ReduceSum":
        return w.emit(operator, value, w.vector(dims), keepdims=1, noop_with_empty_axes=1)
    return w.emit(operator, value, axes=list(dims), keepdims=1) if dims else w.emit("Identity", value)


def reduction(name, operator):
    @rule(name)
    def write(w, node, x, dims):
        value, narrow = w.value(x, node.dtype), x.dtype.category == BOOL
        made = reduce(w, operator, w.cast(value, int32) if narrow else value, dims)
        return w.cast(made, node.dtype) if narrow else made


for _name, _operator in {
    "sum": "ReduceSum",
    "prod": "ReduceProd",
    "amax": "ReduceMax",
    "amin": "ReduceMin",
    "any": "ReduceMax",
    "all": "ReduceMin",
}.items():
    reduction(_name, _operator)


def first_index(name, operator):
    @rule(name)
    def write(w, node, x, dims):
        value = w.value(x, x.dtype)
        if x.dtype.category in (BOOL, INTEGER):
            value = w.cast(value, float64)
        return w.emit(operator, value, axis=dims[0], keepdims=1)


first_index("argmax", "ArgMax")
first_index("argmin", "ArgMin")


@rule("cumsum")
def cumsum(w, node, x, dim):
    return w.emit("CumSum", w.value(x, node.dtype), w.constant(dim))


# --- gather and scatter -----------------------------------------------------------------------------------------------
@rule("take")
def take(w, node, x, index, dim):
    return w.emit("Gather", w.value(x, node.dtype), w.value(index, int64), axis=dim)


@rule("gather")
def gather(w, node, x, index, dim):
    return w.emit("GatherElements", w.value(x, node.dtype), w.value(index, int64), axis=dim)


COMBINE = {"set": "none", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def combination(w, combine) -> str:
    """Return ONNX's name of a scatter reduction.  OnnxExporterError if the opset lacks it."""
    if w.opset < 18 and combine in ("max", "min"):
        raise OnnxExporterError(f"opset {w.opset} does not scatter by {combine}: export with opset_version=18")
    return COMBINE[combine]


@rule("scatter")
def scatter(w, node, x, index, source, dim, combine):
    part = w.value(source, node.dtype)
    if tuple(source.shape) != tuple(index.shape):
        rank = len(index.shape)
        part = w.emit("Slice", part, w.vector([0] * rank), w.vector(index.shape), w.vector(range(rank)))
    return w.emit(
        "ScatterElements",
        w.value(x, node.dtype),
        w.value(index, int64),
        part,
        axis=dim,
        reduction=combination(w, combine),
    )


@rule("put")
def put(w, node, x, index, source, dim, combine):
    """The index replaces a dimension: it is spread over the others, and both are as long as it has elements there."""
    count = product(index.shape)
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :])
    part = w.emit("Reshape", w.value(source, node.dtype), w.vector(shape))
    flat = w.emit("Reshape", w.value(index, int64), w.vector([count if k == dim else 1 for k in range(len(shape))]))
    return w.emit(
        "ScatterElements",
        w.value(x, node.dtype),
        w.emit("Expand", flat, w.vector(shape)),
        part,
        axis=dim,
        reduction=combination(w, combine),
    )


@rule("topk")
def topk(w, node, x, k, dim, largest):
    return w.emit("TopK", w.value(x, x.dtype), w.vector([k]), axis=dim, largest=int(largest), sorted=1, outputs=2)


@rule("sort")
def sort(w, node, x, dim, descending):
    return w.emit(
        "TopK", w.value(x, x.dtype), w.vector([x.shape[dim]]), axis=dim, largest=int(descending), sorted=1, outputs=2
    )


@rule("item")
def item(w, node, several, index):
    return w.names[several][index]


# --- creation and contraction -----------------------------------------------------------------------------------------
@rule("full")
def full(w, node, shape, value, dtype):
    number = w.value(value, dtype)
    return number if not shape else w.emit("Expand", number, w.vector(shape))


@rule("iota")
def iota(w, node, size, dtype):
    counted = w.emit("Range", w.constant(0), scalar(w, size), w.constant(1))
    return counted if dtype is int64 else w.cast(counted, dtype)


@rule("matmul")
def matmul(w, node, a, b):
    return w.emit("MatMul", w.value(a, node.dtype), w.value(b, node.dtype))


@rule("int_matmul")
def int_matmul(w, node, a, b):
    return w.emit("MatMulInteger", w.value(a, a.dtype), w.value(b, b.dtype))


def convolution(w, operator, node, x, weight, stride, padding, dilation, groups, **more):
    """A convolution, or its transpose, by ONNX's operator of the name."""
    geometry = {"strides": list(stride), "pads": [*padding, *padding], "dilations": list(dilation), "group": groups}
    shape = list(weight.shape[2:])
    return w.emit(operator, w.value(x, node.dtype), w.value(weight, node.dtype), kernel_shape=shape, **geometry, **more)


@rule("conv")
def conv(w, node, x, weight, **geometry):
    return convolution(w, "Conv", node, x, weight, **geometry)


@rule("conv_input")
def conv_input(w, node, g, weight, shape, stride, padding, dilation, groups):
    least = [
        (n - 1) * s - 2 * p + d * (k - 1) + 1
        for n, s, p, d, k in zip(g.shape[2:], stride, padding, dilation, weight.shape[2:])
    ]
    more = [n - m for n, m in zip(shape[2:], least)]
    if not all(type(n) is int and 0 <= n for n in more):
        raise OnnxExporterError(
            "a transposed convolution whose output size is dynamic, independent of its input's, is not written as ONNX"
        )
    return convolution(w, "ConvTranspose", node, g, weight, stride, padding, dilation, groups, output_padding=more)


@rule("attention")
def attention(w, node, q, k, v, mask, blocks, captured, starts, seed, place, causal, scale, mods, drop, longest,
              kernel=None, part=()):
    """softmax(q k^T * scale + mask) v, and the logarithm of each row's total."""
    if mods is not None or starts or drop:
        raise OnnxExporterError(
            "attention with functions of scores, with packed sequences or with dropout is not written as ONNX"
        )
    dtype, heads = q.dtype, q.shape[1]
    keys, values = (repeated(w, x, heads) for x in (k, v))
    scores = w.emit(
        "MatMul",
        w.emit("Mul", w.value(q, dtype), w.constant(scale, dtype)),
        w.emit("Transpose", keys, perm=[0, 1, 3, 2]),
    )
    low = w.constant(-math.inf, dtype)
    if mask is not None:
        name = w.value(mask, dtype)
        scores = w.emit("Where", name, scores, low) if mask.dtype is bool_ else w.emit("Add", scores, name)
    if causal:
        rows, columns = (w.emit("Range", w.constant(0), scalar(w, n), w.constant(1)) for n in (q.shape[2], k.shape[2]))
        seen = w.emit("GreaterOrEqual", w.emit("Unsqueeze", rows, w.constant([1])), columns)
        scores = w.emit("Where", seen, scores, low)
    scores = w.cast(scores, float32) if dtype.is_half else scores
    wide = float32 if dtype.is_half else dtype
    high = w.emit(
        "Max", reduce(w, "ReduceMax", scores, (3,)), w.constant(np.finfo(wide.numpy).min, wide)
    )  # rows that look nowhere
    weights = w.emit("Exp", w.emit("Sub", scores, high))
    total = w.emit("ReduceSum", weights, w.constant([3]), keepdims=1)
    nowhere = w.emit("Equal", total, w.constant(0, wide))
    shares = w.emit("Div", weights, w.emit("Where", nowhere, w.constant(1, wide), total))
    shares = w.cast(shares, dtype) if dtype.is_half else shares
    logs = w.emit("Where", nowhere, w.constant(math.inf, wide), w.emit("Add", w.emit("Log", total), high))
    logs = w.emit("Squeeze", logs, w.constant([3]))
    return w.emit("MatMul", shares, values), logs if wide is float32 else w.cast(logs, float32)


def repeated(w, x, heads):
    """Heads of keys or values, repeated for the heads of queries that share them."""
    name = w.value(x, x.dtype)
    if x.shape[1] == heads:
        return name
    batch, own, length, size = x.shape
    wide = w.emit(
        "Expand", w.emit("Unsqueeze", name, w.constant([2])), w.vector((batch, own, heads // own, length, size))
    )
    return w.emit("Reshape", wide, w.vector((batch, heads, length, size)))

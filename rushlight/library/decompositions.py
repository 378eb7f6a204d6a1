"""Decompositions of ``aten`` operators, down to PyTorch's core operators.

An operator without a function here is written as the body that declares it (``Body``).
"""
from __future__ import annotations

from .._ops import ops
from .._src.api import get_default_dtype
from .._src.core.convert import contiguous_format
from .._src.core.devices import device as Device
from .._src.core.dtypes import dtype as Dtype
from .._src.core.later import room
from .._src.core.meta import broadcast
from .._src.core.native import Tensor
from .._src.core.op import OPS, body_of
from .._src.ops.promotion import result_dtype
from .conventions import form_of, is_wrapper, ours, OPENED
from .primitives import aten, as_given
from .tags import opened, key

KNOWN: dict = {}  # "name.label" -> function


def of(*names):
    """Decorates a function that computes these overloads."""
    def keep(function):
        KNOWN.update(dict.fromkeys(names, function))
        return function

    return keep


class Body:
    """An overload as the body of our operator, called with arguments as its schema has them."""

    def __init__(self, overload):
        self.overload = overload

    def __call__(self, *args, **kwargs):
        op, schema = self.overload.op, self.overload.schema
        if op is None:
            return NotImplemented if self.overload.overloadpacket.run is None else self.run(args, kwargs)
        if form_of(op) is not None or op.name in OPENED:
            found = None if is_wrapper(op) else ours(op, schema, args, kwargs)
            args, kwargs = (args, kwargs) if found is None else found
        return body_of(op, args)(*args, **kwargs) if op.kind is None else op(*args, **kwargs)

    def run(self, args, kwargs):
        """What stands for an operator that we have not: a function of simpler ones."""
        return self.overload.overloadpacket.run(*args, **kwargs)


def table() -> dict:
    """Overload -> function, for every overload that ``run_decompositions`` decomposes by default."""
    room("library.opened_functions")
    found = {}
    for name, label in opened():
        packet = getattr(ops.aten, name, None)
        if packet is not None and hasattr(packet, label):
            overload = getattr(packet, label)
            found[overload] = opened_form(overload)
    return found


def opened_form(overload):
    """The function of an overload's arguments that computes it by simpler ones."""
    return KNOWN.get(key(overload._opname, overload._overloadname)) or Body(overload)


# --- shapes -----------------------------------------------------------------------------------------------------------
def pairs(value, count):
    value = list(value) if isinstance(value, (list, tuple)) else [value]
    return value * count if len(value) == 1 else value


@of("t")
def t(x):
    return aten.permute(x, [1, 0]) if x.dim() == 2 else x


@of("transpose.int", "swapaxes", "swapdims")
def transpose(x, dim0, dim1):
    dims, rank = list(range(x.dim())), x.dim()
    if not rank:
        return x
    dims[dim0 % rank], dims[dim1 % rank] = dims[dim1 % rank], dims[dim0 % rank]
    return aten.permute(x, dims)


@of("reshape")
def reshape(x, shape):
    """Return a view, or a view of a copy if the strides do not allow it."""
    shape = sizes_of(x, shape)
    if same(shape, x.shape):
        return x
    if shows(x, shape):
        return aten.view(x, shape)
    return aten.view(aten.clone(x, memory_format=contiguous_format), shape)


def same(a, b) -> bool:
    return len(a) == len(b) and all(p is q or p == q for p, q in zip(a, b))


def sizes_of(x, shape) -> list:
    """A shape whose -1 is known."""
    shape = list(shape)
    for k, size in enumerate(shape):
        if type(size) is int and size == -1:
            rest = 1
            for j, other in enumerate(shape):
                rest = rest if j == k else rest * other
            shape[k] = x.numel() // rest
    return shape


def shows(x, shape) -> bool:
    """True if strides allow a view of this shape."""
    view = OPS["prims.reshape"]
    return bool(x._rush_meta.contiguous) or view.kind.strided(view, x._rush_meta, shape=tuple(shape)) is not None


@of("select_scatter")
def select_scatter(self, src, dim, index):
    """By a comparison of places: ``src`` where the index is met."""
    rank, size = self.dim(), self.shape[dim % self.dim()]
    dim, index = dim % rank, index + size if index < 0 else index
    places = aten.arange.start_step(0, size, device=self.device, pin_memory=False)
    met = aten.eq.Scalar(aten.view(places, [-1 if k == dim else 1 for k in range(dim, rank)]), index)
    return aten.where.self(met, aten.expand(aten.unsqueeze(src, dim), list(self.shape)), self)


# --- matmuls ----------------------------------------------------------------------------------------------------------
@of("linear")
def linear(input, weight, bias=None):
    if input.dim() == 2 and bias is not None:
        return aten.addmm(bias, input, t(weight))
    if input.dim() == 3 and bias is not None:
        first = aten.view(input, [input.shape[0] * input.shape[1], input.shape[2]])
        return aten.view(aten.addmm(bias, first, t(weight)), [*input.shape[:2], weight.shape[0]])
    made = matmul(input, t(weight))
    return made if bias is None else made + bias


@of("matmul", "linalg_matmul")
def matmul(a, b):
    if a.dim() == 1 and b.dim() == 1:
        return dot(a, b)
    if a.dim() == 2 and b.dim() == 1:
        return mv(a, b)
    if a.dim() == 1 and b.dim() == 2:
        return aten.squeeze.dim(aten.mm(aten.unsqueeze(a, 0), b), 0)
    if a.dim() == 2 and b.dim() == 2:
        return aten.mm(a, b)
    if a.dim() >= 3 and b.dim() in (1, 2):
        return folded(a, b)
    if b.dim() >= 3 and a.dim() in (1, 2):
        turned = matmul(transpose(b, -1, -2), t(a))
        return turned if a.dim() == 1 else transpose(turned, -1, -2)
    return batched(a, b)


def folded(a, b):
    """Many rows by one matrix."""
    count = 1
    for size in a.shape[:-1]:
        count = count * size
    rows = aten.view(a, [count, a.shape[-1]]) if shows(a, [count, a.shape[-1]]) else reshape(a, [count, a.shape[-1]])
    if b.dim() == 1:
        return aten.view(mv(rows, b), list(a.shape[:-1]))
    return aten.view(aten.mm(rows, b), [*a.shape[:-1], b.shape[1]])


def batched(a, b):
    """Batched matmul."""
    batch = list(broadcast(tuple(a.shape[:-2]), tuple(b.shape[:-2])))
    count = 1
    for size in batch:
        count = count * size

    def flat(x):
        shown = aten.expand(x, [*batch, *x.shape[-2:]])
        return reshape_always(shown, [count, *x.shape[-2:]])

    return aten.view(aten.bmm(flat(a), flat(b)), [*batch, a.shape[-2], b.shape[-1]])


def reshape_always(x, shape):
    return aten.view(x, shape) if same(shape, x.shape) else reshape(x, shape)


@of("dot")
def dot(a, b):
    return aten.sum(a * b, **as_given(a))


@of("mv")
def mv(a, b):
    return aten.sum.dim_IntList(a * b, [1], **as_given(a))


@of("addr")
def addr(self, vec1, vec2, *, beta=1, alpha=1):
    product = aten.unsqueeze(vec1, 1) * vec2
    product = product * alpha if alpha != 1 else product
    if beta == 0:  # even NaN is ignored
        dtype = result_dtype(self, product)
        return product if product.dtype is dtype else aten._to_copy(product, dtype=dtype)
    return product + (self * beta if beta != 1 else self)


@of("baddbmm")
def baddbmm(self, batch1, batch2, *, beta=1, alpha=1):
    made = aten.bmm(batch1, batch2)
    made = made * alpha if alpha != 1 else made
    return made if beta == 0 else made + (self * beta if beta != 1 else self)


# --- layers -----------------------------------------------------------------------------------------------------------
@of("conv1d", "conv2d", "conv3d")
def conv(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    count = weight.dim() - 2
    one = input.dim() == count + 1
    made = aten.convolution(aten.unsqueeze(input, 0) if one else input, weight, bias, pairs(stride, count),
                            pairs(padding, count), pairs(dilation, count), False, [0] * count, groups)
    return aten.squeeze.dim(made, 0) if one else made


@of("conv1d.padding", "conv2d.padding", "conv3d.padding")
def conv_padded(input, weight, bias=None, stride=1, padding="valid", dilation=1, groups=1):
    count = weight.dim() - 2
    if padding == "valid":
        return conv(input, weight, bias, stride, 0, dilation, groups)
    total = [d * (k - 1) for d, k in zip(pairs(dilation, count), weight.shape[2:])]
    if any(n % 2 for n in total):
        low = [n for k in reversed(range(count)) for n in (0, total[k] % 2)]
        input = aten.constant_pad_nd(input, low, 0.0)
    return conv(input, weight, bias, stride, [n // 2 for n in total], dilation, groups)


@of("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input")
def conv_transpose(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    count = weight.dim() - 2
    one = input.dim() == count + 1
    made = aten.convolution(aten.unsqueeze(input, 0) if one else input, weight, bias, pairs(stride, count),
                            pairs(padding, count), pairs(dilation, count), True, pairs(output_padding, count), groups)
    return aten.squeeze.dim(made, 0) if one else made


@of("layer_norm")
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05, cudnn_enable=True):
    return aten.native_layer_norm(input, list(normalized_shape), weight, bias, eps)[0]


@of("group_norm")
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-05, cudnn_enabled=True):
    rest = 1
    for size in input.shape[2:]:
        rest = rest * size
    return aten.native_group_norm(input, weight, bias, input.shape[0], input.shape[1], rest, num_groups, eps)[0]


@of("softmax.int", "special_softmax")
def softmax(x, dim, dtype=None):
    return aten._softmax(x if dtype in (None, x.dtype) else aten._to_copy(x, dtype=dtype), dim, False)


@of("log_softmax.int", "special_log_softmax")
def log_softmax(x, dim, dtype=None):
    return aten._log_softmax(x if dtype in (None, x.dtype) else aten._to_copy(x, dtype=dtype), dim, False)


@of("dropout")
def dropout(input, p, train):
    return aten.native_dropout(input, p, train)[0] if train and p else input


@of("max_pool2d")
def max_pool2d(x, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    given = [list(pairs(v, 2)) if v not in ((), []) else [] for v in (kernel_size, stride, padding, dilation)]
    return aten.max_pool2d_with_indices(x, *given, ceil_mode)[0]


@of("max_pool3d")
def max_pool3d(x, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    given = [list(pairs(v, 3)) if v not in ((), []) else [] for v in (kernel_size, stride, padding, dilation)]
    return aten.max_pool3d_with_indices(x, *given, ceil_mode)[0]


@of("max_pool1d")
def max_pool1d(x, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    kernel, stride, padding, dilation = ([first(v)] for v in (kernel_size, stride or kernel_size, padding, dilation))
    found = aten.max_pool2d_with_indices(aten.unsqueeze(x, -2), [1, *kernel], [1, *stride], [0, *padding],
                                         [1, *dilation], ceil_mode)
    return aten.squeeze.dim(found[0], -2)


def first(value):
    return value[0] if isinstance(value, (list, tuple)) else value


@of("adaptive_avg_pool2d")
def adaptive_avg_pool2d(x, output_size):
    if tuple(output_size) == (1, 1):
        return aten.mean.dim(x, [-1, -2], True)
    return aten._adaptive_avg_pool2d(x, list(output_size))


@of("adaptive_avg_pool3d")
def adaptive_avg_pool3d(x, output_size):
    if tuple(output_size) == (1, 1, 1):
        return aten.mean.dim(x, [-1, -2, -3], True)
    return aten._adaptive_avg_pool3d(x, list(output_size))


@of("adaptive_avg_pool1d")
def adaptive_avg_pool1d(x, output_size):
    found = adaptive_avg_pool2d(aten.unsqueeze(x, -2), [1, first(output_size)])
    return aten.squeeze.dim(found, -2)


@of("avg_pool1d")
def avg_pool1d(x, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True):
    kernel, stride, padding = ([first(v)] for v in (kernel_size, stride or kernel_size, padding))
    found = aten.avg_pool2d(aten.unsqueeze(x, -2), [1, *kernel], [1, *stride], [0, *padding], ceil_mode,
                            count_include_pad)
    return aten.squeeze.dim(found, -2)


# --- functions of one number ------------------------------------------------------------------------------------------
@of("silu")
def silu(x):
    return x * aten.sigmoid(x)


@of("hardswish")
def hardswish(x):
    return x * aten.clamp(aten.clamp(x + 3, 0), None, 6) / 6


@of("hardsigmoid")
def hardsigmoid(x):
    return aten.clamp(aten.clamp(x + 3, 0), None, 6) / 6


@of("relu6")
def relu6(x):
    return aten.hardtanh(x, 0, 6)


@of("mish")
def mish(x):
    return x * aten.tanh(softplus(x))


@of("softplus")
def softplus(x, beta=1, threshold=20):
    scaled = x * beta if beta != 1 else x
    made = aten.log1p(aten.exp(scaled))
    return aten.where.self(aten.gt.Scalar(scaled, threshold), x, made / beta if beta != 1 else made)


@of("square")
def square(x):
    return aten.pow.Tensor_Scalar(x, 2)


# --- sums -------------------------------------------------------------------------------------------------------------
@of("sum")
def sum_all(x, *, dtype=None):
    return aten.sum.dim_IntList(x, [], dtype=dtype) if dtype is not None else aten.sum.dim_IntList(x, [])


# --- copies -----------------------------------------------------------------------------------------------------------
@of("detach")
def detach(x):
    return aten.alias(x)


@of("to.dtype", "to.device", "to.dtype_layout", "to.other")
def to(x, *args, **kwargs):
    dtype = next((v for v in (*args, *kwargs.values()) if isinstance(v, Dtype)), None)
    other = next((v for v in (*args, *kwargs.values()) if isinstance(v, Tensor)), None)
    device = next((Device(v) for v in (*args, *kwargs.values()) if isinstance(v, (Device, str))), None)
    dtype, device = (dtype, device) if other is None else (other.dtype, other.device)
    named = {"dtype": dtype if dtype is not x.dtype else None, "device": device if device != x.device else None}
    copied = kwargs.get("copy") or True in [a for a in args[-2:] if a is True][1:]
    named = {k: v for k, v in named.items() if v is not None}
    return aten._to_copy(x, **named) if named or copied else x


@of("contiguous")
def contiguous(x, memory_format=contiguous_format):
    return x if x.is_contiguous(memory_format=memory_format) else aten.clone(x, memory_format=memory_format)


@of("lift_fresh_copy")
def lift_fresh_copy(x):
    return aten.clone(x)


@of("zeros")
def zeros(size, *, dtype=None, layout=None, device=None, pin_memory=None):
    return created(aten.full, list(size), 0, dtype, device)


@of("ones")
def ones(size, *, dtype=None, layout=None, device=None, pin_memory=None):
    return created(aten.full, list(size), 1, dtype, device)


def created(function, size, value, dtype, device):
    named = {"dtype": dtype or get_default_dtype(), "device": device, "pin_memory": False}
    return function(size, value, **{k: v for k, v in named.items() if v is not None})

"""Matmuls, layers, losses and factorizations as PyTorch decomposes them."""
from __future__ import annotations

from .._src.core.dtypes import bool_, finfo, uint8
from .._src.core.meta import broadcast, product
from .._src.core.native import Tensor
from .._src.core.op import OPS
from . import leaves  # noqa: F401 - declares what is called here
from .compositions import composed, narrowed, viewed

REDUCTIONS = leaves.REDUCTIONS


@composed("matmul")
def matmul(input, other):
    a, b = input.dim(), other.dim()
    if not a or not b:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {a}D and {b}D")
    if a == 1 and b == 1:
        return OPS["dot"](input, other)
    if a == 2 and b == 1:
        return OPS["mv"](input, other)
    if a == 1 and b == 2:
        return OPS["squeeze_"](OPS["mm"](OPS["unsqueeze"](input, 0), other), 0)
    if a == 2 and b == 2:
        return OPS["mm"](input, other)
    if a == b == 3 and input.shape[0] == 1 and other.shape[0] != 1:
        return matmul(OPS["squeeze"](input, 0), other)
    turned = OPS["transpose"](other, -2, -1) if b > a else None
    if a >= 3 and b <= 2 and folds(input, other, input):
        found = OPS["mv" if b == 1 else "mm"](viewed(input, (product(input.shape[:-1]), input.shape[-1])), other)
        return OPS["_unsafe_view"](found, (*input.shape[:-1], *other.shape[1:]))
    if b >= 3 and a <= 2 and folds(turned, input, input):
        rows = viewed(turned, (product(turned.shape[:-1]), turned.shape[-1]))
        found = OPS["mm"](rows, OPS["t"](input)) if a == 2 else OPS["mv"](rows, input)
        out = OPS["_unsafe_view"](found, (*turned.shape[:-1], *input.shape[:-1]))
        return OPS["transpose"](out, -2, -1) if a == 2 else out
    return batches(input, other)


def folds(many, few, first) -> bool:
    """Whether a product of a batch and a matrix is one of two matrices: the batch must lie in one piece, unless the
    gradient of the matrix is wanted."""
    if few.requires_grad or not many.numel():
        return few.requires_grad or first.dim() != 2
    if first.dim() == 2:
        return False
    shape, strides = many.shape, many.stride()
    return all(strides[k] == strides[k + 1] * shape[k + 1] for k in range(many.dim() - 2))


def batches(input, other):
    """A product of batches of matrices, as one of three dimensions."""
    one, two = input.dim() == 1, other.dim() == 1
    left = (1, *input.shape) if one else tuple(input.shape)
    right = (*other.shape, 1) if two else tuple(other.shape)
    lead = tuple(broadcast(left[:-2], right[:-2]))
    first = OPS["expand"](input, (*lead, *left[-2:]))
    second = OPS["expand"](OPS["unsqueeze"](other, 1) if two else other, (*lead, *right[-2:]))
    found = OPS["bmm"](viewed(first, (product(lead), *left[-2:])), viewed(second, (product(lead), *right[-2:])))
    return OPS["_unsafe_view"](found, (*lead, *(() if one else left[-2:-1]), *(() if two else right[-1:])))


@composed("nn.functional.linear")
def linear(input, weight, bias=None):
    rank = input.dim()
    if rank == 2 and bias is not None:
        return OPS["addmm"](bias, input, OPS["t"](weight))
    if bias is not None and rank in (1, 3) and input.is_contiguous():
        rows = viewed(input, (product(input.shape[:-1]), input.shape[-1]))
        return OPS["view"](OPS["addmm"](bias, rows, OPS["t"](weight)), (*input.shape[:-1], weight.shape[0]))
    found = matmul(input, OPS["t"](weight) if weight.dim() == 2 else weight)
    return found if bias is None else OPS["add"](found, bias)


@composed("tensordot")
def tensordot(a, b, dims=2, out=None):
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        dims = list(range(a.dim() - dims, a.dim())), list(range(dims))
    left, right = ([dims_] if isinstance(dims_, int) else list(dims_) for dims_ in dims)
    left, right = [d % a.dim() for d in left], [d % b.dim() for d in right]
    for l, r in zip(left, right):  # of a pair of sizes one may be 1
        if a.shape[l] == 1 != b.shape[r]:
            b = OPS["sum"](b, r, True)
        elif b.shape[r] == 1 != a.shape[l]:
            a = OPS["sum"](a, l, True)
    keep_a = [d for d in range(a.dim()) if d not in left]
    keep_b = [d for d in range(b.dim()) if d not in right]
    inner = product(a.shape[d] for d in left)
    first = viewed(OPS["permute"](a, [*keep_a, *left]), (product(a.shape[d] for d in keep_a), inner))
    second = viewed(OPS["permute"](b, [*right, *keep_b]), (inner, product(b.shape[d] for d in keep_b)))
    found = viewed(OPS["mm"](first, second), (*(a.shape[d] for d in keep_a), *(b.shape[d] for d in keep_b)))
    return found if out is None else out.copy_(found)


@composed("inner")
def inner(input, other):
    if not input.dim() or not other.dim():
        return OPS["mul"](input, other)
    return tensordot(input, other, ([-1], [-1]))


@composed("linalg.vecdot")
def vecdot(x, y, *, dim=-1):
    if x.dim() == 1 and y.dim() == 1:
        return OPS["vdot"](x, y)
    if x.dtype.is_complex:
        return OPS["sum"](OPS["mul"](OPS["_conj"](x), y), dim)
    return OPS["sum"](OPS["mul"](x, y), dim)


def converted(input, dtype):
    return input if dtype is None else input.to(dtype)


@composed("softmax")
def softmax(input, dim, dtype=None):
    return OPS["_softmax"](converted(input, dtype), dim, False)


@composed("log_softmax")
def log_softmax(input, dim, dtype=None):
    return OPS["_log_softmax"](converted(input, dtype), dim, False)


@composed("nn.functional.logsigmoid")
def logsigmoid(input):
    return OPS["log_sigmoid_forward"](input)[0]


@composed("nn.functional.prelu")
def prelu(input, weight):
    shape = [1] * input.dim()
    if weight.numel() != 1:
        shape[1] = weight.numel()
    weight = viewed(weight, shape) if tuple(weight.shape) != tuple(shape) else weight
    return OPS["_prelu_kernel"](input, weight)


@composed("nn.functional.tanhshrink")
def tanhshrink(input):
    return OPS["sub"](input, OPS["tanh"](input))


@composed("nn.functional.softsign")
def softsign(input):
    return OPS["div"](input, OPS["add"](OPS["abs"](input), 1))


@composed("nn.functional.layer_norm")
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    return OPS["native_layer_norm"](input, list(normalized_shape), weight, bias, eps)[0]


@composed("nn.functional.group_norm")
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    N, C = input.shape[:2]
    input = input if input.is_contiguous() else OPS["contiguous"](input)
    return OPS["native_group_norm"](input, weight, bias, N, C, product(input.shape[2:]), num_groups, eps)[0]


def many(value, count):
    return [value] * count if isinstance(value, int) else list(value) * (count if len(value) == 1 else 1)


def convolved(input, weight, bias, stride, padding, dilation, groups, turned=False, more=0):
    """A convolution of a batch, or of one sample."""
    count = weight.dim() - 2
    single = input.dim() == count + 1
    stride, dilation, more = (many(v, count) for v in (stride, dilation, more))
    if padding in ("same", "valid"):
        input, padding = kept(input, weight, dilation, padding == "same")
    x = OPS["unsqueeze"](input, 0) if single else input
    found = OPS["convolution"](x, weight, bias, stride, many(padding, count), dilation, turned, more, groups)
    return OPS["squeeze"](found, 0) if single else found


def kept(input, weight, dilation, same):
    """(input, padding) of a convolution that gives as many elements as it takes, or that does not pad."""
    wanted = [d * (k - 1) if same else 0 for d, k in zip(dilation, weight.shape[2:])]
    if not any(n % 2 for n in wanted):
        return input, [n // 2 for n in wanted]
    more = [m for n in reversed(wanted) for m in (0, n % 2)]
    return OPS["constant_pad_nd"](input, more, 0), [n // 2 for n in wanted]


@composed("nn.functional.conv1d", "nn.functional.conv2d", "nn.functional.conv3d")
def conv(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return convolved(input, weight, bias, stride, padding, dilation, groups)


@composed("nn.functional.conv_transpose1d", "nn.functional.conv_transpose2d", "nn.functional.conv_transpose3d")
def conv_transpose(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    return convolved(input, weight, bias, stride, padding, dilation, groups, True, output_padding)


@composed("nn.functional.avg_pool1d")
def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
               divisor_override=None):
    (size,), (step,), (pad,) = many(kernel_size, 1), many(stride or kernel_size, 1), many(padding, 1)
    found = OPS["nn.functional.avg_pool2d"](OPS["unsqueeze"](input, -2), [1, size], [1, step], [0, pad], ceil_mode,
                                            count_include_pad)
    return OPS["squeeze"](found, -2)


@composed("nn.functional.max_pool1d")
def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    (size,), (step,), (pad,), (by,) = many(kernel_size, 1), many(stride or kernel_size, 1), many(padding, 1), many(
        dilation, 1)
    found = OPS["nn.functional.max_pool2d_with_indices"](OPS["unsqueeze"](input, -2), [1, size], [1, step], [0, pad],
                                                         [1, by], ceil_mode)
    found = tuple(OPS["squeeze"](part, -2) for part in found)
    return found if return_indices else found[0]


def pooled(count):
    def max_pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        given = [many(kernel_size, count), many(stride or kernel_size, count), many(padding, count),
                 many(dilation, count)]
        found = OPS[f"nn.functional.max_pool{count}d_with_indices"](input, *given, ceil_mode)
        return found if return_indices else found[0]
    return max_pool


for _count in (2, 3):
    composed(f"nn.functional.max_pool{_count}d")(pooled(_count))


@composed("nn.functional.adaptive_avg_pool1d")
def adaptive_avg_pool1d(input, output_size):
    found = OPS["_adaptive_avg_pool2d"](OPS["unsqueeze"](input, -2), [1, *many(output_size, 1)])
    return OPS["squeeze"](found, -2)


def averaged(count):
    def adaptive_avg_pool(input, output_size):
        sizes = [n if n is not None else m for n, m in zip(many(output_size, count) if output_size is not None
                                                           else [None] * count, input.shape[-count:])]
        if all(n == 1 for n in sizes):
            return OPS["mean"](input, [-1 - k for k in range(count)], True)
        return OPS[f"_adaptive_avg_pool{count}d"](input, sizes)
    return adaptive_avg_pool


for _count in (2, 3):
    composed(f"nn.functional.adaptive_avg_pool{_count}d")(averaged(_count))


def reduced(input, reduction):
    return input if reduction == "none" else OPS[reduction](input)


@composed("nn.functional.nll_loss")
def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    number = REDUCTIONS.index(older(size_average, reduce, reduction))
    if input.dim() <= 2:
        return OPS["nll_loss_forward"](input, target, weight, number, ignore_index)[0]
    if input.dim() == 4:
        return OPS["nll_loss2d_forward"](input, target, weight, number, ignore_index)[0]
    flat = viewed(input, (*input.shape[:2], 1, -1)), viewed(target, (target.shape[0], 1, -1))
    found = OPS["nll_loss2d_forward"](*flat, weight, number, ignore_index)[0]
    return viewed(found, tuple(target.shape)) if number == 0 else found


def older(size_average, reduce, reduction) -> str:
    """The reduction, which older programs say by two flags."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


@composed("nn.functional.cross_entropy")
def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                  label_smoothing=0.0):
    reduction = older(size_average, reduce, reduction)
    if label_smoothing or tuple(target.shape) == tuple(input.shape):
        return OPS["nn.functional.cross_entropy"].body(input, target, weight, None, ignore_index, None, reduction,
                                                       label_smoothing)
    logs = OPS["_log_softmax"](input, 0 if input.dim() == 1 else 1, False)
    return nll_loss(logs, target, weight, None, ignore_index, None, reduction)


def around(input, pad):
    """Pad circularly with elements from the other end of each dimension, the last one first."""
    rank = input.dim()
    for k in range(len(pad) // 2):
        dim, before, after = rank - 1 - k, pad[2 * k], pad[2 * k + 1]
        size = input.shape[dim]
        if max(before, after) > size:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if size + before + after < 1 and min(before, after) < 0:
            if size + before + after < 0:
                raise RuntimeError("Negative padding value is resulting in an empty dimension")
            input = narrowed(input, dim, 0, 0)
            continue
        kept = narrowed(input, dim, max(-before, 0), size - max(-after, 0)) if min(before, after) < 0 else input
        parts = [narrowed(input, dim, size - before, size)] if before > 0 else []
        parts += [kept] + ([narrowed(input, dim, 0, after)] if after > 0 else [])
        input = OPS["cat"](parts, dim) if len(parts) > 1 else kept
    return input


@composed("nn.functional.pad")
def pad(input, pad, mode="constant", value=None):
    if mode == "constant":
        return OPS["constant_pad_nd"](input, list(pad), 0.0 if value is None else value)
    if mode == "circular":
        return around(input, pad)
    return OPS[f"{'reflection' if mode == 'reflect' else 'replication'}_pad{len(pad) // 2}d"](input, list(pad))




@composed("nn.functional.l1_loss")
def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    if weight is not None:
        return OPS["nn.functional.l1_loss"].body(input, target, size_average, reduce, reduction, weight)
    input, target = OPS["broadcast_tensors"](input, target)
    return reduced(OPS["abs"](OPS["sub"](input, target)), older(size_average, reduce, reduction))


@composed("nn.functional.batch_norm")
def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    OPS["empty"]((0,), dtype=uint8, device=input.device)  # memory that other devices keep for the backward pass
    return OPS["native_batch_norm"](input, weight, bias, running_mean, running_var, training,
                                    0.0 if momentum is None else momentum, eps)[0]


@composed("nn.functional.rms_norm")
def rms_norm(input, normalized_shape, weight=None, eps=None):
    dims = [input.dim() - 1 - k for k in reversed(range(len(normalized_shape)))]
    found = OPS["mean"](OPS["pow"](input, 2), dims, True)
    found = OPS["rsqrt"](OPS["add_"](found, finfo(input.dtype).eps if eps is None else eps))
    found = OPS["mul"](input, found)
    return found if weight is None else OPS["mul"](found, weight)


@composed("norm")
def norm(input, p="fro", dim=None, keepdim=False, dtype=None):
    if p == "nuc":
        return OPS["norm"].body(input, p, dim, keepdim, dtype)
    dim = [dim] if isinstance(dim, int) else dim
    return OPS["linalg.vector_norm"](input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)


@composed("nn.functional.relu6")
def relu6(input, inplace=False):
    return OPS["nn.functional.hardtanh"](input, 0, 6, **{"inplace": True} if inplace else {})


def adaptive(count):
    def adaptive_max_pool(input, output_size, return_indices=False):
        sizes = many(output_size, count)
        if count == 1:
            found = OPS["nn.functional.adaptive_max_pool2d_with_indices"](OPS["unsqueeze"](input, -2), [1, *sizes])
            found = tuple(OPS["squeeze"](part, -2) for part in found)
        else:
            sizes = [n if n is not None else m for n, m in zip(sizes, input.shape[-count:])]
            found = OPS[f"nn.functional.adaptive_max_pool{count}d_with_indices"](input, sizes)
        return found if return_indices else found[0]
    return adaptive_max_pool


for _count in (1, 2, 3):
    composed(f"nn.functional.adaptive_max_pool{_count}d")(adaptive(_count))


@composed("nn.functional.interpolate")
def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                antialias=False):
    rank = input.dim() - 2
    given = (input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    if mode == "area" or (size is None) == (scale_factor is None) or align_corners is not None and "nearest" in mode:
        return OPS["nn.functional.interpolate"].body(*given)
    scales = None if scale_factor is None else [float(s) for s in (
        scale_factor if isinstance(scale_factor, (list, tuple)) else [scale_factor] * rank)]
    size = many(size, rank) if scales is None else [int(n * s) for n, s in zip(input.shape[2:], scales)]
    name = f"{'_upsample' if mode == 'nearest-exact' or antialias else 'upsample'}_{mode.replace('-', '_')}{rank}d"
    name += "_aa" if antialias else ""
    if name not in OPS:
        return OPS["nn.functional.interpolate"].body(*given)
    corners = () if "nearest" in mode else (bool(align_corners),)
    return OPS[name](input, size, *corners, *(() if scales is None or recompute_scale_factor else scales))


@composed("nn.functional.grid_sample")
def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    ways = ("bilinear", "nearest", "bicubic").index(mode), ("zeros", "border", "reflection").index(padding_mode)
    return OPS[f"grid_sampler_{input.dim() - 2}d"](input, grid, *ways, bool(align_corners))


@composed("nn.functional.scaled_dot_product_attention")
def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                                 enable_gqa=False):
    plain = query.dim() == key.dim() == value.dim() == 4 and not dropout_p and not enable_gqa
    if not plain or not value.shape[-1] == query.shape[-1] or not query.numel() or attn_mask is not None and (
            attn_mask.requires_grad or attn_mask.dim() not in (2, 4)):
        return OPS["nn.functional.scaled_dot_product_attention"].body(query, key, value, attn_mask, dropout_p,
                                                                      is_causal, scale, enable_gqa)
    if attn_mask is not None and attn_mask.dtype is bool_:
        attn_mask = OPS["where"](attn_mask, *(OPS["scalar_tensor"](v, dtype=query.dtype, device=query.device)
                                              for v in (0.0, -float("inf"))))
    more = {} if attn_mask is None else {"attn_mask": attn_mask}
    return OPS["_scaled_dot_product_flash_attention_for_cpu"](query, key, value, 0.0, is_causal, scale=scale, **more)[0]


@composed("unique")
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    if dim is not None:
        return OPS["unique"].body(input, sorted, return_inverse, return_counts, dim)
    found = OPS["_unique2"](input, sorted, return_inverse, return_counts)
    kept = [found[0], *(f for f, asked in zip(found[1:], (return_inverse, return_counts)) if asked)]
    return tuple(kept) if len(kept) > 1 else kept[0]

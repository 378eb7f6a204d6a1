"""Top-level functions that are functions of ``nn.functional`` with other arguments: reductions as integers, weights
before statistics."""
from __future__ import annotations

from .api import set_default_dtype
from .core import devices, dtypes
from .core.advice import deprecated, warn
from .core.convert import contiguous_format
from .core.later import entered
from .core.legacy_types import legacy_type
from .core.native import Tensor
from .core.op import OPS
from .core.overriding import overridable
from .ops.norm import batch_norm_of_any, values_of_channel
from ..nn import functional as F

cat, full_like, zeros_like = OPS["cat"], OPS["full_like"], OPS["zeros_like"]
REDUCTIONS = ("none", "mean", "sum")


def reducing(name: str):
    """A loss whose ``reduction`` is 0 (none), 1 (mean) or 2 (sum)."""
    def call(*args, reduction=0, **kwargs):
        return getattr(F, name)(*args, reduction=REDUCTIONS[reduction], **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``nn.functional.{name}`` with its reduction as a number."
    return call


def hinge_embedding_loss(input, target, margin=1.0, reduction=0):
    """``nn.functional.hinge_embedding_loss`` with its reduction as a number."""
    return reducing("hinge_embedding_loss")(input, target, margin=margin, reduction=reduction)


def kl_div(input, target, reduction=0, *, log_target=False):
    """``nn.functional.kl_div`` with its reduction as a number."""
    return reducing("kl_div")(input, target, reduction=reduction, log_target=log_target)


def binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction=0):
    """``nn.functional.binary_cross_entropy_with_logits`` with its reduction as a number."""
    return reducing("binary_cross_entropy_with_logits")(input, target, weight=weight, pos_weight=pos_weight,
                                                        reduction=reduction)


@overridable
def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """``nn.functional.poisson_nll_loss`` with its reduction as a number."""
    return reducing("poisson_nll_loss")(input, target, log_input=log_input, full=full, eps=eps, reduction=reduction)


@overridable
def batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
    """``nn.functional.batch_norm`` with the weights before the statistics.  It accepts any ``eps`` and, in training,
    batches of one value for a channel.

    >>> import rushlight as torch
    >>> torch.batch_norm(torch.tensor([[0.0], [2.0]]), None, None, None, None, True, 0.1, 1e-9, False)
    tensor([[-1.],
            [ 1.]])
    """
    if eps <= 0 or training and input.dim() > 1 and values_of_channel(input) == 1:  # nn.functional refuses these
        return batch_norm_of_any(input, running_mean, running_var, weight, bias, training, momentum, eps)
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled):
    """``nn.functional.instance_norm`` with the weights before the statistics."""
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def gates(input, hidden, w_ih, w_hh, b_ih, b_hh):
    """Terms of a recurrent cell's sum, from its input and from its state."""
    return F.linear(input, w_ih, b_ih), F.linear(hidden, w_hh, b_hh)


@overridable
def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of an LSTM: (hidden, cell).  input: [batch, inputs], hx: two of [batch, units], w_ih: [4 * units,
    inputs]."""
    x, h = gates(input, hx[0], w_ih, w_hh, b_ih, b_hh)
    i, f, g, o = (x + h).chunk(4, 1)
    cell = f.sigmoid() * hx[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a gated recurrent unit.  input: [batch, inputs], hx: [batch, units], w_ih: [3 * units, inputs]."""
    x, h = (v.chunk(3, 1) for v in gates(input, hx, w_ih, w_hh, b_ih, b_hh))
    reset, update = (x[0] + h[0]).sigmoid(), (x[1] + h[1]).sigmoid()
    new = (x[2] + reset * h[2]).tanh()
    return new + update * (hx - new)


def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a recurrent unit: tanh of the sum of its terms."""
    return sum(gates(input, hx, w_ih, w_hh, b_ih, b_hh)).tanh()


def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a recurrent unit: relu of the sum of its terms."""
    return sum(gates(input, hx, w_ih, w_hh, b_ih, b_hh)).relu()


def nuclear_norm(input, dim=None, keepdim=False):
    """The sum of singular values, of a matrix or over two dimensions."""
    from ..linalg import matrix_norm
    return matrix_norm(input, "nuc", dim=(-2, -1) if dim is None else dim, keepdim=keepdim)


@overridable
def svd_lowrank(A, q=6, niter=2, M=None):
    """About the first ``q`` singular values and vectors (U, S, V) of A - M, by multiplication with random vectors
    (Halko and others 2009)."""
    from ..linalg import qr, svd
    from .. import randn
    shifted = A if M is None else A - M
    tall = shifted.shape[-2] >= shifted.shape[-1]
    a = shifted if tall else shifted.mH
    found = qr(a @ randn(*a.shape[:-2], a.shape[-1], q, dtype=a.dtype, device=a.device))[0]
    for _ in range(niter):
        found = qr(a @ qr(a.mH @ found)[0])[0]
    u, s, vh = svd(found.mH @ a, full_matrices=False)
    u, v = found @ u, vh.mH
    return (u, s, v) if tall else (v, s, u)


@overridable
def pca_lowrank(A, q=None, center=True, niter=2):
    """First principal components of the rows of A: ``svd_lowrank`` of A less its means, with at most ``q`` (6) of
    them."""
    count = min(6, *A.shape[-2:]) if q is None else q
    if not 0 <= count <= min(A.shape[-2:]):
        raise ValueError(f"q(={count}) must be non-negative integer and not greater than min(m, n)={min(A.shape[-2:])}")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, count, niter)


def set_default_tensor_type(t):
    """Set the default dtype, and the default device, by an older name: ``torch.DoubleTensor`` or
    "torch.cuda.DoubleTensor".  TypeError for types that are not floating, and of devices that do not exist."""
    warn("torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
         "torch.set_default_device() as alternatives.")
    if isinstance(t, str):
        found, place = legacy_type(t)
    else:
        found, place = dtypes.float32 if t is Tensor else getattr(t, "dtype", None), getattr(t, "device_type", "cpu")
    provider = devices.provided(place)
    if provider is None or not provider.count():
        raise TypeError(f"type {t!r} not available: there is no device of type {place!r}")
    if not isinstance(found, dtypes.dtype) or not found.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, got {t!r}")
    set_default_dtype(found)
    devices.prefer(devices.cpu if provider.on_host else devices.placed(place))


def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=0):
    """``nn.functional.margin_ranking_loss`` with its reduction as a number."""
    return reducing("margin_ranking_loss")(input1, input2, target, margin=margin, reduction=reduction)


def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=0):
    """``nn.functional.cosine_embedding_loss`` with its reduction as a number."""
    return reducing("cosine_embedding_loss")(input1, input2, target, margin=margin, reduction=reduction)


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, reduction=0):
    """``nn.functional.triplet_margin_loss`` with its reduction as a number."""
    return reducing("triplet_margin_loss")(anchor, positive, negative, margin=margin, p=p, eps=eps, swap=swap,
                                           reduction=reduction)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=0, zero_infinity=False):
    """``nn.functional.ctc_loss`` with its reduction as a number."""
    return reducing("ctc_loss")(log_probs, targets, input_lengths, target_lengths, blank, reduction=reduction,
                                zero_infinity=zero_infinity)


def frobenius_norm(input, dim=(), keepdim=False):
    """The root of the sum of squares, over dimensions: ``linalg.vector_norm``."""
    from ..linalg import vector_norm
    deprecated("torch.frobenius_norm", "torch.linalg.vector_norm")
    return vector_norm(input, 2, dim=dim if isinstance(dim, int) else dim or None, keepdim=keepdim)


def native_dropout(input, p, train):
    """``dropout``, and the mask of the elements that it kept."""
    if not train:
        return input, full_like(input, True, dtype=dtypes.bool_)
    kept = F.dropout(full_like(input, 1.0), p)
    return input * kept, kept != 0


def _masked_softmax(input, mask, dim=None, mask_type=None):
    """softmax [*] -> [*] over ``dim`` (default: last) where a bool mask is False; NaN for fully masked rows.

    ``mask_type`` is the kind of mask for scores [b, heads, l, l]: 0 for queries and keys [l, l], 1 for keys [b, l], 2
    for scores.  Scores of another rank need a mask of their size, which is always accepted.  RuntimeError for others.

    >>> import rushlight as torch
    >>> torch._masked_softmax(torch.zeros(3), torch.tensor([True, False, False]), None, 2)
    tensor([0.0000, 0.5000, 0.5000])
    """
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError("Mask should be a boolean tensor")
    shape, sizes = tuple(input.shape), tuple(mask.shape)
    if sizes != shape:
        if mask_type not in (0, 1, 2):
            raise RuntimeError(
                "Mask Type should be defined: 0 (src_mask), 1 (src_key_padding_mask) or 2 (default_mask)")
        if mask_type == 2 or len(shape) != 4 or sizes != ((shape[-1],) * 2 if mask_type == 0 else
                                                          (shape[0], shape[-1])):
            raise RuntimeError(f"For mask_type == {mask_type} mask shape should "
                               f"{('be (L, L)', 'be (B, L)', 'match input shape')[mask_type]}, got {list(sizes)}")
        mask = mask if mask_type == 0 else mask.reshape(shape[0], 1, 1, shape[-1])
    return input.masked_fill(mask, float("-inf")).softmax(-1 if dim is None else dim)


def recurrent(kind, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, **how):
    """Run a recurrent network with a flat list of weights, in the order of ``nn.LSTM(...).parameters()``: the result of
    its module."""
    from .. import nn
    from ..func import functional_call
    states = hx if isinstance(hx, (tuple, list)) else (hx,)
    data = input if isinstance(input, Tensor) else input.data
    units, projected = params[1].shape[1], states[0].shape[-1]
    if kind == "LSTM":
        units, how["proj_size"] = states[1].shape[-1], projected if projected != states[1].shape[-1] else 0
    module = getattr(nn, kind)(data.shape[-1], units, num_layers, bias=has_biases, dropout=dropout if num_layers > 1
                               else 0.0, bidirectional=bidirectional, device="meta", **how)
    return functional_call(module.train(train), dict(zip((name for name, _ in module.named_parameters()), params)),
                           (input, tuple(states) if kind == "LSTM" else hx))


def flattened(kind, *args, **how):
    """Run ``recurrent`` on [time, batch, size] (or batch first), or, if batch sizes follow the input, on packed
    sequences: output, then states."""
    from ..nn.utils.rnn import PackedSequence
    sizes = args[1]
    if isinstance(sizes, Tensor) and sizes.dim() == 1 and isinstance(args[3], (tuple, list)):
        output, states = recurrent(kind, PackedSequence(args[0], sizes), *args[2:], **how)
        output = output.data
    else:
        *args, batch_first = args
        output, states = recurrent(kind, *args, batch_first=batch_first, **how)
    return (output, *states) if kind == "LSTM" else (output, states)


@overridable
def lstm(*args):
    """An LSTM with weights given: (input, (h, c), params, has_biases, num_layers, dropout, train, bidirectional,
    batch_first), or packed: (data, batch_sizes, (h, c), params, has_biases, num_layers, dropout, train, bidirectional)
    -> output, h, c.
    """
    return flattened("LSTM", *args)


@overridable
def gru(*args):
    """A gated recurrent network with weights given, as for ``lstm`` -> output, h."""
    return flattened("GRU", *args)


@overridable
def rnn_tanh(*args):
    """A recurrent network of tanh with weights given, as for ``lstm`` -> output, h."""
    return flattened("RNN", *args)


@overridable
def rnn_relu(*args):
    """A recurrent network of relu with weights given, as for ``lstm`` -> output, h."""
    return flattened("RNN", *args, nonlinearity="relu")


def embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None,
                  include_last_offset=False, padding_idx=None):
    """``nn.functional.embedding_bag`` with its mode as an integer (0 sum, 1 mean, 2 max), and the values that its
    backward pass needs: here the sizes of bags."""
    found = F.embedding_bag(indices, weight, offsets, scale_grad_by_freq=scale_grad_by_freq,
                            mode=("sum", "mean", "max")[mode], sparse=sparse,
                            per_sample_weights=per_sample_weights, include_last_offset=include_last_offset,
                            padding_idx=padding_idx)
    ends = offsets[1:] if include_last_offset else cat([offsets[1:], offsets.new_tensor([indices.numel()])])
    sizes = ends - offsets[:len(ends)]
    return found, offsets.new_empty(0), sizes, zeros_like(sizes)


def detach_(input):
    """Detach a tensor from its history, in place."""
    return input.detach_()


multiply_stored_rows, add_stored_rows = (entered("sparse.products", name)
                                         for name in ("multiply_stored_rows", "add_stored_rows"))


@overridable
def smm(input, mat):
    """A sparse matrix times a dense one, as a sparse matrix: it has the rows that have elements in ``input``."""
    return multiply_stored_rows(input, mat).expand_dense()


@overridable
def hspmm(mat1, mat2):
    """A sparse matrix times a dense one, as a sparse tensor of one sparse and one dense dimension."""
    return multiply_stored_rows(mat1, mat2)


hsmm = hspmm


@overridable
def sspaddmm(input, mat1, mat2, *, beta=1, alpha=1):
    """beta * input + alpha * (mat1 @ mat2) for sparse input and mat1, as a sparse matrix."""
    return add_stored_rows(input, mat1, mat2, beta, alpha)


@overridable
def slice_copy(input, dim=0, start=None, end=None, step=1):
    """A slice of one dimension, copied."""
    return input[(slice(None),) * (dim % input.dim()) + (slice(start, end, step),)].clone(
        memory_format=contiguous_format)


def shape_as_tensor(self):
    """Return the sizes of a tensor as an integer tensor."""
    return self.new_tensor(list(self.shape), dtype=dtypes.int64, device="cpu", requires_grad=False)

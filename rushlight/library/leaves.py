"""Operators that PyTorch shows to ``__torch_dispatch__`` although users do not call them: components of documented
functions.  Each computes by a Rushlight operator; ``compositions.py`` calls them where PyTorch does."""
from __future__ import annotations

import inspect

from .._src.core.dtypes import int64
from .._src.core.op import OPS, declare, op, rule
from .._src.ops.lapack import LinAlgError
from .functions import FUNCTIONS

REDUCTIONS = ("none", "mean", "sum")
FAILURES = {  # what a factorisation's number says of the matrix
    "linalg.inv": lambda k: (
        f"The diagonal element {k} is zero, the inversion could not be completed because the input "
        "matrix is singular."),
    "linalg.cholesky": lambda k: ("The factorization could not be completed because the input is not positive-definite "
                                  f"(the leading minor of order {k} is not positive-definite)."),
    "linalg.lu_factor": lambda k: f"U[{k},{k}] is zero and using it on lu_solve would result in a division by zero."}


def UNSOLVED(k):
    return "The solver failed because the input matrix is singular."


def leaf(body):
    """Declares an operator of PyTorch's that is seen as one."""
    return op(body, composite=True, method=False, name=body.__name__)


@leaf
def _softmax(input, dim, half_to_float):
    return FUNCTIONS["_softmax"](input, dim, half_to_float)


@leaf
def _log_softmax(input, dim, half_to_float):
    return FUNCTIONS["_log_softmax"](input, dim, half_to_float)


@leaf
def _unsafe_view(input, size):
    """A tensor of other sizes, without other aliases, as the caller guarantees."""
    return OPS["reshape"](input, tuple(size))


@leaf
def _adaptive_avg_pool2d(input, output_size):
    return OPS["nn.functional.adaptive_avg_pool2d"](input, tuple(output_size))


@leaf
def _adaptive_avg_pool3d(input, output_size):
    return OPS["nn.functional.adaptive_avg_pool3d"](input, tuple(output_size))


@leaf
def _prelu_kernel(input, weight):
    return OPS["where"](input > 0, input, weight * input)


@leaf
def log_sigmoid_forward(input):
    """log(sigmoid(x)), and memory that PyTorch's backward pass uses: none."""
    return OPS["nn.functional.logsigmoid"](input), input.new_empty((0,))


def losses(input, target, weight, reduction, ignore_index):
    reduction = REDUCTIONS[reduction] if isinstance(reduction, int) else reduction
    found = OPS["nn.functional.nll_loss"](input, target, weight, ignore_index=ignore_index, reduction=reduction)
    if reduction == "none":
        return found, input.new_zeros(())
    kept = target != ignore_index
    if weight is None:
        return found, kept.sum().to(input.dtype)
    return found, OPS["where"](kept, weight[OPS["where"](kept, target, 0)], 0.0).sum()


@leaf
def _unique2(input, sorted=True, return_inverse=False, return_counts=False):
    """The distinct elements, their places and counts; empty tensors for what is not asked for."""
    return distinct(input, sorted, return_inverse, return_counts)


def distinct(input, sorted, return_inverse, return_counts, dim=None):
    """Distinct elements or slices, their places and counts; empty tensors for what is not asked for."""
    found = OPS["unique"](input, sorted, return_inverse, return_counts, dim)
    found = list(found) if isinstance(found, tuple) else [found]
    return tuple([found.pop(0), *(found.pop(0) if asked else found_none(input)
                                  for asked in (return_inverse, return_counts))])


@rule(_unique2)
def unmeasured(some, input, sorted=True, return_inverse=False, return_counts=False):
    return OPS["unique"].rules["unmeasured"](some, input, sorted, True, True)


@leaf
def unique_dim(input, dim, sorted=True, return_inverse=False, return_counts=False):
    """The distinct slices along a dimension, their places and counts; empty tensors for what is not asked for."""
    return distinct(input, sorted, return_inverse, return_counts, dim)


@rule(unique_dim)
def unmeasured(some, input, dim, sorted=True, return_inverse=False, return_counts=False):  # noqa: F811
    return OPS["unique"].rules["unmeasured"](some, input, sorted, True, True, dim)


def found_none(input):
    return OPS["empty"]((0,), dtype=int64, device=input.device)


@leaf
def _scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None,
                                                scale=None):
    """Attention, and the logarithm of what each row's weights are divided by."""
    return FUNCTIONS["_scaled_dot_product_flash_attention_for_cpu"](query, key, value, dropout_p, is_causal,
                                                                    attn_mask=attn_mask, scale=scale)


@leaf
def nll_loss_forward(input, target, weight, reduction, ignore_index):
    """The loss, and the sum of the weights that it is divided by."""
    return losses(input, target, weight, reduction, ignore_index)


@leaf
def nll_loss2d_forward(input, target, weight, reduction, ignore_index):
    """The loss of images of classes, and the sum of the weights."""
    return losses(input, target, weight, reduction, ignore_index)


@leaf
def _linalg_eigh(A, UPLO="L", compute_v=True):
    if compute_v:
        return tuple(OPS["linalg.eigh"](A, UPLO))
    return OPS["linalg.eigvalsh"](A, UPLO), A.new_empty((0,))


@leaf
def _linalg_svd(A, full_matrices=False, compute_uv=True, *, driver=None):
    if compute_uv:
        return tuple(OPS["linalg.svd"](A, full_matrices, driver=driver))
    return A.new_empty((0,)), OPS["linalg.svdvals"](A, driver=driver), A.new_empty((0,))


@leaf
def _linalg_det(A):
    """The determinant, and the factors that it is the product of."""
    found = OPS["linalg.lu_factor_ex"](A.detach())
    return OPS["linalg.det"](A), found[0], found[1]


@leaf
def _linalg_slogdet(A):
    """Sign and logarithm of the determinant, and the factors that it is the product of."""
    found = OPS["linalg.lu_factor_ex"](A.detach())
    return (*OPS["linalg.slogdet"](A), found[0], found[1])


@leaf
def _linalg_solve_ex(A, B, *, left=True, check_errors=False):
    """The solution, the factors of A, and which diagonal element is zero (0: none)."""
    factors = OPS["linalg.lu_factor_ex"](A.detach())
    result, info = OPS["linalg.solve_ex"](A, B, left=left, check_errors=check_errors)
    return result, factors[0], factors[1], info


@leaf
def _linalg_check_errors(info, api_name, *, is_matrix):
    """Raise LinAlgError for the ``info`` of a factorization."""
    numbers = info.reshape(-1)
    bad = numbers.nonzero()
    if not bad.numel():
        return
    at = bad[0].item()
    which = "" if is_matrix else f"(Batch element {at}): "
    raise LinAlgError(
        f"{api_name}: {which}{FAILURES.get(api_name.removeprefix('torch.'), UNSOLVED)(numbers[at].item())}")


def scaled(normalization, inverse: bool):
    """Our name of a way to scale: 0 none, 1 by the root, 2 by the number of elements."""
    if normalization == 1:
        return "ortho"
    return ("backward" if normalization == 2 else "forward") if inverse else (
        "forward" if normalization == 2 else "backward")


@leaf
def _fft_c2c(input, dim, normalization, forward):
    run = OPS["fft.fftn" if forward else "fft.ifftn"]
    return run(input, None, tuple(dim), scaled(normalization, not forward))


@leaf
def _fft_r2c(input, dim, normalization, onesided):
    run = OPS["fft.rfftn" if onesided else "fft.fftn"]
    return run(input, None, tuple(dim), scaled(normalization, False))


@leaf
def _fft_c2r(input, dim, normalization, last_dim_size):
    sizes = [input.shape[d] for d in dim[:-1]] + [last_dim_size]
    return OPS["fft.irfftn"](input, tuple(sizes), tuple(dim), scaled(normalization, True))


def wrapped(name):
    """Declares an operator that passes all its arguments on to the function of its name."""
    run = FUNCTIONS[name]

    def body(*args, **kwargs):
        return run(*args, **kwargs)

    declare(name, body, None, inspect.signature(body), composite=True, doc=f"PyTorch's {name}.")


for _name in FUNCTIONS:
    if (_name.startswith(("upsample_", "_upsample_", "reflection_pad", "replication_pad"))
            and not _name.endswith("_backward") and _name not in OPS):
        wrapped(_name)

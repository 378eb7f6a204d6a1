"""Functions of ``torch.ops.aten`` operators that Rushlight lacks, by aten name."""
from __future__ import annotations

import functools

from .._src.api import get_default_dtype
from .._src.checks import _assert_async
from .._src.core.convert import contiguous_format
from .._src.core.devices import device as Device
from .._src.core.dtypes import bool_, uint8
from .._src.core.native import Tensor
from .._src.core.op import OPS
from .._src.ops.out import into_out
from . import gradient_functions, inner_functions, recurrent_functions


def slice(self, dim=0, start=None, end=None, step=1):
    """``self[start:end:step]`` along one dimension."""
    at = dim % self.dim()
    every = (("slice", None, None, None),)
    whole = ("slice", start, None if type(end) is int and end == 2 ** 63 - 1 else end, step)
    return OPS["index_basic"](self, (*every * at, whole, *every * (self.dim() - at - 1)))


def slice_copy(self, dim=0, start=None, end=None, step=1):
    return slice(self, dim, start, end, step).clone(memory_format=contiguous_format)


def upsampled(mode):
    """Enlarging by one mode of ``interpolate``, in both of PyTorch's forms."""
    def run(input, output_size, *more, align_corners=None, scale_factors=None, antialias="_aa" in mode, **scales):
        corners, rest = (more[0], more[1:]) if more and isinstance(more[0], bool) else (align_corners, more)
        lists = [r for r in (scale_factors, *rest) if isinstance(r, (list, tuple))]
        size, factors = None if output_size is None else list(output_size), list(lists[0]) if lists else None
        if size is not None:
            names = [f"scales_{d}" for d in "dhw"[-len(size):]] if len(size) > 1 else ["scales"]
            given = dict(zip(names, rest), **scales)
            if unknown := given.keys() - set(names):
                raise TypeError(f"unknown arguments of an enlargement of {len(size)} dimensions: {sorted(unknown)}")
            factors = None if corners else factors_of(input, size, [given.get(name) for name in names])
        return OPS["nn.functional.interpolate"](input, size if factors is None else None, factors,
                                                mode.removesuffix("_aa"), corners, antialias=antialias)

    return run


def factors_of(input, size, scales):
    """The scales of a call that gives a size, too; None where they say what the size says.  NotImplementedError where
    they would give another size."""
    sizes = list(input.shape[2:])
    if all(scale is None or scale * n == wanted for scale, n, wanted in zip(scales, sizes, size)):
        return None
    factors = [wanted / n if scale is None else scale for scale, n, wanted in zip(scales, sizes, size)]
    if [int(n * factor) for n, factor in zip(sizes, factors)] != list(size):
        raise NotImplementedError(f"scales {scales} that do not lead from sizes {sizes} to {size}")
    return factors


def elu(self, alpha=1, scale=1, input_scale=1):
    """``nn.functional.elu``, with factors of its results and of what it takes the exponential of."""
    if scale == 1 and input_scale == 1:
        return OPS["nn.functional.elu"](self, alpha)
    return OPS["where"](self > 0, self * scale, (self * input_scale).expm1() * (alpha * scale))


def _to_copy(self, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    """A copy, of another dtype or elsewhere."""
    made = self.to(device=device, dtype=dtype, non_blocking=non_blocking)
    made = made.clone(**{} if memory_format is None else {"memory_format": memory_format}) if made is self else made
    return made.pin_memory() if pin_memory else made


def scalar_tensor(s, *, dtype=None, layout=None, device=None, pin_memory=None):
    """A number as a tensor of the default dtype, where none is given."""
    return OPS["full"]((), s, dtype=dtype or get_default_dtype(), device=device, pin_memory=bool(pin_memory))


def _assert_scalar(self, assert_msg):
    if not self:
        raise RuntimeError(assert_msg)


def _assert_tensor_metadata(a, size=None, stride=None, dtype=None, *, device=None, layout=None):
    """RuntimeError for a tensor with other sizes, strides, dtype, device or layout."""
    for what, wanted, found in (("sizes", size, list(a.shape)), ("strides", stride, list(a.stride())),
                                ("dtype", dtype, a.dtype),
                                ("device", None if device is None else Device(device), a.device),
                                ("layout", layout, a.layout)):
        if wanted is not None and (list(wanted) if isinstance(wanted, (list, tuple)) else wanted) != found:
            raise RuntimeError(f"Tensor {what} mismatch! Expected: {wanted}, Got: {found}")


def sym_constrain_range(size, *, min=None, max=None):
    """RuntimeError for a number outside of [min, max]."""
    if min is not None and size < min or max is not None and size > max:
        raise RuntimeError(f"Invalid value range for {size} between [{min}, {max}].")


def to(self, *args, **kwargs):
    return Tensor.to(self, *args, **kwargs)


def item(self):
    return self.item()


def is_nonzero(self):
    return bool(self)


def native_dropout(input, p, train):
    """A dropout and the elements that it keeps."""
    if train is False or p == 0:
        return input.clone(), OPS["ones_like"](input, dtype=bool_)
    kept = OPS["rand_like"](input) >= p
    return OPS["where"](kept, input / (1 - p) if p < 1 else input, OPS["zeros_like"](input)), kept


def native_dropout_backward(grad_output, mask, scale):
    return grad_output * mask * scale


def writing(function):
    """A batch norm that takes ``out=``, one tensor for each of its results."""
    @functools.wraps(function)
    def run(*args, out=None, **kwargs):
        return into_out(OPS["native_batch_norm"], (*args, *kwargs.values(), out), (*kwargs, "out"), function)
    return run


@writing
def _native_batch_norm_legit(input, weight, bias, running_mean, running_var=None, training=None, momentum=None,
                             eps=None):
    """A batch norm, its mean and its inverse deviation; without running statistics where none are given."""
    if isinstance(running_mean, bool):
        running_mean, running_var, training, momentum, eps = None, None, running_mean, running_var, training
    return OPS["native_batch_norm"](input, weight, bias, running_mean, running_var, training, momentum, eps)


def _native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var, momentum, eps):
    return OPS["native_batch_norm"](input, weight, bias, running_mean, running_var, False, momentum, eps)


@writing
def _batch_norm_with_update(input, weight, bias, running_mean, running_var, momentum, eps):
    """A batch norm that moves the running statistics, its mean and its inverse deviation, no memory of a library."""
    return (*OPS["native_batch_norm"](input, weight, bias, running_mean, running_var, True, momentum, eps),
            input.new_empty((0,), dtype=uint8))


def _batch_norm_no_update(input, weight, bias, running_mean, running_var, momentum, eps):
    return (*OPS["native_batch_norm"](input, weight, bias, running_mean, running_var, False, momentum, eps),
            input.new_empty((0,), dtype=uint8))


def padded(mode):
    return lambda self, padding: OPS["nn.functional.pad"](self, list(padding), mode)


FUNCTIONS = inner_functions.FUNCTIONS | recurrent_functions.FUNCTIONS | gradient_functions.FUNCTIONS
FUNCTIONS |= {f.__name__: f for f in (
    slice, slice_copy, elu, _to_copy, scalar_tensor, _assert_async, _assert_scalar, _assert_tensor_metadata,
    sym_constrain_range, to,
    item, is_nonzero, native_dropout, native_dropout_backward, _native_batch_norm_legit,
    _native_batch_norm_legit_no_training, _batch_norm_with_update, _batch_norm_no_update)}
FUNCTIONS |= {"sym_size": lambda self, dim=None: self.size() if dim is None else self.size(dim),
              "sym_numel": lambda self: self.numel(), "sym_stride": lambda self, dim=None: self.stride()
              if dim is None else self.stride(dim), "sym_storage_offset": lambda self: self.storage_offset(),
              "sym_is_contiguous": lambda self: self.is_contiguous(),
              "sym_constrain_range_for_size": sym_constrain_range, "lift_fresh_copy": lambda self: self.clone(),
              "nonzero_numpy": lambda self: list(OPS["nonzero"](self if self.dim() else self.reshape(1)).unbind(1)),
              "numpy_T": lambda self: self.T, "mT": lambda self: self.mT,
              "mH": lambda self: self.mH, "matrix_H": lambda self: self.H}
MODES = {"nearest": "nearest", "linear": "linear", "bilinear": "bilinear", "trilinear": "trilinear",
         "bicubic": "bicubic", "nearest_exact": "nearest-exact", "bilinear_aa": "bilinear_aa",
         "bicubic_aa": "bicubic_aa"}
for _name, _dims in (("nearest", (1, 2, 3)), ("linear", (1,)), ("bilinear", (2,)), ("trilinear", (3,)),
                     ("bicubic", (2,))):
    FUNCTIONS |= {f"upsample_{_name}{d}d": upsampled(MODES[_name]) for d in _dims}
FUNCTIONS |= {f"_upsample_nearest_exact{d}d": upsampled("nearest-exact") for d in (1, 2, 3)}
FUNCTIONS |= {f"_upsample_{name}2d_aa": upsampled(f"{name}_aa") for name in ("bilinear", "bicubic")}
FUNCTIONS |= {f"{kind}_pad{d}d": padded(mode) for kind, mode in (("reflection", "reflect"),
                                                                ("replication", "replicate")) for d in (1, 2, 3)}
PRIMS = {"convert_element_type": lambda a, dtype: a.to(dtype)}

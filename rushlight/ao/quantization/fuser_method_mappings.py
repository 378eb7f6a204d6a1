"""Functions that fuse consecutive layers: ``get_fuser_method``."""
from __future__ import annotations

from ..._src.core.later import later
from ...nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from .fuse_modules import fuse_known_modules
from .utils import MatchAllNode, Pattern, get_combined_dict  # noqa: F401 - found here

__all__ = ["fuse_conv_bn", "fuse_conv_bn_relu", "fuse_linear_bn", "fuse_convtranspose_bn", "get_fuser_method",
           "get_fuser_method_new"]
__getattr__ = later(__name__)


def modes(*layers):
    """Raise AssertionError if some layers train and others do not."""
    if len({layer.training for layer in layers}) != 1:
        raise AssertionError("Conv and BN both must be in the same mode (train or eval).")


def fuse_conv_bn(is_qat, conv, bn):
    """A convolution and its batch norm as one layer; with ``is_qat`` one that trains.

    >>> import rushlight as torch
    >>> layers = torch.nn.Conv2d(3, 4, 3).eval(), torch.nn.BatchNorm2d(4).eval()
    >>> type(fuse_conv_bn(False, *layers)).__name__
    'Conv2d'
    """
    modes(conv, bn)
    return fuse_known_modules([conv, bn], True)[0] if is_qat else fuse_conv_bn_eval(conv, bn)


def fuse_conv_bn_relu(is_qat, conv, bn, relu):
    """A convolution, its batch norm and a ReLU as one layer."""
    modes(conv, bn, relu)
    return fuse_known_modules([conv, bn, relu], is_qat)[0]


def fuse_linear_bn(is_qat, linear, bn):
    """A linear layer and its batch norm as one layer."""
    modes(linear, bn)
    return fuse_known_modules([linear, bn], True)[0] if is_qat else fuse_linear_bn_eval(linear, bn)


def fuse_convtranspose_bn(is_qat, convt, bn):
    """A transposed convolution and its batch norm as one layer.  AssertionError for ``is_qat``."""
    modes(convt, bn)
    if is_qat:
        raise AssertionError("Fusing ConvTranspose+BatchNorm not yet supported in QAT.")
    return fuse_conv_bn_eval(convt, bn, transpose=True)


def methods() -> dict:
    """Classes in a row -> the function that makes one layer of them."""
    from ... import nn
    found = {(nn.Linear, nn.BatchNorm1d): fuse_linear_bn}
    for count in (1, 2, 3):
        conv, norm, turned = (getattr(nn, f"{name}{count}d") for name in ("Conv", "BatchNorm", "ConvTranspose"))
        found[conv, norm], found[conv, norm, nn.ReLU] = fuse_conv_bn, fuse_conv_bn_relu
        found[turned, norm] = fuse_convtranspose_bn
    for pair in ((nn.Conv1d, nn.ReLU), (nn.Conv2d, nn.ReLU), (nn.Conv3d, nn.ReLU), (nn.Linear, nn.ReLU),
                 (nn.BatchNorm2d, nn.ReLU), (nn.BatchNorm3d, nn.ReLU)):
        found[pair] = lambda is_qat, first, second: fuse_known_modules([first, second], is_qat)[0]
    return found


def get_fuser_method(op_list, additional_fuser_method_mapping=None):
    """The function of ``is_qat`` and the layers for a tuple of their classes.  AssertionError where there is none."""
    found = get_combined_dict(methods(), additional_fuser_method_mapping or {}).get(tuple(op_list))
    if found is None:
        raise AssertionError(f"did not find fuser method for: {op_list} ")
    return found


def get_fuser_method_new(op_pattern, fuser_method_mapping):
    """The function of a pattern, in which MatchAllNode stands for any layer.  AssertionError where there is none."""
    for found in (op_pattern, *patterns_with_any(op_pattern)):
        if fuser_method_mapping.get(found) is not None:
            return fuser_method_mapping[found]
    raise AssertionError(f"did not find fuser method for: {op_pattern} ")


def patterns_with_any(pattern):
    """The pattern with one part after another as any."""
    if not isinstance(pattern, tuple):
        yield MatchAllNode
        return
    for k, part in enumerate(pattern):
        for other in patterns_with_any(part):
            yield (*pattern[:k], other, *pattern[k + 1:])

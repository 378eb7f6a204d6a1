"""Comparing tensors in tests."""
from .._src.core.advice import deprecated
from .compare import assert_close
from .file_check import FileCheck
from .make import make_tensor

__all__ = ["FileCheck", "assert_allclose", "assert_close", "make_tensor"]


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """``assert_close`` by its older name, which does not compare dtypes."""
    deprecated("torch.testing.assert_allclose()", "torch.testing.assert_close()", FutureWarning)
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, check_device=True,
                 check_stride=False, msg=msg or None)

"""``TestCase``, ``run_tests``, ``parametrize`` and their like: unittest with tensors and parameters."""
from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import itertools
import os
import platform
import random
import socket
import sys
import tempfile
import time
import unittest
import warnings

import numpy as np

from ... import autograd
from ..._src.core import dtypes
from ..._src.core.native import Tensor
from ..._src.determinism import (are_deterministic_algorithms_enabled, is_deterministic_algorithms_warn_only_enabled,
                                 use_deterministic_algorithms)
from ..compare import assert_close

IS_LINUX, IS_WINDOWS, IS_MACOS = (sys.platform == name for name in ("linux", "win32", "darwin"))
IS_X86, IS_ARM64 = platform.machine() in ("x86_64", "i386"), platform.machine() in ("arm64", "aarch64")
IS_CI = bool(os.environ.get("CI"))
IS_FBCODE = IS_SANDCASTLE = IS_JETSON = IS_PPC = IS_S390X = IS_FILESYSTEM_UTF8_ENCODING = False
TEST_CUDA = TEST_MPS = TEST_XPU = TEST_HPU = TEST_MULTIGPU = TEST_CUDNN = TEST_CUDA_GRAPH = NOTEST_CPU = False
TEST_WITH_ROCM = TEST_WITH_ASAN = TEST_WITH_TSAN = TEST_WITH_UBSAN = TEST_WITH_CROSSREF = False
TEST_WITH_DEV_DBG_ASAN = False
TEST_WITH_TORCHDYNAMO = TEST_WITH_TORCHINDUCTOR = TEST_WITH_AOT_EAGER = False
TEST_NUMPY = True
TEST_SCIPY, TEST_DILL, TEST_NUMBA, TEST_OPT_EINSUM, TEST_Z3 = (importlib.util.find_spec(name) is not None
                                                               for name in ("scipy", "dill", "numba", "opt_einsum",
                                                                            "z3"))
TEST_WITH_SLOW = os.environ.get("PYTORCH_TEST_WITH_SLOW", "0") == "1"
SEED = 1234
MI300_ARCH = NAVI_ARCH = ()
numpy_to_torch_dtype_dict = {kind.type: dtype for kind, dtype in dtypes.FROM_NUMPY.items()}
torch_to_numpy_dtype_dict = {dtype: kind for kind, dtype in numpy_to_torch_dtype_dict.items()}


def set_rng_seed(seed=None):
    """Seeds the generators of Python, NumPy and this package."""
    from ... import manual_seed
    seed = SEED if seed is None else seed
    random.seed(seed)
    np.random.seed(seed)
    manual_seed(seed)


class TestCase(unittest.TestCase):
    """A test case whose ``assertEqual`` compares tensors, numbers, arrays and containers of them by closeness.

    >>> TestCase().assertEqual({"a": dtypes.float32}, {"a": dtypes.float32})
    """

    __test__ = False  # of pytest: this class is no test
    longMessage, precision, rel_tol = True, 0, 0

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        cls.__test__ = vars(cls).get("__test__", True)

    def setUp(self):
        set_rng_seed()

    def assertEqual(self, x, y, msg=None, *, atol=None, rtol=None, equal_nan=True, exact_dtype=True, exact_device=False,
                    exact_layout=False, exact_stride=False,
                    exact_is_coalesced=False):
        if any(isinstance(v, str) or v is None or isinstance(v, (type, set, frozenset, dtypes.dtype)) for v in (x, y)):
            return super().assertEqual(x, y, None if callable(msg) else msg)
        x, y = (compared(v, other) for v, other in ((x, y), (y, x)))
        if (atol is None) != (rtol is None):
            atol, rtol = atol or 0.0, rtol or 0.0
        try:
            assert_close(x, y, atol=atol, rtol=rtol, equal_nan=equal_nan, check_dtype=exact_dtype,
                         check_device=exact_device, check_layout=exact_layout, check_stride=exact_stride)
        except TypeError:  # of no kind that is close to anything
            if all(isinstance(v, (list, tuple)) for v in (x, y)) and len(x) == len(y):
                for one, other in zip(x, y):
                    self.assertEqual(one, other, msg, atol=atol, rtol=rtol, equal_nan=equal_nan,
                                     exact_dtype=exact_dtype, exact_device=exact_device, exact_layout=exact_layout,
                                     exact_stride=exact_stride)
            else:
                super().assertEqual(x, y, None if callable(msg) else msg)
        except AssertionError as error:
            text = str(error)
            raise self.failureException(msg(text) if callable(msg) else f"{text}\n{msg}" if msg else text) from None

    def assertNotEqual(self, x, y, msg=None, *, atol=None, rtol=None, **kwargs):
        with self.assertRaises(AssertionError, msg=msg):
            self.assertEqual(x, y, msg, atol=atol, rtol=rtol, **kwargs)

    def assertNotWarn(self, callable, msg=""):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            callable()
        self.assertTrue(not seen, msg)

    @contextlib.contextmanager
    def assertWarnsOnceRegex(self, category, regex=""):
        """One warning of this kind within the block."""
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            yield
        self.assertEqual(len(seen), 1)
        self.assertTrue(issubclass(seen[0].category, category))
        self.assertRegex(str(seen[0].message), regex)

    assertEqualIgnoreType = functools.partialmethod(assertEqual, exact_dtype=False)


def compared(value, other):
    """Convert a value for ``assert_close``: arrays to tensors, numbers next to tensors to tensors of their dtype,
    objects with a length to lists."""
    from ... import as_tensor
    if isinstance(value, (np.ndarray, np.generic)):
        return as_tensor(value)
    if isinstance(value, (bool, int, float, complex)) and isinstance(other, Tensor):
        return as_tensor(value, dtype=other.dtype, device=other.device).expand(other.shape)
    return list(value) if isinstance(value, (range, type({}.keys()), type({}.values()))) else value


def run_tests(argv=None):
    """Runs the tests of the main module, as ``unittest.main`` does."""
    unittest.main(argv=argv)


class subtest:
    """One set of arguments of ``parametrize``, with a name and decorators of its own."""

    def __init__(self, arg_values, name=None, decorators=None):
        self.arg_values, self.name, self.decorators = arg_values, name, decorators or []


def shown(name: str, value, place: int) -> str:
    """The part of a test's name for one argument."""
    if isinstance(value, dtypes.dtype):
        return value.name
    if isinstance(value, type) or callable(value):
        return f"{name}_{getattr(value, '__name__', place)}"
    return f"{name}_{value}".replace(".", "_").replace("-", "_") if isinstance(value, (bool, int, float,
                                                                                       str)) else f"{name}{place}"


class parametrize:
    """One test for each value (each tuple of values, where ``arg_str`` names several);
    ``instantiate_parametrized_tests`` makes them."""

    def __init__(self, arg_str, arg_values, name_fn=None):
        self.names, self.values, self.name_fn = [name.strip() for name in arg_str.split(",")], arg_values, name_fn

    def __call__(self, function):
        function.parametrized = [self, *getattr(function, "parametrized", [])]
        return function

    def cases(self):
        """(name, arguments, decorators) of each test."""
        for place, value in enumerate(self.values):
            given = value if isinstance(value, subtest) else subtest(value)
            values = tuple(given.arg_values) if len(self.names) > 1 else (given.arg_values,)
            name = given.name or (self.name_fn(*values) if self.name_fn
                                  else "_".join(shown(n, v, place) for n, v in zip(self.names, values)))
            yield name, dict(zip(self.names, values, strict=True)), given.decorators


def instantiate_parametrized_tests(generic_cls):
    """The class with one method for each case of its parametrized tests."""
    for name, function in list(vars(generic_cls).items()):
        if not hasattr(function, "parametrized"):
            continue
        delattr(generic_cls, name)
        for cases in itertools.product(*(p.cases() for p in function.parametrized)):
            options = {key: value for _, given, _ in cases for key, value in given.items()}
            made = functools.wraps(function)(functools.partialmethod(function, **options).__get__(None, generic_cls))
            for _, _, decorators in cases:
                for decorator in decorators:
                    made = decorator(made)
            made.__name__ = "_".join([name, *(case for case, _, _ in cases)])
            setattr(generic_cls, made.__name__, made)
    return generic_cls


def skip_where(condition: bool, reason: str):
    """A decorator of tests, used with or without arguments."""
    def decorate(function=None, *, msg=reason, **kwargs):
        if isinstance(function, str) or function is None:
            return decorate
        return unittest.skipIf(condition, msg)(function)
    return decorate


slowTest = skip_where(not TEST_WITH_SLOW, "test is slow; run with PYTORCH_TEST_WITH_SLOW to enable test")
skipIfNoSciPy = skip_where(not TEST_SCIPY, "test requires SciPy, but SciPy not found")
skipIfTorchDynamo = skipIfTorchInductor = skipIfRocm = skipIfMPS = skip_where(False, "")
skipIfXpu = skipIfHpu = skipIfCrossRef = skipIfWindows = skip_where(False, "")
skipCUDAMemoryLeakCheckIf = skipIfSlowGradcheckEnv = skip_where(False, "")


def skip_but_pass_in_sandcastle(reason: str):
    """Skips a test."""
    return unittest.skip(reason)


def skip_but_pass_in_sandcastle_if(condition, reason: str):
    """Skips a test where the condition holds."""
    return unittest.skipIf(bool(condition), reason)


def retry_on_connect_failures(func=None, connect_errors=("Address already in use",)):
    """Decorate a function to be called again, up to ten times, while it raises RuntimeError with one of these
    messages."""
    if func is None:
        return functools.partial(retry_on_connect_failures, connect_errors=connect_errors)

    @functools.wraps(func)
    def call(*args, **kwargs):
        for left in reversed(range(10)):
            try:
                return func(*args, **kwargs)
            except RuntimeError as error:
                if not left or not any(text in str(error) for text in connect_errors):
                    raise
                time.sleep(random.random())
    return call


def unchanged(function=None, *args, **kwargs):
    """A decorator that leaves tests as they are."""
    return function if callable(function) else unchanged


markDynamoStrictTest = unMarkDynamoStrictTest = xfailIfTorchDynamo = serialTest = unchanged


def decorateIf(decorator, predicate_fn):
    """Decorates those cases of a parametrized test whose arguments ``predicate_fn`` accepts."""
    def decorate(function):
        @functools.wraps(function)
        def run(*args, **kwargs):
            return (decorator(function) if predicate_fn(kwargs) else function)(*args, **kwargs)
        return run
    return decorate


def gradcheck(fn, inputs, **kwargs):
    """``autograd.gradcheck``."""
    return autograd.gradcheck(fn, inputs, **kwargs)


def gradgradcheck(fn, inputs, grad_outputs=None, **kwargs):
    """``autograd.gradgradcheck``."""
    return autograd.gradgradcheck(fn, inputs, grad_outputs, **kwargs)


@contextlib.contextmanager
def freeze_rng_state():
    """A block after which the generator is where it was."""
    from ... import get_rng_state, set_rng_state
    before = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(before)


@contextlib.contextmanager
def set_default_dtype(dtype):
    """A block with another default dtype."""
    from ... import get_default_dtype, set_default_dtype as choose
    before = get_default_dtype()
    choose(dtype)
    try:
        yield
    finally:
        choose(before)


@contextlib.contextmanager
def set_cwd(path: str):
    """A block in another working directory."""
    with contextlib.chdir(path):
        yield


@contextlib.contextmanager
def TemporaryFileName(*args, **kwargs):
    """The name of a file that is gone after the block."""
    with TemporaryDirectoryName() as folder:
        yield os.path.join(folder, "file" + kwargs.get("suffix", ""))


@contextlib.contextmanager
def TemporaryDirectoryName(suffix=None):
    """A block with a temporary directory, by name."""
    with tempfile.TemporaryDirectory(suffix=suffix) as folder:
        yield folder


class DeterministicGuard:
    """A block with other demands on determinism."""

    def __init__(self, deterministic, *, warn_only=False, fill_uninitialized_memory=True):
        self.wanted = deterministic, warn_only

    def __enter__(self):
        self.before = are_deterministic_algorithms_enabled(), is_deterministic_algorithms_warn_only_enabled()
        use_deterministic_algorithms(self.wanted[0], warn_only=self.wanted[1])

    def __exit__(self, *exception):
        use_deterministic_algorithms(self.before[0], warn_only=self.before[1])


def find_free_port() -> int:
    """Return an unused port."""
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


def noncontiguous_like(t):
    """The same values with strides that leave gaps."""
    from ... import stack
    return stack([t, t], -1)[..., 0] if t.dim() else t


def is_iterable_of_tensors(iterable) -> bool:
    return not isinstance(iterable, Tensor) and hasattr(iterable, "__iter__") and all(isinstance(v, Tensor)
                                                                                      for v in iterable)


def get_function_arglist(function) -> list:
    return inspect.getfullargspec(function).args

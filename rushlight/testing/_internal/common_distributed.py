"""Test cases of programs for several processes, and when their tests are skipped."""
from __future__ import annotations

import contextlib
import datetime
import functools
import io
import os
import sys
import unittest

from ... import cuda, nn
from ... import distributed as dist
from ...distributed.threads import spawn_threads_and_init_comms  # noqa: F401
from .common_utils import (TestCase, find_free_port, retry_on_connect_failures,  # noqa: F401
                           skip_but_pass_in_sandcastle, skip_but_pass_in_sandcastle_if)
from .process_cases import DistributedTestBase, MultiProcContinuousTest, MultiProcessTestCase  # noqa: F401
from .ranked_cases import (DEFAULT_WORLD_SIZE, TIMEOUT_DEFAULT, TIMEOUT_OVERRIDE, MultiThreadedTestCase,  # noqa: F401
                           get_timeout, run_subtests)

ACCELERATOR_DIST_BACKENDS, DDP_RANK_DEVICES = ["nccl", "xccl", "hccl"], ["cuda", "xpu"]


def skipping(reason: str, condition):
    """A decorator of tests that are skipped where ``condition(test, ...)`` holds when they run."""
    def decorate(function):
        @functools.wraps(function)
        def run(*args, **kwargs):
            if condition(*args, **kwargs):
                raise unittest.SkipTest(reason)
            return function(*args, **kwargs)
        return run
    return decorate


def world_size() -> int:
    return int(os.environ["WORLD_SIZE"])


def at_least_x_gpu(x: int) -> bool:
    return cuda.device_count() >= x


def skip_if_lt_x_gpu(x: int, *, allow_cpu: bool = False):
    """Skips a test where there are fewer than ``x`` GPUs (with ``allow_cpu``: but some)."""
    return skipping(f"Need at least {x} CUDA devices",
                    lambda *_, **__: not at_least_x_gpu(x) and not (allow_cpu and not cuda.is_available()))


def nccl_skip_if_lt_x_gpu(backend: str, x: int):
    return skipping(f"Need at least {x} CUDA devices", lambda *_, **__: backend == "nccl" and not at_least_x_gpu(x))


def require_n_gpus_for_nccl_backend(n: int, backend: str):
    return nccl_skip_if_lt_x_gpu(backend, n)


def skip_if_no_gpu(func):
    """Skips a test where not every rank has a GPU."""
    return skipping("CUDA is not available.", lambda *_, **__: not at_least_x_gpu(max(1, world_size())))(func)


def skip_if_small_worldsize(func):
    return skipping("Skipped due to small world size.",
                    lambda *_, **__: os.environ["BACKEND"] != "mpi" and world_size() <= 2)(func)


def skip_if_odd_worldsize(func):
    return skipping("Skipped due to odd world size.",
                    lambda *_, **__: os.environ["BACKEND"] != "mpi" and world_size() % 2 == 1)(func)


def requires_world_size(n: int):
    """A test that wants at least ``n`` ranks."""
    def decorate(function):
        found = skipping(f"Test requires world size of at least {n}", lambda self, *_, **__: self.world_size
                         < n)(function)
        found._required_world_size = n
        return found
    return decorate


def get_required_world_size(obj, default: int) -> int:
    """What ``requires_world_size`` says of an object's test."""
    return getattr(getattr(type(obj), obj._testMethodName, None), "_required_world_size", default)


def requires_backend(name: str, there):
    return skip_but_pass_in_sandcastle_if(not there(), f"c10d was not compiled with the {name} backend")


def requires_gloo():
    return requires_backend("Gloo", dist.is_gloo_available)


def requires_nccl():
    return requires_backend("NCCL", dist.is_nccl_available)


def requires_ucc():
    return requires_backend("UCC", dist.is_ucc_available)


def requires_mpi():
    return requires_backend("MPI", dist.is_mpi_available)


def requires_nccl_version(version, msg: str):
    """Skips where there is no NCCL."""
    return skip_but_pass_in_sandcastle_if(not dist.is_nccl_available(), f"Requires NCCL version {version}: {msg}")


def requires_accelerator_dist_backend(backends=None):
    """Skips where none of the backends of accelerators is there."""
    there = {"nccl": dist.is_nccl_available, "xccl": dist.is_xccl_available}
    names = ACCELERATOR_DIST_BACKENDS if backends is None else backends
    return skip_but_pass_in_sandcastle_if(not any(there.get(name, bool)() for name in names),
                                          f"c10d was not compiled with any of {names}")


def requires_ddp_rank(device: str) -> bool:
    """Whether DistributedDataParallel is given the numbers of such devices."""
    return device in DDP_RANK_DEVICES


def skip_if_win32():
    return skip_but_pass_in_sandcastle_if(sys.platform == "win32", "This unit test case is not supported on Windows")


def skip_if_rocm_multiprocess(func):
    """The test as it is: there is no ROCm."""
    return func


def with_dist_debug_levels(levels):
    """Runs a test once with each value of TORCH_DISTRIBUTED_DEBUG; of each but the last the group is ended after it."""
    def decorate(function):
        @functools.wraps(function)
        def run(*args, **kwargs):
            before = os.environ.get("TORCH_DISTRIBUTED_DEBUG")
            try:
                for level in levels:
                    os.environ["TORCH_DISTRIBUTED_DEBUG"] = level
                    dist.set_debug_level_from_env()
                    found = function(*args, **kwargs)
                    dist.barrier()
                return found
            finally:
                os.environ.pop("TORCH_DISTRIBUTED_DEBUG", None)
                if before is not None:
                    os.environ["TORCH_DISTRIBUTED_DEBUG"] = before
        return run
    return decorate


@contextlib.contextmanager
def captured_output():
    """Capture the (standard output, standard error) of a block: two ``io.StringIO``.

    >>> with captured_output() as (out, err):
    ...     print("hello")
    >>> out.getvalue()
    'hello\\n'
    """
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        yield out, err


def create_tcp_store(addr="localhost", world_size=1, is_master=True, timeout=datetime.timedelta(minutes=5),
                     wait_for_workers=True, jit_class=False, use_libuv=True):
    """A ``TCPStore`` at a free port.  NotImplementedError for ``jit_class``."""
    if jit_class:
        raise NotImplementedError("create_tcp_store: there are no classes of TorchScript")
    return dist.TCPStore(addr, find_free_port(), world_size, is_master, timeout, wait_for_workers)


def init_multigpu_helper(world_size: int, backend: str) -> dict:
    """Rank -> the numbers of its GPUs, as many for each rank."""
    count = cuda.device_count()
    each = max(1, count // world_size)
    return {rank: list(range(count))[rank * each:(rank + 1) * each] for rank in range(world_size)}


class SaveForwardInputsModule(nn.Module):
    """A linear layer that notes what ``forward`` was given in a dictionary, by module; ``cast_forward_inputs``: the
    input is taken to the dtype of the weight."""

    def __init__(self, forward_inputs: dict, cast_forward_inputs: bool):
        super().__init__()
        self.l = nn.Linear(100, 100)  # noqa: E741 - the name of its parameters
        self.forward_inputs, self.cast_forward_inputs = forward_inputs, cast_forward_inputs

    def forward(self, x):
        self.forward_inputs[self] = x
        return self.l(x.to(self.l.weight.dtype) if self.cast_forward_inputs else x)


class SaveForwardInputsModel(nn.Module):
    """Two of ``SaveForwardInputsModule``; the second gets the result of the first."""

    def __init__(self, forward_inputs: dict, cast_forward_inputs: bool):
        super().__init__()
        self.c1 = SaveForwardInputsModule(forward_inputs, cast_forward_inputs)
        self.c2 = SaveForwardInputsModule(forward_inputs, cast_forward_inputs)
        self.forward_inputs = forward_inputs

    def forward(self, x):
        self.forward_inputs[self] = x
        return self.c2(self.c1(x))

"""Test cases whose tests run in every rank of a group: what processes and threads have in common, and threads."""
from __future__ import annotations

import datetime
import functools
import itertools
import types
import unittest

from ...distributed import threads
from .common_utils import TestCase

TIMEOUT_DEFAULT = 300
TIMEOUT_OVERRIDE = {"test_ddp_uneven_inputs": 400, "test_DistributedDataParallel": 500}  # seconds, by name of a test
DEFAULT_WORLD_SIZE = 4
MAIN_RANK = -1


def get_timeout(test_id: str) -> int:
    """Seconds that a test may take."""
    return TIMEOUT_OVERRIDE.get(test_id.split(".")[-1], TIMEOUT_DEFAULT)


class RankedTestCase(TestCase):
    """A test case that is made once in each rank, and once (with the rank -1) by who runs the tests: there the test
    method is to wait for the ranks (``wait_for_ranks``)."""

    def __init__(self, method_name: str = "runTest", methodName: str = "runTest"):
        name = method_name if methodName == "runTest" else methodName
        super().__init__(name)
        self.rank = MAIN_RANK
        function = getattr(self, name, None)
        if function is not None:
            setattr(self, name, self.join_or_run(function))

    def join_or_run(self, fn):
        """The test in a rank; elsewhere what waits for the ranks."""
        @functools.wraps(fn)
        def everywhere(self, *args, **kwargs):
            return self.wait_for_ranks(fn) if self.rank == MAIN_RANK else fn(*args, **kwargs)
        return types.MethodType(everywhere, self)

    def wait_for_ranks(self, fn):
        raise NotImplementedError

    def _named(self) -> str:
        return self.id().split(".")[-1]

    @property
    def is_master(self) -> bool:
        return self.rank == 0


def run_subtests(cls_inst, subtest_config: dict, test_fn, *test_args, **test_kwargs):
    """Calls a function with each combination of the values that ``subtest_config`` has for its arguments, each as a
    subtest of its own.

    >>> run_subtests(unittest.TestCase(), {"end": ["a", "b"], "sep": ["-"]}, print, 1, 2)
    1-2a1-2b
    """
    for values in itertools.product(*subtest_config.values()):
        given = dict(zip(subtest_config, values))
        with cls_inst.subTest(**given):
            test_fn(*test_args, **test_kwargs, **given)


class MultiThreadedTestCase(RankedTestCase):
    """A test case whose tests run in each of ``world_size`` threads, which form a group (``distributed.threads``).

    ``setUp`` has to call ``_spawn_threads``; ``perThreadSetUp`` and ``perThreadTearDown`` run in each thread, ``setUp``
    and ``tearDown`` do not.
    """

    MAIN_THREAD_RANK = MAIN_RANK
    spawned = False

    @property
    def world_size(self) -> int:
        raise RuntimeError("world size not implemented")

    @property
    def _current_test_name(self) -> str:
        return self._named()

    def perThreadSetUp(self):
        """Runs in each thread before the test."""

    def perThreadTearDown(self):
        """Runs in each thread after the test."""

    def _spawn_threads(self):
        self.spawned = True

    def wait_for_ranks(self, fn):
        if not self.spawned:
            raise RuntimeError(f"{self.id()}: setUp has to call _spawn_threads()")
        patience = datetime.timedelta(seconds=get_timeout(self.id()))
        threads.run(self.world_size, functools.partial(self._run, self._named(), world_size=self.world_size),
                    timeout=patience)

    @classmethod
    def _run(cls, test_name: str, rank: int, world_size: int, **kwargs):
        self = cls(test_name)
        self.rank = rank
        self.perThreadSetUp()
        try:
            getattr(self, test_name)()
        finally:
            self.perThreadTearDown()

    def assertEqualOnRank(self, x, y, msg=None, *, rank=0):
        """``assertEqual`` in one rank."""
        if self.rank == rank:
            self.assertEqual(x, y, msg)

    def assertNotEqualOnRank(self, x, y, msg=None, *, rank=0):
        """``assertNotEqual`` in one rank."""
        if self.rank == rank:
            self.assertNotEqual(x, y, msg)

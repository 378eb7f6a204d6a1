"""Test cases whose tests run in every process of a group."""
from __future__ import annotations

import contextlib
import datetime
import faulthandler
import inspect
import os
import sys
import tempfile
import time
import traceback
import unittest
from multiprocessing import connection

from ... import distributed as dist
from ... import multiprocessing
from .common_utils import set_rng_seed
from .ranked_cases import DEFAULT_WORLD_SIZE, MAIN_RANK, RankedTestCase, get_timeout

GRACE = 10  # seconds beyond its limit after which a process that has not ended itself is killed
SPAWNED = multiprocessing.get_context("spawn")


def outcome(run) -> tuple:
    """Return the outcome of a test in this process: ("passed", ""), ("skipped", reason) or ("failed", the traceback).
    """
    try:
        run()
    except unittest.SkipTest as reason:
        return "skipped", str(reason)
    except Exception:  # noqa: BLE001 - who runs the tests raises it
        return "failed", traceback.format_exc()
    return "passed", ""


def leave_group():
    """Ends the group that a test has left."""
    if dist.is_initialized():
        dist.destroy_process_group()


class MultiProcessTestCase(RankedTestCase):
    """A test case whose tests run in each of ``world_size`` new processes.

    ``setUp`` has to call ``_spawn_processes``.  In a process ``rank`` is its number, and ``file_name`` a file that all
    know, by which they may form a group (``init_method=f"file://{self.file_name}"``).  A test may ask for another exit
    code of the first process by ``special_return_code_checks[test] = code``, or have none looked at by
    ``skip_return_code_checks.append(test)``.
    """

    MAIN_PROCESS_RANK, TEST_ERROR_EXIT_CODE = MAIN_RANK, 10

    @property
    def destroy_pg_upon_exit(self) -> bool:
        return True

    @property
    def world_size(self) -> int:
        return DEFAULT_WORLD_SIZE

    def setUp(self):
        super().setUp()
        self.special_return_code_checks, self.skip_return_code_checks = {}, []
        self.processes, self.pid_to_pipe = [], {}
        descriptor, self.file_name = tempfile.mkstemp(prefix="test-group-")
        os.close(descriptor)

    def tearDown(self):
        super().tearDown()
        for process in self.processes:
            if process.exitcode is None:
                process.kill()
                process.join()
            process.close()
        self.processes = []
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.file_name)

    def _current_test_name(self) -> str:
        return self._named()

    def _spawn_processes(self):
        self._start_processes(SPAWNED.Process)

    def _start_processes(self, proc):
        self.processes = []
        for rank in range(int(self.world_size)):
            ours, its = multiprocessing.Pipe()
            process = proc(target=type(self)._run, name=f"process {rank}",
                           args=(rank, self._current_test_name(), self.file_name, its))
            process.start()
            its.close()
            self.pid_to_pipe[process.pid] = ours
            self.processes.append(process)

    # --- in a process of the group ------------------------------------------------------------------------------------
    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, parent_pipe, **kwargs):
        self = cls(test_name)
        self.rank, self.file_name = rank, file_name
        self.run_test(test_name, parent_pipe)

    def run_test(self, test_name: str, parent_pipe):
        """Run the test, and report its outcome to the parent.  A test that exceeds its time ends with the stacks of
        its threads on standard error."""
        faulthandler.dump_traceback_later(get_timeout(self.id()), exit=True)
        set_rng_seed()
        found = outcome(getattr(self, test_name))
        faulthandler.cancel_dump_traceback_later()
        parent_pipe.send(found)
        parent_pipe.close()
        if found[0] == "failed":
            sys.stdout.flush()
            os._exit(self.TEST_ERROR_EXIT_CODE)  # others of the group may wait: nothing here is to wait for them
        if self.destroy_pg_upon_exit:
            leave_group()

    # --- where tests are run ------------------------------------------------------------------------------------------
    def wait_for_ranks(self, fn):
        self._join_processes(fn)

    def _join_processes(self, fn):
        limit = time.monotonic() + get_timeout(self.id()) + GRACE
        try:
            running = list(self.processes)
            while running and time.monotonic() < limit:
                connection.wait([p.sentinel for p in running], 1.0)
                running = [p for p in running if p.exitcode is None]
                if any(p.exitcode == self.TEST_ERROR_EXIT_CODE for p in self.processes):
                    break
            found = [self.outcome_of(process) for process in self.processes]
            for process in running:
                process.kill()
                process.join()
            self._check_return_codes(fn, found, [p in running for p in self.processes])
        finally:
            for pipe in self.pid_to_pipe.values():
                pipe.close()

    def outcome_of(self, process) -> tuple:
        """Return the outcome that a process reported; ("unknown", "") if it ended, or runs on, without a report."""
        pipe = self.pid_to_pipe[process.pid]
        try:
            return pipe.recv() if pipe.poll() else ("unknown", "")
        except (EOFError, OSError):
            return "unknown", ""

    def _check_return_codes(self, fn, found: list, stopped: list):
        """Raises what went wrong in a process: its error, else that it did not end, else its exit code."""
        errors = [f"Process {rank} exited with error code {self.TEST_ERROR_EXIT_CODE} and exception:\n{text}"
                  for rank, (what, text) in enumerate(found) if what == "failed"]
        if errors:
            raise RuntimeError("\n".join(errors))
        late = [rank for rank, was in enumerate(stopped) if was]
        if late:
            raise RuntimeError(f"Process {late[0]} terminated or timed out after {get_timeout(self.id())} seconds")
        for what, reason in found:
            if what == "skipped":
                raise unittest.SkipTest(reason)
        if fn in self.skip_return_code_checks or not self.processes:
            return
        expected = self.special_return_code_checks.get(fn, 0)
        for process in self.processes if expected == 0 else self.processes[:1]:
            self.assertEqual(process.exitcode, expected,
                             f"Expected exit code {expected} but got {process.exitcode} for pid: {process.pid}")


class DistributedTestBase(MultiProcessTestCase):
    """A ``MultiProcessTestCase`` that starts its processes; ``create_pg(device)`` forms the group."""

    def setUp(self):
        super().setUp()
        os.environ["WORLD_SIZE"] = str(self.world_size)
        self._spawn_processes()

    def backend(self, device) -> str:
        return dist.get_default_backend_for_device(device)

    def create_pg(self, device, world_size=None):
        """The group of all processes, by the backend for tensors of a device."""
        size = self.world_size if world_size is None else world_size
        dist.init_process_group(self.backend(device), world_size=size, rank=self.rank,
                                store=dist.FileStore(self.file_name, size))
        return dist.group.WORLD


class MultiProcContinuousTest(RankedTestCase):
    """A test case whose processes live for all tests of the class, and are one group from the first to the last; after
    a test that failed the others of the class are skipped.

    ``world_size`` is an attribute or property of the class; ``backend_str``, ``opts`` and ``timeout`` say how the group
    is made.
    """

    MAIN_PROCESS_RANK, world_size, rank, rdvz_file = MAIN_RANK, -2, -2, None
    timeout, poison_pill, workers = datetime.timedelta(seconds=120), False, None

    @classmethod
    def backend_str(cls):
        return None

    @classmethod
    def device_type(cls) -> str:
        return "cpu"

    @classmethod
    def opts(cls, high_priority_stream=False):
        return None

    @classmethod
    def _init_pg(cls, rank: int, world_size: int, rdvz_file: str):
        os.environ["LOCAL_RANK"] = str(rank)
        dist.init_process_group(cls.backend_str(), world_size=world_size, rank=rank,
                                store=dist.FileStore(rdvz_file, world_size), pg_options=cls.opts(),
                                timeout=cls.timeout)
        cls.pg = dist.group.WORLD

    # --- in a process of the group ------------------------------------------------------------------------------------
    @classmethod
    def _run_test_given_id(cls, test_id: str, **kwargs):
        name = test_id.rsplit(".", 1)[-1]
        self = cls(name)
        self.rank = cls.rank
        set_rng_seed()
        getattr(self, name)(**kwargs)

    @classmethod
    def _worker_loop(cls, rank: int, world_size: int, rdvz_file: str, pipe):
        """Runs tests by the names that come, until None does."""
        cls.rank, failed = rank, False
        if not isinstance(inspect.getattr_static(cls, "world_size", None), property):
            cls.world_size = world_size
        begun = outcome(lambda: cls._init_pg(rank, world_size, rdvz_file))
        while (test_id := pipe.recv()) is not None:
            found = outcome(lambda: cls._run_test_given_id(test_id)) if begun[0] == "passed" else begun
            failed = failed or found[0] == "failed"
            pipe.send(found)
        if failed:
            os._exit(1)  # others of the group may wait
        leave_group()

    # --- where tests are run ------------------------------------------------------------------------------------------
    @classmethod
    def size_of_world(cls) -> int:
        found = inspect.getattr_static(cls, "world_size")
        found = found.fget(object.__new__(cls)) if isinstance(found, property) else cls.world_size
        return found if found > 0 else os.cpu_count() or 1

    @classmethod
    def _spawn_processes(cls, world_size: int):
        descriptor, cls.rdvz_file = tempfile.mkstemp(prefix="test-group-")
        os.close(descriptor)
        cls.workers = []
        for rank in range(world_size):
            ours, its = multiprocessing.Pipe()
            process = SPAWNED.Process(target=cls._worker_loop, args=(rank, world_size, cls.rdvz_file, its), daemon=True,
                                      name=f"process {rank}")
            process.start()
            its.close()
            cls.workers.append((process, ours))

    def setUp(self):
        super().setUp()
        cls = type(self)
        if cls.workers is None:
            cls._spawn_processes(cls.size_of_world())
        if cls.poison_pill:
            raise unittest.SkipTest(f"Previous test failed, skipping {self.id()}")

    def wait_for_ranks(self, fn):
        for _, pipe in self.workers:
            with contextlib.suppress(OSError):  # of a process that has ended, which is reported below
                pipe.send(self.id())
        limit, found = time.monotonic() + get_timeout(self.id()), []
        for rank, (process, pipe) in enumerate(self.workers):
            try:
                there = pipe.poll(max(0.0, limit - time.monotonic()))
                found.append(pipe.recv() if there else ("failed", f"it took over {get_timeout(self.id())} seconds"))
            except (EOFError, OSError):
                process.join(GRACE)
                found.append(("failed", f"Exited with {process.exitcode}"))
            if found[-1][0] == "failed":
                limit = min(limit, time.monotonic() + GRACE)  # the others wait for one that has failed
        errors = [f"Exception in worker process {rank}:\n{text}" for rank, (what, text) in enumerate(found)
                  if what == "failed"]
        if errors:
            type(self).poison_pill = True
            raise RuntimeError("\n".join(errors))
        for what, reason in found:
            if what == "skipped":
                raise unittest.SkipTest(reason)

    @classmethod
    def tearDownClass(cls):
        for process, pipe in cls.workers or ():
            with contextlib.suppress(OSError):
                pipe.send(None)
        for process, pipe in cls.workers or ():
            process.join(GRACE)
            if process.exitcode is None:
                process.kill()
                process.join()
            pipe.close()
        cls.workers = None
        if cls.rdvz_file:
            with contextlib.suppress(FileNotFoundError):
                os.remove(cls.rdvz_file)
        super().tearDownClass()

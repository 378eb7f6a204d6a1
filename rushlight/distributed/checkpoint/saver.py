"""Processes that write checkpoints: one for each training process, while that continues."""
from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
import threading
import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import wait

from ..._src.core.settings import settings
from .. import membership
from ..sockets import own_address
from ..stores import PrefixStore
from ..tcp_store import TCPStore
from ..worlds import here
from .api import CheckpointException
from .coordination import Together
from .packing import packed, unpacked
from .staging import BlockingAsyncStager, ready


class Saver:
    """A process that writes checkpoints for this one, one after the other.  ``place``: the arguments of ``meet`` (None:
    it is alone); ``store``: the store of these processes, if this process keeps it; ``sound``: True if the process is
    alive and communicates with the others."""

    def __init__(self, place, store=None):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, place), name="checkpoints", daemon=True)
        self.process.start()
        theirs.close()
        self.store, self.sound, self.thread = store, True, ThreadPoolExecutor(1, "checkpoints")
        self.lock = threading.Lock()  # two threads may not ask for the end of one process

    def alive(self) -> bool:
        with self.lock:
            return self.sound and self.process.is_alive()

    def ended(self) -> int:
        """The exit code of the process, once it has ended."""
        wait([self.process.sentinel])
        with self.lock:
            self.process.join()
            return self.process.exitcode

    def stage_and_save(self, stager, values, writer, planner) -> tuple:
        """(The staged state, or a Future of it; a Future of the Metadata).  Where a stager just copies, the copy that
        the other process sees is the only one."""
        if isinstance(stager, BlockingAsyncStager) and stager.copies_alone():
            with self.or_alone():
                message = packed((values, writer, planner))
            return None, self.thread.submit(self.exchange, lambda: message)
        with self.or_alone():
            staged = stager.stage(values)
        return staged, self.thread.submit(self.exchange, lambda: packed((ready(staged), writer, planner)))

    @contextlib.contextmanager
    def or_alone(self):
        """A block that sends the process data that others wait for: if that fails, it ends, which the others see."""
        try:
            yield
        except BaseException:
            self.sound = False
            self.thread.submit(self.pipe.close)
            raise

    def exchange(self, make):
        """Send the message ``make()`` to the other process; return its answer."""
        try:
            message = make()
        except BaseException:
            self.sound = False
            self.pipe.close()
            raise
        with contextlib.suppress(OSError):  # the process has ended; it may have reported the reason
            self.pipe.send(message)
        try:
            answer = self.pipe.recv()
        except (EOFError, OSError) as error:
            self.sound = False
            self.pipe.close()
            raise RuntimeError(f"the process that writes checkpoints has ended ({told(self.ended())}): this checkpoint "
                               "is not written, and the next async_save() starts another") from error
        if isinstance(answer, BaseException):
            self.sound = self.sound and isinstance(answer, CheckpointException)
            raise answer
        return answer

    def end(self):
        """End the process, once it has written all that it was given."""
        self.thread.submit(self.close)
        self.thread.shutdown(wait=False)

    def close(self):
        self.pipe.close()
        self.ended()
        if self.store is not None:
            self.store.close()


def told(code: int) -> str:
    """Describe how a process ended, by its exit code.

    >>> told(1), told(-9)
    ('exit code 1', 'SIGKILL')
    """
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def saver_of(group, no_dist: bool) -> Saver:
    """Return the process that writes for this one in a group, and start it if needed; if one has ended, those of all
    processes of the group are restarted.  All processes of the group call it."""
    savers, key = here().savers, None if no_dist else tuple(membership.get_process_group_ranks(group))
    found = savers.get(key)
    together = Together(group, not no_dist, key[0] if key else 0)
    if all(together.all_gather("saver", lambda: found is not None and found.alive())):
        return found
    if found is not None:
        found.end()
    store, place = None, None
    if not no_dist:
        if together.is_coordinator:
            store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        address = together.broadcast("address", lambda: (own_address(store), store.port))
        place = (*address, together.rank, together.size, membership.chosen(group).timeout)
    savers[key] = made = Saver(place, store)
    return made


# --- in the other process ---------------------------------------------------------------------------------------------
def serve(pipe, place):
    """Write the states that come through a pipe, until it ends, or the others cannot be reached."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # checkpoints in progress are completed
    parent = multiprocessing.parent_process()
    with pipe:
        try:
            if place is not None:
                meet(*place)
            while True:
                wait([pipe, parent.sentinel])
                try:
                    message = pipe.recv() if pipe.poll() else None
                except EOFError:
                    message = None
                if message is None:
                    break  # nothing more is wanted
                pipe.send(answer(message))
        except Exception as error:
            with contextlib.suppress(OSError):
                pipe.send(RuntimeError("".join(traceback.format_exception(error))))
    if place is not None:
        membership.destroy_process_group()


def meet(host, port, rank, size, timeout):
    """Joins the other processes that write."""
    settings.flight_buffer = 0  # the recorder's files are those of the processes that train
    store = TCPStore(host, port, timeout=timeout, wait_for_workers=False)
    membership.init_process_group("gloo", store=PrefixStore("checkpoints", store), rank=rank, world_size=size,
                                  timeout=timeout)


def answer(message):
    """Return the Metadata of the written checkpoint, or the error of some process that failed."""
    from .state_dict_saver import written  # which starts this process
    try:
        state, writer, planner = unpacked(*message)
        return written(state, writer, None, 0, not membership.is_initialized(), planner)
    except CheckpointException as error:
        try:
            pickle.loads(pickle.dumps(error))
            return error
        except Exception:
            return CheckpointException(str(error), {})

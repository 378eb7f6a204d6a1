"""The watchdog of an NCCL communicator: a thread that notices errors and timeouts of collectives."""
from __future__ import annotations

import contextlib
import ctypes
import threading
import time

from ..stores import DistBackendError, DistError
from ..watchdog import innermost
from .library import IN_PROGRESS, SUCCESS

PERIOD = 0.1  # seconds between looks while something is under way
IDLE = 1.0  # seconds between looks at the store
GRACE = 5.0  # seconds in which the others say how far they are
ASKED, FAILED = "asked", "failed"  # keys: a rank requests the progress of all; the error of a rank


class Watchdog:
    """Monitors one engine until ``end``.

    A rank whose collective exceeds the timeout requests the progress of the others through the store, and names those
    that are behind or do not answer; all then end their communicators, so that none waits for ever.
    """

    def __init__(self, engine):
        self.engine, self.store = engine, engine.store.clone()
        self.changed, self.over, self.answered, self.looked = threading.Event(), False, False, time.monotonic()
        self.thread = threading.Thread(target=self.watch, name=f"nccl {engine.name}", daemon=True)
        self.thread.start()

    def note(self, flight):
        """Add a running collective."""
        with self.engine.order:
            broken = self.engine.broken
            if broken is None:
                self.engine.flying.append(flight)
        if broken is not None:  # meanwhile
            flight.failed(broken)
        self.changed.set()

    def collect(self):
        """Release finished collectives."""
        engine = self.engine
        with engine.order, engine.provider.watching(engine.index) as may:
            while may and engine.flying and engine.flying[0].passed():
                engine.flying.popleft().ended()
                engine.finished += 1

    def end(self):
        self.over = True
        self.changed.set()
        if self.thread is not threading.current_thread():
            self.thread.join()
            mine, given = innermost(self.store), innermost(self.engine.store)
            if mine is not given:
                mine.close()

    def watch(self):
        with self.engine.provider.at(self.engine.index):
            while not self.over and self.engine.broken is None:
                self.changed.wait(PERIOD if self.engine.flying else IDLE)
                self.changed.clear()
                try:
                    reason = self.look()
                except Exception as error:  # noqa: BLE001 - whatever it is: a dead watchdog would say nothing
                    reason = f"the watchdog of {self.group()} has failed: {type(error).__name__}: {error}"
                    self.engine.despite(self.tell, reason)
                if reason and not self.over:
                    self.engine.failed(DistBackendError(reason))

    def look(self) -> str:
        """Return the reason of a failure; "" if there is none."""
        self.collect()
        reason = self.library_error()
        flying = self.engine.flying
        flight = next(iter(tuple(flying)), None)
        if not reason and flight is not None:
            if time.monotonic() - flight.begun > self.engine.timeout:
                reason = self.blame(flight)
        if reason:
            self.tell(reason)
            return reason
        if time.monotonic() - self.looked < (PERIOD if flying else IDLE):
            return ""
        self.looked = time.monotonic()
        with contextlib.suppress(DistError, OSError):  # the store's owner may have ended, and needs no answer
            return self.heard()
        return ""

    def library_error(self) -> str:
        """An error that the library has noticed."""
        engine, out = self.engine, ctypes.c_int()
        comm = engine.comm
        if comm is None:
            return ""
        engine.library.call("ncclCommGetAsyncError", comm, ctypes.byref(out))
        if out.value in (SUCCESS, IN_PROGRESS):
            return ""
        return f"{engine.called([engine.rank])}: NCCL error in {self.group()}: {engine.library.words(out.value)}"

    def group(self) -> str:
        return f"group {self.engine.name!r} on {self.engine.where}"

    # --- the others -----------------------------------------------------------------------------------------------
    def tell(self, reason: str):
        with contextlib.suppress(DistError, OSError):  # the store's owner may have ended: others see that too
            self.store.set(FAILED, reason)

    def heard(self) -> str:
        """Return a failure that another rank reported; answer a request for this rank's progress."""
        if not self.answered and self.store.check([ASKED]):
            self.answered = True
            self.store.set(self.place(self.engine.rank), str(self.engine.issued))
        return self.store.get(FAILED).decode() if self.store.check([FAILED]) else ""

    @staticmethod
    def place(rank: int) -> str:
        return f"at {rank}"

    def blame(self, flight) -> str:
        """Describe a collective that timed out, and the ranks that keep it waiting."""
        engine = self.engine
        text = (f"collective {flight.number} ({flight.about}) of {self.group()} has not ended within "
                f"{engine.timeout:g} s")
        try:
            told, silent = self.ask()
        except (DistError, OSError) as error:
            return f"{text}, and the store does not answer: {error}"
        behind = [rank for rank, number in told.items() if number < flight.number]
        if behind:
            text += f": {engine.called(behind)} did not come to it (come to {', '.join(str(told[r]) for r in behind)})"
        if silent:
            text += f"{';' if behind else ':'} {engine.called(silent)} did not answer"
        return text if behind or silent else f"{text}: all ranks have come to it"

    def ask(self) -> tuple:
        """Return ({rank: the number of its last collective}, ranks that do not answer)."""
        engine, end = self.engine, time.monotonic() + GRACE
        self.store.set(ASKED, "yes")
        told, silent = {engine.rank: engine.issued}, [rank for rank in range(engine.size) if rank != engine.rank]
        while silent and time.monotonic() < end:
            for rank in list(silent):
                if self.store.check([self.place(rank)]):
                    told[rank] = int(self.store.get(self.place(rank)))
                    silent.remove(rank)
            time.sleep(PERIOD / 5)
        self.answered = True
        self.store.set(self.place(engine.rank), str(engine.issued))
        return told, silent

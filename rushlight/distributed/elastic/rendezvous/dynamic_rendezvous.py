"""Rendezvous of as many hosts as there are: hosts that come later, or leave, lead to the next round.

The state of a run is one string in a backend.  Each host changes it by compare-and-set with the state that it has read,
and reads again if another host was first.  A round is complete once the maximum number of hosts has come, or at least
the minimum and no further one within ``last_call``; hosts then keep their ranks until one of them requests the next
round.
"""
from __future__ import annotations

import abc
import contextlib
import dataclasses
import datetime
import json
import threading
import time
import uuid

from ...stores import DistError, PrefixStore, Store
from ..events import NodeState, construct_and_record_rdzv_event
from .api import (RendezvousClosedError, RendezvousConnectionError, RendezvousHandler, RendezvousInfo,
                  RendezvousParameters, RendezvousStateError, RendezvousStoreInfo, RendezvousTimeoutError)

PAUSE = 0.05  # seconds between looks


class RendezvousBackend(abc.ABC):
    """The storage of a rendezvous's state."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name under which it is registered."""

    @abc.abstractmethod
    def get_state(self):
        """Return (state as bytes, token), or None if there is none."""

    @abc.abstractmethod
    def set_state(self, state: bytes, token=None):
        """Set the state if the token is that of the current one (None: there is none); return (state, token, True if it
        was set) of the current state."""


class RendezvousTimeout:
    """Time limits, as timedeltas: for the minimum of hosts, for further ones, for closing, for a heartbeat.  ValueError
    for limits that are not positive."""

    DEFAULTS = {"join": 600, "last_call": 30, "close": 30, "heartbeat": 5}

    def __init__(self, join=None, last_call=None, close=None, heartbeat=None):
        given = {"join": join, "last_call": last_call, "close": close, "heartbeat": heartbeat}
        for name, value in given.items():
            value = datetime.timedelta(seconds=self.DEFAULTS[name]) if value is None else value
            if value <= datetime.timedelta(0):
                raise ValueError(f"The {name} timeout ({value}) must be positive.")
            setattr(self, name, value)


@dataclasses.dataclass(repr=False, eq=False, frozen=True)
class RendezvousSettings:
    """``keep_alive_interval``: time between two heartbeats; a host that misses ``keep_alive_max_attempt`` of them is
    gone."""

    run_id: str
    min_nodes: int
    max_nodes: int
    timeout: RendezvousTimeout
    keep_alive_interval: datetime.timedelta
    keep_alive_max_attempt: int


@dataclasses.dataclass
class Meeting:
    """The state of a run: the members of a round, and the hosts that wait for the next one."""

    round: int = 0
    complete: bool = False
    closed: bool = False
    members: list = dataclasses.field(default_factory=list)
    waiting: list = dataclasses.field(default_factory=list)

    def leave(self, name: str):
        for some in (self.members, self.waiting):
            if name in some:
                some.remove(name)


class Pulse:
    """This host's heartbeats, and the age of those of others.  Heartbeats are counters in the store, so the clocks of
    hosts are not compared."""

    def __init__(self, store: Store, name: str, settings: RendezvousSettings):
        self.store, self.name, self.interval = store, name, settings.keep_alive_interval.total_seconds()
        self.patience, self.seen = self.interval * settings.keep_alive_max_attempt, {}
        self.ended, self.thread, self.own = threading.Event(), None, None

    def start(self):
        if self.thread is None:
            self.own = self.store.clone()  # others wait by the store of the handler
            self.thread = threading.Thread(target=self.beat, name="rendezvous", daemon=True)
            self.thread.start()

    def beat(self):
        with contextlib.suppress(DistError):  # the store is gone: what depends on it will fail
            while not self.ended.is_set():
                self.own.add(f"beats {self.name}", 1)
                self.ended.wait(self.interval)

    def alive(self, name: str) -> bool:
        """True if this host has seen a heartbeat of another one within its time limit."""
        if name == self.name:
            return True
        count, now = self.store.add(f"beats {name}", 0), time.monotonic()
        if self.seen.get(name, (None, 0))[0] != count:
            self.seen[name] = count, now
        return now - self.seen[name][1] < self.patience

    def stop(self):
        self.ended.set()
        if self.thread is not None:
            self.thread.join()
            self.thread = None


class DynamicRendezvousHandler(RendezvousHandler):
    """Rendezvous at a backend.  ``store``: shared by the members of a round."""

    def __init__(self, settings: RendezvousSettings, backend: RendezvousBackend, store: Store,
                 local_addr: str | None = None):
        self._settings, self.backend, self.store, self.local_addr = settings, backend, store, local_addr
        self.name, self.done = uuid.uuid4().hex, 0
        self.pulse = Pulse(PrefixStore(f"pulse {settings.run_id}", store), self.name, settings)

    @classmethod
    def from_backend(cls, run_id: str, store: Store, backend: RendezvousBackend, min_nodes: int, max_nodes: int,
                     local_addr: str | None = None, timeout: RendezvousTimeout | None = None,
                     keep_alive_interval: int = 5, keep_alive_max_attempt: int = 3):
        """Return a new handler.  ValueError for invalid numbers of hosts."""
        if not run_id or min_nodes < 1 or max_nodes < min_nodes:
            raise ValueError(
                f"a rendezvous wants a run id and 1 <= min_nodes <= max_nodes, not {run_id!r}, {min_nodes},"
                f" {max_nodes}")
        settings = RendezvousSettings(run_id, min_nodes, max_nodes, timeout or RendezvousTimeout(),
                                      datetime.timedelta(seconds=keep_alive_interval), keep_alive_max_attempt)
        return cls(settings, backend, store, local_addr)

    settings = property(lambda self: self._settings)

    def get_backend(self) -> str:
        return self.backend.name

    use_agent_store = property(lambda self: getattr(self.store, "port", None) is not None)

    def get_run_id(self) -> str:
        return self._settings.run_id

    # --- the state ----------------------------------------------------------------------------------------------------
    def look(self):
        """(the state, its token)."""
        found = self.backend.get_state()
        if found is None:
            return Meeting(), None
        try:
            return Meeting(**json.loads(found[0])), found[1]
        except (ValueError, TypeError) as error:
            raise RendezvousStateError(
                "The rendezvous state is corrupt. See inner exception for details.") from error

    def change(self, edit) -> Meeting:
        """Apply ``edit(state)`` atomically; return the state after it."""
        while True:
            state, token = self.look()
            before = dataclasses.asdict(state)
            edit(state)
            after = dataclasses.asdict(state)
            if after == before:
                return state
            answer = self.backend.set_state(json.dumps(after).encode(), token)
            if answer is not None and answer[2]:
                return state

    # --- rendezvous ---------------------------------------------------------------------------------------------------
    def next_rendezvous(self) -> RendezvousInfo:
        """Join the next round.  RendezvousClosedError if the run is closed, RendezvousTimeoutError if too few hosts
        come in time."""
        self.pulse.start()
        times, seen, since = self._settings.timeout, None, 0.0
        end = time.monotonic() + times.join.total_seconds()
        while True:
            state, now = self.change(self.ask), time.monotonic()
            if state.closed:
                raise RendezvousClosedError(f"the rendezvous of the run {self.get_run_id()} is closed")
            if state.complete and self.name in state.members and state.round > self.done:
                break
            count = len(state.members)
            if (state.round, count) != seen:
                seen, since = (state.round, count), now
            if not state.complete and count >= self._settings.min_nodes and self.name in state.members and (
                    count == self._settings.max_nodes or now - since >= times.last_call.total_seconds()):
                self.change(lambda s, seen=seen: self.complete(s, *seen))
                continue
            if now > end:
                self.change(lambda s: s.leave(self.name))
                raise RendezvousTimeoutError(
                    f"{count} of at least {self._settings.min_nodes} hosts have come to the rendezvous of the run "
                    f"{self.get_run_id()} within {times.join.total_seconds():.0f} seconds")
            time.sleep(PAUSE)
        self.done = state.round
        return self.info(state)

    def ask(self, state: Meeting):
        """Add this host to the next round, or to those that wait for it."""
        if state.closed:
            return
        state.waiting = list(filter(self.pulse.alive, state.waiting))
        if not state.complete:
            state.members = list(filter(self.pulse.alive, state.members))
        elif self.name in state.members and state.round <= self.done or not any(map(self.pulse.alive, state.members)):
            state.round, state.complete, state.members = state.round + 1, False, []
        if self.name in state.members:
            return
        if not state.complete and len(state.members) < self._settings.max_nodes:
            state.members.append(self.name)
            if self.name in state.waiting:
                state.waiting.remove(self.name)
        elif self.name not in state.waiting:
            state.waiting.append(self.name)

    def complete(self, state: Meeting, round: int, count: int):
        if (state.round, len(state.members)) == (round, count):
            state.round, state.complete = max(round, 1), True

    def info(self, state: Meeting) -> RendezvousInfo:
        rank, size = state.members.index(self.name), len(state.members)
        store = PrefixStore(f"round {self.get_run_id()} {state.round}", self.store)
        construct_and_record_rdzv_event(self.get_run_id(), f"rank {rank} of {size} in round {state.round}",
                                        NodeState.SUCCEEDED, rank=rank)
        shared = (self.store.host, self.store.port) if self.use_agent_store else (self.local_addr, None)
        return RendezvousInfo(store, rank, size, RendezvousStoreInfo.build(rank, store, *shared))

    # --- between rounds -----------------------------------------------------------------------------------------------
    def num_nodes_waiting(self) -> int:
        state, _ = self.look()
        if len(state.members) >= self._settings.max_nodes:
            return 0
        return sum(map(self.pulse.alive, state.waiting))

    def is_closed(self) -> bool:
        return self.look()[0].closed

    def set_closed(self):
        def close(state):
            state.closed = True
        self.change(close)

    def leave(self):
        """Goes, and lets the others go on."""
        self.change(lambda state: state.leave(self.name))
        self.pulse.stop()

    def shutdown(self) -> bool:
        self.pulse.stop()
        try:
            self.set_closed()
        except (RendezvousConnectionError, DistError):
            return False  # the store is already gone
        return True


def create_handler(store: Store, backend: RendezvousBackend, params: RendezvousParameters):
    """A handler by the settings join_timeout, last_call_timeout, close_timeout, heartbeat_timeout,
    keep_alive_interval (seconds) and keep_alive_max_attempt."""
    given = {name: params.get_as_int(f"{name}_timeout") for name in RendezvousTimeout.DEFAULTS}
    if given["join"] is None:
        given["join"] = params.get_as_int("timeout")
    timeout = RendezvousTimeout(**{name: None if value is None else datetime.timedelta(seconds=value)
                                   for name, value in given.items()})
    return DynamicRendezvousHandler.from_backend(
        params.run_id, store, backend, params.min_nodes, params.max_nodes, params.local_addr, timeout,
        params.get_as_int("keep_alive_interval", 5), params.get_as_int("keep_alive_max_attempt", 3))

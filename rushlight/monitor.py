"""Counters of a running program, and events for registered handlers.

    >>> seen = []
    >>> handle = register_event_handler(lambda event: seen.append(event.data))
    >>> stat = Stat("loss", [Aggregation.MEAN, Aggregation.COUNT], datetime.timedelta(seconds=60), max_samples=2)
    >>> stat.add(1.0), stat.add(2.0)
    (None, None)
    >>> seen
    [{'loss.mean': 1.5, 'loss.count': 2.0}]
    >>> unregister_event_handler(handle)
"""
from __future__ import annotations

import datetime
import enum
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager

from ._src.compat.absent import absent_class
from ._src.core.forking import guarded

STAT_EVENT = "torch.monitor.Stat"
UNBOUNDED = 2**63 - 1
data_value_t = absent_class("torch.monitor", "data_value_t", "values of events are str, float, int and bool", TypeError)


class Aggregation(enum.Enum):
    """An aggregate of the values of a window, reported by a ``Stat``."""

    VALUE = 0
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6

    def __int__(self):
        return self.value

    __index__ = __int__

    def __str__(self):
        return f"Aggregation.{self.name}"


VALUE, MEAN, COUNT, SUM, MAX, MIN = Aggregation
AGGREGATE = {MEAN: lambda values: sum(values) / len(values) if values else 0.0,
             COUNT: lambda values: float(len(values)), SUM: lambda values: float(sum(values)),
             MAX: lambda values: max(values, default=0.0), MIN: lambda values: min(values, default=0.0)}


class Event:
    """An event: a name, a ``datetime``, and data (str -> str, float, int or bool; a bool is a float, as in PyTorch).

    >>> Event("step", datetime.datetime(2020, 1, 1), {"loss": 1.5, "last": True}).data
    {'loss': 1.5, 'last': 1.0}
    """

    def __init__(self, name: str, timestamp: datetime.datetime, data: Mapping):
        self.name, self.timestamp, self.data = name, timestamp, data

    name = property(lambda self: self._name)
    timestamp = property(lambda self: self._timestamp)
    data = property(lambda self: dict(self._data), doc="A copy: to change an event's data, set them.")

    @name.setter
    def name(self, value):
        self._name = demanded(value, str, "the name of an event")

    @timestamp.setter
    def timestamp(self, value):
        self._timestamp = demanded(value, datetime.datetime, "the timestamp of an event")

    @data.setter
    def data(self, value):
        self._data = {demanded(k, str, "a key of an event's data"): float(v) if isinstance(v, bool) else
                      demanded(v, (str, float, int), "a value of an event's data")
                      for k, v in demanded(value, Mapping, "the data of an event").items()}


def demanded(value, kind, what):
    """The value; TypeError where it is not of the kind."""
    if not isinstance(value, kind):
        raise TypeError(f"{what} cannot be {value!r}")
    return value


class EventHandlerHandle:
    """What ``register_event_handler`` returns."""

    def __new__(cls):
        raise TypeError("handles of event handlers come from register_event_handler()")


HANDLERS: dict[EventHandlerHandle, Callable] = {}


def register_event_handler(callback: Callable[[Event], None]) -> EventHandlerHandle:
    """Register ``callback`` for all later events, in the thread that logs them."""
    if not callable(callback):
        raise TypeError(f"an event handler is a function of an event, not {callback!r}")
    handle = object.__new__(EventHandlerHandle)
    HANDLERS[handle] = callback
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """The handler gets no more events.  ValueError where it is not registered (any more)."""
    demanded(handler, EventHandlerHandle, "a handle of an event handler")
    if HANDLERS.pop(handler, None) is None:
        raise ValueError("this event handler is not registered any more")


def log_event(event: Event) -> None:
    """Gives an event to every handler, in the order in which they were registered; what one raises goes to the caller.
    """
    demanded(event, Event, "what is logged")
    for callback in list(HANDLERS.values()):
        callback(event)


COUNTING = guarded("memory", threading.RLock())  # of every Stat, for a moment


class Stat:
    """Values of equal windows of time (``window_size``, by the millisecond), aggregated: an event named ``STAT_EVENT``
    with data ``"name.mean"`` and so on is logged with the first value after a window's end, once ``max_samples`` values
    of a window have come (those that follow in it are dropped), and for what is left when the ``Stat`` goes.

    ValueError where the window is shorter than a millisecond.
    """

    def __init__(self, name: str, aggregations: Iterable[Aggregation], window_size: datetime.timedelta,
                 max_samples: int = UNBOUNDED):
        self._values, self._told = [], {}  # before a check can fail: __del__ reads them
        self._name = demanded(name, str, "the name of a Stat")
        # VALUE adds nothing to events, as in PyTorch
        self._kinds = [a for a in AGGREGATE
                       if a in {demanded(a, Aggregation, "an aggregation") for a in aggregations}]
        self._length = demanded(window_size, datetime.timedelta, "the window of a Stat") // datetime.timedelta(
            milliseconds=1)
        if self._length <= 0:
            raise ValueError(f"the window of a Stat has at least a millisecond, not {window_size}")
        self._most = int(max_samples)
        self._window, self._full = self._now(), False
        self._told = dict.fromkeys(self._kinds, 0.0)

    name = property(lambda self: self._name)
    count = property(lambda self: len(self._values), doc="How many values the next event will tell of.")

    def _now(self):
        """The number of the window of this moment."""
        return time.time_ns() // 1_000_000 // self._length

    def add(self, v) -> None:
        """Adds a number.  TypeError for what is none."""
        if isinstance(v, (str, bytes)):
            raise TypeError(f"a Stat counts numbers, not {v!r}")
        value = float(v)
        events = []  # handlers are called without the lock
        with COUNTING:
            if self._now() != self._window:
                events += self._told_now()
                self._window, self._full = self._now(), False
            if not self._full:
                self._values.append(value)
                if len(self._values) >= self._most:
                    self._full = True
                    events += self._told_now()
        for event in events:
            log_event(event)

    def get(self) -> dict:
        """Return the last event's values, by aggregation; zeros before the first."""
        return dict(self._told)

    def _told_now(self) -> list:
        """Return the event of the values since the last one, if there are any, and reset."""
        if not self._values:
            return []
        self._told = {kind: AGGREGATE[kind](self._values) for kind in self._kinds}
        self._values = []
        return [Event(STAT_EVENT, datetime.datetime.now(),
                      {f"{self._name}.{kind.name.lower()}": value for kind, value in self._told.items()})]

    def __del__(self):
        for event in self._told_now():
            log_event(event)


class TensorboardEventHandler:
    """An event handler that writes numbers of ``Stat`` events, and of others, into a ``SummaryWriter``.

        register_event_handler(TensorboardEventHandler(SummaryWriter("runs/one")))
    """

    def __init__(self, writer) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        if event.name == STAT_EVENT:
            for key, value in event.data.items():
                self._writer.add_scalar(key, value, walltime=event.timestamp.timestamp())


class _WaitCounter:
    """Durations of work under a name, which only builds with a backend of their own gather."""

    def __init__(self, key: str):
        self._key = demanded(key, str, "the name of a counter")

    @contextmanager
    def guard(self):
        yield

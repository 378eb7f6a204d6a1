"""Metrics of a run, by groups, and their destinations."""
from __future__ import annotations

import abc
import functools
import time
from typing import NamedTuple

__all__ = ["ConsoleMetricHandler", "MetricData", "MetricHandler", "MetricStream", "MetricsConfig", "NullMetricHandler",
           "configure", "getStream", "get_elapsed_time_ms", "prof", "profile", "publish_metric", "put_metric"]


class MetricData(NamedTuple):
    """A metric of a group, and its time (seconds)."""

    timestamp: float
    group_name: str
    name: str
    value: int


class MetricsConfig:
    """Settings of handlers, as strings by name."""

    __slots__ = ("params",)

    def __init__(self, params: dict[str, str] | None = None):
        self.params = {} if params is None else params


class MetricHandler(abc.ABC):
    """A destination of metrics."""

    @abc.abstractmethod
    def emit(self, metric_data: MetricData):
        """Takes one."""


class ConsoleMetricHandler(MetricHandler):
    """Prints them."""

    def emit(self, metric_data: MetricData):
        print(f"[{metric_data.timestamp}][{metric_data.group_name}]: {metric_data.name}={metric_data.value}")


class NullMetricHandler(MetricHandler):
    """Drops them."""

    def emit(self, metric_data: MetricData):
        """Nothing."""


HANDLERS: dict = {None: NullMetricHandler()}  # group -> handler; None: of those that have none


class MetricStream:
    """The metrics of a group."""

    def __init__(self, group_name: str, handler: MetricHandler):
        self.group_name, self.handler = group_name, handler

    def add_value(self, metric_name: str, metric_value: int):
        self.handler.emit(MetricData(time.time(), self.group_name, metric_name, metric_value))


def configure(handler: MetricHandler, group: str | None = None):
    """Sets the handler of a group's metrics (None: of all groups without a handler)."""
    HANDLERS[group] = handler


def getStream(group: str) -> MetricStream:
    """The stream of a group's metrics, with the handler that was configured for it."""
    return MetricStream(group, HANDLERS.get(group, HANDLERS[None]))


def put_metric(metric_name: str, metric_value: int, metric_group: str = "torchelastic"):
    """Records a metric.

    >>> from rushlight.distributed.elastic import metrics
    >>> class Kept(metrics.MetricHandler):
    ...     def emit(self, metric_data):
    ...         print(metric_data.group_name, metric_data.name, metric_data.value)
    >>> metrics.configure(Kept(), "example")
    >>> metrics.put_metric("steps", 3, "example")
    example steps 3
    """
    getStream(metric_group).add_value(metric_name, metric_value)


def get_elapsed_time_ms(start_time_in_seconds: float) -> int:
    """Milliseconds since a time of ``time.time()``."""
    return int((time.time() - start_time_in_seconds) * 1000)


def prof(fn=None, group: str = "torchelastic"):
    """Decorates a function: its numbers of successes and failures, and its milliseconds, are metrics of the group."""
    if fn is None:
        return functools.partial(prof, group=group)
    name = fn.__qualname__

    @functools.wraps(fn)
    def measured(*args, **kwargs):
        start = time.time()
        try:
            result = fn(*args, **kwargs)
        except Exception:
            put_metric(f"{name}.failure", 1, group)
            raise
        else:
            put_metric(f"{name}.success", 1, group)
            return result
        finally:
            put_metric(f"{name}.duration.ms", get_elapsed_time_ms(start), group)
    return measured


def profile(group: str | None = None):
    """``prof`` of a group."""
    return functools.partial(prof, group=group or "torchelastic")


def publish_metric(metric_group: str, metric_name: str, metric_value: int):
    """Deprecated form of ``put_metric``."""
    put_metric(metric_name, metric_value, metric_group)

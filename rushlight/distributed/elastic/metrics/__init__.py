"""Numbers of a run."""
from __future__ import annotations

from .api import (ConsoleMetricHandler, MetricData, MetricHandler, MetricsConfig, NullMetricHandler, configure,
                  get_elapsed_time_ms, getStream, prof, profile, publish_metric, put_metric)

__all__ = ["ConsoleMetricHandler", "MetricData", "MetricHandler", "MetricsConfig", "NullMetricHandler", "configure",
           "getStream", "get_elapsed_time_ms", "initialize_metrics", "prof", "profile", "publish_metric", "put_metric"]


def initialize_metrics(cfg: MetricsConfig | None = None):
    """Does nothing: a program that needs metrics of its launcher calls ``configure``."""

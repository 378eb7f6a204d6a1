"""Logs: ``rushlight.logging.set_logs("plans", "kernels")`` or ``RUSHLIGHT_LOGS=plans,kernels``; ``LOGS`` says what
there is."""
from ._src.core.log import LOGS, set_logs

__all__ = ["LOGS", "set_logs"]

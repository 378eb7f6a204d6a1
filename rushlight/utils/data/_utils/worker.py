"""Information on the current worker."""
from ..workers import WorkerInfo, _generate_state, get_worker_info  # noqa: F401

__all__ = ["get_worker_info"]

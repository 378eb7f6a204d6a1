"""Python's pools of processes; tensors go to and from them as they go through queues."""
from multiprocessing.pool import Pool  # noqa: F401

from ..core.later import later

__getattr__ = later(__name__)

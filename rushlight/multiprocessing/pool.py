"""Python's pools of processes; tensors go to and from them as they go through queues."""
from multiprocessing.pool import Pool  # noqa: F401

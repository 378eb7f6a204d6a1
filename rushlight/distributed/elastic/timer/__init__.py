"""Time limits for workers: a worker that does not leave a block in time is ended by a server in another process of its
host."""
from .api import TimerClient, TimerRequest, TimerServer, configure, expires  # noqa: F401
from .file_based_local_timer import FileTimerClient, FileTimerRequest, FileTimerServer  # noqa: F401
from .local_timer import LocalTimerClient, LocalTimerServer  # noqa: F401

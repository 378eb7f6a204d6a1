"""What a worker knows of itself."""
from ..loader import get_worker_info
from ....core.later import later

__all__ = ["get_worker_info"]
__getattr__ = later(__name__)

"""What a worker knows of itself."""
from ..loader import get_worker_info

__all__ = ["get_worker_info"]

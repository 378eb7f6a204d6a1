"""What was captured, in numbers."""
from ..capture.frames import counters

__all__ = ["counters"]

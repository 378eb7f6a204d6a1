"""What test suites of PyTorch's users import: ``common_utils`` works, the rest are names."""
from ...core.later import later

__getattr__ = later(__name__)

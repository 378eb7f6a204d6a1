"""Signal processing under PyTorch's names."""
from . import windows  # noqa: F401

"""Neural networks."""
from . import functional  # noqa: F401

"""Settings for reading and writing files."""
from . import config

__all__ = ["config"]

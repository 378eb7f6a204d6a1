"""How files are written and read, as settings."""
from . import config

__all__ = ["config"]

"""The table of backends."""
from ..._src.compiling import list_backends, lookup_backend, register_backend

__all__ = ["list_backends", "lookup_backend", "register_backend"]

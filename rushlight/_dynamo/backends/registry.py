"""The table of backends."""
from ...compiling import list_backends, lookup_backend, register_backend
from ...core.later import later

__all__ = ["list_backends", "lookup_backend", "register_backend"]
__getattr__ = later(__name__)

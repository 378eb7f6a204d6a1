"""``vmap`` under the path that programs of older versions import it from."""
from .core.later import later
from .func import vmap

__all__ = ["vmap"]
_vmap = vmap
__getattr__ = later(__name__)

"""``vmap`` under the path that programs of older versions import it from."""
from .func import vmap

__all__ = ["vmap"]
_vmap = vmap

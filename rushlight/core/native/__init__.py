"""The hot path, in a typed subset of Python (see ``language``) that is compiled here unless ``RUSHLIGHT_NATIVE=0``."""
from . import allocator, blocks, calls, engine, join, objects, search, views
from .compiler import activate

compiled = activate(blocks, allocator, objects, calls, views, search, join, engine)

from .allocator import UNCOUNTED, Storage, allocate  # noqa: E402 - the compiled ones, if there are
from .calls import Op, wrap  # noqa: E402
from .blocks import heap  # noqa: E402
from .objects import Plan, Step, Tensor, mine, state  # noqa: E402
from .search import chosen, places  # noqa: E402
from .views import part  # noqa: E402

__all__ = ["UNCOUNTED", "Op", "Plan", "Step", "Storage", "Tensor", "allocate", "chosen", "compiled", "heap", "mine", "part", "places", "state", "wrap"]

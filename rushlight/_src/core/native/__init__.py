"""The hot path, in a typed subset of Python (see ``language``) that is compiled here unless ``RUSHLIGHT_NATIVE=0``."""
from . import (allocator, arguments, blocks, calls, checks, engine, history, join, keys, objects, queues, remote,
               running, scopes, search, sharing, views, weights)
from .compiler import activate

# in this order code that runs together is adjacent
MODULES = (blocks, queues, allocator, objects, keys, arguments, calls, sharing, weights, running, remote, history,
           views, search, join, scopes, engine, checks)
compiled = activate(*MODULES)

from .allocator import UNCOUNTED, Storage, allocate  # noqa: E402 - the compiled ones, if there are
from .calls import Op  # noqa: E402
from .blocks import heap  # noqa: E402
from .checks import Snapshot, has_items  # noqa: E402
from .queues import Queue  # noqa: E402
from .objects import GradNode, Plan, Tensor, counter, mine, state, wrap  # noqa: E402
from .scopes import Leaving, LeavingDevice, Scope, held  # noqa: E402
from .search import chosen, places  # noqa: E402
from .views import part  # noqa: E402

Scope.__exit__ = Leaving()
__all__ = ["UNCOUNTED", "Leaving", "LeavingDevice", "Op", "Plan", "Scope", "GradNode", "Queue", "Snapshot", "Storage",
           "Tensor",
           "allocate",
           "chosen", "compiled", "counter", "has_items", "heap", "held", "mine", "part", "places", "state", "wrap"]

"""Connect the hot path with the functions that handle its misses."""
from __future__ import annotations

from ..core.dtypes import dtype
from ..core.interpret import derivatives
from ..core.meta import Meta
from ..core.native import Tensor
from ..core.native.hooks import connect
from . import casts  # registers a hook
from .arguments import keyword_mask, whole_mask
from .destination import shared
from .plan import choose, plan_for
from .reports import failed
from .slow_calls import slow


def linearised(op, args, kwargs, wanted, numbers=True):
    """``eager/linearise.py: linearised``, which needs the compiler and is imported with the first call."""
    from .linearise import linearised as found
    derivatives.linearised = found
    return found(op, args, kwargs, wanted, numbers)


def activate():
    """Connect the hot path with the functions that handle its misses."""
    derivatives.linearised = linearised
    import weakref

    from ..core.devices import device
    from ..core.meta import Size

    connect("_src/eager/activation.py", tensor=Tensor, static_types=frozenset({dtype, device, Size}), slow=slow,
            plan=plan_for, choose=choose, failed=failed, shared=shared, keyword_mask=keyword_mask,
            whole_mask=whole_mask, metas=Meta.known, meta=lambda key: Meta(*key), weak=weakref.ref)

"""How tensors and storages go to other processes."""
from __future__ import annotations

from ..core.later import later
from ..core.sharing import hand_over as init_reductions  # noqa: F401
from ..core.sharing import handed as reduce_tensor  # noqa: F401

__getattr__ = later(__name__)

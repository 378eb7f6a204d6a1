"""How tensors and storages go to other processes."""
from __future__ import annotations

from .._src.core.sharing import hand_over as init_reductions  # noqa: F401
from .._src.core.sharing import handed as reduce_tensor  # noqa: F401

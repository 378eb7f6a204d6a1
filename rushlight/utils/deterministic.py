"""``torch.utils.deterministic``: memory without contents is zero in deterministic mode, if this is set."""

from ..core.later import later
fill_uninitialized_memory = True


__getattr__ = later(__name__)

"""Finding patterns in graphs, under PyTorch's name."""
from ....core.later import later
from ...matching import InternalMatch, SubgraphMatcher

__all__ = ["InternalMatch", "SubgraphMatcher"]


__getattr__ = later(__name__)

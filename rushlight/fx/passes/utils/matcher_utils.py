"""Finding patterns in graphs, under PyTorch's name."""
from ...matching import InternalMatch, SubgraphMatcher

__all__ = ["InternalMatch", "SubgraphMatcher"]

"""The primitives that templates claim, with the problem of each call and the locations of its operands."""
from .attention import ATTENTION
from .contractions import CONTRACTIONS
from .natives import LIBRARY

CLAIMS = {**CONTRACTIONS, **ATTENTION, **LIBRARY}

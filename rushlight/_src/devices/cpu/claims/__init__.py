"""Which primitives templates claim: what a call asks of its template, and where its operands lie."""
from .attention import ATTENTION
from .contractions import CONTRACTIONS
from .natives import LIBRARY

CLAIMS = {**CONTRACTIONS, **ATTENTION, **LIBRARY}

"""Special functions under PyTorch's names."""
from __future__ import annotations

from ._src.core.op import OPS
from ._src.ops import library

SAME = ("erf", "erfc", "erfinv", "exp2", "expm1", "log1p", "digamma", "polygamma", "sinc", "round", "softmax",
        "log_softmax", "logsumexp", "xlogy", "logit")
OTHER = {"expit": "sigmoid", "gammaln": "lgamma", "psi": "digamma"}
_named = {**{name: OPS[OTHER.get(name, name)] for name in (*SAME, *OTHER)}, **library.namespace("special")}
globals().update(_named)
__all__ = sorted(name for name in _named if not name.endswith("_"))

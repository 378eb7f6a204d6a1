"""Special functions under PyTorch's names."""
from __future__ import annotations

from ._src.core.op import OPS
from ._src.ops import library

SAME = ("erf", "erfc", "erfinv", "exp2", "expm1", "log1p", "digamma", "polygamma", "sinc", "round", "softmax",
        "log_softmax", "logsumexp", "xlogy", "logit")
globals().update({name: OPS[name] for name in SAME})
expit, gammaln, psi = OPS["sigmoid"], OPS["lgamma"], OPS["digamma"]
globals().update(library.namespace("special"))
